//! Requests that leave together: who goes alone, who gathers, and that each keeps its own answer.

mod permits;
mod reads;
mod renewals;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leaselock::{AcquireError, Client, ErrorKind, Lease, ReleaseError};
use testkit::{Fault, Proxy, Server, Way};
use tokio::task::JoinHandle;

use crate::support::{LONG, eventually, leftovers, millis, soon};

/// How often the server ran a command, also from within scripts.
pub(crate) fn calls(server: &Server, command: &str) -> u64 {
    let info = server.cli(&["INFO", "commandstats"]);
    let text = info.text().unwrap();
    let head = format!("cmdstat_{command}:calls=");
    let line = text.lines().find_map(|line| line.strip_prefix(&head));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// The same for each of these names, all at the same moment.
pub(crate) async fn crowd<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    names: impl Iterator<Item = String>,
    mut each: impl FnMut(String) -> F,
) -> Vec<T> {
    let tasks: Vec<JoinHandle<T>> = names.map(|name| tokio::spawn(each(name))).collect();
    let mut outcomes = Vec::new();
    for task in tasks {
        outcomes.push(soon(task).await.unwrap());
    }
    outcomes
}

pub(crate) fn names(prefix: &'static str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |number| format!("{prefix}{number}"))
}

async fn try_all(
    client: &Client,
    names: impl Iterator<Item = String>,
) -> Vec<Result<Option<Lease>, AcquireError>> {
    crowd(names, |name| {
        let mutex = client.mutex(name).ttl(LONG);
        async move { mutex.try_acquire().await }
    })
    .await
}

async fn take_all(client: &Client, prefix: &'static str, count: usize) -> Vec<Lease> {
    let outcomes = try_all(client, names(prefix, count)).await;
    outcomes
        .into_iter()
        .map(|outcome| outcome.unwrap().unwrap())
        .collect()
}

async fn give_back(leases: Vec<Lease>) {
    let mut leases = leases.into_iter();
    let names = names("", leases.len());
    crowd(names, |_| {
        let lease = leases.next().unwrap();
        async move { lease.release().await.unwrap() }
    })
    .await;
}

#[tokio::test]
async fn a_lone_request_goes_straight() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    for _ in 0..20 {
        let lease = client.mutex("job").acquire().await.unwrap();
        lease.release().await.unwrap();
    }
    assert_eq!(
        calls(&server, "mget"),
        0,
        "a combined request begins with MGET"
    );
}

#[tokio::test]
async fn a_crowd_leaves_in_a_few_calls_and_each_has_its_own_lease() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let leases = take_all(&client, "job", 500).await;
    let mut fences: Vec<_> = leases.iter().map(|lease| lease.fence().unwrap()).collect();
    fences.dedup();
    assert!(
        fences.len() > 1,
        "one number for calls that came one after the other"
    );
    for (number, lease) in leases.iter().enumerate() {
        assert_eq!(lease.name().as_str(), format!("job{number}"));
    }
    let rival = Client::open(&server.url()).unwrap(); // what it finds held goes by itself for a while
    let again = try_all(&rival, names("job", 500)).await;
    assert!(again.iter().all(|outcome| matches!(outcome, Ok(None))));
    give_back(leases).await;
    assert_eq!(leftovers(&server), [""; 0]);
    let sent = calls(&server, "evalsha") + calls(&server, "eval");
    assert!(sent < 300, "{sent} calls for 1500 requests");
}

#[tokio::test]
async fn waiters_of_one_crowd_join_the_queue_and_are_served() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let leases = take_all(&client, "job", 40).await;
    let waiting: Vec<_> = (0..40)
        .map(|number| crate::support::waiter(&client, &format!("job{number}"), LONG))
        .collect();
    for number in 0..40 {
        crate::support::until_queued(&client, &format!("job{number}"), 1).await;
    }
    give_back(leases).await;
    for waiter in waiting {
        let lease = crate::support::by_message(waiter).await.unwrap().unwrap();
        lease.release().await.unwrap();
    }
    eventually("nothing is left", async || leftovers(&server).is_empty()).await;
}

#[tokio::test]
async fn a_key_of_another_type_fails_its_own_request_and_no_other() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    server.cli(&["HSET", "job17", "a", "b"]);
    let outcomes = try_all(&client, names("job", 64)).await;
    for (number, outcome) in outcomes.iter().enumerate() {
        match outcome {
            Ok(Some(_)) if number != 17 => {}
            Err(AcquireError::Store { source, .. })
                if number == 17 && source.kind() == ErrorKind::WrongType => {}
            other => panic!("{number}: {other:?}"),
        }
    }
}

