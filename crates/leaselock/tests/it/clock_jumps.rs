//! The server's wall clock, by which leases end there, is set while they are held.

use std::time::Duration;

use leaselock::inspect::BreakOptions;
use leaselock::report::Verdict;
use leaselock::{Client, Lease, LostReason};
use testkit::Server;

use crate::support::{eventually, soon};

/// It is renewed after minutes, so that what is learned sooner was not learned by that.
const HOURS: Duration = Duration::from_secs(3 * 3600);
const DAY_MS: i64 = 24 * 3600 * 1000;

/// A lease of a client that has been told the server's time: the first acquisition of a name does not tell it.
async fn held(client: &Client) -> Lease {
    let before = client.mutex("other").acquire().await.unwrap();
    before.release().await.unwrap();
    let lease = client.mutex("job").ttl(HOURS).acquire().await.unwrap();
    client.inspect("job").await.unwrap();
    lease
}

/// A client with a lease, whose server's clock is set right afterwards.
async fn set(by_ms: i64) -> (Server, Client, Lease) {
    let server = Server::builder().shifted_clock().start();
    let client = Client::open(&server.url()).unwrap();
    let lease = held(&client).await;
    server.set_clock_offset_ms(by_ms);
    (server, client, lease)
}

/// Each is something that a client does now and then, and that has nothing to do with the lease.
async fn do_something(client: &Client, what: &str) {
    match what {
        "inspect" => drop(client.inspect("other").await.unwrap()),
        "break" => drop(client.break_lease("other", BreakOptions::default()).await),
        "acquire" => drop(client.mutex("other").acquire().await.unwrap()),
        "read" => drop(client.rwlock("other").read().await.unwrap()),
        _ => unreachable!(),
    }
}

#[tokio::test]
async fn when_the_clock_goes_forward_holders_learn_of_their_loss_by_the_next_reply_that_says_the_time()
 {
    for what in ["inspect", "break", "acquire", "read"] {
        let (_server, client, lease) = set(DAY_MS).await;
        do_something(&client, what).await;
        let lost = soon(lease.lost()).await;
        assert_eq!(lost.reason, LostReason::KeyMissing, "{what}");
        let stats = client.stats();
        assert_eq!(stats.clock_jumps, 1, "{what}");
        let by_ms = stats.last_clock_jump_ms.unwrap();
        assert!((by_ms - DAY_MS).abs() < 60_000, "{what} {by_ms}");
    }
}

#[tokio::test]
async fn an_extension_that_finds_its_lease_gone_makes_the_others_be_verified() {
    let server = Server::builder().shifted_clock().start();
    let client = Client::open(&server.url()).unwrap();
    let (lease, other) = (held(&client).await, client.mutex("other").ttl(HOURS));
    let other = other.acquire().await.unwrap();
    server.set_clock_offset_ms(DAY_MS);
    lease.extend(HOURS).await.unwrap_err();
    let lost = soon(other.lost()).await;
    assert_eq!(lost.reason, LostReason::KeyMissing);
    assert_eq!(client.stats().clock_jumps, 1);
}

#[tokio::test]
async fn when_the_clock_goes_back_leases_are_verified_and_the_stuck_lock_has_a_name() {
    let (server, client, lease) = set(-DAY_MS).await;
    assert_eq!(client.stats().clock_jumps, 0);
    server.cli(&["CONFIG", "RESETSTAT"]);
    let seen = client.inspect("job").await.unwrap();
    let Some(holder) = seen.state.exclusive().cloned() else {
        panic!("{seen:?}")
    };
    assert!(holder.remaining.unwrap() > HOURS, "it is stuck for so long");
    assert_eq!(client.stats().clock_jumps, 1);
    eventually("the lease is verified", async || {
        crate::support::calls(&server, "evalsha") + crate::support::calls(&server, "eval") >= 2
    })
    .await;
    assert!(lease.is_held());
    let report = client.doctor().await.unwrap();
    let check = report
        .findings
        .iter()
        .find(|check| check.topic == "clock jumps")
        .unwrap();
    assert_eq!(check.verdict, Verdict::Warn);
    assert!(
        check.advice.as_ref().unwrap().contains("leaselock break"),
        "{check:?}"
    );
    let offset = report
        .findings
        .iter()
        .find(|check| check.topic == "clock")
        .unwrap();
    assert!(offset.found.contains("behind this machine"), "{offset:?}");
    // The holder's own release frees it at once.
    lease.release().await.unwrap();
    soon(held(&client)).await.release().await.unwrap();
}

#[tokio::test]
async fn a_clock_that_runs_on_is_not_taken_for_one_that_was_set() {
    let (server, client, lease) = set(0).await;
    for by_ms in [0, 1, 2, 3] {
        server.set_clock_offset_ms(by_ms); // slewed
        drop(client.inspect("job").await.unwrap());
    }
    assert_eq!(client.stats().clock_jumps, 0);
    assert_eq!(client.stats().last_clock_jump_ms, None);
    assert!(
        client
            .doctor()
            .await
            .unwrap()
            .findings
            .iter()
            .all(|check| check.topic != "clock jumps")
    );
    drop(lease);
}
