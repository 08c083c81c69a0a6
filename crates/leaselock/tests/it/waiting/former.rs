//! Queue entries that are over, and that a server still has: one that was promoted may not know what came last. In
//! strict mode its quarantine is over when it grants them. Otherwise it may lack the true holder too, who is told as soon
//! as its client is connected there: so long, and no longer, such an entry keeps the lock.

use std::time::Duration;

use leaselock::{AcquireError, Client, Lease};
use testkit::{Aim, Fault, Proxy, Server, Value, Way, clock};
use tokio::task::JoinHandle;

use crate::support::{LONG, by_message, eventually, is_free, millis, soon, until_queued, waiter};

/// Without strict mode.
const HOLDERS_ARE_TOLD: Duration = Duration::from_secs(1);
const QUEUE: &str = "{job}:ll:queue";
const WAITERS: &str = "{job}:ll:waiters";

/// The only queue entry, as the server has it.
struct Place {
    member: String,
    token: String,
}

impl Place {
    fn of(server: &Server) -> Place {
        let text = |value: &Value| value.text().unwrap().to_owned();
        let line = server.cli(&["ZRANGE", QUEUE, "0", "-1"]);
        let tokens = server.cli(&["HKEYS", WAITERS]);
        Place {
            member: text(&line.list().unwrap()[0]),
            token: text(&tokens.list().unwrap()[0]),
        }
    }

    /// As on a server that has not heard of its end.
    fn is_there_again(&self, server: &Server) {
        server.cli(&["HSET", WAITERS, &self.token, &self.member]);
        server.cli(&["ZADD", QUEUE, "0", &self.member]);
    }
}

async fn two(server: &Server, strict: bool) -> [Client; 2] {
    let url = server.url();
    two_at([&url, &url], strict).await
}

async fn two_at(urls: [&str; 2], strict: bool) -> [Client; 2] {
    let clients = urls.map(|url| {
        let builder = Client::builder().url(url);
        let builder = if strict {
            builder.strict(LONG)
        } else {
            builder
        };
        builder.open().unwrap()
    });
    if strict {
        clients[0].init_strict().await.unwrap();
    }
    clients
}

/// How a wait for a lock that another holds comes to an end.
async fn waited(
    server: &Server,
    holder: &Client,
    other: &Client,
    ends: impl AsyncFnOnce(Lease, JoinHandle<Result<Lease, AcquireError>>),
) -> Place {
    let lease = soon(holder.mutex("job").ttl(LONG).acquire()).await.unwrap();
    let waits = waiter(other, "job", LONG);
    until_queued(holder, "job", 1).await;
    let place = Place::of(server);
    ends(lease, waits).await;
    assert!(is_free(holder, "job").await);
    place
}

/// Else it would stand idle for five seconds, which a hand-over grants.
async fn is_had_before_its_grant_ends(server: &Server, holder: &Client, place: &Place) -> Duration {
    place.is_there_again(server);
    let begin = clock::now();
    let lease = by_message(holder.mutex("job").ttl(LONG).acquire()).await;
    let took = clock::now() - begin;
    lease.unwrap().release().await.unwrap();
    assert!(is_free(holder, "job").await);
    took
}

async fn goes_on_to_the_next(strict: bool) {
    let server = Server::start();
    let [holder, other] = two(&server, strict).await;
    let served = waited(&server, &holder, &other, async |lease, waits| {
        lease.release().await.unwrap();
        let next = soon(waits).await.unwrap().unwrap();
        next.release().await.unwrap();
    });
    let took = is_had_before_its_grant_ends(&server, &holder, &served.await).await;
    assert!(strict || took >= HOLDERS_ARE_TOLD, "{took:?}");

    let dropped = waited(&server, &holder, &other, async |lease, waits| {
        lease.release().await.unwrap();
        drop(soon(waits).await.unwrap().unwrap());
        eventually("it was given back", async || is_free(&holder, "job").await).await;
    });
    is_had_before_its_grant_ends(&server, &holder, &dropped.await).await;

    let gone = waited(&server, &holder, &other, async |lease, waits| {
        waits.abort();
        until_queued(&holder, "job", 0).await;
        lease.release().await.unwrap();
    });
    is_had_before_its_grant_ends(&server, &holder, &gone.await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_strict_mode_a_lock_that_is_handed_to_a_queue_entry_that_is_over_goes_on_to_the_next_at_once()
 {
    goes_on_to_the_next(true).await;
}

/// The message of the promoted server comes before the reply to the release.
async fn goes_on_beside_a_release(give_back: impl FnOnce(Lease) -> Option<JoinHandle<()>>) {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let [holder, other] = two_at([&server.url(), &proxy.url()], true).await;
    let mut release = None;
    let given_back = waited(&server, &holder, &other, async |lease, waits| {
        lease.release().await.unwrap();
        let lease = soon(waits).await.unwrap().unwrap();
        proxy.aim(Aim::Requests);
        proxy.set(Way::ToClient, Fault::Delay(millis(300)));
        release = give_back(lease);
        eventually("it was given back", async || is_free(&holder, "job").await).await;
    });
    is_had_before_its_grant_ends(&server, &holder, &given_back.await).await;
    if let Some(release) = release {
        soon(release).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_handed_to_a_queue_entry_whose_lease_was_just_dropped_goes_on() {
    goes_on_beside_a_release(|lease| {
        drop(lease);
        None
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_handed_to_a_queue_entry_whose_lease_is_being_released_goes_on() {
    goes_on_beside_a_release(|lease| Some(tokio::spawn(async { lease.release().await.unwrap() })))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_handed_to_a_queue_entry_that_is_over_goes_on_when_holders_were_notified() {
    goes_on_to_the_next(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_entry_whose_wait_has_ended_in_vain_keeps_the_lock_from_no_client() {
    let server = Server::start();
    let [holder, other] = two(&server, true).await;
    let lease = soon(holder.mutex("job").ttl(LONG).acquire()).await.unwrap();
    let mutex = other.mutex("job").ttl(LONG);
    let waits = tokio::spawn(async move { mutex.acquire_within(millis(1_000)).await });
    until_queued(&holder, "job", 1).await;
    let place = Place::of(&server);
    assert!(soon(waits).await.unwrap().is_err());
    lease.release().await.unwrap();
    is_had_before_its_grant_ends(&server, &holder, &place).await;
}

/// The same message as it is sent for a place that is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_for_a_token_that_is_held_takes_nothing_away() {
    let server = Server::start();
    let [holder, other] = two(&server, false).await;
    let lease = soon(holder.mutex("job").ttl(LONG).acquire()).await.unwrap();
    let waits = waiter(&other, "job", LONG);
    until_queued(&holder, "job", 1).await;
    let place = Place::of(&server);
    lease.release().await.unwrap();
    let held = soon(waits).await.unwrap().unwrap();
    let channel = place.member.rsplit(' ').next().unwrap();
    let again = format!("grant 0 1 1 5000 0 {}", place.token);
    for message in [&again, &place.token] {
        assert_eq!(
            server.cli(&["PUBLISH", channel, message]).integer(),
            Some(1)
        );
    }
    // Behind the messages on the way to the client.
    soon(held.extend(LONG)).await.unwrap();
    let waits = waiter(&holder, "job", LONG);
    until_queued(&holder, "job", 1).await;
    assert_eq!(server.cli(&["GET", "job"]).text(), Some(&*place.token));
    held.release().await.unwrap();
    soon(waits).await.unwrap().unwrap().release().await.unwrap();
}