/// The server lets a user see some keys only, and refuses the whole call for one that is not among them.
#[tokio::test]
async fn a_name_that_is_forbidden_fails_its_own_request_and_no_other() {
    let server = Server::start();
    let mut acl = vec![
        "ACL",
        "SETUSER",
        "locker",
        "on",
        ">secret",
        "+@all",
        "&*",
        "resetkeys",
    ];
    acl.extend(["~app:*", "~{app:*", "~ll:*"]);
    server.cli(&acl);
    let url = format!("redis://locker:secret@127.0.0.1:{}/", server.port());
    let client = Client::open(&url).unwrap();
    let wanted = names("app:", 40).chain(["other".to_owned()]);
    let outcomes = try_all(&client, wanted).await;
    let (last, others) = outcomes.split_last().unwrap();
    assert!(
        others.iter().all(|outcome| matches!(outcome, Ok(Some(_)))),
        "{others:?}"
    );
    let Err(AcquireError::Store { source, .. }) = last else {
        panic!("{last:?}")
    };
    assert_eq!(source.kind(), ErrorKind::Forbidden);
}

#[tokio::test]
async fn without_memory_a_crowd_of_acquires_fails_as_itself_while_releases_succeed() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let held = take_all(&client, "held", 64).await;
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let wanted = try_all(&client, names("new", 64));
    let (wanted, ()) = tokio::join!(wanted, give_back(held));
    for outcome in wanted {
        let Err(AcquireError::Store { source, .. }) = &outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(source.kind(), ErrorKind::OutOfMemory);
    }
    assert_eq!(leftovers(&server), [""; 0]);
}

/// The calls are carried out and their answers vanish: the outcome is unknown, and nothing stays behind.
#[tokio::test]
async fn a_call_whose_answer_vanished_leaves_everybody_in_doubt_and_nothing_locked() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let url = proxy.url();
    let short = Client::builder().url(&url).request_timeout(millis(300));
    let client = short.open().unwrap();
    drop(take_all(&client, "warm", 1).await);
    proxy.set(Way::ToClient, Fault::Swallow);
    let outcomes = try_all(&client, names("job", 64)).await;
    let mut unknown = 0;
    for outcome in outcomes {
        match outcome {
            Err(AcquireError::Unknown { .. }) => unknown += 1,
            Err(AcquireError::Store { .. }) => {} // surely never sent
            other => panic!("{other:?}"),
        }
    }
    assert!(unknown > 1, "a call with several requests was sent");
    proxy.heal();
    eventually("all is cleaned up", async || leftovers(&server).is_empty()).await;
}

/// What a crowd of releases came to: how many were told that it is unknown. None may be told that it is done.
async fn releases_in_doubt(leases: Vec<Lease>) -> usize {
    let count = leases.len();
    let mut leases = leases.into_iter();
    let outcomes = crowd(names("", count), |_| {
        let lease = leases.next().unwrap();
        async move { lease.release().await }
    })
    .await;
    let unknown = |outcome: &&Result<(), ReleaseError>| match outcome {
        Err(ReleaseError::Unknown { .. }) => true,
        Err(ReleaseError::Store { .. }) => false, // surely never sent
        other => panic!("{other:?}"),
    };
    outcomes.iter().filter(unknown).count()
}

async fn half_lost_releases(way: Way, fault: Fault) {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let url = proxy.url();
    let short = Client::builder().url(&url).request_timeout(millis(300));
    let client = short.open().unwrap();
    let leases = take_all(&client, "job", 64).await;
    let fences: Vec<_> = leases.iter().map(Lease::fence).collect();
    proxy.set(way, fault);
    let unknown = releases_in_doubt(leases).await;
    assert!(unknown > 1, "a call with several requests was sent");
    assert!(client.held().is_empty(), "nobody acts on what may be over");
    proxy.heal();
    eventually("all is released", async || leftovers(&server).is_empty()).await;
    let rival = Client::open(&server.url()).unwrap();
    for (again, fence) in take_all(&rival, "job", 64).await.iter().zip(fences) {
        assert!(again.fence() > fence);
    }
}

#[tokio::test]
async fn releases_whose_answer_vanished_are_in_doubt_and_nothing_stays_locked() {
    half_lost_releases(Way::ToClient, Fault::Swallow).await;
}

#[tokio::test]
async fn releases_that_vanished_on_their_way_are_in_doubt_and_nothing_stays_locked() {
    half_lost_releases(Way::ToServer, Fault::Swallow).await;
}

/// Each by itself would be 200 calls.
#[tokio::test]
async fn leases_that_are_dropped_together_are_given_back_together() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let leases = take_all(&client, "job", 200).await;
    let before = calls(&server, "evalsha") + calls(&server, "eval");
    drop(leases);
    let closed = client.close().await;
    assert_eq!((closed.released, closed.unconfirmed), (200, 0));
    assert_eq!(leftovers(&server), [""; 0]);
    let sent = calls(&server, "evalsha") + calls(&server, "eval") - before;
    assert!(sent < 50, "{sent} calls");
}

