//! Files to which another user appends while they are read.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Appends to a file until it is dropped.
struct Appender {
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Appender {
    fn to(path: &Path) -> Self {
        let mut file = File::options().append(true).open(path).unwrap();
        let ends = Arc::<AtomicBool>::default();
        let told = Arc::clone(&ends);
        let append = move || {
            while !told.load(Ordering::Relaxed) {
                file.write_all(b"a few more bytes").unwrap();
            }
        };
        let thread = Some(std::thread::spawn(append));
        Appender { ends, thread }
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(std::thread::JoinHandle::join));
    }
}

/// Its length is read before its content, which is longer by then.
///
/// As long as it is not twice as long, the bytes behind the two copies do not matter. After that they may be the newer
/// copy.
#[test]
fn a_lock_file_that_grows_all_the_time_is_damage_and_every_call_ends_in_its_time() {
    let scratch = shared();
    without_hanging("growing", async move || {
        let peer = Peer::on(&scratch, &Clock::boot(), true);
        let token = peer.token();
        peer.take(&token, 60_000).await.unwrap();
        let path = lock_path(&scratch, "job");
        let appender = Appender::to(&path);
        let (clock, mut damaged) = (Clock::boot(), 0);
        while damaged < 1_000 {
            let length = path.metadata().unwrap().len();
            let other = acquire("job", &peer.token(), 1000);
            for (call, otherwise) in [(inspect("job"), "held"), (other, "busy")] {
                let began = clock.now();
                let outcome = peer.run(&call).await;
                assert!(clock.now().saturating_since(began) < WITHIN);
                match outcome {
                    Ok(answer) => assert!(length < 8192 && answer.tag() == otherwise),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                        damaged += 1;
                    }
                }
            }
        }
        is_refused(&peer, ErrorKind::Corrupt, "/locks/job-").await;
        drop(appender);
    });
}

/// Only its first bytes are read.
#[test]
fn a_session_that_grows_all_the_time_is_read_as_any_other() {
    let scratch = shared();
    without_hanging("growing", async move || {
        let one = Peer::on(&scratch, &Clock::boot(), true);
        let two = Peer::on(&scratch, &Clock::boot(), true);
        one.take(&one.token(), 60_000).await.unwrap();
        let client = one.client.as_str().to_owned();
        let sessions = folder(&scratch).join("sessions");
        let appenders = [client.clone(), format!("{client}.main")]
            .map(|name| Appender::to(&sessions.join(name)));
        for _ in 0..100 {
            assert_eq!(two.tag(&inspect("job")).await, "held");
        }
        let job = Job::inheriting(|| one.store.session_descriptor());
        drop(one);
        for _ in 0..100 {
            assert_eq!(two.tag(&inspect("job")).await, "held");
        }
        drop(job);
        while two.tag(&inspect("job")).await != "free" {
            std::thread::yield_now(); // other tests start processes, which have a copy of every descriptor for a moment
        }
        drop(appenders);
    });
}
