//! What concerns several stores, or how a client comes to its store.

use leaselock::{Client, Lease};
use testkit::{Server, clock};

use crate::engine::Engine;
use crate::support::{LONG, calls, eventually, leftovers, soon};

/// From one store to the next and back, as when an installation moves: that takes longer than a number is ahead of the
/// clock, which is 2 ms, and one more until the next millisecond has begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_grow_from_one_store_to_another() {
    let engines = [
        Engine::mem(),
        Engine::redis(),
        Engine::file(),
        Engine::redis_handed(),
    ];
    let mut last = None;
    for engine in engines.iter().cycle().take(12) {
        let client = engine.client().await;
        let lease = client.mutex("job").ttl(LONG).acquire().await.unwrap();
        assert!(lease.fence() > last, "{:?} after {last:?}", lease.fence());
        last = lease.fence();
        lease.release().await.unwrap();
        let moved_us = last.unwrap().get() + 1000;
        eventually("the move", async || clock::wall_us() >= moved_us).await;
    }
}

/// The user's client is copied with its login and its database, and its connections are not used.
#[tokio::test]
async fn a_redis_client_is_copied_with_its_login_and_database() {
    let server = Server::builder().password("opensesame").start();
    let theirs = leaselock::interop::redis::Client::open(format!("{}3", server.url())).unwrap();
    let client = Client::builder().redis_client(&theirs).open().unwrap();
    let lease = client.mutex("job").ttl(LONG).acquire().await.unwrap();
    let mut third = server.connect().unwrap();
    third.call(&["SELECT", "3"]).unwrap();
    assert_eq!(third.call(&["EXISTS", "job"]).unwrap().integer(), Some(1));
    assert_eq!(leftovers(&server), [""; 0], "nothing in the first database");
    let waiting = crate::support::waiter(&client, "job", LONG);
    crate::support::until_queued(&client, "job", 1).await;
    lease.release().await.unwrap();
    soon(waiting)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

fn connections(server: &Server) -> usize {
    let list = server.cli(&["CLIENT", "LIST"]);
    list.text().unwrap().lines().count() - 1 // the one that asks
}

/// The last to go releases what it held; then its thread and its connections go as well.
#[tokio::test]
async fn a_client_that_is_gone_leaves_no_lock_and_no_connection() {
    let server = Server::start();
    for _ in 0..3 {
        let client = Client::open(&server.url()).unwrap();
        let lease: Lease = client.mutex("job").ttl(LONG).acquire().await.unwrap();
        let waiting = [(); 2].map(|()| crate::support::waiter(&client, "job", LONG));
        eventually(
            "requests, renewals, messages for those who share a place",
            async || connections(&server) == 3,
        )
        .await;
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
        drop(client);
        assert!(lease.is_held());
        drop(lease);
    }
    eventually("no lock is left", async || leftovers(&server).is_empty()).await;
    eventually("no connection is left", async || connections(&server) == 0).await;
}

/// Another thread writes it beside the grant: the deletion must not come before that.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_client_that_is_closed_at_once_leaves_no_record_behind() {
    let server = Server::start();
    let url = server.url();
    let opens_and_closes = |task: usize| {
        let url = url.clone();
        tokio::spawn(async move {
            let mut ids = Vec::new();
            for round in 0..100 {
                let client = Client::open(&url).unwrap();
                let mutex = client.mutex(format!("job {task} {round}")).ttl(LONG);
                drop(mutex.acquire().await.unwrap().detach().await.unwrap());
                client.close().await;
                ids.push(client.id().to_owned());
            }
            ids
        })
    };
    let mut left = Vec::new();
    for task in (0..8).map(opens_and_closes).collect::<Vec<_>>() {
        for id in task.await.unwrap() {
            let exists = server.cli(&["EXISTS", &format!("ll:client:{id}")]);
            left.extend((exists.integer() != Some(0)).then_some(id));
        }
    }
    assert_eq!(left, Vec::<String>::new());
}

/// A lock with waiters or permits is asked about by itself; most have at most a note.
#[tokio::test]
async fn a_list_reads_many_locks_by_one_request_also_those_with_a_note() {
    const LOCKS: usize = 300;
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let mut leases = Vec::new();
    for at in 0..LOCKS {
        let noted = client.mutex(format!("noted/{at}")).ttl(LONG).note("July");
        leases.push(noted.acquire().await.unwrap());
    }
    eventually("the notes are there", async || {
        let all = client.list("*").await.unwrap();
        let mut holders = all.iter().filter_map(|seen| seen.state.exclusive());
        all.len() == LOCKS && holders.all(|it| it.note.is_some())
    })
    .await;
    let before = calls(&server, "evalsha");
    client.list("*").await.unwrap();
    let asked = calls(&server, "evalsha") - before;
    assert!(asked * 4 < LOCKS, "{asked} requests for {LOCKS} locks");
}
