//! The queue on a clock that is moved by hand.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::{PendingReply, *};
use crate::base::{ClientId, Token, Ttl};
use crate::engine::services::batch::queue;
use crate::engine::values::{AcquireTerms, Held, Resource};
use crate::mutex::MUTEX;

fn at(ms: u64) -> Moment {
    Moment::from_nanos(ms * 1_000_000)
}

fn item(ttl_ms: u64) -> Item {
    let resource = Resource::at(&MUTEX, "job".into(), None);
    let token = Token::random(&ClientId::random().unwrap(), true).unwrap();
    let ttl = Ttl::new(Duration::from_millis(ttl_ms)).unwrap();
    Item::of(&Held { resource, token }, AcquireTerms::plain(ttl)).unwrap()
}

/// Queues one more request at `now_ms`, with a timeout of a second.
fn ask(
    queue: &mut BatchQueue<()>,
    ttl_ms: u64,
    now_ms: u64,
) -> (Option<BatchSlot>, PendingReply<()>) {
    let (reply, pending) = queue::pair();
    let enqueued = queue.enqueue(item(ttl_ms), at(now_ms + 1000), at(now_ms), reply);
    (enqueued.slot, pending)
}

fn take(queue: &mut BatchQueue<()>, slot: &BatchSlot, now_ms: u64) -> usize {
    let (items, sent) = queue.take(slot, at(now_ms));
    assert_eq!(items.len(), sent.len());
    items.len()
}

/// Returns the outcome that the caller has, if any.
fn outcome(pending: &mut PendingReply<()>) -> Option<BatchOutcome<()>> {
    let mut context = Context::from_waker(Waker::noop());
    match Pin::new(pending).poll(&mut context) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

fn is_refused(outcome: Option<BatchOutcome<()>>) -> bool {
    matches!(outcome, Some(BatchOutcome::Answer(Err(error)))
        if error.kind() == ErrorKind::NoReply && !error.maybe_applied())
}

#[test]
fn one_request_is_sent_alone_and_the_next_are_batched() {
    let mut queue = BatchQueue::new(200);
    assert!(queue.take_solo());
    assert!(!queue.take_solo());
    let (first, _a) = ask(&mut queue, 1000, 0);
    let (second, _b) = ask(&mut queue, 1000, 0);
    assert!(first.is_some() && second.is_none(), "one sender for both");
    queue.return_solo();
    assert!(!queue.take_solo(), "no request overtakes the queued ones");
    let slot = first.unwrap();
    assert_eq!(take(&mut queue, &slot, 0), 2);
    assert_eq!(take(&mut queue, &slot, 0), 0);
    assert!(queue.take_solo(), "all are gone");
}

/// Two calls would leave where one can.
#[test]
fn a_request_that_comes_while_a_sender_is_about_to_take_its_next_batch_starts_no_other() {
    let mut queue = BatchQueue::new(200);
    let (slot, _a) = ask(&mut queue, 1000, 0);
    let slot = slot.unwrap();
    assert_eq!(take(&mut queue, &slot, 0), 1);
    queue.start_gathering(&slot);
    let (another, _b) = ask(&mut queue, 1000, 0);
    assert!(another.is_none());
    assert_eq!(take(&mut queue, &slot, 0), 1);
}

/// Otherwise the first task that returns from a batch would leave without the others, each time.
#[test]
fn no_request_is_sent_alone_after_a_large_batch_until_a_small_one() {
    let mut queue = BatchQueue::new(200);
    let batch: Vec<_> = (0..LARGE_BATCH).map(|_| ask(&mut queue, 1000, 0)).collect();
    let slot = batch[0].0.unwrap();
    assert_eq!(take(&mut queue, &slot, 0), LARGE_BATCH);
    assert_eq!(take(&mut queue, &slot, 0), 0);
    assert!(!queue.take_solo());
    let (slot, _one) = ask(&mut queue, 1000, 0);
    let slot = slot.unwrap();
    assert_eq!(take(&mut queue, &slot, 0), 1);
    assert_eq!(take(&mut queue, &slot, 0), 0);
    assert!(queue.take_solo());
}

#[test]
fn a_store_that_takes_one_name_per_call_gets_no_batch() {
    let mut queue = BatchQueue::<()>::new(1);
    assert!((0..10).all(|_| queue.take_solo()));
    let mut queue = BatchQueue::<()>::new(200);
    queue.disable();
    assert!((0..10).all(|_| queue.take_solo()));
}

#[test]
fn at_most_two_batches_are_in_flight_and_none_is_larger_than_the_limit() {
    let mut queue = BatchQueue::new(200);
    let (mut slots, mut all) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        for _ in 0..BATCH_MAX + 1 {
            let (slot, pending) = ask(&mut queue, 1000, 0);
            all.push(pending);
            slots.extend(slot);
        }
        if let Some(slot) = slots.last() {
            assert_eq!(take(&mut queue, slot, 0), BATCH_MAX);
        }
    }
    assert_eq!(slots.len(), SENDERS_MAX);
}

#[test]
fn a_request_whose_caller_was_dropped_or_that_timed_out_is_not_sent() {
    let mut queue = BatchQueue::new(200);
    let (slot, gone) = ask(&mut queue, 1000, 0);
    let (_, mut late) = ask(&mut queue, 1000, 0);
    let (_, mut in_time) = ask(&mut queue, 1000, 500);
    drop(gone);
    assert_eq!(take(&mut queue, &slot.unwrap(), 1000), 1);
    assert!(is_refused(outcome(&mut late)));
    assert!(outcome(&mut in_time).is_none());
}

