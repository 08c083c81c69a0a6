//! Several names under one lease, on a server: its commands, its refusals, and what a lost reply leaves behind.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use leaselock::interop::{Preset, Protocol};
use leaselock::{AcquireError, Client, ErrorKind, Wait};
use testkit::{Cluster, Fault, Proxy, Server, Way};

use crate::engine::shared_cluster;
use crate::support::{
    LONG, by_message, calls, eventually, introduced, is_free, leftovers, millis, soon,
    until_queued, waiter,
};

fn sent(server: &Server) -> usize {
    calls(server, "evalsha") + calls(server, "eval")
}

/// The record of the client, which it writes in the background, is written by then.
async fn warm(server: &Server, client: &Client) {
    let lease = client.mutex("{t}0").along_with(["{t}1"]).acquire().await;
    introduced(server, client).await;
    lease.unwrap().release().await.unwrap();
}

fn names(count: usize) -> impl Iterator<Item = String> {
    (1..count).map(|number| format!("{{t}}{number}"))
}

#[tokio::test]
async fn free_names_cost_two_requests_whatever_their_number() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    warm(&server, &client).await;
    for count in [1, 2, 7, 100] {
        let lock = client.mutex("{t}0").ttl(LONG).along_with(names(count));
        let before = sent(&server);
        let lease = lock.acquire().await.unwrap();
        assert_eq!(lease.fences().count(), count);
        lease.release().await.unwrap();
        assert_eq!(sent(&server) - before, 2, "{count} names");
    }
    assert_eq!(leftovers(&server), [""; 0]);
}

#[tokio::test]
async fn on_one_server_names_need_no_hash_tag_for_that() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    warm(&server, &client).await;
    let before = sent(&server);
    let lease = client.mutex("from").along_with(["to"]).acquire().await;
    lease.unwrap().release().await.unwrap();
    assert_eq!(sent(&server) - before, 2);
}

#[tokio::test]
async fn a_name_that_is_busy_costs_a_try_one_request() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    warm(&server, &client).await;
    let lease = client.mutex("{t}3").ttl(LONG).acquire().await.unwrap();
    let before = sent(&server);
    let lock = client.mutex("{t}0").along_with(names(9));
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert_eq!(sent(&server) - before, 1);
    lease.release().await.unwrap();
}

#[tokio::test]
async fn on_a_cluster_names_of_one_hash_tag_are_acquired_in_one_step() {
    let cluster = Cluster::start();
    let client = Client::open(&cluster.url()).unwrap();
    let lock = client.mutex("{t}1").ttl(LONG).along_with(["{t}2"]);
    let first = lock.acquire().await.unwrap();
    let record = format!("ll:client:{}", client.id());
    introduced(cluster.owner_of(&record), &client).await;
    first.release().await.unwrap();
    let node = cluster.owner_of("{t}1");
    let before = sent(node);
    let lease = lock.acquire().await.unwrap();
    assert_eq!(sent(node) - before, 1);
    assert!(lease.fences().all(|(_, fence)| fence.is_some()));
    assert!(lock.try_acquire().await.unwrap().is_none());
    lease.release().await.unwrap();
}

#[tokio::test]
async fn on_a_cluster_names_of_several_slots_are_acquired_too() {
    let cluster = shared_cluster();
    let client = Client::open(&cluster.url()).unwrap();
    let slots = ["two1", "two2", "two3"].map(|name| cluster.slot(name));
    assert!(slots[0] != slots[1] && slots[1] != slots[2]);
    let lock = client.mutex("two1").ttl(LONG).along_with(["two2", "two3"]);
    let lease = lock.try_acquire().await.unwrap().unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    lease.release().await.unwrap();
}