/// The server stands still: the first calls are on their way, the rest is in the queue.
#[tokio::test]
async fn a_waiter_that_leaves_the_queue_leaves_nothing_and_the_others_are_served() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    drop(take_all(&client, "warm", 1).await);
    let stopped = server.pause();
    let mutex = |number: usize| client.mutex(format!("job{number}")).ttl(LONG);
    let tasks: Vec<JoinHandle<_>> = (0..300)
        .map(|number| {
            let mutex = mutex(number);
            tokio::spawn(async move { mutex.try_acquire().await })
        })
        .collect();
    tokio::task::yield_now().await; // they have asked
    let mut kept = Vec::new();
    for (number, task) in tasks.into_iter().enumerate() {
        if number % 3 == 0 {
            task.abort();
        } else {
            kept.push(task);
        }
    }
    drop(stopped);
    let mut leases = Vec::new();
    for task in kept {
        leases.extend(soon(task).await.unwrap().unwrap());
    }
    assert_eq!(leases.len(), 200);
    eventually("what was given up is gone", async || {
        leftovers(&server).len() == 200
    })
    .await;
}

#[tokio::test]
async fn a_request_whose_time_is_over_in_the_queue_was_surely_not_sent() {
    let server = Server::start();
    let short = Client::builder()
        .url(&server.url())
        .request_timeout(millis(200));
    let client = short.open().unwrap();
    drop(take_all(&client, "warm", 1).await);
    let stopped = server.pause();
    let outcomes = try_all(&client, names("job", 300)).await;
    drop(stopped);
    let sure = |outcome: &Result<_, _>| matches!(outcome, Err(AcquireError::Store { source, .. }) if source.kind() == ErrorKind::NoReply);
    let doubtful = |outcome: &Result<_, _>| matches!(outcome, Err(AcquireError::Unknown { .. }));
    let (sure, doubtful): (usize, usize) = (
        outcomes.iter().filter(|outcome| sure(outcome)).count(),
        outcomes.iter().filter(|outcome| doubtful(outcome)).count(),
    );
    assert_eq!(sure + doubtful, 300, "{outcomes:?}");
    assert!(sure > 0 && doubtful > 0, "{sure} {doubtful}");
    eventually("nothing is left", async || leftovers(&server).is_empty()).await;
}

/// Their first requests leave together, and what they did not get they wait for in one place.
#[tokio::test]
async fn tasks_of_one_crowd_that_want_the_same_name_take_turns() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    drop(take_all(&client, "warm", 1).await);
    let held = Arc::new(AtomicUsize::new(0));
    let wanted = (0..3).flat_map(|_| names("job", 40));
    let outcomes = crowd(wanted, |name| {
        let (mutex, held) = (client.mutex(name.as_str()).ttl(LONG), Arc::clone(&held));
        async move {
            let lease = mutex.acquire().await.unwrap();
            let others = (name == "job0").then(|| held.fetch_add(1, Ordering::SeqCst));
            tokio::task::yield_now().await;
            held.fetch_sub(usize::from(others.is_some()), Ordering::SeqCst);
            lease.release().await.unwrap();
            others.unwrap_or(0)
        }
    })
    .await;
    assert!(outcomes.iter().all(|others| *others == 0));
    eventually("nothing is left", async || leftovers(&server).is_empty()).await;
}

/// The first request of each may have been carried out, and no task is told that nothing is there.
#[tokio::test]
async fn a_crowd_that_waits_while_answers_vanish_is_left_in_doubt_and_nothing_locked() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let url = proxy.url();
    let short = Client::builder().url(&url).request_timeout(millis(300));
    let client = short.open().unwrap();
    drop(take_all(&client, "warm", 1).await);
    proxy.set(Way::ToClient, Fault::Swallow);
    let outcomes = crowd(names("job", 16), |name| {
        let mutex = client.mutex(name).ttl(LONG);
        async move { mutex.acquire_within(millis(100)).await }
    })
    .await;
    for outcome in &outcomes {
        let Err(AcquireError::Unknown { .. }) = outcome else {
            panic!("{outcome:?}")
        };
    }
    proxy.heal();
    eventually("all is cleaned up", async || leftovers(&server).is_empty()).await;
}

/// The sender of what gathers sits on a runtime that no thread drives: the others wait no longer than they asked for.
#[test]
fn a_request_in_the_queue_ends_in_time_although_its_sender_stands_still() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    let server = Server::start();
    let short = Client::builder()
        .url(&server.url())
        .request_timeout(millis(300));
    let client = short.open().unwrap();
    let stands_still = runtime();
    stands_still.block_on(async {
        drop(take_all(&client, "warm", 1).await);
        let tasks = tokio::runtime::Handle::current().metrics();
        let before = tasks.num_alive_tasks();
        // Names of their own: one that was found contended could share its cell of the filter with a name below.
        drop(take_all(&client, "free", 2).await);
        eventually("their sender finds its queue empty, and ends", async || {
            tasks.num_alive_tasks() <= before
        })
        .await;
        for name in ["straight", "gathers"] {
            let mutex = client.mutex(name);
            drop(tokio::spawn(async move { mutex.try_acquire().await }));
        }
        tokio::task::yield_now().await; // both have asked, and the sender has not begun
    });
    let outcome = runtime().block_on(soon(async { client.mutex("job").try_acquire().await }));
    let Err(AcquireError::Store { source, .. }) = &outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(source.kind(), ErrorKind::NoReply);
    drop(stands_still);
    runtime().block_on(eventually("nothing is left", async || {
        leftovers(&server).is_empty()
    }));
}
