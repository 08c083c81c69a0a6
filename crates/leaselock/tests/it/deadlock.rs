//! The search for deadlocks on a server: what it costs, and that it reports nothing that is none.

use fastrand::Rng;
use leaselock::{AcquireError, Client, Lease};
use testkit::{Cut, Fault, Proxy, Server, Way};

use crate::support::{
    LONG, by_message, calls, channels, eventually, introduced, millis, pttl, soon, until_queued,
    waiter,
};

fn clients<const N: usize>(server: &Server) -> [Client; N] {
    [(); N].map(|()| Client::open(&server.url()).unwrap())
}

fn published(server: &Server) -> usize {
    server.cli(&["KEYS", "*ll:owners:*"]).list().unwrap().len()
}

fn scripts(server: &Server) -> usize {
    calls(server, "evalsha") + calls(server, "eval")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_a_client_waits_until_what_its_waits_published_is_withdrawn() {
    let server = Server::start();
    let [one, two] = clients(&server);
    let me = one.owner("import 42");
    let holding = one.mutex("other").ttl(LONG).owner(&me).acquire().await;
    let _theirs = two.mutex("job").ttl(LONG).acquire().await.unwrap();
    let mutex = one.mutex("job").ttl(LONG).owner(&me);
    let waits = tokio::spawn(async move { mutex.acquire().await });
    eventually("it is published", async || published(&server) == 1).await;
    waits.abort();
    drop(waits.await);
    let closed = one.close().await;
    assert_eq!(published(&server), 0);
    assert_eq!(
        (closed.released, closed.unconfirmed),
        (2, 0),
        "and the queue entry"
    );
    holding.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_holds_nothing_costs_no_command_and_one_that_holds_leaves_nothing_behind() {
    let server = Server::start();
    let [one, two] = clients(&server);
    let me = one.owner("import 42");
    let mutex = one.mutex("job").ttl(LONG);
    let mut costs = Vec::new();
    for round in 0..4 {
        let mutex = if round % 2 == 0 {
            mutex.clone()
        } else {
            mutex.clone().owner(&me)
        };
        let theirs = two.mutex("job").ttl(LONG).acquire().await.unwrap();
        introduced(&server, &two).await;
        let before = scripts(&server);
        let waiting = tokio::spawn(async move { mutex.acquire().await });
        eventually("it waits", async || {
            server.cli(&["HLEN", "{job}:ll:waiters"]).integer() == Some(1)
        })
        .await;
        theirs.release().await.unwrap();
        soon(waiting)
            .await
            .unwrap()
            .unwrap()
            .release()
            .await
            .unwrap();
        costs.push(scripts(&server) - before);
        assert_eq!(published(&server), 0);
    }
    assert_eq!(costs[2], costs[3], "without an owner, and with one");
    let holding = one
        .mutex("other")
        .ttl(LONG)
        .owner(&me)
        .acquire()
        .await
        .unwrap();
    let theirs = two.mutex("job").ttl(LONG).acquire().await.unwrap();
    let mine = mutex.clone().owner(&me);
    let waiting = tokio::spawn(async move { mine.acquire().await });
    eventually("it is published", async || published(&server) == 1).await;
    theirs.release().await.unwrap();
    soon(waiting)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    eventually("and taken back after the wait", async || {
        published(&server) == 0
    })
    .await;
    holding.release().await.unwrap();
}

/// The user may not read what the search needs, so no owner gives up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_that_fails_reports_nothing() {
    let server = Server::start();
    let [one, two] = clients(&server);
    let (me, other) = (one.owner("one"), two.owner("two"));
    let x = one.mutex("x").ttl(LONG).owner(&me).acquire().await.unwrap();
    let y = two
        .mutex("y")
        .ttl(LONG)
        .owner(&other)
        .acquire()
        .await
        .unwrap();
    server.cli(&["ACL", "SETUSER", "default", "-hmget"]);
    let wanted = two.mutex("x").ttl(LONG).owner(&other);
    let theirs = tokio::spawn(async move { wanted.acquire_within(millis(2_500)).await });
    let mine = one
        .mutex("y")
        .ttl(LONG)
        .owner(&me)
        .acquire_within(millis(1_500))
        .await;
    assert!(
        matches!(mine, Err(AcquireError::TimedOut { .. })),
        "{mine:?}"
    );
    assert!(
        !server.cli(&["ACL", "LOG"]).list().unwrap().is_empty(),
        "it was refused"
    );
    let theirs = soon(theirs).await.unwrap();
    assert!(
        matches!(theirs, Err(AcquireError::TimedOut { .. })),
        "{theirs:?}"
    );
    x.release().await.unwrap();
    y.release().await.unwrap();
}

/// The holder outside a circle may let go at any time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_ends_by_itself_or_has_no_owner_makes_no_circle() {
    let server = Server::start();
    let [one, two] = clients(&server);
    let (me, other) = (one.owner("one"), two.owner("two"));
    let x = one.mutex("x").ttl(millis(1_500)).renewal(false).owner(&me);
    let x = x.acquire().await.unwrap();
    let y = two
        .mutex("y")
        .ttl(LONG)
        .owner(&other)
        .acquire()
        .await
        .unwrap();
    let wanted = two.mutex("x").ttl(LONG).owner(&other);
    let theirs = tokio::spawn(async move { wanted.acquire().await });
    until_queued(&one, "x", 1).await;
    let mine = one.mutex("y").ttl(LONG).owner(&me);
    let mine = tokio::spawn(async move { mine.acquire().await });
    soon(theirs)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    y.release().await.unwrap();
    soon(mine).await.unwrap().unwrap().release().await.unwrap();
    drop(x);
    let alone = one.mutex("x").ttl(LONG).acquire().await.unwrap();
    let theirs = two
        .mutex("y")
        .ttl(LONG)
        .owner(&other)
        .acquire()
        .await
        .unwrap();
    let wanted = waiter(&one, "y", LONG);
    until_queued(&one, "y", 1).await;
    let busy = two
        .mutex("x")
        .owner(&other)
        .acquire_within(millis(1_200))
        .await;
    assert!(
        matches!(busy, Err(AcquireError::TimedOut { .. })),
        "{busy:?}"
    );
    theirs.release().await.unwrap();
    alone.release().await.unwrap();
    soon(wanted)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

const NAMES: usize = 5;
const ROUNDS: u64 = 40;

async fn ask(
    client: &Client,
    me: &leaselock::Owner,
    name: usize,
    how: u64,
    limit: u64,
) -> Result<Lease<()>, AcquireError> {
    let (name, limit) = (format!("name-{name}"), millis(limit));
    match how {
        0 => {
            let mutex = client.mutex(name).ttl(LONG).owner(me);
            mutex.acquire_within(limit).await.map(Lease::from)
        }
        1 => client
            .rwlock(name)
            .ttl(LONG)
            .owner(me)
            .read_within(limit)
            .await
            .map(Lease::from),
        _ => {
            let pool = client.semaphore(name, 3).ttl(LONG).owner(me);
            let count = u32::try_from(how - 1).unwrap();
            let limit = pool.wait(leaselock::Wait::Timeout(limit));
            limit.acquire_many(count).await.map(Lease::from)
        }
    }
}

/// All take the names in one order, so no circle is possible: the truth is that there is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_waits_in_one_order_are_never_told_of_a_deadlock() {
    let server = Server::start();
    let workers: Vec<_> = (1..=6_u64)
        .map(|worker| {
            let client = Client::open(&server.url()).unwrap();
            tokio::spawn(async move {
                let (mut rng, mut waits) = (Rng::with_seed(worker), 0);
                for round in 0..ROUNDS {
                    let me = client.owner(format!("worker {worker}, round {round}"));
                    let mut held = Vec::new();
                    for name in 0..NAMES {
                        let how = rng.u64(..5);
                        if rng.bool() {
                            continue;
                        }
                        let limit = rng.u64(..40);
                        match ask(&client, &me, name, how, limit).await {
                            Ok(lease) => held.push(lease),
                            Err(AcquireError::TimedOut { .. }) => {
                                waits += u32::from(!held.is_empty());
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                    for lease in held {
                        lease.release().await.unwrap();
                    }
                }
                waits
            })
        })
        .collect();
    let mut waits = 0;
    for worker in workers {
        waits += worker.await.unwrap();
    }
    assert!(waits > 0, "none of them has searched for long");
}

/// What it published, its lease and its place in the queue are still there. Its lease ends by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_is_gone_is_in_no_circle() {
    const TTL: std::time::Duration = std::time::Duration::from_secs(3);
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let one = Client::open(&server.url()).unwrap();
    let gone = Client::open(&proxy.url()).unwrap();
    let (me, other) = (one.owner("one"), gone.owner("gone"));
    let x = one.mutex("x").ttl(LONG).owner(&me).acquire().await.unwrap();
    let y = gone.mutex("y").ttl(TTL).owner(&other);
    let y = y.acquire().await.unwrap();
    let wanted = gone.mutex("x").ttl(LONG).owner(&other);
    let theirs = tokio::spawn(async move { wanted.acquire().await });
    until_queued(&one, "x", 1).await;
    eventually("it is published", async || published(&server) == 1).await;
    // Gone for the server, and not able to come back.
    proxy.set(Way::Both, Fault::HalfOpen);
    proxy.cut(Cut::Reset);
    let is_gone = || !channels(&server).iter().any(|it| it.contains(gone.id()));
    eventually("nobody listens for it", async || is_gone()).await;
    let mine = one.mutex("y").ttl(LONG).owner(&me);
    let mine = soon(mine.acquire()).await.unwrap();
    let owners = format!("ll:owners:{}", gone.id());
    assert!(pttl(&server, &owners) > 0, "what it published is there");
    assert_eq!(one.inspect("x").await.unwrap().queue.len(), 1);
    mine.release().await.unwrap();
    x.release().await.unwrap();
    theirs.abort();
    drop(y);
}

/// The grant of one wait may let go of what the other one needs: an owner with two is no single line of execution.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_whose_tasks_wait_for_two_names_is_in_no_circle() {
    let server = Server::start();
    let [one, two] = clients(&server);
    let (me, other) = (one.owner("one"), two.owner("two"));
    let x = one.mutex("x").ttl(LONG).owner(&me).acquire().await.unwrap();
    let y = two
        .mutex("y")
        .ttl(LONG)
        .owner(&other)
        .acquire()
        .await
        .unwrap();
    let z = two.mutex("z").ttl(LONG).acquire().await.unwrap();
    let waiting = ["z", "y"].map(|name| {
        let mutex = one.mutex(name).ttl(LONG).owner(&me);
        tokio::spawn(async move { mutex.acquire().await })
    });
    for name in ["z", "y"] {
        until_queued(&one, name, 1).await;
    }
    eventually("neither is published", async || published(&server) == 0).await;
    let busy = two
        .mutex("x")
        .owner(&other)
        .acquire_within(millis(1_300))
        .await;
    assert!(
        matches!(busy, Err(AcquireError::TimedOut { .. })),
        "{busy:?}"
    );
    z.release().await.unwrap();
    y.release().await.unwrap();
    for waiting in waiting {
        soon(waiting)
            .await
            .unwrap()
            .unwrap()
            .release()
            .await
            .unwrap();
    }
    x.release().await.unwrap();
}

/// The victim has checked twice and would check again after five seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_that_closes_a_circle_wakes_the_victim() {
    let server = Server::start();
    let [one, two] = clients(&server);
    let (me, other) = (one.owner("one"), two.owner("two"));
    let x = one.mutex("x").ttl(LONG).owner(&me).acquire().await.unwrap();
    let y = two
        .mutex("y")
        .ttl(LONG)
        .owner(&other)
        .acquire()
        .await
        .unwrap();
    let wanted = one.mutex("y").ttl(LONG).priority(-5).owner(&me);
    let victim = tokio::spawn(async move { wanted.acquire().await });
    let owners = format!("ll:owners:{}", one.id());
    let mut last = i64::MAX;
    eventually("the victim has checked a second time", async || {
        let left = pttl(&server, &owners);
        let written_again = left > last;
        last = if left < 0 { last } else { left };
        written_again
    })
    .await;
    let wanted = two.mutex("x").ttl(LONG).owner(&other);
    let closing = tokio::spawn(async move { wanted.acquire().await });
    let told = by_message(victim).await.unwrap();
    assert!(
        matches!(told, Err(AcquireError::Deadlock { .. })),
        "{told:?}"
    );
    x.release().await.unwrap();
    soon(closing)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    y.release().await.unwrap();
}
