//! Tasks of one client that wait for the same name: one queue entry, and turns that cost no request.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use leaselock::inspect::BreakOptions;
use leaselock::{AcquireError, Client, Fence, Lease, Lost, LostReason, ReleaseError};
use testkit::{Server, clock};

use crate::support::{
    FENCE_AHEAD_US, LONG, by_message, calls, eventually, introduced, is_free, latest_fence,
    leftovers, millis, soon, time_us, until_queued,
};

pub(crate) type Acquiring = Pin<Box<dyn Future<Output = Result<Lease, AcquireError>> + Send>>;

/// A task that waits from now on, in the order of the calls. No other code polls it meanwhile.
pub(crate) fn arrives(mutex: &leaselock::Mutex) -> Acquiring {
    let mutex = mutex.clone();
    let mut acquiring: Acquiring = Box::pin(async move { mutex.acquire().await });
    assert!(!has_its_turn(&mut acquiring));
    acquiring
}

pub(crate) fn has_its_turn(acquiring: &mut Acquiring) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    acquiring.as_mut().poll(&mut context).is_ready()
}

/// A server, a client that holds, one whose tasks wait together, and the lease. From now on a grant reserves fencing
/// tokens: they are not ahead of the clock.
async fn rig() -> (Server, Client, Client, Lease) {
    let server = Server::start();
    let holder = Client::open(&server.url()).unwrap();
    let together = Client::open(&server.url()).unwrap();
    let lease = holder.mutex("job").ttl(LONG).acquire().await.unwrap();
    eventually("the clock is ahead of the fence", async || {
        latest_fence(&server, "job").unwrap() < time_us(&server)
    })
    .await;
    (server, holder, together, lease)
}

