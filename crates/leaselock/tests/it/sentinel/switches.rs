//! Clients go on at the new primary; a lease is kept, or told to be lost by its own deadline.

use std::time::Duration;

use leaselock::{AcquireError, Client, Lease, Mutex};
use testkit::{Server, Watched, clock};
use tokio::task::JoinHandle;

use crate::support::{LONG, eventually, millis, soon, until_queued, waiter};

/// Servers are found to be down, and another is chosen, within seconds.
const SWITCH: Duration = Duration::from_secs(60);

/// Tries until it has the lock: what fails meanwhile passes.
async fn acquired(mutex: &Mutex) -> Lease {
    let tried = async {
        loop {
            match mutex.acquire_within(millis(500)).await {
                Ok(lease) => return lease,
                Err(error) => println!("{error}"),
            }
        }
    };
    tokio::time::timeout(SWITCH, tried).await.unwrap()
}

const QUEUE: &str = "{job}:ll:queue";

fn has(server: &Server, key: &str) -> bool {
    server.cli(&["EXISTS", key]).integer() == Some(1)
}

/// Blocks a thread of its own: the runtime goes on.
async fn switched(group: &std::sync::Arc<Watched>, old: u16) -> u16 {
    let group = std::sync::Arc::clone(group);
    let new = tokio::task::spawn_blocking(move || group.sentinels.wait_for_switch(old));
    new.await.unwrap()
}

fn group() -> std::sync::Arc<Watched> {
    std::sync::Arc::new(Watched::start())
}

/// A lease of one client for which another waits in the queue, as every server knows.
async fn held_and_waited_for(
    group: &Watched,
) -> (Client, Lease, JoinHandle<Result<Lease, AcquireError>>) {
    let [holder, other] = [0, 1].map(|_| Client::open(&group.url()).unwrap());
    let lease = acquired(&holder.mutex("job").ttl(LONG)).await;
    let waits = waiter(&other, "job", LONG);
    until_queued(&holder, "job", 1).await;
    // What a replica does not have when it is promoted is forgotten.
    eventually("the replicas have the lease and the line", async || {
        let mut all = group.servers.iter();
        all.all(|server| has(server, "job") && has(server, QUEUE))
    })
    .await;
    (holder, lease, waits)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_client_goes_on_at_the_new_primary_when_the_old_one_is_killed() {
    let group = group();
    let client = Client::open(&group.url()).unwrap();
    let ttl = millis(3_000);
    let held = acquired(&client.mutex("held").ttl(ttl)).await;
    let old = group.primary();
    assert!(has(old, "held"), "it lies on the primary");

    old.kill();
    let new = switched(&group, old.port()).await;
    let lease = acquired(&client.mutex("next").ttl(LONG)).await;
    assert!(has(group.on(new), "next"));
    // Whether its renewals reached the new primary in time is not promised; that it is told is.
    if !held.is_held() {
        soon(held.lost()).await;
    }
    assert!(held.remaining() <= ttl);
    lease.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_stays_with_a_primary_that_is_frozen_and_comes_back() {
    let group = group();
    let (holder, lease, waits) = held_and_waited_for(&group).await;
    let old = group.primary();
    let port = old.port();

    let frozen = old.pause();
    let new = group.on(switched(&group, port).await);
    // Every connection becomes a new one, although none of the old ones ends by itself.
    eventually("the lease goes on at the new primary", async || {
        lease.extend(LONG).await.is_ok()
    })
    .await;
    assert!(has(new, "job"), "the lease was there before the switch");
    lease.release().await.unwrap();
    let next = soon(waits).await.unwrap().unwrap();
    drop(frozen);
    // It finds out that it is a replica; until then no client writes there.
    next.extend(LONG).await.unwrap();
    let mine = acquired(&holder.mutex("mine").ttl(LONG)).await;
    assert!(has(new, "mine"));
    for lease in [next, mine] {
        lease.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_by_hand_keeps_the_lease_and_the_queue() {
    let group = group();
    let (holder, lease, waits) = held_and_waited_for(&group).await;
    let old = group.primary().port();

    group.sentinels.fail_over();
    let new = group.on(switched(&group, old).await);
    // The old primary takes writes until it is told, and forgets them then.
    eventually("the holder writes at the new primary", async || {
        let other = acquired(&holder.mutex("other")).await;
        let there = has(new, "other");
        drop(other.release().await); // in doubt at the moment of the switch
        there
    })
    .await;
    assert!(lease.is_held());
    lease.release().await.unwrap();
    soon(waits).await.unwrap().unwrap().release().await.unwrap();
}

/// No Sentinel speaks while the servers change places, and no connection ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_answers_as_a_replica_is_left_although_nobody_told() {
    let group = group();
    let client = Client::open(&group.url()).unwrap();
    let mutex = client.mutex("job").ttl(LONG);
    acquired(&mutex).await.release().await.unwrap();
    let old = group.primary();
    let new = group
        .servers
        .iter()
        .find(|s| s.port() != old.port())
        .unwrap();

    let silent: Vec<_> = group.sentinels.each().iter().map(Server::pause).collect();
    new.promote();
    old.cli(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]);
    eventually(
        "it has left the server, and asks those who do not answer",
        async || {
            let refused = mutex.try_acquire().await.unwrap_err().to_string();
            refused.contains("Sentinel: no connection")
        },
    )
    .await;
    drop(silent);
    // They find out who is what, or make it so.
    let lease = acquired(&mutex).await;
    eventually("the lease lies on a primary", async || {
        group
            .servers
            .iter()
            .any(|server| server.is_primary() && has(server, "job"))
    })
    .await;
    drop(lease);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_sentinel_of_the_url_is_enough_to_learn_of_the_others_and_it_may_die() {
    let group = group();
    let first = &group.sentinels.each()[0];
    let url = format!("redis+sentinel://127.0.0.1:{}/locks", first.port());
    let client = Client::open(&url).unwrap();
    let mutex = client.mutex("job").ttl(LONG);
    acquired(&mutex).await.release().await.unwrap();

    first.kill();
    let old = group.primary();
    old.kill();
    let new = switched(&group, old.port()).await;
    let lease = acquired(&mutex).await;
    assert!(has(group.on(new), "job"));
    drop(lease);
}

/// The message about a switch goes to the clients that listen; one that was not told is slower, not lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_sentinel_is_left_for_another_one() {
    let group = group();
    let client = Client::open(&group.url()).unwrap();
    let mutex = client.mutex("job").ttl(LONG);
    acquired(&mutex).await.release().await.unwrap();
    let first = group.sentinels.each()[0].pause();
    let old = group.sentinels.agreed_port().unwrap();
    let begin = clock::now();
    group.on(old).kill();
    let new = switched(&group, old).await;
    let lease = acquired(&mutex).await;
    println!("{:?} from the kill to the next lease", clock::now() - begin);
    assert!(has(group.on(new), "job"));
    drop((lease, first));
}
