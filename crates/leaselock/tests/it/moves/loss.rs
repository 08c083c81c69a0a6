//! A lease that is lost while tasks take turns with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use leaselock::{Client, Lease, LostReason};
use testkit::history::Attempt;
use testkit::{Fault, Proxy, Recorder, Server, Way, clock, history, tempdir};
use tokio::task::JoinHandle;

use crate::support::{LONG, eventually, is_free, leftovers, soon, until_queued, waiter};
use crate::waiting::together::{Acquiring, arrives};

const TTL: Duration = Duration::from_secs(2);
const WAITING: usize = 4;

/// The second of a client's tasks has its turn; the others wait, in this order, and have a queue entry.
async fn second_turn(holder: &Client, together: &Client) -> (Lease, Vec<Acquiring>) {
    let lease = holder.mutex("job").ttl(LONG).acquire().await.unwrap();
    let plain = together.mutex("job").ttl(TTL);
    let told = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&told);
    let last = plain.clone().on_wait(move |_| heard.store(true, SeqCst));
    let mut waiters: Vec<_> = (0..=WAITING).map(|_| arrives(&plain)).collect();
    waiters.push(arrives(&last));
    let first = tokio::spawn(waiters.remove(0));
    let second = tokio::spawn(waiters.remove(0));
    until_queued(holder, "job", 1).await;
    lease.release().await.unwrap();
    let first = soon(first).await.unwrap().unwrap();
    let fence = first.fence();
    first.release().await.unwrap();
    let second = soon(second).await.unwrap().unwrap();
    assert!(second.fence() > fence);
    told.store(false, SeqCst);
    eventually("the server has answered", async || told.load(SeqCst)).await;
    (second, waiters)
}

fn note(attempt: &Attempt, lease: &Lease) {
    let now = clock::now();
    attempt.granted(lease.fence().unwrap().get(), now + lease.remaining());
}

/// Each is served, in order, with a larger fence, by a lease that the server knows.
async fn are_served(waiting: Vec<JoinHandle<(Attempt, Lease)>>, mut last: u64) {
    for task in waiting {
        let (attempt, lease) = soon(task).await.unwrap();
        let fence = lease.fence().unwrap().get();
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        lease.extend(TTL).await.unwrap();
        attempt.release();
        lease.release().await.unwrap();
        attempt.released();
    }
}

fn wait_on(waiters: Vec<Acquiring>, recorder: &Recorder) -> Vec<JoinHandle<(Attempt, Lease)>> {
    let wait = |waiter: Acquiring| {
        let attempt = recorder.invoke("job");
        tokio::spawn(async move {
            let lease = waiter.await.unwrap();
            note(&attempt, &lease);
            (attempt, lease)
        })
    };
    waiters.into_iter().map(wait).collect()
}

async fn recovers_from(meddle: impl FnOnce(&Server), reasons: &[LostReason]) {
    let server = Server::start();
    let folder = tempdir().unwrap();
    let recorder = Recorder::append(folder.path().join("history")).unwrap();
    let [holder, together] = [(); 2].map(|()| Client::open(&server.url()).unwrap());
    let (lease, waiters) = second_turn(&holder, &together).await;
    let waiting = wait_on(waiters, &recorder);
    meddle(&server);
    let lost = soon(lease.lost()).await;
    assert!(reasons.contains(&lost.reason), "{lost:?}");
    assert!(!lease.is_held() && lease.remaining().is_zero());
    let fence = lease.fence().unwrap().get();
    drop(lease);
    are_served(waiting, fence).await;
    history::check(&history::read(folder.path().join("history")).unwrap()).unwrap();
    eventually("nothing is left", async || leftovers(&server).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_key_vanishes_in_the_middle_of_turns_those_who_wait_get_a_new_lease() {
    let delete = |server: &Server| drop(server.cli(&["DEL", "job"]));
    // Their queue entry may be granted before the renewal finds nothing.
    recovers_from(delete, &[LostReason::KeyMissing, LostReason::TakenOver]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_key_is_anothers_in_the_middle_of_turns_those_who_wait_get_a_new_lease_after_it() {
    let take_over = |server: &Server| drop(server.cli(&["SET", "job", "somebody", "PX", "3000"]));
    recovers_from(take_over, &[LostReason::TakenOver]).await;
}

/// The client that takes turns is cut off for longer than its lease lasts; another takes over meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_cut_off_in_the_middle_of_turns_gives_nobody_a_turn_after_the_deadline() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let folder = tempdir().unwrap();
    let path = folder.path().join("history");
    let recorder = Recorder::append(&path).unwrap();
    let holder = Client::open(&server.url()).unwrap();
    let together = Client::open(&proxy.url()).unwrap();
    let attempt = recorder.invoke("job");
    let (lease, waiters) = second_turn(&holder, &together).await;
    note(&attempt, &lease);
    proxy.set(Way::Both, Fault::HalfOpen);
    let waiting = wait_on(waiters, &recorder);
    let next = recorder.invoke("job");
    let others = waiter(&holder, "job", LONG);
    let view = lease.view();
    eventually("its time is over", async || !view.is_held()).await;
    drop(lease); // as late as can be: what passes on now passes on a lease that is over
    let other = soon(others).await.unwrap().unwrap();
    note(&next, &other);
    assert!(waiting.iter().all(|task| !task.is_finished()));
    assert!(together.held().is_empty(), "nobody has a turn");
    assert!(other.fence() > view.fence());
    proxy.heal();
    eventually("they are in line again", async || {
        !holder.inspect("job").await.unwrap().queue.is_empty()
    })
    .await;
    eventually("requests are answered again", async || {
        together.inspect("job").await.is_ok()
    })
    .await;
    assert!(other.is_held() && waiting.iter().all(|task| !task.is_finished()));
    let fence = other.fence().unwrap().get();
    next.release();
    other.release().await.unwrap();
    next.released();
    are_served(waiting, fence).await;
    let summary = history::check(&history::read(&path).unwrap()).unwrap();
    assert_eq!(summary.grants, WAITING + 2);
    eventually("it is free", async || is_free(&holder, "job").await).await;
}
