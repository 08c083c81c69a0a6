//! Writes a history, and reads it again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::event::{Event, Id, What};
use crate::clock;

/// Appends events to a file. Cheap to clone; one per process is enough.
#[derive(Debug, Clone)]
pub struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: File,
    next: AtomicU64,
}

impl Recorder {
    /// Opens a history for appending, and makes it if it is not there.
    pub fn append(path: impl AsRef<Path>) -> io::Result<Recorder> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Recorder(Arc::new(Inner {
            file,
            next: AtomicU64::new(1),
        })))
    }

    /// Call this before `acquire`.
    pub fn invoke(&self, name: &str) -> Attempt {
        let id = Id {
            process: std::process::id(),
            number: self.0.next.fetch_add(1, Ordering::Relaxed),
        };
        let attempt = Attempt {
            recorder: self.clone(),
            id,
            name: name.to_owned(),
        };
        attempt.note(What::Invoke);
        attempt
    }
}

/// One acquire and what became of it.
#[derive(Debug)]
pub struct Attempt {
    recorder: Recorder,
    id: Id,
    name: String,
}

impl Attempt {
    /// The acquire came back. Compute `deadline` as [`clock::now`], read first, plus the remaining
    /// validity, asked for second.
    pub fn granted(&self, fence: u64, deadline: Duration) {
        self.note(What::Granted { fence, deadline });
    }

    /// The lease was prolonged; `deadline` as for [`Attempt::granted`].
    pub fn extended(&self, fence: u64, deadline: Duration) {
        self.note(What::Extended { fence, deadline });
    }

    /// Call this before `release`, and before a lease is dropped.
    pub fn release(&self) {
        self.note(What::Release);
    }

    /// The release came back.
    pub fn released(&self) {
        self.note(What::Released);
    }

    /// The holder was told that its lease is lost.
    pub fn lost(&self) {
        self.note(What::Lost);
    }

    /// The acquire came back without a lease, or with an unknown outcome.
    pub fn failed(&self) {
        self.note(What::Failed);
    }

    fn note(&self, what: What) {
        let event = Event {
            at: clock::now(),
            id: self.id,
            name: self.name.clone(),
            what,
        };
        // One write to a file opened for appending: lines of several processes do not mix.
        let line = format!("{event}\n");
        (&self.recorder.0.file)
            .write_all(line.as_bytes())
            .expect("the history can be written");
    }
}

/// Reads a history. A last line that a killed process left unfinished is skipped.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<Event>> {
    let text = fs::read_to_string(path)?;
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let events = whole.lines().map(|line| {
        let broken = || {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("not an event: {line:?}"),
            )
        };
        line.parse().map_err(|_| broken())
    });
    events.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::check;

    #[test]
    fn what_several_recorders_wrote_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history");
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let recorder = Recorder::append(&path).unwrap();
                std::thread::spawn(move || {
                    for _ in 0..50 {
                        recorder
                            .invoke("a name with spaces\n and a % sign")
                            .failed();
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        fs::write(&path, fs::read_to_string(&path).unwrap() + "1 2 3 gra").unwrap();

        let events = read(&path).unwrap();
        assert_eq!(events.len(), 400);
        assert!(
            events
                .iter()
                .all(|event| event.name == "a name with spaces\n and a % sign")
        );
    }

    #[test]
    fn recorded_life_of_a_lease_passes_the_check() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history");
        let recorder = Recorder::append(&path).unwrap();
        for fence in 1..=3 {
            let attempt = recorder.invoke("a");
            attempt.granted(fence, clock::now() + Duration::from_secs(5));
            attempt.extended(fence, clock::now() + Duration::from_secs(9));
            attempt.release();
            attempt.released();
        }
        let attempt = recorder.invoke("a");
        attempt.granted(4, clock::now() + Duration::from_secs(5));
        attempt.lost();
        let summary = check(&read(&path).unwrap()).unwrap();
        assert_eq!((summary.grants, summary.lost, summary.names), (4, 1, 1));
    }
}
