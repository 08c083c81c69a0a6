//! One test per reply of `mutex/position`.

use super::lab::*;
use crate::engine::values::calls_optional::*;
use crate::engine::values::kind::Held;

/// Reads a waiter's position, and expects that nothing was written.
async fn position(
    lab: &Lab,
    keys: &crate::engine::values::kind::Resource,
    token: &crate::base::token::Token,
    how: &How<'_>,
) -> Option<u64> {
    match lab
        .ask(&Position::of(&acquire(&Held::of(keys, token), how)).unwrap())
        .await
    {
        PositionReply::Waiting { seen, position } => {
            assert!(
                seen.holder.is_some() && seen.remaining.is_some(),
                "{}",
                lab.engine
            );
            Some(position)
        }
        PositionReply::MustAcquire => None,
    }
}

#[test]
fn a_waiter_in_the_queue_with_the_same_request_gets_its_position() {
    on_every_engine(async |lab| {
        let (keys, holder, one, two) = (keys("job"), token(), token(), token());
        let options = How {
            channel: "ll:wake:me",
            ..WAIT
        };
        lab.granted(&keys, &holder, &TRY).await;
        assert_eq!(
            position(lab, &keys, &one, &options).await,
            None,
            "not in the queue"
        );
        assert_eq!(
            lab.queue_length(&keys).await,
            0,
            "and it does not get there by that"
        );
        for (expected, waiter) in [(1, &one), (2, &two)] {
            assert_eq!(lab.waiting(&keys, waiter, &options).await, expected);
            assert_eq!(position(lab, &keys, waiter, &options).await, Some(expected));
        }
        assert_eq!(
            position(lab, &keys, &two, &WAIT).await,
            None,
            "another request"
        );
        lab.cancel(&keys, &one).await;
        assert_eq!(position(lab, &keys, &two, &options).await, Some(1));
    });
}

#[test]
fn a_waiter_that_may_be_granted_or_must_renew_the_queue_is_told_to_acquire() {
    on_every_engine(async |lab| {
        let (keys, holder, waiter) = (keys("job"), token(), token());
        lab.granted(&keys, &holder, &TRY).await;
        lab.waiting(&keys, &waiter, &WAIT).await;
        assert_eq!(position(lab, &keys, &waiter, &WAIT).await, Some(1));
        assert_eq!(position(lab, &keys, &holder, &WAIT).await, None, "it holds");
        for key in [keys.queue(), keys.waiters()].map(|key| key.to_string()) {
            lab.meddle(&SHORTEN, &key, &["29000"]).await;
            assert_eq!(
                position(lab, &keys, &waiter, &WAIT).await,
                None,
                "{key} ends"
            );
            lab.meddle(&SHORTEN, &key, &["60000"]).await;
        }
        assert_eq!(position(lab, &keys, &waiter, &WAIT).await, Some(1));
        lab.release(&keys, &holder).await;
        assert_eq!(
            position(lab, &keys, &waiter, &WAIT).await,
            None,
            "it is free"
        );
    });
}