#[tokio::test]
async fn what_is_out_of_range_is_refused_and_nothing_is_sent() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let lock = |first: &str, others: &[&str]| client.mutex(first).along_with(others.to_vec());
    let many = client.mutex("{t}0").along_with(names(101));
    let foreign = client.mutex("a").protocol(Protocol::Redisson);
    for (lock, says) in [
        (lock("a", &["b", "a"]), "`a` occurs twice"),
        (lock("a", &["b", "b"]), "`b` occurs twice"),
        (lock("a", &[""]), "at least one byte"),
        (lock("a", &["b\n"]), "control characters"),
        (many, "101 names under one lease: at most 100"),
        (foreign.along_with(["b"]), "use the native protocol"),
    ] {
        let refused = lock.clone().validate().unwrap_err().to_string();
        assert!(refused.contains(says), "{refused}");
        for outcome in [
            lock.try_acquire().await.map(drop),
            lock.acquire().await.map(drop),
            lock.acquire_within(LONG).await.map(drop),
        ] {
            let error = outcome.unwrap_err();
            assert!(matches!(error, AcquireError::Invalid(_)), "{error:?}");
        }
    }
    assert_eq!(sent(&server), 0);
    assert!(lock("a", &[]).validate().is_ok());
}

#[tokio::test]
async fn a_preset_counts_for_every_name() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let mutex = client.mutex("a").preset(Preset::REDIS_SEMAPHORE);
    let lease = mutex.along_with(["b"]).acquire().await.unwrap();
    let names: Vec<&str> = lease.names().map(leaselock::Name::as_str).collect();
    assert_eq!(names, ["mutex:a", "mutex:b"]);
    lease.release().await.unwrap();
}

#[tokio::test]
async fn retries_try_all_names_again() {
    let server = Server::start();
    let [one, two] = [(); 2].map(|()| Client::open(&server.url()).unwrap());
    let held = two.mutex("b").ttl(LONG).acquire().await.unwrap();
    let poll = |count| Wait::Poll {
        count,
        delay: millis(1),
        jitter_percent: 0,
    };
    let lock = one.mutex("a").wait(poll(Some(3))).along_with(["b"]);
    let error = lock.acquire().await.unwrap_err();
    assert!(
        matches!(&error, AcquireError::TimedOut { name, retries: 3, .. } if name.as_str() == "b"),
        "{error:?}"
    );
    let lock = one.mutex("a").wait(poll(None)).along_with(["b"]);
    let retrying = tokio::spawn(async move { lock.acquire().await });
    let tries = sent(&server);
    eventually("it tries again", async || sent(&server) > tries + 3).await;
    held.release().await.unwrap();
    let lease = soon(retrying).await.unwrap().unwrap();
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_wait_tells_which_of_the_names_is_busy() {
    let server = Server::start();
    let [one, two] = [(); 2].map(|()| Client::open(&server.url()).unwrap());
    let told = Arc::new(Mutex::new(BTreeSet::new()));
    let ear = Arc::clone(&told);
    let mutex = one.mutex("a").ttl(LONG).on_wait(move |waiting| {
        ear.lock().unwrap().insert(waiting.name.to_string());
    });
    let held = two.mutex("b").ttl(LONG).acquire().await.unwrap();
    let next = mutex.along_with(["b", "c"]);
    let next = tokio::spawn(async move { next.acquire().await });
    until_queued(&two, "b", 1).await;
    held.release().await.unwrap();
    let lease = soon(next).await.unwrap().unwrap();
    let told: Vec<String> = told.lock().unwrap().iter().cloned().collect();
    assert_eq!(told, ["b"]);
    assert_eq!(lease.leases().len(), 3);
    lease.release().await.unwrap();
}

/// The release of all names in one request leaves out a name with waiters, whose own release grants the next.
#[tokio::test]
async fn a_waiter_of_one_of_the_names_is_granted_by_the_release() {
    let server = Server::start();
    let [one, two] = [(); 2].map(|()| Client::open(&server.url()).unwrap());
    let lease = one.mutex("a").ttl(LONG).along_with(["b", "c"]);
    let lease = lease.acquire().await.unwrap();
    let next = waiter(&two, "b", LONG);
    until_queued(&two, "b", 1).await;
    lease.release().await.unwrap();
    let next = by_message(next).await.unwrap().unwrap();
    next.release().await.unwrap();
    assert!(is_free(&two, "a").await && is_free(&two, "c").await);
}

#[tokio::test]
async fn readers_and_permits_of_one_name_keep_all_out_and_another_type_is_an_error() {
    let server = Server::start();
    let [one, two] = [(); 2].map(|()| Client::open(&server.url()).unwrap());
    let lock = one.mutex("a").ttl(LONG).along_with(["b"]);
    let reader = two.rwlock("b").ttl(LONG).read().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    reader.release().await.unwrap();
    let permit = two.semaphore("a", 2).ttl(LONG).acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    permit.release().await.unwrap();
    let lease = lock.try_acquire().await.unwrap().unwrap();
    lease.release().await.unwrap();
    server.cli(&["HSET", "b", "x", "y"]);
    let error = lock.try_acquire().await.unwrap_err();
    assert!(
        matches!(&error, AcquireError::Store { name, source }
            if name.as_str() == "b" && source.kind() == ErrorKind::WrongType),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_damaged_fence_of_one_name_is_an_error_that_names_it_and_no_name_is_held() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    server.cli(&["SET", "{b}:ll:fence", "7"]);
    let error = client.mutex("a").along_with(["b"]).acquire().await;
    let error = error.unwrap_err();
    let AcquireError::Store { name, source } = &error else {
        panic!("{error:?}")
    };
    assert_eq!((name.as_str(), source.kind()), ("b", ErrorKind::Corrupt));
    eventually("nothing is left", async || leftovers(&server).is_empty()).await;
}

#[tokio::test]
async fn a_grant_whose_reply_is_lost_leaves_no_name_behind() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let builder = Client::builder().url(&proxy.url());
    let client = builder.request_timeout(millis(300)).open().unwrap();
    let lock = client.mutex("a").ttl(LONG).along_with(["b"]);
    lock.acquire().await.unwrap().release().await.unwrap();
    proxy.set(Way::ToClient, Fault::Swallow);
    let error = lock.try_acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Unknown { .. }), "{error:?}");
    assert_eq!(leftovers(&server).len(), 2, "the server had granted both");
    proxy.heal();
    eventually("nothing is left", async || leftovers(&server).is_empty()).await;
}

