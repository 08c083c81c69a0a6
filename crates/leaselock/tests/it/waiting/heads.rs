//! Heads of the queue that are frozen or cut off: what they cost the waiter behind them.

use std::time::Duration;

use leaselock::Client;
use testkit::{Child, Fault, Proxy, Server, Way, clock, tempdir};

use crate::support::{channels, eventually, until_queued, waiter};

/// No test waits for the end of such a lease.
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
/// What a hand-over grants at most.
const PASSED: Duration = Duration::from_secs(5);
/// A waiter that polls every 15 s finds the lock later than this.
pub(crate) const BEFORE_A_RARE_POLL: Duration = Duration::from_secs(12);

/// What a process does that is to be frozen: it waits, of a quorum when there are several servers.
pub(crate) async fn waits(urls: &[&str]) {
    let client = match urls {
        [url] => Client::open(url),
        urls => {
            let quorum = Client::builder()
                .urls(urls.iter().copied())
                .longest_ttl(HOUR);
            quorum.durable_nodes().open()
        }
    };
    drop(client.unwrap().mutex("job").ttl(HOUR).acquire().await);
}

/// The holder has a lease whose end no test waits for, so what the waiter knows is a poll after a long time.
async fn the_next_one_waits_for_what_was_passed(url: &str, frozen: usize, most: Duration) {
    let [holder, next] = [(); 2].map(|()| Client::open(url).unwrap());
    let lease = holder.mutex("job").ttl(HOUR).acquire().await.unwrap();
    let mut heads = Vec::new();
    for count in 1..=frozen {
        heads.push(Child::start("waits", &[url]));
        until_queued(&holder, "job", count).await;
    }
    let next = waiter(&next, "job", HOUR);
    until_queued(&holder, "job", frozen + 1).await;
    heads.iter().for_each(Child::stop);
    let start = clock::now();
    lease.release().await.unwrap();
    let lease = tokio::time::timeout(most, next).await;
    let lease = lease
        .expect("a frozen head costs what was passed to it")
        .unwrap()
        .unwrap();
    let frozen = u32::try_from(heads.len()).unwrap();
    let waited = clock::now() - start;
    assert!(
        waited >= (PASSED - Duration::from_millis(100)) * frozen,
        "{waited:?}"
    );
    println!("behind {frozen} frozen heads: {waited:?}");
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_frozen_head_costs_the_next_waiter_the_lease_that_was_passed_to_it() {
    let server = Server::start();
    the_next_one_waits_for_what_was_passed(&server.url(), 1, BEFORE_A_RARE_POLL).await;
}

/// With polls every 15 s it was granted 20 s after the release at the earliest.
#[tokio::test]
async fn two_frozen_heads_cost_two_passed_leases() {
    let server = Server::start();
    let most = BEFORE_A_RARE_POLL + PASSED;
    the_next_one_waits_for_what_was_passed(&server.url(), 2, most).await;
}

#[tokio::test]
async fn in_a_folder_too_a_frozen_head_costs_the_lease_that_was_passed_to_it() {
    let folder = tempdir().unwrap();
    let url = format!("file://{}", folder.path().join("locks").display());
    the_next_one_waits_for_what_was_passed(&url, 1, BEFORE_A_RARE_POLL).await;
}

/// The server still counts it among those who listen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_is_cut_off_costs_no_more_than_a_frozen_one() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let [holder, next] = [(); 2].map(|()| Client::open(&server.url()).unwrap());
    let away = Client::open(&proxy.url()).unwrap();
    let lease = holder.mutex("job").ttl(HOUR).acquire().await.unwrap();
    let head = waiter(&away, "job", HOUR);
    until_queued(&holder, "job", 1).await;
    let next = waiter(&next, "job", HOUR);
    until_queued(&holder, "job", 2).await;
    eventually("both listen", async || channels(&server).len() == 2).await;
    for way in [Way::ToServer, Way::ToClient] {
        proxy.set(way, Fault::HalfOpen);
    }
    lease.release().await.unwrap();
    let lease = tokio::time::timeout(BEFORE_A_RARE_POLL, next).await;
    let lease = lease
        .expect("it costs what was passed to it")
        .unwrap()
        .unwrap();
    head.abort();
    lease.release().await.unwrap();
}
