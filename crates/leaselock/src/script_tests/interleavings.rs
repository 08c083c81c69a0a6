//! What can happen between two scripts: cancelled waiters, absent processes, undelivered messages, similar names.

use super::lab::*;
use crate::engine::values::grant::*;

#[test]
fn a_release_hands_over_to_the_first_waiter_with_a_larger_fence_and_one_message() {
    on_every_engine(async |lab| {
        let (keys, holder, first, second) = (keys("job"), token(), token(), token());
        let subscription = lab.listen("here").await;
        let wait = How {
            channel: "here",
            ..WAIT
        };
        let before = lab.granted(&keys, &holder, &TRY).await.unwrap();
        lab.waiting(&keys, &first, &wait).await;
        lab.waiting(&keys, &second, &wait).await;
        assert_eq!(lab.release(&keys, &holder).await, ReleaseAnswer::Released);
        assert!(lab.holds(&keys, &first).await && lab.queue_length(&keys).await == 1);
        let message = subscription.heard(&first).await;
        let fence = lab.granted(&keys, &first, &wait).await.unwrap();
        assert!(
            fence > before && message.starts_with(&format!("grant {fence} ")),
            "{message}"
        );
        assert_eq!(lab.release(&keys, &first).await, ReleaseAnswer::Released);
        subscription.heard(&second).await;
        assert_eq!(subscription.count(), 2);
    });
}

#[test]
fn a_handed_over_lease_is_short_until_its_waiter_extends_it() {
    on_every_engine(async |lab| {
        let (keys, holder, waiter) = (keys("job"), token(), token());
        let _ear = lab.listen("here").await;
        lab.granted(&keys, &holder, &TRY).await;
        let wait = How {
            channel: "here",
            ..WAIT
        };
        lab.waiting(&keys, &waiter, &wait).await;
        lab.release(&keys, &holder).await;
        let left = |values: Vec<crate::script::Value>| match values[0] {
            crate::script::Value::Int(ms) => ms,
            _ => panic!(),
        };
        assert!((1..=5_000).contains(&left(lab.meddle(&TTL_OF, &keys.lock, &[]).await)));
        lab.granted(&keys, &waiter, &wait).await;
        assert!(left(lab.meddle(&TTL_OF, &keys.lock, &[]).await) > 25_000);
    });
}

#[test]
fn a_grant_for_a_cancelled_waiter_goes_to_the_next() {
    on_every_engine(async |lab| {
        let (keys, holder, gone, next) = (keys("job"), token(), token(), token());
        let subscription = lab.listen("here").await;
        let wait = How {
            channel: "here",
            ..WAIT
        };
        lab.granted(&keys, &holder, &TRY).await;
        lab.waiting(&keys, &gone, &wait).await;
        lab.waiting(&keys, &next, &wait).await;
        lab.release(&keys, &holder).await;
        assert!(lab.holds(&keys, &gone).await);
        assert_eq!(lab.cancel(&keys, &gone).await, CancelAnswer::Released);
        subscription.heard(&next).await;
        assert!(lab.holds(&keys, &next).await);
    });
}

#[test]
fn when_the_first_waiter_leaves_the_next_one_alone_is_woken() {
    on_every_engine(async |lab| {
        let (keys, holder) = (keys("job"), token());
        let [first, next, last] = [token(), token(), token()];
        let subscription = lab.listen("here").await;
        let wait = How {
            channel: "here",
            ..WAIT
        };
        lab.granted(&keys, &holder, &TRY).await;
        for waiter in [&first, &next, &last] {
            lab.waiting(&keys, waiter, &wait).await;
        }
        assert_eq!(lab.cancel(&keys, &first).await, CancelAnswer::Left);
        assert_eq!(subscription.heard(&next).await, next.secret(), "no grant");
        assert_eq!(lab.cancel(&keys, &first).await, CancelAnswer::Absent);
        assert_eq!(lab.cancel(&keys, &last).await, CancelAnswer::Left);
        lab.release(&keys, &holder).await;
        while subscription.count() < 2 {
            tokio::task::yield_now().await;
        }
        assert!(lab.holds(&keys, &next).await && subscription.count() == 2);
    });
}