#[test]
fn a_request_that_times_out_in_the_queue_fails_at_that_moment_and_is_never_sent() {
    let mut queue = BatchQueue::new(200);
    let (slot, _early) = ask(&mut queue, 1000, 0);
    let (_, _later) = ask(&mut queue, 1000, 500);
    let (late, next) = queue.sweep(at(999));
    assert!(late.is_empty() && next == Some(at(1000)));
    let (late, next) = queue.sweep(at(1000));
    assert!(matches!(late.as_slice(), [Late::InQueue(_)]));
    assert_eq!(next, Some(at(1500)));
    assert_eq!(take(&mut queue, &slot.unwrap(), 1000), 1);
}

#[test]
fn a_request_that_times_out_in_flight_is_found_although_its_batch_goes_on() {
    let mut queue = BatchQueue::new(200);
    let (slot, _early) = ask(&mut queue, 1000, 0);
    let (_, _later) = ask(&mut queue, 1000, 500);
    let slot = slot.unwrap();
    assert_eq!(take(&mut queue, &slot, 500), 2);
    assert_eq!(queue.sweep(at(999)).1, Some(at(1000)));
    let (late, next) = queue.sweep(at(1000));
    assert!(matches!(late.as_slice(), [Late::OnTheWay(_)]));
    assert_eq!(next, Some(at(1500)));
    queue.free_slot(&slot);
    assert!(queue.sweep(at(1000)).1.is_none(), "no request is left");
}

#[test]
fn a_request_that_times_out_before_the_next_sweep_hurries_it_and_no_other_does() {
    let mut queue = BatchQueue::new(200);
    let wakes_watch = |queue: &mut BatchQueue<()>, until_ms| {
        let (reply, pending) = queue::pair();
        drop(pending);
        let enqueued = queue.enqueue(item(1000), at(until_ms), at(0), reply);
        enqueued.wake_watch
    };
    assert!(wakes_watch(&mut queue, 1000), "no request is watched yet");
    queue.sweep(at(0));
    assert!(!wakes_watch(&mut queue, 1000) && !wakes_watch(&mut queue, 2000));
    assert!(wakes_watch(&mut queue, 999));
}

#[test]
fn the_first_answer_counts() {
    let (reply, mut pending) = queue::pair();
    assert!(outcome(&mut pending).is_none() && reply.is_awaited());
    reply.set(BatchOutcome::Answer(Ok(())));
    reply.set(BatchOutcome::Alone);
    assert!(matches!(
        outcome(&mut pending),
        Some(BatchOutcome::Answer(Ok(())))
    ));
}

#[test]
fn requests_with_other_terms_leave_in_a_call_of_their_own() {
    let mut queue = BatchQueue::new(200);
    let (slot, _a) = ask(&mut queue, 1000, 0);
    let others: Vec<_> = [1000, 2000, 3000, 2000, 1000]
        .map(|ttl_ms| ask(&mut queue, ttl_ms, 0))
        .into();
    let slot = slot.unwrap();
    let sizes = [(); 4].map(|()| take(&mut queue, &slot, 0));
    assert_eq!(sizes, [3, 2, 1, 0]);
    drop(others);
}

/// Reads between the requests of a mutex, for example: a batch of one each would cost as much as no batches.
#[test]
fn requests_of_two_kinds_in_turn_fill_their_batches_and_the_first_in_the_queue_leaves_first() {
    let mut queue = BatchQueue::new(200);
    let (slot, _first) = ask(&mut queue, 1000, 0);
    let all: Vec<_> = (1..2 * BATCH_MAX as u64)
        .map(|number| ask(&mut queue, 1000 + number % 2, 0))
        .collect();
    let slot = slot.unwrap();
    let firsts = [(); 2].map(|()| {
        let (items, sent) = queue.take(&slot, at(0));
        assert_eq!((items.len(), sent.len()), (BATCH_MAX, BATCH_MAX));
        items[0].terms.ttl.as_ms()
    });
    assert_eq!(firsts, [1000, 1001]);
    drop(all);
}

#[test]
fn a_batch_passes_over_a_bounded_number_of_requests() {
    let mut queue = BatchQueue::new(200);
    let (slot, _first) = ask(&mut queue, 1000, 0);
    let others: Vec<_> = (0..PASSED_OVER_MAX)
        .map(|_| ask(&mut queue, 2000, 0))
        .collect();
    let last = ask(&mut queue, 1000, 0);
    let slot = slot.unwrap();
    assert_eq!(
        take(&mut queue, &slot, 0),
        1,
        "the last one is too far behind"
    );
    assert_eq!(take(&mut queue, &slot, 0), BATCH_MAX);
    drop((others, last));
}

/// A sender on a runtime that no thread drives any more keeps its slot until its call must have timed out.
#[test]
fn a_sender_that_is_stuck_loses_its_slot() {
    let mut queue = BatchQueue::new(200);
    let (mut stuck, mut all) = (Vec::new(), Vec::new());
    for _ in 0..SENDERS_MAX {
        let (slot, pending) = ask(&mut queue, 1000, 0);
        assert_eq!(take(&mut queue, &slot.unwrap(), 0), 1);
        stuck.push(slot.unwrap());
        all.push(pending);
    }
    let (none, _a) = ask(&mut queue, 1000, 1999);
    let (another, _b) = ask(&mut queue, 1000, 2000);
    assert!(none.is_none() && another.is_some());
    assert_eq!(
        take(&mut queue, &stuck[0], 2000),
        0,
        "its slot is another's"
    );
    queue.free_slot(&stuck[0]);
    assert_eq!(take(&mut queue, &another.unwrap(), 2000), 2);
}
