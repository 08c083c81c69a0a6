//! One test per reply in each script's header, and per sentence of its replay section.

use crate::base::error::{ErrorKind, LostReason};
use crate::client::views::*;
use crate::engine::values::Note;
use crate::engine::values::calls_optional::*;
use crate::engine::values::grant::*;
use crate::engine::values::kind::{Held, HeldFor};
use crate::mutex::MUTEX;
use crate::script::Value;
use crate::script_tests::lab::*;

#[test]
fn a_free_mutex_is_granted_and_a_held_one_is_busy() {
    on_every_engine(async |lab| {
        let (keys, holder, other) = (keys("job"), token(), token());
        assert!(lab.granted(&keys, &holder, &TRY).await.is_some());
        let Acquired::Busy { seen } = lab.acquire(&keys, &other, &TRY).await else {
            panic!()
        };
        assert_eq!(
            seen.holder.as_deref(),
            crate::base::token::client_of(holder.secret().as_bytes())
        );
        assert!(seen.remaining.unwrap().as_millis() > 20_000);
        assert_eq!(lab.queue_length(&keys).await, 0);
    });
}

#[test]
fn a_replayed_acquire_gets_the_same_fence_and_its_whole_ttl() {
    on_every_engine(async |lab| {
        let (keys, holder) = (keys("job"), token());
        let fence = lab
            .granted(
                &keys,
                &holder,
                &How {
                    ttl_ms: 20_000,
                    ..TRY
                },
            )
            .await;
        assert_eq!(lab.granted(&keys, &holder, &TRY).await, fence);
        let Value::Int(left) = lab.meddle(&TTL_OF, &keys.lock, &[]).await[0] else {
            panic!()
        };
        assert!(left > 20_000, "{left}");
    });
}

#[test]
fn without_fencing_no_number_is_reserved_and_no_fence_key_is_written() {
    on_every_engine(async |lab| {
        let (keys, holder) = (keys("job"), unfenced_token());
        let unfenced = How {
            fencing: false,
            ..TRY
        };
        assert_eq!(lab.granted(&keys, &holder, &unfenced).await, None);
        assert_eq!(lab.granted(&keys, &holder, &unfenced).await, None);
        assert_eq!(
            lab.meddle(&TYPE_OF, &keys.fence().to_string(), &[]).await,
            [Value::Bytes(b"none".to_vec())]
        );
    });
}

#[test]
fn fences_grow_with_every_grant_and_after_the_key_was_lost() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        let mut last = None;
        for round in 0..5 {
            let holder = token();
            let fence = lab.granted(&keys, &holder, &TRY).await;
            assert!(fence > last, "{fence:?} after {last:?}");
            last = fence;
            assert_eq!(lab.release(&keys, &holder).await, ReleaseAnswer::Released);
            if round == 2 {
                lab.meddle(&DELETE, &keys.fence().to_string(), &[]).await;
            }
        }
    });
}

#[test]
fn a_fence_ahead_of_the_clock_still_grows() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        lab.set_fence(&keys, 8_000_000_000_000_007).await;
        let fence = lab.granted(&keys, &token(), &TRY).await.unwrap();
        assert_eq!(fence.get(), 8_000_000_000_000_008);
    });
}

#[test]
fn the_queue_is_ordered_by_priority_and_then_by_arrival() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        lab.granted(&keys, &token(), &TRY).await;
        let urgent = How {
            priority: 5,
            ..WAIT
        };
        let lowly = How {
            priority: -5,
            ..WAIT
        };
        let (a, b, c, d) = (token(), token(), token(), token());
        assert_eq!(lab.waiting(&keys, &a, &WAIT).await, 1);
        assert_eq!(lab.waiting(&keys, &b, &lowly).await, 2);
        assert_eq!(lab.waiting(&keys, &c, &WAIT).await, 2);
        assert_eq!(lab.waiting(&keys, &d, &urgent).await, 1);
        assert_eq!(lab.waiting(&keys, &a, &WAIT).await, 2);
        let priorities: Vec<i32> = lab
            .inspect(&keys)
            .await
            .queue
            .into_iter()
            .map(|waiter| waiter.priority)
            .collect();
        assert_eq!(priorities, [5, 0, 0, -5]);
    });
}

#[test]
fn a_replayed_wait_keeps_its_position_and_adds_no_second_entry() {
    on_every_engine(async |lab| {
        let (keys, first, second) = (keys("job"), token(), token());
        lab.granted(&keys, &token(), &TRY).await;
        lab.waiting(&keys, &first, &WAIT).await;
        lab.waiting(&keys, &second, &WAIT).await;
        for _ in 0..3 {
            assert_eq!(lab.waiting(&keys, &first, &WAIT).await, 1);
            assert_eq!(lab.waiting(&keys, &second, &WAIT).await, 2);
        }
        assert_eq!(lab.queue_length(&keys).await, 2);
    });
}

