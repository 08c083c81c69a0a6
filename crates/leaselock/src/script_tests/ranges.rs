//! Fencing tokens that a grant reserves for the tasks that share a queue entry.

use leaselock_fence::Fence;

use super::lab::*;
use crate::base::token::Token;
use crate::client::views::*;
use crate::engine::values::grant::*;
use crate::engine::values::kind::Resource;

const SHARED: How<'static> = How {
    channel: "here",
    range: 64,
    ..WAIT
};

/// Returns the number of a holder's grant and how many it has, as its next acquisition gets them.
async fn numbers(lab: &Lab, keys: &Resource, token: &Token) -> (u64, u64) {
    match lab.acquire(keys, token, &SHARED).await {
        Acquired::Granted { fence, range, .. } => (fence.unwrap().get(), range),
        other => panic!("{}: {other:?}", lab.engine),
    }
}

/// Hands a lock over to a waiter, and returns its first number and how many it has: all, or one if the server stood still
/// for a millisecond between the two times that the script reads.
async fn handed_over(lab: &Lab, keys: &Resource) -> (Token, u64, u64) {
    let subscription = lab.listen("here").await;
    let (holder, waiter) = (token(), token());
    lab.granted(keys, &holder, &TRY).await;
    lab.waiting(keys, &waiter, &SHARED).await;
    lab.release(keys, &holder).await;
    let message = subscription.heard(&waiter).await;
    let mut words = message.split(' ').skip(1).map(|word| word.parse().unwrap());
    let [first, range, now_us] = [(); 3].map(|()| words.next().unwrap());
    let all = if first > now_us + 1000 { 1 } else { 64 };
    assert_eq!(range, all, "{}: {message}", lab.engine);
    (waiter, first, range)
}

/// The numbers after the first one are the process's alone: only it knows which of them its tasks use.
#[test]
fn a_grant_from_the_queue_reserves_its_range_and_any_other_reserves_one() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        let at_once = token();
        assert_eq!(numbers(lab, &keys, &at_once).await.1, 1);
        lab.release(&keys, &at_once).await;
        lab.set_fence(&keys, 1_000).await; // long ago: the next number is the clock's
        let (waiter, first, range) = handed_over(lab, &keys).await;
        assert_eq!(
            numbers(lab, &keys, &waiter).await,
            (first + range - 1, 1),
            "a replay has the last one alone"
        );
    });
}

#[test]
fn numbers_that_were_reserved_and_not_used_are_wasted() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        lab.set_fence(&keys, 1_000).await;
        let (waiter, first, range) = handed_over(lab, &keys).await;
        lab.release(&keys, &waiter).await;
        let next = numbers(lab, &keys, &token()).await.0;
        assert!(next >= first + range, "{}: {next}", lab.engine);
    });
}

/// Otherwise numbers that no task uses would add up, and after the loss of the key the clock would be behind them.
#[test]
fn ahead_of_the_clock_a_grant_reserves_no_more_than_its_own_number() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        lab.set_fence(&keys, 8_000_000_000_000_000).await;
        let (_waiter, first, range) = handed_over(lab, &keys).await;
        assert_eq!((first, range), (8_000_000_000_000_002, 1), "{}", lab.engine);
    });
}

#[test]
fn an_operator_names_the_last_number_of_the_grant_and_no_other() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        lab.set_fence(&keys, 1_000).await;
        let (_waiter, first, range) = handed_over(lab, &keys).await;
        let InspectedState::Held(SeenHold { fence, .. }) = lab.inspect(&keys).await.state else {
            panic!("{}", lab.engine)
        };
        assert_eq!(fence, Some(Fence::new(first + range - 1)));
        let named = async |number| {
            let only = Some(Fence::new(number));
            lab.ask(&break_now(&keys, only, false)).await
        };
        let last = first + range - 1;
        for other in [first - 1, last - 1, last + 1] {
            let changed = Broke::Changed { fence };
            assert_eq!(named(other).await, changed, "{}", lab.engine);
        }
        assert!(matches!(named(last).await, Broke::Broken { .. }));
    });
}