#[test]
fn a_waiter_without_receivers_is_set_aside_until_its_next_poll_finds_its_position() {
    on_every_engine(async |lab| {
        let (keys, holder, away, there) = (keys("job"), token(), token(), token());
        let _ear = lab.listen("here").await;
        lab.granted(&keys, &holder, &TRY).await;
        lab.waiting(
            &keys,
            &away,
            &How {
                channel: "away",
                ..WAIT
            },
        )
        .await;
        lab.waiting(
            &keys,
            &there,
            &How {
                channel: "here",
                ..WAIT
            },
        )
        .await;
        lab.release(&keys, &holder).await;
        assert!(lab.holds(&keys, &there).await, "the absent one was granted");
        let wait = |channel| How { channel, ..WAIT };
        let newcomer = token();
        assert_eq!(lab.waiting(&keys, &newcomer, &wait("here")).await, 1);
        let _back = lab.listen("away").await;
        assert_eq!(lab.waiting(&keys, &away, &wait("away")).await, 1);
        assert_eq!(lab.queue_length(&keys).await, 2, "{}", lab.engine);
        lab.release(&keys, &there).await;
        assert!(lab.holds(&keys, &away).await);
        lab.release(&keys, &away).await;
        assert!(lab.holds(&keys, &newcomer).await);
    });
}

/// Being passed over changes nothing for a waiter without receivers.
#[test]
fn a_grant_without_receivers_goes_to_the_next_live_waiter() {
    on_every_engine(async |lab| {
        let (keys, holder, there) = (keys("job"), token(), token());
        let (away, also_away) = (token(), token());
        let subscription = lab.listen("here").await;
        let before = lab.granted(&keys, &holder, &TRY).await;
        for (token, channel) in [(&away, "away"), (&also_away, "away"), (&there, "here")] {
            lab.waiting(&keys, token, &How { channel, ..WAIT }).await;
        }
        assert_eq!(lab.release(&keys, &holder).await, ReleaseAnswer::Released);
        assert!(lab.holds(&keys, &there).await, "{}", lab.engine);
        subscription.heard(&there).await;
        assert_eq!(subscription.count(), 1, "{}", lab.engine);
        assert!(lab.granted(&keys, &there, &TRY).await > before);
        assert_eq!(lab.queue_length(&keys).await, 2, "{}", lab.engine);
        for (position, token) in [(1, &away), (2, &also_away)] {
            assert_eq!(lab.waiting(&keys, token, &WAIT).await, position);
        }
        assert_eq!(lab.cancel(&keys, &away).await, CancelAnswer::Left);
    });
}

#[test]
fn without_a_live_waiter_the_lock_is_free_and_a_newcomer_takes_it() {
    on_every_engine(async |lab| {
        let (keys, holder, away, newcomer) = (keys("job"), token(), token(), token());
        lab.granted(&keys, &holder, &TRY).await;
        lab.waiting(
            &keys,
            &away,
            &How {
                channel: "away",
                ..WAIT
            },
        )
        .await;
        lab.release(&keys, &holder).await;
        assert!(lab.granted(&keys, &newcomer, &TRY).await.is_some());
        assert_eq!(lab.queue_length(&keys).await, 1);
    });
}

#[test]
fn a_poll_grants_to_the_first_waiter_and_not_to_the_one_that_polled() {
    on_every_engine(async |lab| {
        let (keys, holder, first, second) = (keys("job"), token(), token(), token());
        let subscription = lab.listen("here").await;
        let wait = How {
            channel: "here",
            ..WAIT
        };
        lab.granted(&keys, &holder, &TRY).await;
        lab.waiting(&keys, &first, &wait).await;
        lab.waiting(&keys, &second, &wait).await;
        lab.meddle(&EXPIRE, &keys.lock, &[]).await;
        assert_eq!(lab.waiting(&keys, &second, &wait).await, 1);
        assert!(lab.holds(&keys, &first).await);
        subscription.heard(&first).await;
    });
}

