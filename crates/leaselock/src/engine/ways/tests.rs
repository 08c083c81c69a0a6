//! Hand-overs that a message brings, on clocks that are moved by hand.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::base::Clock;
use crate::base::error::AcquireError;
use crate::engine::guard::lease::Lease;
use crate::store::Event;
use crate::{Client, Mutex};

const TTL: Duration = Duration::from_secs(60);
/// What a hand-over grants at most.
const PASSED: Duration = Duration::from_secs(5);
const GIVE_UP: Duration = Duration::from_secs(20);

/// A client of the memory store of this name. The store's time is that of the client that asks, so a second clock is a
/// server's clock that steps.
fn client(store: &str, clock: &Clock) -> Client {
    let builder = Client::builder().url(&format!("mem:{store}"));
    builder.clock(clock.clone()).open().unwrap()
}

fn mutex(client: &Client) -> Mutex {
    client.mutex("job").ttl(TTL)
}

/// Real time passes, and nothing else: threads go on.
async fn moment() {
    tokio::time::sleep(Duration::from_millis(1)).await; // between two checks of a condition
}

async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let poll = async {
        while !condition().await {
            moment().await;
        }
    };
    let outcome = tokio::time::timeout(GIVE_UP, poll).await;
    assert!(outcome.is_ok(), "{what}");
}

type Acquiring<'a> = Pin<&'a mut dyn Future<Output = Result<Lease, AcquireError>>>;

/// Polls the waiter, and only here, until it is in the queue.
async fn is_in_queue(client: &Client, waiter: &mut Acquiring<'_>) {
    eventually("in the queue", async || {
        assert!(is_pending(waiter));
        client.inspect("job").await.unwrap().queue.len() == 1
    })
    .await;
}

fn is_pending(waiter: &mut Acquiring<'_>) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    matches!(waiter.as_mut().poll(&mut context), Poll::Pending)
}

/// The client's thread has taken the message in.
async fn heard(client: &Client) {
    let notifier = Arc::clone(&client.engine().background().unwrap().notifier);
    eventually("the message has come", async || {
        notifier.has_received_a_grant()
    })
    .await;
}

/// The lease of the second client, to which the first one has handed it over.
async fn handed_over(one: &Client, two: &Client) -> Lease {
    let lease = mutex(one).acquire().await.unwrap();
    let second = mutex(two);
    let mut waiter: Acquiring = pin!(second.acquire());
    is_in_queue(two, &mut waiter).await;
    lease.release().await.unwrap();
    waiter.await.unwrap()
}

#[tokio::test]
async fn a_hand_over_grants_five_seconds_at_most_until_the_first_renewal() {
    let clock = Clock::manual();
    let (one, two) = (client("short", &clock), client("short", &clock));
    let lease = handed_over(&one, &two).await;
    let left = lease.remaining();
    assert!(
        left <= PASSED && left > PASSED - Duration::from_millis(100),
        "{left:?}"
    );
    assert!(lease.fence().is_some() && lease.ttl() == TTL);
    let first = lease.deadline();
    clock.advance(PASSED / 3);
    eventually("it is renewed", async || lease.deadline() > first).await;
    assert!(lease.remaining() > TTL * 9 / 10);
    lease.release().await.unwrap();
}

/// The tasks between which a lease passes may come back, but not for ever.
#[tokio::test]
async fn a_queue_entry_for_which_no_task_waits_is_given_up_when_its_next_poll_is_due() {
    let clock = Clock::manual();
    let (one, two) = (client("given-up", &clock), client("given-up", &clock));
    drop(handed_over(&one, &two).await);
    clock.advance(PASSED); // the numbers of a new fence are ahead of the clock, and a grant then reserves one alone
    let lease = handed_over(&one, &two).await;
    let first = lease.deadline();
    clock.advance(PASSED / 3);
    eventually("it is renewed", async || lease.deadline() > first).await;
    {
        let second = mutex(&two);
        let mut waiter: Acquiring = pin!(second.acquire());
        is_in_queue(&two, &mut waiter).await;
    }
    eventually("it has left the queue", async || {
        clock.advance(Duration::from_millis(100));
        two.inspect("job").await.unwrap().queue.is_empty()
    })
    .await;
    assert!(lease.is_held());
}

/// It has less of its ttl from the beginning, and loses nothing of what it has.
#[tokio::test]
async fn the_renewal_of_a_short_hand_over_is_not_counted_as_late() {
    let clock = Clock::manual();
    let (one, two) = (client("in-time", &clock), client("in-time", &clock));
    let lease = handed_over(&one, &two).await;
    let first = lease.deadline();
    clock.advance(PASSED / 3);
    eventually("it is renewed", async || lease.deadline() > first).await;
    let stats = two.stats();
    let headroom = &stats.kinds.first().unwrap().headroom;
    assert_eq!(headroom.count, 1);
    assert!((600_000..700_000).contains(&headroom.sum), "{headroom:?}");
}

#[tokio::test]
async fn without_renewal_a_hand_over_grants_all_that_was_asked_for() {
    let clock = Clock::manual();
    let (one, two) = (client("whole", &clock), client("whole", &clock));
    let lease = mutex(&one).acquire().await.unwrap();
    let second = mutex(&two).renewal(false);
    let mut waiter: Acquiring = pin!(second.acquire());
    is_in_queue(&two, &mut waiter).await;
    lease.release().await.unwrap();
    assert!(waiter.await.unwrap().remaining() > TTL * 9 / 10);
}

