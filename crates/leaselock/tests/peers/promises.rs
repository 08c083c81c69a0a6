//! What is promised of every library, both ways. Each promise has a server of its own and is tried with one key.

use std::time::Duration;

use leaselock::{Client, Lease, LeaseError, Lost, LostReason, Mutex, ReleaseError};
use testkit::{Server, Value, clock};

use crate::driver::{Answer, Driver, PATIENCE, soon};
use crate::peer::Peer;

/// A lock that does not expire by itself while a test runs.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// Behind a stranger, the first in the queue polls twice a second; one that took it for a leaselock would poll after five.
pub(crate) const POLLS_WITHIN: Duration = Duration::from_secs(4);
/// What the library calls the lock; it makes a key of that.
pub(crate) const NAME: &str = "job";

/// A library and leaselock on one server.
pub(crate) struct Both {
    /// Ends first, so that it does not complain of a server that is gone.
    pub(crate) them: Driver,
    pub(crate) us: Client,
    pub(crate) server: Server,
    key: String,
}

impl Both {
    /// `None` when the library is not installed.
    pub(crate) async fn start(peer: &Peer) -> Option<Both> {
        let folder = peer.folder()?;
        let server = Server::start();
        Some(Both {
            them: Driver::start(peer, &folder, &server).await,
            us: Client::open(&server.url()).unwrap(),
            server,
            key: peer.key(NAME),
        })
    }

    /// Our lock, which is not renewed: what is seen of it was not brought about by that.
    fn ours(&self) -> Mutex {
        self.us.mutex(&self.key).ttl(LONG).renewal(false)
    }

    /// Our lock, held.
    async fn we_hold(&self) -> Lease {
        self.ours()
            .try_acquire()
            .await
            .unwrap()
            .expect("it is free")
    }

    /// What lies under the key, and whether it has a ttl.
    fn seen(&self) -> (Value, bool) {
        let has_ttl = self.left() > Duration::ZERO;
        (self.server.cli(&["GET", &self.key]), has_ttl)
    }

    /// How long the lock still is; nothing when it is gone or has no end.
    fn left(&self) -> Duration {
        let left = self.server.cli(&["PTTL", &self.key]).integer().unwrap();
        Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }

    /// Little is left of the lock, and yet more than a test needs. What is seen of it then.
    fn nearly_over(&self) -> (Value, bool) {
        let left = (LONG / 3).as_millis().to_string();
        self.server.cli(&["PEXPIRE", &self.key, &left]);
        self.seen()
    }

    /// The holder slept, as far as the server can tell: the lock's time is over.
    async fn time_passes(&self) {
        self.server.cli(&["PEXPIRE", &self.key, "1"]);
        self.eventually("it has run out", || self.seen().0 == Value::Nil)
            .await;
    }

    /// What was asked of the server since the last `CONFIG RESETSTAT` in order to take or give back a lock.
    fn asked(&self) -> usize {
        let stats = self.server.cli(&["INFO", "commandstats"]);
        let calls = |line: &str| {
            let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let counts = ["set", "eval", "evalsha"].contains(&command);
            counts.then(|| rest.split(',').next().unwrap().parse::<usize>().unwrap())
        };
        stats.text().unwrap().lines().filter_map(calls).sum()
    }

    /// Until it is so; fails rather than hangs.
    pub(crate) async fn eventually(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let end = clock::now() + PATIENCE;
        while !condition() {
            assert!(clock::now() < end, "not within {PATIENCE:?}: {what}");
            tokio::time::sleep(Duration::from_millis(2)).await; // between two checks of the condition
        }
    }
}

/// A plain string with a ttl at the key that the page names, whose value is as the page says.
pub(crate) async fn writes_what_the_page_says(peer: &Peer) {
    let Some(mut both) = Both::start(peer).await else {
        return;
    };
    both.them.acquire(NAME, LONG).await;
    let keys = both.server.cli(&["KEYS", "*"]);
    assert_eq!(keys, Value::List(vec![both.key.as_str().into()]));
    let (value, has_ttl) = both.seen();
    let Value::Bytes(value) = value else {
        panic!("{value:?}");
    };
    assert!(
        peer.value.fits(&value),
        "{:?}",
        String::from_utf8_lossy(&value)
    );
    assert!(has_ttl);
}

pub(crate) async fn holds_and_we_are_refused(peer: &Peer) {
    let Some(mut both) = Both::start(peer).await else {
        return;
    };
    let theirs = both.them.acquire(NAME, LONG).await;
    let before = both.seen();
    assert!(both.ours().try_acquire().await.unwrap().is_none());
    assert_eq!(both.seen(), before, "a try changes nothing");
    let holder = both.ours().holder().await.unwrap().unwrap();
    assert!(holder.is_foreign(), "{holder:?}");
    assert_eq!(both.them.release(theirs).await, Answer::Done);
    both.we_hold().await.release().await.unwrap();
}