#[test]
fn a_try_on_a_free_lock_with_a_queue_grants_to_the_queue() {
    on_every_engine(async |lab| {
        let (keys, holder, first, barger) = (keys("job"), token(), token(), token());
        let _ear = lab.listen("here").await;
        lab.granted(&keys, &holder, &TRY).await;
        lab.waiting(
            &keys,
            &first,
            &How {
                channel: "here",
                ..WAIT
            },
        )
        .await;
        lab.meddle(&EXPIRE, &keys.lock, &[]).await;
        assert!(matches!(
            lab.acquire(&keys, &barger, &TRY).await,
            Acquired::Busy { .. }
        ));
        assert!(lab.holds(&keys, &first).await);
    });
}

#[test]
fn a_newcomer_of_higher_priority_goes_before_the_head_of_the_queue() {
    on_every_engine(async |lab| {
        let (keys, holder, first, urgent) = (keys("job"), token(), token(), token());
        let _ear = lab.listen("here").await;
        lab.granted(&keys, &holder, &TRY).await;
        lab.waiting(
            &keys,
            &first,
            &How {
                channel: "here",
                ..WAIT
            },
        )
        .await;
        lab.meddle(&EXPIRE, &keys.lock, &[]).await;
        lab.granted(
            &keys,
            &urgent,
            &How {
                channel: "here",
                priority: 1,
                ..WAIT
            },
        )
        .await;
        assert_eq!(lab.queue_length(&keys).await, 1);
    });
}

#[test]
fn a_lost_waiters_hash_or_queue_blocks_no_client() {
    on_every_engine(async |lab| {
        let (keys, holder, waiter) = (keys("job"), token(), token());
        let _ear = lab.listen("here").await;
        let wait = How {
            channel: "here",
            ..WAIT
        };
        for lost in [&keys.waiters().to_string(), &keys.queue().to_string()] {
            lab.granted(&keys, &holder, &TRY).await;
            lab.waiting(&keys, &waiter, &wait).await;
            lab.meddle(&DELETE, lost, &[]).await;
            assert_eq!(lab.release(&keys, &holder).await, ReleaseAnswer::Released);
            lab.granted(&keys, &waiter, &wait).await;
            assert_eq!(lab.release(&keys, &waiter).await, ReleaseAnswer::Released);
            assert_eq!(lab.queue_length(&keys).await, 0, "{lost}");
        }
    });
}

#[test]
fn a_name_and_the_same_name_in_braces_have_queues_of_their_own() {
    on_every_engine(async |lab| {
        let (plain, tagged) = (keys("foo"), keys("{foo}"));
        let (a, b, waiter) = (token(), token(), token());
        let _ear = lab.listen("here").await;
        lab.granted(&plain, &a, &TRY).await;
        lab.granted(&tagged, &b, &TRY).await;
        lab.waiting(
            &plain,
            &waiter,
            &How {
                channel: "here",
                ..WAIT
            },
        )
        .await;
        assert_eq!(lab.queue_length(&tagged).await, 0);
        lab.release(&tagged, &b).await;
        assert!(lab.holds(&plain, &a).await && !lab.holds(&tagged, &waiter).await);
        lab.release(&plain, &a).await;
        assert!(lab.holds(&plain, &waiter).await);
    });
}

#[test]
fn a_queue_longer_than_one_read_is_served_past_waiters_without_receivers() {
    on_every_engine(async |lab| {
        let (keys, holder, there) = (keys("job"), token(), token());
        let _ear = lab.listen("here").await;
        lab.granted(&keys, &holder, &TRY).await;
        for _ in 0..40 {
            lab.waiting(
                &keys,
                &token(),
                &How {
                    channel: "away",
                    ..WAIT
                },
            )
            .await;
        }
        lab.waiting(
            &keys,
            &there,
            &How {
                channel: "here",
                ..WAIT
            },
        )
        .await;
        lab.release(&keys, &holder).await;
        assert!(lab.holds(&keys, &there).await);
        assert_eq!(lab.queue_length(&keys).await, 40);
    });
}
