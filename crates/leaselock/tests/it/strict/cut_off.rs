//! Two primaries: the old one is cut off from the rest together with its clients, and lives on.

use std::time::Duration;

use leaselock::{AcquireError, Client, ErrorKind, Lease};
use testkit::{Fault, Proxy, Server, Way};

use crate::support::{eventually, lets_scripts_write, soon};

/// A quarantine of this is over seconds after the old side has stopped: a primary finds out within the lag that its
/// replica is gone, the lease ends by its ttl, and both take a machine that is busy into account.
const LONGEST: Duration = Duration::from_secs(6);
const TTL: Duration = Duration::from_secs(2);

/// A primary, its replica, and what lies between them.
struct Pair {
    old: Server,
    new: Server,
    link: Proxy,
}

impl Pair {
    fn start(min_replicas: &str) -> Pair {
        let old = Server::builder()
            .config("min-replicas-to-write", min_replicas)
            .config("min-replicas-max-lag", "1")
            .start();
        let link = Proxy::to(old.port());
        let new = Server::start();
        new.replica_of(link.port());
        Pair { old, new, link }
    }

    fn cut(&self) {
        self.link.set(Way::Both, Fault::HalfOpen);
        self.new.promote();
    }
}

fn client(server: &Server) -> Client {
    let builder = Client::builder().url(&server.url()).strict(LONGEST);
    builder.request_timeout(TTL).open().unwrap()
}

/// The lease of the old side, and what the new one grants after the cut.
async fn both_sides(pair: &Pair) -> (Lease, Lease) {
    let (holder, next) = (client(&pair.old), client(&pair.new));
    soon(holder.init_strict()).await.unwrap();
    let lease = soon(holder.mutex("job").ttl(TTL).acquire()).await.unwrap();
    eventually("the replica knows of it", async || {
        pair.new.cli(&["EXISTS", "job"]).integer() == Some(1)
    })
    .await;
    pair.cut();
    let granted = soon(next.mutex("job").ttl(TTL).acquire()).await.unwrap();
    assert!(granted.fence() > lease.fence());
    (lease, granted)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_is_cut_off_stops_before_the_other_side_grants() {
    let pair = Pair::start("1");
    if lets_scripts_write(&pair.old) {
        return;
    }
    let (lease, granted) = both_sides(&pair).await;
    assert!(!lease.is_held() && granted.is_held());
    let refused = client(&pair.old)
        .mutex("other")
        .ttl(TTL)
        .try_acquire()
        .await;
    match refused.unwrap_err() {
        AcquireError::Store { source, .. } => assert_eq!(source.kind(), ErrorKind::NoReplicas),
        other => panic!("{other:?}"),
    }
}

/// What the other test is there to rule out, and that it could see it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_min_replicas_both_sides_hold_at_once() {
    let pair = Pair::start("0");
    let (lease, granted) = both_sides(&pair).await;
    assert!(lease.is_held() && granted.is_held());
}
