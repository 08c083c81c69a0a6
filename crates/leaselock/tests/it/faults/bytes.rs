//! Connections that end after every byte of a request and of an answer, in order and by reset.
//!
//! The operation ends as done, refused or unknown, and each means what it says: after "done" the lock is ours and
//! no other's, after "refused" it is free at once, after "unknown" it is free again long before its ttl.

use leaselock::{AcquireError, Client, LeaseError, ReleaseError};
use testkit::{Cut, Fault, Proxy, Server, Way};

use crate::support::{LONG, soon};

struct Rig {
    _server: Server,
    proxy: Proxy,
    client: Client,
    rival: Client,
}

impl Rig {
    /// The scripts are known to the server and the client is connected, so that a request is one short message.
    async fn new() -> Rig {
        let server = Server::start();
        let proxy = Proxy::to(server.port());
        let client = Client::open(&proxy.url()).unwrap();
        let rival = Client::open(&server.url()).unwrap();
        let rig = Rig {
            _server: server,
            proxy,
            client,
            rival,
        };
        let lease = rig.client.mutex("job").ttl(LONG).acquire().await.unwrap();
        lease.extend(LONG).await.unwrap();
        lease.release().await.unwrap();
        rig
    }

    /// How many bytes pass each way while `work` runs, all of them its own.
    async fn lengths(&self, work: impl AsyncFn()) -> [(Way, usize); 2] {
        let ways = [Way::ToServer, Way::ToClient];
        let before = ways.map(|way| self.proxy.bytes(way));
        work().await;
        let passed = |at: usize| self.proxy.bytes(ways[at]) - before[at];
        [0, 1].map(|at| (ways[at], usize::try_from(passed(at)).unwrap()))
    }

    async fn is_ours_alone(&self) {
        assert!(
            self.rival
                .mutex("job")
                .try_acquire()
                .await
                .unwrap()
                .is_none()
        );
    }

    /// The next client gets it; `at_once` when nothing may have been left behind.
    async fn can_be_taken(&self, at_once: bool) {
        let mutex = self.rival.mutex("job").ttl(LONG);
        let lease = if at_once {
            mutex
                .try_acquire()
                .await
                .unwrap()
                .expect("a refusal had no effect")
        } else {
            soon(mutex.acquire()).await.unwrap()
        };
        lease.release().await.unwrap();
    }
}

/// Runs `work` once for every byte after which the connection can end, both ways and in both manners.
async fn at_every_byte(rig: &Rig, lengths: [(Way, usize); 2], work: impl AsyncFn()) {
    for (way, length) in lengths {
        assert!(length > 20, "{length} bytes {way:?}");
        for how in [Cut::Close, Cut::Reset] {
            for bytes in 0..length {
                rig.proxy.set(way, Fault::CutAfter { bytes, how });
                work().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_cut_at_any_byte_is_granted_refused_or_unknown() {
    let rig = Rig::new().await;
    let acquire = async || rig.client.mutex("job").ttl(LONG).try_acquire().await;
    let lengths = rig
        .lengths(async || std::mem::forget(acquire().await.unwrap().unwrap()))
        .await;
    let held = rig.client.held();
    rig.rival
        .break_lease("job", leaselock::inspect::BreakOptions::default().now())
        .await
        .unwrap();
    drop(held);
    at_every_byte(&rig, lengths, async || {
        let outcome = soon(acquire()).await;
        rig.proxy.heal();
        match outcome {
            Ok(Some(lease)) => {
                rig.is_ours_alone().await;
                lease.release().await.unwrap();
                rig.can_be_taken(true).await;
            }
            Err(AcquireError::Unknown { .. }) => rig.can_be_taken(false).await,
            Err(AcquireError::Store { .. }) => rig.can_be_taken(true).await,
            other => panic!("{other:?}"),
        }
        warm(&rig).await;
    })
    .await;
}

/// Connected again, for requests. The cut may have come right behind the answer, so this tries until it is.
async fn warm(rig: &Rig) {
    let lease = soon(rig.client.mutex("warm").acquire()).await.unwrap();
    lease.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extend_cut_at_any_byte_leaves_the_lease_held() {
    let rig = Rig::new().await;
    let lease = rig.client.mutex("job").ttl(LONG).acquire().await.unwrap();
    let lengths = rig
        .lengths(async || lease.extend(LONG).await.unwrap())
        .await;
    at_every_byte(&rig, lengths, async || {
        let before = lease.deadline();
        let outcome = soon(lease.extend(LONG)).await;
        rig.proxy.heal();
        match outcome {
            Ok(()) => assert!(lease.deadline() > before),
            Err(LeaseError::Unknown { .. } | LeaseError::Store { .. }) => {
                assert!(lease.deadline() >= before);
            }
            Err(other) => panic!("{other:?}"),
        }
        assert!(lease.is_held());
        rig.is_ours_alone().await;
        warm(&rig).await;
    })
    .await;
    lease.release().await.unwrap();
}

/// `broken`: an operator breaks the lease before each release, which frees the name then.
async fn a_release_cut_at_any_byte(broken: bool) {
    let rig = Rig::new().await;
    let mutex = rig.client.mutex("job").ttl(LONG);
    let take = async || {
        let lease = mutex.acquire().await.unwrap();
        if broken {
            let options = leaselock::inspect::BreakOptions::default();
            rig.rival.break_lease("job", options).await.unwrap();
        }
        lease
    };
    let lease = std::cell::RefCell::new(Some(take().await));
    let lengths = rig
        .lengths(async || {
            let held = lease.take().unwrap();
            held.release().await.unwrap();
        })
        .await;
    for (way, length) in lengths {
        for how in [Cut::Close, Cut::Reset] {
            for bytes in 0..length {
                let lease = take().await;
                rig.proxy.set(way, Fault::CutAfter { bytes, how });
                let outcome = soon(lease.release()).await;
                rig.proxy.heal();
                match outcome {
                    Ok(()) => rig.can_be_taken(true).await,
                    Err(ReleaseError::Unknown { .. } | ReleaseError::Store { .. }) => {
                        rig.can_be_taken(false).await;
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_cut_at_any_byte_frees_the_lock() {
    a_release_cut_at_any_byte(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_of_a_broken_lease_cut_at_any_byte_frees_the_lock() {
    a_release_cut_at_any_byte(true).await;
}