#[test]
fn a_poll_marks_its_entry_as_alive_and_updates_it_when_the_request_changed() {
    on_every_engine(async |lab| {
        let (keys, waiter) = (keys("job"), token());
        let (queue, waiters) = (keys.queue().to_string(), keys.waiters().to_string());
        let entry = async || {
            let said = lab.meddle(&ENTRY_OF, &waiters, &[waiter.secret()]).await;
            let [Value::Bytes(entry)] = &said[..] else {
                panic!("{said:?}")
            };
            String::from_utf8(entry.clone()).unwrap()
        };
        lab.granted(&keys, &token(), &TRY).await;
        lab.waiting(&keys, &waiter, &WAIT).await;
        lab.meddle(&AGE_ENTRY, &waiters, &[waiter.secret()]).await;
        lab.meddle(&AGE_MEMBER, &queue, &[]).await;
        let old = entry().await;
        assert_eq!(lab.waiting(&keys, &waiter, &WAIT).await, 1);
        let marked = entry().await;
        assert!(marked[47..63] > old[47..63], "{marked} after {old}");
        let elsewhere = How {
            channel: "ch",
            ..WAIT
        };
        assert_eq!(lab.waiting(&keys, &waiter, &elsewhere).await, 1);
        let updated = entry().await;
        assert!(updated.ends_with(" ch"), "{updated}");
        assert!(updated.starts_with(&marked[..47]) && lab.queue_length(&keys).await == 1);
    });
}

#[test]
fn confirm_renews_the_whole_ttl_as_extend_does() {
    on_every_engine(async |lab| {
        let (keys, holder, other) = (keys("job"), token(), token());
        let left = async || {
            let Value::Int(left) = lab.meddle(&TTL_OF, &keys.lock, &[]).await[0] else {
                panic!()
            };
            left
        };
        assert_eq!(
            lab.confirm(&keys, &holder, 1_000).await,
            Err(LostReason::KeyMissing)
        );
        lab.granted(&keys, &holder, &TRY).await;
        assert_eq!(lab.confirm(&keys, &holder, 1_000).await, Ok(()));
        assert!(left().await > 25_000, "shortened");
        assert_eq!(lab.confirm(&keys, &holder, 60_000).await, Ok(()));
        assert!(left().await > 55_000, "not made whole");
        assert_eq!(
            lab.confirm(&keys, &other, 90_000).await,
            Err(LostReason::TakenOver)
        );
        assert!(left().await <= 60_000 && lab.holds(&keys, &holder).await);
    });
}

#[test]
fn extend_renews_the_whole_ttl_never_shortens_and_never_creates() {
    on_every_engine(async |lab| {
        let (keys, holder, other) = (keys("job"), token(), token());
        assert_eq!(
            lab.extend(&keys, &holder, 1_000).await,
            ExtendAnswer::EXPIRED
        );
        lab.granted(&keys, &holder, &TRY).await;
        assert!(matches!(
            lab.extend(&keys, &holder, 1_000).await,
            ExtendAnswer::Extended { .. }
        ));
        let Value::Int(left) = lab.meddle(&TTL_OF, &keys.lock, &[]).await[0] else {
            panic!()
        };
        assert!(left > 25_000, "shortened to {left}");
        assert!(matches!(
            lab.extend(&keys, &holder, 60_000).await,
            ExtendAnswer::Extended { .. }
        ));
        let Value::Int(left) = lab.meddle(&TTL_OF, &keys.lock, &[]).await[0] else {
            panic!()
        };
        assert!(left > 55_000, "not extended: {left}");
        assert_eq!(lab.extend(&keys, &other, 1_000).await, ExtendAnswer::TAKEN);
        lab.meddle(&EXPIRE, &keys.lock, &[]).await;
        assert_eq!(
            lab.extend(&keys, &holder, 1_000).await,
            ExtendAnswer::EXPIRED
        );
        assert!(!lab.holds(&keys, &holder).await);
    });
}

#[test]
fn release_is_for_the_holder_alone_and_happens_once() {
    on_every_engine(async |lab| {
        let (keys, holder, other) = (keys("job"), token(), token());
        assert_eq!(lab.release(&keys, &holder).await, ReleaseAnswer::Expired);
        lab.granted(&keys, &holder, &TRY).await;
        assert_eq!(lab.release(&keys, &other).await, ReleaseAnswer::Taken);
        assert!(lab.holds(&keys, &holder).await);
        assert_eq!(lab.release(&keys, &holder).await, ReleaseAnswer::Released);
        assert_eq!(lab.release(&keys, &holder).await, ReleaseAnswer::Expired);
        lab.granted(&keys, &other, &TRY).await;
        assert_eq!(lab.release(&keys, &holder).await, ReleaseAnswer::Taken);
        assert!(lab.holds(&keys, &other).await);
    });
}

