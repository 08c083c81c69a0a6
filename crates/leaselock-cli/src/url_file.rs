//! The file of `--url-file`, which keeps the URLs out of arguments and variables. Nothing of it is ever shown.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::job::HANDED_OVER;
use crate::process;

/// A quorum of a hundred servers fits, and a wrong file is not read into memory.
const MOST_BYTES: u64 = 65_536;
/// How long a file may take that is read while a service runs: one on a share may be out of reach.
const READ_WITHIN: Duration = Duration::from_secs(1);

/// The URLs, one a line. Blank lines and those that begin with `#` are passed over.
///
/// Its rights are not checked: a secret that Kubernetes mounts can be read by every user in the container.
pub(crate) fn read(path: &Path) -> Result<Vec<String>, Failure> {
    let wrong = |why: &str| {
        let text = format!("the URL file {}: {why}", path.display());
        Failure::new(text, Exit::USAGE)
    };
    let mut bytes = Vec::new();
    let file = File::open(path);
    let all = file.and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
    all.map_err(|error| match path.to_string_lossy().contains("://") {
        true => wrong("this is a URL, and a file was asked for; give it with --url"),
        false => wrong(&error.to_string()),
    })?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(wrong("longer than 64 KiB; it has the URLs, one a line"));
    }
    let text =
        String::from_utf8(bytes).map_err(|_| wrong("not text; it has the URLs, one a line"))?;
    let urls = urls_in(&text);
    match urls.is_empty() {
        true => Err(wrong(
            "no URL in it; write them one a line, or `file:` for the default folder",
        )),
        false => Ok(urls),
    }
}

fn urls_in(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    let urls = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    urls.map(str::to_owned).collect()
}

/// The file, read by a thread, so that a share that is out of reach keeps no caller waiting.
pub(crate) struct UrlFile {
    path: PathBuf,
    /// A thread that has not come back yet.
    reading: Option<Receiver<Result<Vec<String>, Failure>>>,
}

impl UrlFile {
    pub(crate) fn new(path: &Path) -> UrlFile {
        UrlFile {
            path: path.to_owned(),
            reading: None,
        }
    }

    /// Reads it within a second; as long as the thread of an earlier call has not come back, it only checks for its result.
    pub(crate) fn read(&mut self) -> Result<Vec<String>, Failure> {
        let (reading, limit) = match self.reading.take() {
            Some(reading) => (reading, Duration::ZERO),
            None => {
                let (done, reading) = channel();
                let path = self.path.clone();
                Builder::new().spawn(move || done.send(read(&path)))?;
                (reading, READ_WITHIN)
            }
        };
        let result = reading.recv_timeout(limit);
        result.unwrap_or_else(|error| {
            self.reading = (error == RecvTimeoutError::Timeout).then_some(reading);
            let text = format!(
                "the URL file {}: it cannot be read in time",
                self.path.display()
            );
            Err(Failure::new(text, Exit::UNAVAILABLE))
        })
    }
}

/// A descriptor with these URLs, which stays open when this process becomes another program.
pub(crate) fn hand_over(urls: &[String]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(c"leaselock-urls", MemfdFlags::empty())?);
    file.write_all(urls.join("\n").as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

/// The URLs that this service had before it began anew. The descriptor is closed.
pub(crate) fn handed_over() -> Option<Vec<String>> {
    let number = std::env::var(HANDED_OVER).ok()?.parse().ok()?;
    let mut text = String::new();
    let file = File::from(process::inherited_descriptor(number)?);
    file.take(MOST_BYTES + 1).read_to_string(&mut text).ok()?;
    Some(urls_in(&text)).filter(|urls| !urls.is_empty())
}