/// The message has come, the waiter is frozen before it acts on it, and meanwhile the lease ends and is another's.
#[tokio::test]
async fn a_waiter_that_was_frozen_while_its_grant_came_does_not_act_on_a_lease_that_is_over() {
    let clock = Clock::manual();
    let [one, two, three] = [(); 3].map(|()| client("frozen", &clock));
    let lease = mutex(&one).acquire().await.unwrap();
    let second = mutex(&two);
    let mut waiter: Acquiring = pin!(second.acquire());
    is_in_queue(&two, &mut waiter).await;
    lease.release().await.unwrap();
    heard(&two).await;
    clock.advance(PASSED + Duration::from_millis(10));
    let third = mutex(&three).try_acquire().await.unwrap().unwrap();
    assert!(is_pending(&mut waiter));
    is_in_queue(&two, &mut waiter).await;
    assert!(third.is_held());
    let fence = third.fence();
    third.release().await.unwrap();
    let lease = waiter.await.unwrap();
    assert!(lease.fence() > fence && lease.is_held());
}

/// Also when it was the client's own thread that froze, so that the message seems to have come just now.
#[tokio::test]
async fn a_waiter_whose_message_was_held_up_until_the_lease_was_over_does_not_act_on_it() {
    let clock = Clock::manual();
    let [one, two, three] = [(); 3].map(|()| client("held-up", &clock));
    let lease = mutex(&one).acquire().await.unwrap();
    let second = mutex(&two);
    let mut waiter: Acquiring = pin!(second.acquire());
    is_in_queue(&two, &mut waiter).await;
    let notifier = &two.engine().background().unwrap().notifier;
    lease.release().await.unwrap();
    heard(&two).await;
    clock.advance(PASSED + Duration::from_millis(10));
    notifier.set_received_at(clock.now());
    let third = mutex(&three).try_acquire().await.unwrap().unwrap();
    assert!(is_pending(&mut waiter) && third.is_held());
}

/// On a poll the lease is made whole, which tells the two ways apart.
fn was_confirmed(lease: &Lease) -> bool {
    let (left, whole) = (lease.remaining(), TTL * 9 / 10);
    assert!(
        left <= PASSED || left > whole,
        "{left:?} that nobody granted"
    );
    left > whole
}

/// A hand-over, with something done between answer and grant, and between message and waiter.
async fn confirmed_after(
    store: &str,
    in_queue: impl FnOnce(&Client),
    on_time: impl FnOnce(&Client),
) -> bool {
    let clock = Clock::manual();
    let (one, two) = (client(store, &clock), client(store, &clock));
    let lease = mutex(&one).acquire().await.unwrap();
    let second = mutex(&two);
    let mut waiter: Acquiring = pin!(second.acquire());
    is_in_queue(&two, &mut waiter).await;
    in_queue(&two);
    lease.release().await.unwrap();
    heard(&two).await;
    on_time(&two);
    was_confirmed(&waiter.await.unwrap())
}

#[tokio::test]
async fn a_message_alone_brings_a_lease_when_nothing_happened() {
    assert!(!confirmed_after("nothing", |_| {}, |_| {}).await);
}

#[tokio::test]
async fn a_grant_after_a_jump_of_the_servers_clock_is_confirmed() {
    let jump = |client: &Client| {
        let (now, skew) = (client.engine().clock.now(), &client.engine().clock_watch);
        skew.note(now, now, 1_000_000_000);
    };
    assert!(confirmed_after("jump-before", jump, |_| {}).await);
    assert!(confirmed_after("jump-after", |_| {}, jump).await);
}

#[tokio::test]
async fn a_grant_after_a_gap_in_the_messages_is_confirmed() {
    let gap = |client: &Client| {
        let notifier = &client.engine().background().unwrap().notifier;
        notifier.receive(Event::Gap);
    };
    assert!(confirmed_after("gap-before", gap, |_| {}).await);
    assert!(confirmed_after("gap-after", |_| {}, gap).await);
}

#[tokio::test]
async fn a_late_message_is_confirmed() {
    let late = |client: &Client| client.engine().clock.advance(PASSED / 8);
    assert!(confirmed_after("late", |_| {}, late).await);
}

/// What each clock shows more when the waiter enters the queue and when the holder releases.
async fn confirmed_on_clocks(store: &str, waiter_ahead: Duration, holder_ahead: Duration) -> bool {
    let [here, there] = [(); 2].map(|()| Clock::manual());
    let (one, two) = (client(store, &there), client(store, &here));
    let lease = mutex(&one).acquire().await.unwrap();
    here.advance(waiter_ahead);
    let second = mutex(&two);
    let mut waiter: Acquiring = pin!(second.acquire());
    is_in_queue(&two, &mut waiter).await;
    there.advance(holder_ahead);
    lease.release().await.unwrap();
    heard(&two).await;
    was_confirmed(&waiter.await.unwrap())
}

#[tokio::test]
async fn a_grant_by_a_clock_that_has_stepped_since_the_answer_is_confirmed() {
    let (none, step) = (Duration::ZERO, Duration::from_millis(900));
    assert!(!confirmed_on_clocks("same-clocks", none, none).await);
    assert!(confirmed_on_clocks("stepped-forward", none, step).await);
    assert!(confirmed_on_clocks("stepped-back", step, none).await);
}