#[test]
fn cancel_undoes_a_wait_or_a_grant_and_nothing_else() {
    on_every_engine(async |lab| {
        let (keys, holder, waiter, other) = (keys("job"), token(), token(), token());
        lab.granted(&keys, &holder, &TRY).await;
        lab.waiting(&keys, &waiter, &WAIT).await;
        assert_eq!(lab.cancel(&keys, &other).await, CancelAnswer::Absent);
        assert_eq!(lab.cancel(&keys, &waiter).await, CancelAnswer::Left);
        assert_eq!(lab.cancel(&keys, &waiter).await, CancelAnswer::Absent);
        assert!(lab.holds(&keys, &holder).await && lab.queue_length(&keys).await == 0);
        assert_eq!(lab.cancel(&keys, &holder).await, CancelAnswer::Released);
        assert!(matches!(
            lab.inspect(&keys).await.state,
            InspectedState::Free
        ));
    });
}

#[test]
fn detach_passes_the_lease_to_another_token_and_can_be_replayed() {
    on_every_engine(async |lab| {
        let (keys, holder, successor) = (keys("job"), token(), token());
        let (stranger, its_successor) = (token(), token());
        let (held, strange) = (Held::of(&keys, &holder), Held::of(&keys, &stranger));
        let detach = |from, successor| Detach {
            script: MUTEX.detach.as_ref().unwrap(),
            held_for: HeldFor {
                held: from,
                ttl: ttl(60_000),
            },
            successor,
        };
        assert_eq!(
            lab.ask(&detach(&held, &successor)).await,
            Err(LostReason::KeyMissing)
        );
        lab.granted(&keys, &holder, &TRY).await;
        assert_eq!(
            lab.ask(&detach(&strange, &its_successor)).await,
            Err(LostReason::TakenOver)
        );
        for _ in 0..2 {
            assert_eq!(lab.ask(&detach(&held, &successor)).await, Ok(()));
            assert!(lab.holds(&keys, &successor).await);
        }
        assert_eq!(lab.release(&keys, &holder).await, ReleaseAnswer::Taken);
        assert_eq!(
            lab.release(&keys, &successor).await,
            ReleaseAnswer::Released
        );
    });
}

#[test]
fn a_foreign_value_is_busy_and_is_left_alone() {
    on_every_engine(async |lab| {
        let (keys, ours) = (keys("job"), token());
        lab.meddle(&SET, &keys.lock, &["x"]).await;
        let Acquired::Busy { seen } = lab.acquire(&keys, &ours, &TRY).await else {
            panic!()
        };
        assert_eq!(seen.holder, None);
        assert_eq!(lab.release(&keys, &ours).await, ReleaseAnswer::Taken);
        assert_eq!(lab.extend(&keys, &ours, 1_000).await, ExtendAnswer::TAKEN);
        assert_eq!(lab.cancel(&keys, &ours).await, CancelAnswer::Absent);
        let InspectedState::Held(SeenHold { value, fence, .. }) = lab.inspect(&keys).await.state
        else {
            panic!()
        };
        assert_eq!((value.as_slice(), fence), (b"x".as_slice(), None));
    });
}

#[test]
fn another_type_under_any_key_is_an_error_and_is_left_alone() {
    on_every_engine(async |lab| {
        let (keys, ours) = (keys("job"), token());
        for (key, kind) in [
            (&keys.lock.to_string(), ErrorKind::WrongType),
            (&keys.queue().to_string(), ErrorKind::Corrupt),
            (&keys.fence().to_string(), ErrorKind::Corrupt),
        ] {
            lab.meddle(&ADD_HASH, key, &[]).await;
            let error = lab
                .store
                .ask(&acquire(&Held::of(&keys, &ours), &WAIT), WITHIN)
                .await
                .unwrap_err();
            assert_eq!(
                (error.kind(), error.maybe_applied()),
                (kind, false),
                "{key}: {error}"
            );
            assert_eq!(
                lab.meddle(&TYPE_OF, key, &[]).await,
                [Value::Bytes(b"hash".to_vec())]
            );
            lab.meddle(&DELETE, key, &[]).await;
        }
        // Without a queue it means nothing; a waiter that cannot join the queue leaves nothing half written.
        lab.meddle(&SET, &keys.waiters().to_string(), &["x"]).await;
        lab.granted(&keys, &token(), &TRY).await;
        let error = lab
            .store
            .ask(&acquire(&Held::of(&keys, &ours), &WAIT), WITHIN)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(lab.queue_length(&keys).await, 0);
    });
}

#[test]
fn every_key_that_a_lock_leaves_has_a_ttl() {
    on_every_engine(async |lab| {
        let (keys, holder) = (keys("job"), token());
        lab.granted(&keys, &holder, &TRY).await;
        lab.waiting(&keys, &token(), &WAIT).await;
        let held = Held::of(&keys, &holder);
        lab.ask(&Note::of(held.for_ttl(ttl(1_000)), "x").unwrap())
            .await;
        for key in [
            &keys.lock.to_string(),
            &keys.queue().to_string(),
            &keys.waiters().to_string(),
            &keys.fence().to_string(),
            &keys.note().to_string(),
        ] {
            let Value::Int(left) = lab.meddle(&TTL_OF, key, &[]).await[0] else {
                panic!()
            };
            assert!(left > 0, "{key}: {left}");
        }
    });
}
