//! Waiters that no message reaches: a visit of the queue sets them aside, and a poll brings one back.

use super::lab::*;
use crate::engine::values::grant::*;
use crate::engine::values::kind::Resource;
use crate::script::Value;

/// Adds waiters that no message reaches, in front of all others.
async fn add_dead(lab: &Lab, keys: &Resource, count: usize) {
    let (queue, waiters, count) = (keys.queue(), keys.waiters(), count.to_string());
    lab.meddle(&ADD_DEAD, &queue.to_string(), &[&count, "queue"])
        .await;
    lab.meddle(&ADD_DEAD, &waiters.to_string(), &[&count, "waiters"])
        .await;
}

#[test]
fn behind_more_dead_waiters_than_one_call_sets_aside_a_live_one_is_told_and_not_overtaken() {
    on_every_engine(async |lab| {
        let (keys, holder, there) = (keys("job"), token(), token());
        let ear = lab.listen("here").await;
        lab.granted(&keys, &holder, &TRY).await;
        add_dead(lab, &keys, 2_500).await;
        let wait = How {
            channel: "here",
            ..WAIT
        };
        assert_eq!(lab.waiting(&keys, &there, &wait).await, 2_501);
        lab.release(&keys, &holder).await;
        assert_eq!(ear.heard(&there).await, there.secret(), "{}", lab.engine);
        // The lock is free, and every call sets others aside; a newcomer's tells the waiter too.
        let newcomer = lab.acquire(&keys, &token(), &TRY).await;
        assert!(
            matches!(newcomer, Acquired::Busy { .. }),
            "{}: {newcomer:?}",
            lab.engine
        );
        assert!(ear.count() >= 1, "{}", lab.engine);
        lab.granted(&keys, &there, &wait).await;
        let behind = token();
        assert_eq!(lab.waiting(&keys, &behind, &wait).await, 1);
    });
}

#[test]
fn a_poll_that_does_not_get_past_the_dead_waiters_tells_its_own_waiter_to_poll_again() {
    on_every_engine(async |lab| {
        let (keys, there) = (keys("job"), token());
        let ear = lab.listen("here").await;
        add_dead(lab, &keys, 1_500).await;
        let wait = How {
            channel: "here",
            ..WAIT
        };
        assert_eq!(lab.waiting(&keys, &there, &wait).await, 476);
        assert_eq!(ear.heard(&there).await, there.secret(), "{}", lab.engine);
        lab.granted(&keys, &there, &wait).await;
    });
}

#[test]
fn a_waiter_that_was_set_aside_and_has_not_polled_for_45_s_is_forgotten() {
    on_every_engine(async |lab| {
        let (keys, holder, away) = (keys("job"), token(), token());
        let next = token();
        lab.granted(&keys, &holder, &TRY).await;
        let wait = How {
            channel: "away",
            ..WAIT
        };
        lab.waiting(&keys, &away, &wait).await;
        lab.waiting(&keys, &next, &wait).await;
        lab.release(&keys, &holder).await;
        assert_eq!(lab.queue_length(&keys).await, 2, "{}", lab.engine);
        lab.meddle(&AGE_ASIDE, &keys.queue().to_string(), &[]).await;
        lab.granted(&keys, &holder, &TRY).await;
        lab.release(&keys, &holder).await;
        assert_eq!(lab.queue_length(&keys).await, 1, "{}", lab.engine);
        let waiters = keys.waiters().to_string();
        for (token, is_known) in [(&away, false), (&next, true)] {
            let entry = lab.meddle(&ENTRY_OF, &waiters, &[token.secret()]).await;
            let known = matches!(entry[..], [Value::Bytes(_)]);
            assert_eq!(known, is_known, "{}: {entry:?}", lab.engine);
        }
    });
}
