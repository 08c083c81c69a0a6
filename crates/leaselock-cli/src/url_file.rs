//! The file of `--url-file`, which keeps the URLs out of arguments and variables. Nothing of it is ever shown.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::exit::Exit;
use crate::failure::Failure;

/// A quorum of a hundred servers fits, and a wrong file is not read into memory.
const MOST_BYTES: u64 = 65_536;

/// The URLs, one a line. Blank lines and those that begin with `#` are passed over.
///
/// Its rights are not looked at: a secret that Kubernetes mounts can be read by everyone in the container.
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
    let lines = text.lines().map(str::trim);
    let urls = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let urls: Vec<String> = urls.map(str::to_owned).collect();
    match urls.is_empty() {
        true => Err(wrong(
            "no URL in it; write them one a line, or `file:` for the default folder",
        )),
        false => Ok(urls),
    }
}