pub(crate) async fn releases_and_our_waiter_has_the_lock_soon(peer: &Peer) {
    let Some(mut both) = Both::start(peer).await else {
        return;
    };
    let theirs = both.them.acquire(NAME, LONG).await;
    let ours = both.ours();
    let waiting = tokio::spawn(async move { ours.acquire().await });
    soon(async {
        while both.us.inspect(&both.key).await.unwrap().queue.is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await; // between two checks of the queue
        }
    })
    .await;
    assert_eq!(both.them.release(theirs).await, Answer::Done);
    let released = clock::now();
    let lease = soon(waiting).await.unwrap().unwrap();
    let waited = clock::now() - released;
    assert!(waited < POLLS_WITHIN, "{waited:?}");
    lease.release().await.unwrap();
}

pub(crate) async fn is_refused_while_we_hold(peer: &Peer) {
    let Some(mut both) = Both::start(peer).await else {
        return;
    };
    let lease = both.we_hold().await;
    let before = both.seen();
    let answer = both.them.try_acquire(NAME, LONG).await;
    assert!(answer.is_refusal(), "{answer:?}");
    assert_eq!(both.seen(), before, "a try changes nothing");
    lease.release().await.unwrap();
    both.them.acquire(NAME, LONG).await;
}

pub(crate) async fn waits_and_has_the_lock_after_our_release(peer: &Peer) {
    let Some(mut both) = Both::start(peer).await else {
        return;
    };
    let lease = both.we_hold().await;
    both.server.cli(&["CONFIG", "RESETSTAT"]);
    both.them.begin_to_wait(NAME, LONG).await;
    both.eventually("it tries", || both.asked() > 0).await;
    lease.release().await.unwrap();
    both.them.answer().await.got();
    assert!(both.ours().try_acquire().await.unwrap().is_none());
}

/// A lock that would have ended soon is whole again, and still the same holder's.
pub(crate) async fn and_we_keep_each_other_out_after_extensions(peer: &Peer) {
    let Some(mut both) = Both::start(peer).await else {
        return;
    };
    if peer.extends {
        let theirs = both.them.acquire(NAME, LONG).await;
        let before = both.nearly_over();
        assert_eq!(both.them.extend(theirs, LONG).await, Answer::Done);
        assert_eq!(both.seen(), before);
        assert!(both.left() > LONG / 2);
        assert!(both.ours().try_acquire().await.unwrap().is_none());
        assert_eq!(both.them.release(theirs).await, Answer::Done);
    }
    let lease = both.we_hold().await;
    let before = both.nearly_over();
    lease.extend(LONG).await.unwrap();
    assert_eq!(both.seen(), before);
    assert!(both.left() > LONG / 2);
    let answer = both.them.try_acquire(NAME, LONG).await;
    assert!(answer.is_refusal(), "{answer:?}");
    lease.release().await.unwrap();
}

/// Its time is over and it does not know; what it does then leaves alone what is ours by now.
pub(crate) async fn leaves_our_lock_when_it_is_late(peer: &Peer) {
    let Some(mut both) = Both::start(peer).await else {
        return;
    };
    for extends in [false, true] {
        if extends && !peer.extends {
            continue;
        }
        let theirs = both.them.acquire(NAME, LONG).await;
        both.time_passes().await;
        let lease = both.we_hold().await;
        let before = both.seen();
        both.server.cli(&["CONFIG", "RESETSTAT"]);
        let answer = if extends {
            both.them.extend(theirs, LONG * 2).await
        } else {
            both.them.release(theirs).await
        };
        assert_eq!(both.seen(), before);
        assert!(both.left() <= LONG);
        assert!(both.asked() > 0, "it did ask: {answer:?}");
        assert_eq!(answer.is_refusal(), peer.tells || extends, "{answer:?}");
        lease.release().await.unwrap();
    }
}

/// Our time is over and we do not know; what we do then leaves alone what is theirs by now, and says so.
pub(crate) async fn keeps_its_lock_when_we_are_late(peer: &Peer) {
    let Some(mut both) = Both::start(peer).await else {
        return;
    };
    let lease = both.we_hold().await;
    both.time_passes().await;
    let theirs = both.them.acquire(NAME, LONG).await;
    let before = both.seen();
    let extended = lease.extend(LONG * 2).await;
    assert!(matches!(extended, Err(LeaseError::Lost(_))), "{extended:?}");
    assert_eq!(both.seen(), before);
    assert!(both.left() <= LONG);
    let released = lease.release().await.unwrap_err();
    let taken = matches!(
        released,
        ReleaseError::NotHeld(Lost {
            reason: LostReason::TakenOver,
            ..
        })
    );
    assert!(taken, "{released:?}");
    assert_eq!(both.seen(), before);
    assert_eq!(both.them.release(theirs).await, Answer::Done);
}
