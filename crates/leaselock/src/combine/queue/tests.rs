//! The queue on a clock that is moved by hand.

use super::*;
use crate::keys::MutexKeys;
use crate::mutex::many::Terms;
use crate::name::Name;
use crate::token::{ClientId, Token};
use crate::ttl::Ttl;

fn at(ms: u64) -> Moment {
    Moment::from_nanos(ms * 1_000_000)
}

fn item(ttl_ms: u64) -> Item {
    Item {
        keys: MutexKeys::new("", &Name::new("job").unwrap()).unwrap(),
        token: Token::random(&ClientId::random().unwrap(), true).unwrap(),
        terms: Terms {
            ttl: Ttl::new(Duration::from_millis(ttl_ms)).unwrap(),
            fencing: true,
        },
    }
}

type Reply = oneshot::Receiver<Told<()>>;

/// One more request, made at `now_ms`, with a second of time.
fn ask(queue: &mut Queue<()>, ttl_ms: u64, now_ms: u64) -> (u64, Option<Slot>, Reply) {
    let (reply, told) = oneshot::channel();
    let (ticket, slot) = queue.enqueue(item(ttl_ms), at(now_ms + 1000), at(now_ms), reply);
    (ticket, slot, told)
}

#[test]
fn one_goes_straight_and_the_next_gather() {
    let mut queue = Queue::new(200);
    assert!(queue.go_straight());
    assert!(!queue.go_straight());
    let (_, first, _a) = ask(&mut queue, 1000, 0);
    let (_, second, _b) = ask(&mut queue, 1000, 0);
    assert!(first.is_some() && second.is_none(), "one gathers for both");
    queue.straight_is_back();
    assert!(!queue.go_straight(), "nobody overtakes those who wait");
    let slot = first.unwrap();
    assert_eq!(queue.take(&slot, at(0)).len(), 2);
    assert!(queue.take(&slot, at(0)).is_empty());
    assert!(queue.go_straight(), "all are gone");
}

#[test]
fn a_store_that_takes_no_company_gets_none() {
    let mut queue = Queue::<()>::new(1);
    assert!((0..10).all(|_| queue.go_straight()));
    let mut queue = Queue::<()>::new(200);
    queue.never_again();
    assert!((0..10).all(|_| queue.go_straight()));
}

#[test]
fn no_more_calls_than_two_are_on_their_way_and_none_has_more_than_its_share() {
    let mut queue = Queue::new(200);
    let mut slots = Vec::new();
    let mut replies = Vec::new();
    for _ in 0..4 {
        for _ in 0..BATCH_MAX + 1 {
            let (_, slot, reply) = ask(&mut queue, 1000, 0);
            replies.push(reply);
            slots.extend(slot);
        }
        if let Some(slot) = slots.last() {
            assert_eq!(queue.take(slot, at(0)).len(), BATCH_MAX);
        }
    }
    assert_eq!(slots.len(), DRIVERS_MAX);
}

#[test]
fn whoever_is_withdrawn_was_not_sent_and_whoever_was_sent_cannot_be_withdrawn() {
    let mut queue = Queue::new(200);
    let (one, slot, _a) = ask(&mut queue, 1000, 0);
    let (two, _, _b) = ask(&mut queue, 1000, 0);
    assert!(queue.withdraw(one));
    let batch = queue.take(&slot.unwrap(), at(0));
    assert_eq!(
        batch.iter().map(|entry| entry.ticket).collect::<Vec<_>>(),
        [two]
    );
    assert!(!queue.withdraw(two) && !queue.withdraw(one));
}

#[test]
fn whoever_has_gone_or_is_late_is_not_sent() {
    let mut queue = Queue::new(200);
    let (_, slot, gone) = ask(&mut queue, 1000, 0);
    let (_, _, mut late) = ask(&mut queue, 1000, 0);
    let (_, _, _in_time) = ask(&mut queue, 1000, 500);
    drop(gone);
    assert_eq!(queue.take(&slot.unwrap(), at(1000)).len(), 1);
    let Ok(Told::Answer(Err(error))) = late.try_recv() else {
        panic!("it is told")
    };
    assert!(error.kind() == ErrorKind::TimedOut && !error.maybe_applied());
}

#[test]
fn requests_with_other_terms_leave_in_a_call_of_their_own() {
    let mut queue = Queue::new(200);
    let (_, slot, _a) = ask(&mut queue, 1000, 0);
    let others: Vec<_> = [1000, 2000, 2000, 1000]
        .map(|ttl_ms| ask(&mut queue, ttl_ms, 0))
        .into();
    let slot = slot.unwrap();
    let sizes = [(); 4].map(|()| queue.take(&slot, at(0)).len());
    assert_eq!(sizes, [2, 2, 1, 0]);
    drop(others);
}

/// A runtime that nobody drives any more keeps its place until its call must be over, and not for ever.
#[test]
fn a_sender_that_is_stuck_loses_its_place() {
    let mut queue = Queue::new(200);
    let mut stuck = Vec::new();
    let mut replies = Vec::new();
    for _ in 0..DRIVERS_MAX {
        let (_, slot, reply) = ask(&mut queue, 1000, 0);
        assert_eq!(queue.take(&slot.unwrap(), at(0)).len(), 1);
        stuck.push(slot.unwrap());
        replies.push(reply);
    }
    let (_, none, _a) = ask(&mut queue, 1000, 1999);
    let (_, another, _b) = ask(&mut queue, 1000, 2000);
    assert!(none.is_none() && another.is_some());
    assert!(
        queue.take(&stuck[0], at(2000)).is_empty(),
        "its place is another's"
    );
    queue.give_back(&stuck[0]);
    assert_eq!(queue.take(&another.unwrap(), at(2000)).len(), 2);
}