#[tokio::test]
async fn replicas_confirm_each_name_and_too_few_leave_none_held() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let mutex = client.mutex("b").ttl(LONG).min_replicas(1, millis(50));
    let error = mutex.along_with(["a"]).acquire().await.unwrap_err();
    assert!(
        matches!(&error, AcquireError::TooFewReplicas { name, .. } if name.as_str() == "a"),
        "{error:?}"
    );
    eventually("nothing is left", async || leftovers(&server).is_empty()).await;
}

/// The first request for both is refused as a whole, and each name then has its own answer.
#[tokio::test]
async fn a_name_that_the_user_may_not_use_is_the_one_that_is_refused() {
    let server = Server::start();
    let rules = [
        "ACL", "SETUSER", "locker", "on", ">p", "~a*", "~{a*", "~ll:*", "&*", "+@all",
    ];
    assert!(!server.cli(&rules).is_error());
    let url = server.url().replace("redis://", "redis://locker:p@");
    let client = Client::open(&url).unwrap();
    let lease = client.mutex("a1").along_with(["a2"]).acquire().await;
    lease.unwrap().release().await.unwrap();
    let error = client.mutex("b").along_with(["a"]).try_acquire().await;
    let error = error.unwrap_err();
    assert!(
        matches!(&error, AcquireError::Store { name, source }
            if name.as_str() == "b" && source.kind() == ErrorKind::Forbidden),
        "{error:?}"
    );
    eventually("nothing is left", async || leftovers(&server).is_empty()).await;
}

#[tokio::test]
async fn in_strict_mode_no_name_is_granted_behind_a_closed_gate() {
    let server = Server::start();
    let longest = std::time::Duration::from_secs(3);
    let builder = Client::builder().url(&server.url()).strict(longest);
    let client = builder.open().unwrap();
    let lock = client.mutex("a").ttl(longest).along_with(["b"]);
    let error = lock.try_acquire().await.unwrap_err();
    assert!(
        matches!(error, AcquireError::Quarantined { .. }),
        "{error:?}"
    );
    assert_eq!(leftovers(&server), ["ll:gate"]);
    client.init_strict().await.unwrap();
    warm(&server, &client).await;
    let before = sent(&server);
    let lease = lock.try_acquire().await.unwrap().unwrap();
    assert_eq!(sent(&server) - before, 1, "one request asks at the gate");
    lease.release().await.unwrap();
}