/// So many tasks wait, the first of which has the lease by now.
async fn local_group(
    holder: &Client,
    together: &Client,
    lease: Lease,
    waiting: usize,
) -> (Lease, Vec<Acquiring>) {
    let mutex = together.mutex("job").ttl(LONG);
    let mut waiters: Vec<_> = (0..=waiting).map(|_| arrives(&mutex)).collect();
    let first = tokio::spawn(waiters.remove(0));
    until_queued(holder, "job", 1).await;
    lease.release().await.unwrap();
    (soon(first).await.unwrap().unwrap(), waiters)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_share_a_queue_entry_and_take_turns_in_order_without_a_request() {
    const TASKS: usize = 16;
    let (server, holder, together, lease) = rig().await;
    let mutex = together.mutex("job").ttl(LONG);
    let waiters: Vec<_> = (0..TASKS).map(|_| arrives(&mutex)).collect();
    let served = Arc::new(Mutex::new(Vec::new()));
    let tasks: Vec<_> = waiters
        .into_iter()
        .enumerate()
        .map(|(number, waiter)| {
            let served = Arc::clone(&served);
            tokio::spawn(async move {
                let lease = waiter.await.unwrap();
                served.lock().unwrap().push((number, lease.fence()));
                lease.release().await.unwrap();
            })
        })
        .collect();
    until_queued(&holder, "job", 1).await;
    let before = lease.fence();
    server.cli(&["CONFIG", "RESETSTAT"]);
    lease.release().await.unwrap();
    for task in tasks {
        soon(task).await.unwrap();
    }
    let scripts = calls(&server, "evalsha") + calls(&server, "eval");
    eventually("it is free", async || is_free(&holder, "job").await).await;
    let (order, fences): (Vec<usize>, Vec<Option<Fence>>) =
        served.lock().unwrap().iter().copied().unzip();
    assert_eq!(order, (0..TASKS).collect::<Vec<_>>());
    assert!(fences[0] > before && fences.windows(2).all(|pair| pair[0] < pair[1]));
    // Two releases; and on a slow machine a place that was taken in time, and left because it was not needed.
    assert!((2..=6).contains(&scripts), "{scripts}");
    assert_eq!(leftovers(&server), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_ends_the_lease_before_it_and_is_the_only_one_that_is_held() {
    let (_server, holder, together, lease) = rig().await;
    let (first, mut waiters) = local_group(&holder, &together, lease, 2).await;
    let (view, losing) = (first.view(), first.lost());
    assert!(!has_its_turn(&mut waiters[0]));
    first.release().await.unwrap();
    assert_eq!(losing.check().unwrap_err().reason, LostReason::Released);
    assert!(!view.is_held() && view.remaining().is_zero());
    let second = soon(waiters.remove(0)).await.unwrap();
    let held = together.held();
    assert_eq!(held.len(), 1);
    assert!(second.fence() == held[0].fence() && second.fence() > view.fence());
    assert!(second.is_held() && second.remaining() > LONG / 20);
    assert!(!has_its_turn(&mut waiters[0]), "one at a time");
    second.extend(LONG).await.unwrap();
    drop(second); // passes on as a release does
    let third = by_message(waiters.remove(0)).await.unwrap();
    third.release().await.unwrap();
    eventually("it is free", async || is_free(&holder, "job").await).await;
}

/// The first, which joined the queue for itself; one in the middle; and the one in whose slot the lease lies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_is_dropped_while_it_waits_or_has_its_turn_passes_it_on() {
    let (server, holder, together, lease) = rig().await;
    let mutex = together.mutex("job").ttl(LONG);
    let mut waiters: Vec<_> = (0..6).map(|_| arrives(&mutex)).collect();
    until_queued(&holder, "job", 1).await;
    drop(waiters.remove(0));
    drop(waiters.remove(2));
    let first = tokio::spawn(waiters.remove(0));
    eventually("there is a place", async || {
        holder.inspect("job").await.unwrap().queue.len() == 1
    })
    .await;
    lease.release().await.unwrap();
    let first = soon(first).await.unwrap().unwrap();
    first.release().await.unwrap();
    assert_eq!(together.held().len(), 1, "the next has it");
    drop(waiters.remove(0));
    let last = by_message(waiters.remove(0)).await.unwrap();
    assert!(last.is_held() && together.held().len() == 1);
    drop(waiters.remove(0));
    last.release().await.unwrap();
    assert!(together.held().is_empty());
    eventually("nothing is left", async || leftovers(&server).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_last_of_them_goes_the_queue_entry_is_given_up() {
    let (server, holder, together, lease) = rig().await;
    let mutex = together.mutex("job").ttl(LONG);
    let waiters: Vec<_> = (0..3).map(|_| arrives(&mutex)).collect();
    until_queued(&holder, "job", 1).await;
    drop(waiters);
    until_queued(&holder, "job", 0).await;
    lease.release().await.unwrap();
    eventually("nothing is left", async || leftovers(&server).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_waits_no_longer_than_it_asked_to() {
    let (server, holder, together, lease) = rig().await;
    let mutex = together.mutex("job").ttl(LONG);
    let patient = tokio::spawn(arrives(&mutex));
    introduced(&server, &together).await;
    let hasty = mutex.acquire_within(millis(200));
    match soon(hasty).await.unwrap_err() {
        AcquireError::TimedOut {
            waited,
            holder: seen,
            ..
        } => {
            assert!(waited >= millis(200));
            assert_eq!(seen.map(|it| it.client).as_deref(), Some(holder.id()));
        }
        other => panic!("{other:?}"),
    }
    until_queued(&holder, "job", 1).await;
    let more = [
        mutex.acquire_within(millis(100)),
        mutex.acquire_within(millis(150)),
    ];
    patient.abort();
    for hasty in more {
        assert!(matches!(
            soon(hasty).await,
            Err(AcquireError::TimedOut { .. })
        ));
    }
    assert_eq!(
        leftovers(&server),
        ["job"],
        "whoever was last has left the line"
    );
    lease.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_more_urgent_task_of_the_same_client_does_not_wait_for_turns() {
    let (_server, holder, together, lease) = rig().await;
    let (first, mut waiters) = local_group(&holder, &together, lease, 2).await;
    let urgent = arrives(&together.mutex("job").ttl(LONG).priority(3));
    let urgent = tokio::spawn(urgent);
    eventually("it is in line", async || {
        let line = holder.inspect("job").await.unwrap().queue;
        line.first().is_some_and(|first| first.priority == 3)
    })
    .await;
    let waiting: Vec<_> = waiters.drain(..).map(tokio::spawn).collect();
    first.release().await.unwrap();
    let lease = by_message(urgent).await.unwrap().unwrap();
    assert!(waiting.iter().all(|waiter| !waiter.is_finished()));
    lease.release().await.unwrap();
    for waiter in waiting {
        by_message(waiter)
            .await
            .unwrap()
            .unwrap()
            .release()
            .await
            .unwrap();
    }
}

/// The holder has learned that its lease is gone: no task gets what is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_lease_is_not_passed_on_and_those_who_wait_are_served_by_the_server() {
    let (server, holder, together, lease) = rig().await;
    let (first, waiters) = local_group(&holder, &together, lease, 2).await;
    let fence = first.fence();
    holder
        .break_lease("job", BreakOptions::default().now())
        .await
        .unwrap();
    let other = holder.mutex("job").ttl(LONG).try_acquire().await.unwrap();
    first.extend(LONG).await.unwrap_err();
    let waiting: Vec<_> = waiters.into_iter().map(tokio::spawn).collect();
    let refused = first.release().await.unwrap_err();
    assert!(matches!(
        refused,
        ReleaseError::NotHeld(Lost {
            reason: LostReason::TakenOver | LostReason::KeyMissing,
            ..
        })
    ));
    let mut last = fence;
    if let Some(other) = other {
        assert!(other.fence() > last && waiting.iter().all(|waiter| !waiter.is_finished()));
        last = other.fence();
        until_queued(&holder, "job", 1).await;
        other.release().await.unwrap();
    }
    for waiter in waiting {
        let lease = soon(waiter).await.unwrap().unwrap();
        lease.extend(LONG).await.unwrap();
        assert!(lease.fence() > last);
        last = lease.fence();
        lease.release().await.unwrap();
    }
    eventually("nothing is left", async || leftovers(&server).is_empty()).await;
}

/// The store has given the lock to the place that the same tasks stand in line with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_learns_of_its_loss_when_the_next_queue_entry_of_its_own_client_is_granted() {
    let (_server, holder, together, lease) = rig().await;
    let (first, waiters) = local_group(&holder, &together, lease, 2).await;
    until_queued(&holder, "job", 1).await;
    holder
        .break_lease("job", BreakOptions::default().now())
        .await
        .unwrap();
    let lost = by_message(first.lost()).await;
    assert_eq!(lost.reason, LostReason::TakenOver);
    drop(first);
    for waiter in waiters {
        let lease = by_message(waiter).await.unwrap();
        lease.extend(LONG).await.unwrap();
        lease.release().await.unwrap();
    }
    eventually("it is free", async || is_free(&holder, "job").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_detached_goes_to_nobody_until_it_is_released() {
    let (_server, holder, together, lease) = rig().await;
    let (first, waiters) = local_group(&holder, &together, lease, 1).await;
    let waiting = tokio::spawn(waiters.into_iter().next().unwrap());
    let handle = first.detach().await.unwrap();
    until_queued(&holder, "job", 1).await;
    assert!(!waiting.is_finished() && together.held().is_empty());
    let fence = handle.fence();
    holder.attach(handle).release().await.unwrap();
    let lease = by_message(waiting).await.unwrap().unwrap();
    assert!(lease.fence() > fence);
    lease.release().await.unwrap();
}

/// The first whose turn it is does not come round; it is not forgotten either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_does_not_come_for_its_turn_is_skipped_and_served_later() {
    let (server, holder, together, lease) = rig().await;
    let (first, mut waiters) = local_group(&holder, &together, lease, 2).await;
    let next = tokio::spawn(waiters.remove(1));
    first.release().await.unwrap();
    let next = soon(next).await.unwrap().unwrap();
    assert!(!has_its_turn(&mut waiters[0]));
    next.release().await.unwrap();
    let late = soon(waiters.remove(0)).await.unwrap();
    late.release().await.unwrap();
    eventually("nothing is left", async || leftovers(&server).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_a_callback_reaches_its_own_task_and_no_other() {
    let (server, _holder, together, lease) = rig().await;
    let mutex = together.mutex("job").ttl(LONG);
    let panics = mutex.clone().on_wait(|_| panic!("a bug of the caller"));
    let [first, caller, last] = [&mutex, &panics, &mutex].map(arrives);
    let served = [first, last]
        .map(|waiter| tokio::spawn(async move { waiter.await.unwrap().release().await.unwrap() }));
    assert!(soon(tokio::spawn(caller)).await.unwrap_err().is_panic());
    lease.release().await.unwrap();
    for served in served {
        soon(served).await.unwrap();
    }
    eventually("nothing is left", async || leftovers(&server).is_empty()).await;
}

/// Nothing is renewed for a task that does not come round, so the lease ends and others go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_nobody_takes_ends_with_the_lease() {
    let (server, holder, together, lease) = rig().await;
    let ttl = millis(1_500);
    let mutex = together.mutex("job").ttl(ttl);
    let first = tokio::spawn(arrives(&mutex));
    until_queued(&holder, "job", 1).await;
    let asleep = arrives(&mutex);
    lease.release().await.unwrap();
    let first = soon(first).await.unwrap().unwrap();
    first.release().await.unwrap();
    let other = soon(holder.mutex("job").ttl(LONG).acquire()).await.unwrap();
    assert!(other.is_held() && together.held().is_empty());
    // When it comes round at last it waits again.
    let asleep = tokio::spawn(asleep);
    until_queued(&holder, "job", 1).await;
    other.release().await.unwrap();
    soon(asleep)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    eventually("nothing is left", async || leftovers(&server).is_empty()).await;
}

/// While the tasks of one client come back again and again, a waiter elsewhere is kept for no more turns than one grant
/// has, and those of a second grant if their entry was in the queue before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn greedy_tasks_of_one_client_keep_a_waiter_of_another_for_a_bounded_number_of_turns() {
    const TASKS: usize = 8;
    let server = Server::start();
    let (greedy, other) = (
        Client::open(&server.url()).unwrap(),
        Client::open(&server.url()).unwrap(),
    );
    let turns = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = || turns.load(std::sync::atomic::Ordering::SeqCst);
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (mutex, turns) = (greedy.mutex("job").ttl(LONG), Arc::clone(&turns));
            tokio::spawn(async move {
                loop {
                    let lease = mutex.acquire().await.unwrap();
                    turns.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    lease.release().await.unwrap();
                }
            })
        })
        .collect();
    eventually("they take turns", async || count() > 1_000).await;
    for round in 0..30 {
        // Queued, and from there on only so many.
        let waiting = crate::support::waiter(&other, "job", LONG);
        eventually("it is in line or served", async || {
            let line = server.cli(&["HVALS", "{job}:ll:waiters"]);
            let entries = line.list().unwrap().iter().filter_map(|entry| entry.text());
            let channel = format!("ll:wake:{}", other.id());
            waiting.is_finished() || entries.into_iter().any(|entry| entry.ends_with(&channel))
        })
        .await;
        let before = count();
        let lease = by_message(waiting).await.unwrap().unwrap();
        let kept_for = count() - before;
        assert!(kept_for <= 2 * 64, "round {round}: {kept_for}");
        lease.release().await.unwrap();
    }
    assert!(count() > 1_000);
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    eventually("nothing is left", async || leftovers(&server).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_thousands_of_turns_fences_are_not_ahead_of_the_clock() {
    const TURNS: u64 = 5_000;
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let counter = Arc::new(Mutex::new((0_u64, None)));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (mutex, counter) = (client.mutex("job").ttl(LONG), Arc::clone(&counter));
            tokio::spawn(async move {
                for _ in 0..TURNS / 8 {
                    let lease = mutex.acquire().await.unwrap();
                    let (turns, last) = *counter.lock().unwrap();
                    assert!(lease.fence() > last);
                    tokio::task::yield_now().await; // another that believed to hold would be seen
                    *counter.lock().unwrap() = (turns + 1, lease.fence());
                    lease.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(LONG, task).await.unwrap().unwrap();
    }
    assert_eq!(counter.lock().unwrap().0, TURNS, "no turn was lost");
    let last = latest_fence(&server, "job").unwrap();
    let now = time_us(&server);
    assert!(last <= now + FENCE_AHEAD_US, "{last} is ahead of {now}");
    eventually("nothing is left", async || leftovers(&server).is_empty()).await;
}

/// Options that a lease does not share with its neighbours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_wait_in_other_ways_have_queue_entries_of_their_own() {
    let (_server, holder, together, lease) = rig().await;
    let plain = together.mutex("job").ttl(LONG);
    let others = [
        plain.clone(),
        plain.clone(),
        plain.clone().ttl(LONG * 2),
        plain.clone().priority(1),
        plain.clone().fencing(false),
        plain.clone().renewal(false),
        plain.clone().note("a note"),
    ];
    let waiting: Vec<_> = others
        .iter()
        .map(|mutex| tokio::spawn(arrives(mutex)))
        .collect();
    until_queued(&holder, "job", 6).await;
    lease.release().await.unwrap();
    for waiter in waiting {
        // In whatever order they are served.
        tokio::spawn(async move {
            soon(waiter)
                .await
                .unwrap()
                .unwrap()
                .release()
                .await
                .unwrap()
        });
    }
    let start = clock::now();
    eventually("all were served", async || is_free(&holder, "job").await).await;
    println!("served within {:?}", clock::now() - start);
}
