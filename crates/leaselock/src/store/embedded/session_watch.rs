//! Detection of the end of a session: waiters take over a dead holder's lock at once and not at the next poll.
//!
//! The system reports (inotify) when the last descriptor of a file that was opened for writing is closed. That is the
//! end of a session, and no process has to be alive to report it. A check of a session opens its file for reading only,
//! so checks are not reported.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::net::unix::pipe::Receiver;

use crate::store::{Event, Sink};

/// The system reports a moment before it drops the lock on the file.
const JUST_AFTER: Duration = Duration::from_millis(1);
/// The same moment on a busy machine, where it is longer.
const ONCE_MORE: Duration = Duration::from_millis(20);

/// The watch on the sessions in one folder.
#[derive(Debug)]
pub(super) struct SessionWatch {
    heard: Receiver,
}

impl SessionWatch {
    /// `None` when the system does not report; then waiters only poll.
    pub(super) fn watch(sessions: &OwnedFd) -> Option<Self> {
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let folder = format!("/proc/self/fd/{}", sessions.as_raw_fd());
        inotify::add_watch(&queue, folder, WatchFlags::CLOSE_WRITE).ok()?;
        // It is no pipe, but reads like one, without the unsafe registration of a bare descriptor.
        let heard = Receiver::from_owned_fd_unchecked(queue).ok()?;
        Some(SessionWatch { heard })
    }

    /// Reports each end of a session, as long as the system does.
    pub(super) async fn report(&self, sink: &Sink) {
        let mut events = [0; 4096];
        while self.heard.readable().await.is_ok() {
            match self.heard.try_read(&mut events) {
                Ok(length) if is_ending(&events[..length]) => {
                    for pause in [JUST_AFTER, ONCE_MORE] {
                        tokio::time::sleep(pause).await;
                        sink(Event::Ended);
                    }
                }
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
    }
}

/// True if one of these events is about the file that jobs inherit. The end of the process alone frees nothing.
fn is_ending(mut events: &[u8]) -> bool {
    const HEADER: usize = 16;
    while let Some((header, rest)) = events.split_at_checked(HEADER) {
        let length = header[12..].try_into().map(u32::from_ne_bytes).unwrap_or(0);
        let Some((name, after)) = usize::try_from(length)
            .ok()
            .and_then(|at| rest.split_at_checked(at))
        else {
            return true; // not understood: an unneeded poll does no harm
        };
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        if !name.ends_with(b".main") {
            return true;
        }
        events = after;
    }
    false
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use rustix::fs::Mode;

    use super::*;
    use crate::store::embedded::session::{Session, look};
    use crate::store::embedded::testing::{Job, Scratch};

    fn event(name: &str) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        bytes.extend_from_slice(&16u32.to_ne_bytes());
        bytes.extend_from_slice(name.as_bytes());
        bytes.resize(32, 0);
        bytes
    }

    #[test]
    fn only_the_file_that_jobs_inherit_counts() {
        assert!(!is_ending(&event("client01.main")));
        assert!(is_ending(&event("client01")));
        assert!(is_ending(
            &[event("client01.main"), event("client02")].concat()
        ));
        assert!(!is_ending(&[]));
    }

    #[tokio::test]
    async fn the_end_of_a_job_is_noticed_and_reads_of_its_session_are_not() {
        let scratch = Scratch::new();
        let folder = scratch.descriptor();
        let session = Session::begin(&folder, "client01", Mode::from_raw_mode(0o600)).unwrap();
        let job = Job::inheriting(|| session.descriptor());
        drop(session);
        let endings = SessionWatch::watch(&folder).unwrap();
        let (sender, receiver) = mpsc::channel();
        let sink: Sink = Box::new(move |event| sender.send(event).unwrap());
        let hear = async {
            while receiver.try_recv() != Ok(Event::Ended) {
                tokio::time::sleep(Duration::from_millis(1)).await; // the condition is checked each millisecond
            }
        };
        for _ in 0..10 {
            look(&folder, "client01").unwrap();
        }
        tokio::select! {
            () = endings.report(&sink) => {}
            () = hear => panic!("a look was heard"),
            () = tokio::time::sleep(Duration::from_millis(100)) => {} // long enough for ten events that are there
        }
        drop(job);
        let hear = async {
            while receiver.try_recv() != Ok(Event::Ended) {
                tokio::time::sleep(Duration::from_millis(1)).await; // the condition is checked each millisecond
            }
        };
        tokio::select! {
            () = endings.report(&sink) => {}
            () = hear => {}
        }
    }
}
