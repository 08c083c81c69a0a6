//! Hand-overs that the message alone brings, and those that are confirmed.

use std::fs;
use std::path::Path;

use leaselock::{Client, Lease};
use testkit::process::Signal;
use testkit::{Aim, Child, Fault, Proxy, Server, Way, tempdir};

use crate::support::{
    LONG, apart, by_message, eventually, is_free, leftovers, polls_sent, pttl, soon, until_queued,
    waiter,
};

/// What a hand-over grants at most, until it is confirmed or renewed.
const PASSED_MS: i64 = 5_000;

async fn taken(client: &Client) -> Lease {
    client.mutex("job").ttl(LONG).acquire().await.unwrap()
}

#[tokio::test]
async fn a_lease_that_was_handed_over_is_short_until_its_first_renewal_and_whole_then() {
    let server = Server::start();
    let [one, two] = [(); 2].map(|()| Client::open(&server.url()).unwrap());
    let lease = taken(&one).await;
    let next = waiter(&two, "job", LONG);
    until_queued(&one, "job", 1).await;
    lease.release().await.unwrap();
    let lease = by_message(next).await.unwrap().unwrap();
    let (left, on_server) = (lease.remaining(), pttl(&server, "job"));
    assert!(
        left.as_millis() <= 4_950 && (1..=PASSED_MS).contains(&on_server),
        "{left:?} {on_server}"
    );
    eventually("it is renewed", async || {
        lease.remaining() > LONG / 2 && pttl(&server, "job") > PASSED_MS
    })
    .await;
    lease.release().await.unwrap();
    assert_eq!(leftovers(&server), [""; 0]);
}

/// Who has a reply to come already is written to last, and so the waiter first.
#[tokio::test]
async fn only_a_release_behind_the_queue_lets_the_message_to_the_next_waiter_leave_first() {
    let server = Server::start();
    let [one, two] = [(); 2].map(|()| Client::open(&server.url()).unwrap());
    let mut monitor = server.connect().unwrap();
    monitor.call(&["MONITOR"]).unwrap();
    // Whether the client that has sent the latest script sent a PING with it.
    let mut follows_a_ping = || {
        server.cli(&["ECHO", "all is seen"]);
        let mut before = (String::new(), String::new());
        let mut follows = false;
        loop {
            let line = monitor.receive().unwrap();
            let [_, _, client, verb, ..] = line.text().unwrap().split(' ').collect::<Vec<_>>()[..]
            else {
                panic!("{line:?}")
            };
            match verb {
                "\"ECHO\"" => return follows,
                "\"EVALSHA\"" | "\"EVAL\"" => {
                    follows = before == (client.into(), "\"PING\"".into())
                }
                _ => {}
            }
            if client != "lua]" {
                before = (client.to_owned(), verb.to_owned());
            }
        }
    };
    let lease = taken(&one).await;
    let next = waiter(&two, "job", LONG);
    until_queued(&one, "job", 1).await;
    lease.release().await.unwrap();
    assert!(!follows_a_ping(), "it came at once, without a waiter");
    let lease = by_message(next).await.unwrap().unwrap();
    lease.release().await.unwrap();
    assert!(follows_a_ping(), "it came from the queue");
    taken(&two).await.release().await.unwrap();
    assert!(!follows_a_ping(), "it came at once again");
}

/// Another connection may lead to another server, whose clock is not that of the answer.
#[tokio::test]
async fn a_grant_after_the_requests_got_another_connection_is_confirmed() {
    let server = Server::start();
    apart(&server);
    let [one, two] = [(); 2].map(|()| Client::open(&server.url()).unwrap());
    let lease = taken(&one).await;
    let next = waiter(&two, "job", LONG);
    until_queued(&one, "job", 1).await;
    assert!(!server.cli(&["CLIENT", "KILL", "TYPE", "normal"]).is_error());
    eventually("it is connected again", async || {
        two.inspect("job").await.is_ok()
    })
    .await;
    lease.release().await.unwrap();
    let lease = by_message(next).await.unwrap().unwrap();
    assert!(lease.remaining() > LONG / 2 && pttl(&server, "job") > PASSED_MS);
    lease.release().await.unwrap();
}

/// The poll was under way when the message came, and its answer comes after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_comes_while_a_poll_is_under_way_is_one_lease() {
    let server = Server::start();
    apart(&server);
    let proxy = Proxy::to(server.port());
    let holder = Client::open(&server.url()).unwrap();
    let waiters = Client::builder().url(&proxy.url());
    let waiters = waiters.request_timeout(LONG).open().unwrap(); // longer than the proxy holds a poll
    // The first in the queue polls when the lease ends, which is soon and, thanks to renewals, never.
    let lease = holder.mutex("job").ttl(SHORT).acquire().await.unwrap();
    let next = waiter(&waiters, "job", LONG);
    until_queued(&holder, "job", 1).await;
    let before = polls_sent(&server);
    eventually("a look", async || polls_sent(&server) > before).await;
    proxy.aim(Aim::Requests);
    proxy.set(Way::ToClient, Fault::Hold);
    eventually("a look whose answer is held", async || proxy.held() > 0).await;
    let heard = proxy.bytes(Way::ToClient);
    lease.release().await.unwrap();
    eventually("the message has passed", async || {
        proxy.bytes(Way::ToClient) > heard
    })
    .await;
    assert!(!next.is_finished());
    proxy.heal();
    let lease = by_message(next).await.unwrap().unwrap();
    assert!(lease.is_held() && leftovers(&server) == ["job"]);
    lease.release().await.unwrap();
    assert!(is_free(&holder, "job").await);
}

/// Longer than a test needs to notice that the lease is over, and to take the lock itself.
const SHORT: std::time::Duration = std::time::Duration::from_secs(1);

/// What the frozen process does: writes its fence down as soon as it holds the lock.
pub(crate) async fn take_once(url: &str, folder: &Path) {
    let client = Client::open(url).unwrap();
    let lease = client.mutex("job").ttl(SHORT).acquire().await.unwrap();
    assert!(lease.is_held());
    fs::write(folder.join("fence"), lease.fence().unwrap().to_string()).unwrap();
    lease.release().await.unwrap();
    client.close().await;
}

/// It is stopped before its grant comes and goes on when the lease is over and the lock is another's.
#[tokio::test]
async fn a_process_that_was_frozen_while_its_grant_came_does_not_act_on_it() {
    let server = Server::start();
    let folder = tempdir().unwrap();
    let client = Client::open(&server.url()).unwrap();
    let lease = taken(&client).await;
    let path = folder.path().display().to_string();
    let frozen = Child::start("take once", &[&server.url(), &path]);
    until_queued(&client, "job", 1).await;
    frozen.stop();
    lease.release().await.unwrap();
    assert_eq!(leftovers(&server), ["job"], "it was handed over to it");
    eventually("the lease is over", async || leftovers(&server).is_empty()).await;
    let lease = soon(client.mutex("job").ttl(LONG).try_acquire())
        .await
        .unwrap()
        .unwrap();
    frozen.signal(Signal::CONT);
    until_queued(&client, "job", 1).await;
    assert!(
        !folder.path().join("fence").exists(),
        "it acted on a lease that was over"
    );
    let fence = lease.fence().unwrap().get();
    lease.release().await.unwrap();
    frozen.ends_well();
    let its = fs::read_to_string(folder.path().join("fence")).unwrap();
    assert!(its.parse::<u64>().unwrap() > fence);
}
