//! Fencing tokens that a grant reserves for the tasks that share a queue entry.

use super::lab::*;
use crate::base::fence::Fence;
use crate::base::token::Token;
use crate::client::views::*;
use crate::engine::calls::*;
use crate::engine::grant::*;
use crate::engine::resource::Resource;

const SHARED: How<'static> = How {
    channel: "here",
    range: 64,
    ..WAIT
};

/// Returns the numbers of a holder's grant, as its next acquisition gets them.
async fn numbers(lab: &Lab, keys: &Resource, token: &Token) -> (u64, u64) {
    match lab.acquire(keys, token, &SHARED).await {
        Acquired::Granted { fence, range, .. } => (fence.unwrap().get(), range),
        other => panic!("{}: {other:?}", lab.engine),
    }
}

async fn release(lab: &Lab, keys: &Resource, token: &Token, used: u64) {
    let used = Some(Fence::new(used));
    let answer = lab
        .ask(&Release {
            resource: keys,
            token,
            used,
        })
        .await;
    assert_eq!(answer, ReleaseAnswer::Released, "{}", lab.engine);
}

/// Hands a lock over to a waiter with 64 numbers.
async fn handed_over(lab: &Lab, keys: &Resource) -> (Token, u64) {
    let (holder, waiter) = (token(), token());
    lab.granted(keys, &holder, &TRY).await;
    lab.waiting(keys, &waiter, &SHARED).await;
    lab.release(keys, &holder).await;
    let (first, range) = numbers(lab, keys, &waiter).await;
    assert_eq!(range, 64, "{}", lab.engine);
    (waiter, first)
}

#[test]
fn a_grant_from_the_queue_reserves_its_range_and_any_other_reserves_one() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        let subscription = lab.listen("here").await;
        let at_once = token();
        assert_eq!(numbers(lab, &keys, &at_once).await.1, 1);
        lab.release(&keys, &at_once).await;
        let (waiter, first) = handed_over(lab, &keys).await;
        let message = subscription.heard(&waiter).await;
        assert!(
            message.starts_with(&format!("grant {first} 64 ")),
            "{message}"
        );
        assert_eq!(numbers(lab, &keys, &waiter).await, (first, 64), "a replay");
    });
}

#[test]
fn numbers_that_were_reserved_and_not_used_come_next() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        let _ear = lab.listen("here").await;
        // Ahead of the clock, so that the next number shows which ones count as used.
        lab.meddle(
            &SET,
            &keys.fence().to_string(),
            &["8000000000000000:8000000000000000"],
        )
        .await;
        let (waiter, first) = handed_over(lab, &keys).await;
        release(lab, &keys, &waiter, first + 2).await;
        let next = token();
        assert_eq!(numbers(lab, &keys, &next).await.0, first + 3);
        // The same when the next waiter gets it in the same step.
        let (one, two) = (token(), token());
        lab.waiting(&keys, &one, &SHARED).await;
        lab.waiting(&keys, &two, &SHARED).await;
        release(lab, &keys, &next, first + 3).await;
        release(lab, &keys, &one, first + 5).await;
        assert_eq!(numbers(lab, &keys, &two).await, (first + 6, 64));
    });
}

#[test]
fn numbers_that_were_not_used_are_returned_too_when_the_next_waiter_has_none() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        let _ear = lab.listen("here").await;
        lab.meddle(
            &SET,
            &keys.fence().to_string(),
            &["8000000000000000:8000000000000000"],
        )
        .await;
        let (waiter, first) = handed_over(lab, &keys).await;
        let unfenced = unfenced_token();
        let how = How {
            fencing: false,
            ..SHARED
        };
        lab.waiting(&keys, &unfenced, &how).await;
        release(lab, &keys, &waiter, first + 2).await;
        assert!(lab.holds(&keys, &unfenced).await, "{}", lab.engine);
        lab.release(&keys, &unfenced).await;
        assert_eq!(numbers(lab, &keys, &token()).await.0, first + 3);
    });
}

#[test]
fn a_holder_that_vanished_has_used_all_its_numbers() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        let _ear = lab.listen("here").await;
        lab.meddle(
            &SET,
            &keys.fence().to_string(),
            &["8000000000000000:8000000000000000"],
        )
        .await;
        let (_place, first) = handed_over(lab, &keys).await;
        lab.meddle(&EXPIRE, &keys.lock, &[]).await;
        assert_eq!(numbers(lab, &keys, &token()).await.0, first + 64);
    });
}

/// A number of an earlier grant, none, or one beyond the range: the release returns nothing.
#[test]
fn what_is_not_a_number_of_the_present_grant_lowers_nothing() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        let _ear = lab.listen("here").await;
        lab.meddle(
            &SET,
            &keys.fence().to_string(),
            &["8000000000000000:8000000000000000"],
        )
        .await;
        let mut last = 8_000_000_000_000_000;
        for wrong in [0, 7, 8_000_000_000_000_000, 9_000_000_000_000_000] {
            let (waiter, first) = handed_over(lab, &keys).await;
            assert!(first > last);
            last = first + 63;
            release(lab, &keys, &waiter, wrong).await;
        }
        assert!(numbers(lab, &keys, &token()).await.0 > last);
    });
}

/// Only the holder's process knows which of its numbers is in use.
#[test]
fn an_operator_may_name_any_number_of_the_grant_and_no_other() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        let _ear = lab.listen("here").await;
        let (_place, first) = handed_over(lab, &keys).await;
        let InspectedState::Held { fence, .. } = lab.inspect(&keys).await.state else {
            panic!("{}", lab.engine)
        };
        assert_eq!(fence, Some(Fence::new(first)));
        let named = async |number| {
            let only = Some(Fence::new(number));
            lab.ask(&Break {
                keys: &keys,
                only,
                foreign: false,
            })
            .await
        };
        for other in [first - 1, first + 64] {
            let changed = Broke::Changed { fence };
            assert_eq!(named(other).await, changed, "{}", lab.engine);
        }
        assert!(matches!(named(first + 63).await, Broke::Broken { .. }));
    });
}
