//! Side keys with content that no grant and no waiter wrote: the scripts grant nothing on top of it, and every holder
//! can still release.

use leaselock_fence::Fence;

use super::lab::*;
use super::rwlock::reads::{as_kind, mutex_of};
use crate::base::error::{ErrorKind, StoreError};
use crate::base::token::Token;
use crate::client::views::*;
use crate::engine::values::calls_many::AcquireMany;
use crate::engine::values::calls_optional::Detach;
use crate::engine::values::grant::*;
use crate::engine::values::kind::{Held, Resource};
use crate::script::damage::Types;
use crate::script::{Operation, Script, Value};
use crate::semaphore::PERMITS;

/// Fences that no grant writes: text, or ids.
const DAMAGED: [&str; 7] = [
    "soon",
    "",
    "1795224695691371:1795224695691371",
    "9000000000000-0",
    "9223372036854775-808",
    "99999999999999999-7",
    "18446744073709551615-18446744073709551615",
];

static GET_FIELD: Script = Script::new("get_field", "return redis.call('HGET', KEYS[1], 'a')");

/// Waits without a fencing token, and can be woken.
const UNFENCED: How<'static> = How {
    fencing: false,
    channel: "here",
    ..WAIT
};
const WOKEN: How<'static> = How {
    channel: "here",
    ..WAIT
};

impl Lab {
    async fn refused<O: Operation>(&self, operation: &O) -> StoreError
    where
        O::Reply: std::fmt::Debug,
    {
        let said = self.store.ask_one(operation, WITHIN).await;
        said.expect_err(self.engine)
    }

    /// Expects a refusal as damaged, with the key in the message.
    async fn refused_for(&self, key: &str, keys: &Resource, token: &Token, how: &How<'_>) {
        let error = self.refused(&acquire(&Held::of(keys, token), how)).await;
        let what = (error.kind(), error.maybe_applied());
        assert_eq!(
            what,
            (ErrorKind::Corrupt, false),
            "{}: {error}",
            self.engine
        );
        let named = format!("nothing was granted: `{key}` is damaged");
        assert!(error.to_string().starts_with(&named), "{error}");
    }

    /// Writes what no grant writes.
    async fn damage(&self, fence: &str, what: &str) {
        self.meddle(&DELETE, fence, &[]).await;
        let script = if what.contains('-') { &ADVANCE } else { &SET };
        self.meddle(script, fence, &[what]).await;
    }

    async fn value(&self, key: &str) -> Vec<Value> {
        self.meddle(&GET, key, &[]).await
    }

    async fn still_ms(&self, key: &str) -> i64 {
        match self.meddle(&TTL_OF, key, &[]).await[0] {
            Value::Int(left) => left,
            ref other => panic!("{other:?}"),
        }
    }

    async fn is_free(&self, keys: &Resource) -> bool {
        matches!(self.inspect(keys).await.state, InspectedState::Free)
    }
}

#[test]
fn a_damaged_fence_grants_nothing_and_is_not_renewed() {
    on_every_engine(async |lab| {
        let (keys, ours) = (keys("job"), token());
        let fence = keys.fence().to_string();
        for damage in DAMAGED {
            lab.damage(&fence, damage).await;
            for how in [&TRY, &WAIT] {
                lab.refused_for(&fence, &keys, &ours, how).await;
                assert!(lab.is_free(&keys).await, "{}: {damage}", lab.engine);
            }
            assert!(lab.still_ms(&fence).await <= 60_000, "{damage}: renewed");
        }
    });
}

#[test]
fn many_at_once_pass_over_a_damaged_fence() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        let fence = keys.fence().to_string();
        for damage in DAMAGED {
            lab.damage(&fence, damage).await;
            let items = &[item(&keys, &token())];
            let answers = lab.ask(&AcquireMany { items }).await;
            assert_eq!(answers, [None], "{}: {damage}", lab.engine);
            assert!(lab.is_free(&keys).await, "{}: {damage}", lab.engine);
            assert!(lab.still_ms(&fence).await <= 60_000, "{damage}: renewed");
        }
    });
}

#[test]
fn a_lock_without_fencing_is_granted_beside_a_damaged_fence() {
    on_every_engine(async |lab| {
        let (keys, ours, next) = (keys("job"), unfenced_token(), unfenced_token());
        let _ear = lab.listen("here").await;
        lab.meddle(&SET, &keys.fence().to_string(), &["soon"]).await;
        let unfenced = How {
            fencing: false,
            ..TRY
        };
        lab.granted(&keys, &ours, &unfenced).await;
        lab.granted(&keys, &ours, &unfenced).await;
        lab.waiting(&keys, &next, &UNFENCED).await;
        assert_eq!(lab.release(&keys, &ours).await, ReleaseAnswer::Released);
        assert!(lab.holds(&keys, &next).await, "{}", lab.engine);
    });
}

#[test]
fn the_last_number_is_granted_once_and_what_comes_after_it_is_damaged() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        let fence = keys.fence().to_string();
        let last = Fence::MAX.get() - 2;
        lab.set_fence(&keys, last).await;
        for number in [last + 1, last + 2] {
            let holder = token();
            let granted = lab.granted(&keys, &holder, &TRY).await;
            assert_eq!(granted, Some(Fence::new(number)), "{}", lab.engine);
            lab.release(&keys, &holder).await;
        }
        lab.refused_for(&fence, &keys, &token(), &TRY).await;
    });
}

/// The next waiter cannot be granted, so it is woken to poll, and learns why.
#[test]
fn a_release_frees_the_lock_whose_fence_is_damaged_and_wakes_the_first_waiter() {
    on_every_engine(async |lab| {
        let subscription = lab.listen("here").await;
        for (round, damage) in DAMAGED.into_iter().enumerate() {
            let keys = keys(&format!("job{round}"));
            let (holder, next) = (token(), token());
            lab.granted(&keys, &holder, &TRY).await;
            lab.waiting(&keys, &next, &WOKEN).await;
            lab.damage(&keys.fence().to_string(), damage).await;
            assert_eq!(lab.release(&keys, &holder).await, ReleaseAnswer::Released);
            assert!(lab.is_free(&keys).await, "{}: {damage}", lab.engine);
            assert_eq!(subscription.heard(&next).await, next.secret(), "no grant");
            lab.refused_for(&keys.fence().to_string(), &keys, &next, &WOKEN)
                .await;
        }
    });
}

#[test]
fn behind_a_damaged_fence_a_waiter_without_fencing_is_granted() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        let subscription = lab.listen("here").await;
        let (holder, fenced, unfenced) = (token(), token(), unfenced_token());
        lab.granted(&keys, &holder, &TRY).await;
        lab.waiting(&keys, &fenced, &WOKEN).await;
        lab.waiting(&keys, &unfenced, &UNFENCED).await;
        lab.meddle(&ADD_HASH, "other", &[]).await;
        lab.meddle(&SET, &keys.fence().to_string(), &["soon"]).await;
        assert_eq!(lab.release(&keys, &holder).await, ReleaseAnswer::Released);
        assert!(subscription.heard(&unfenced).await.starts_with("grant 0 "));
        assert!(lab.holds(&keys, &unfenced).await, "{}", lab.engine);
    });
}

/// The script cannot find its fencing tokens, and renews no ttl; the holder can still release.
#[test]
fn a_holder_whose_fence_was_damaged_learns_so_when_it_acquires_again() {
    on_every_engine(async |lab| {
        let (keys, holder) = (keys("job"), token());
        lab.granted(&keys, &holder, &TRY).await;
        lab.meddle(&SHORTEN, &keys.lock, &["5000"]).await;
        lab.meddle(&SET, &keys.fence().to_string(), &["soon"]).await;
        lab.refused_for(&keys.fence().to_string(), &keys, &holder, &TRY)
            .await;
        let left = lab.still_ms(&keys.lock).await;
        assert!(0 < left && left <= 5_000, "{}: {left}", lab.engine);
        assert_eq!(lab.release(&keys, &holder).await, ReleaseAnswer::Released);
    });
}

#[test]
fn break_and_cancel_free_a_lock_whose_fence_is_damaged() {
    on_every_engine(async |lab| {
        let (keys, holder) = (keys("job"), token());
        let terms = |only| break_now(&keys, only, false);
        lab.granted(&keys, &holder, &TRY).await;
        lab.meddle(&SET, &keys.fence().to_string(), &["soon"]).await;
        let named = lab.ask(&terms(Some(Fence::new(7)))).await;
        assert_eq!(named, Broke::Changed { fence: None }, "{}", lab.engine);
        let broken = lab.ask(&terms(None)).await;
        assert!(matches!(broken, Broke::Broken { fence: None, .. }));
        lab.meddle(&DELETE, &keys.fence().to_string(), &[]).await;
        lab.granted(&keys, &holder, &TRY).await;
        lab.meddle(&SET, &keys.fence().to_string(), &["soon"]).await;
        assert_eq!(lab.cancel(&keys, &holder).await, CancelAnswer::Released);
        assert!(lab.is_free(&keys).await, "{}", lab.engine);
    });
}

/// Ends a lease as its holder, its cleanup or an operator does.
async fn ends(lab: &Lab, keys: &Resource, holder: &Token, way: usize, fence: Option<Fence>) {
    let token = holder;
    let ended = match way {
        0 => lab.release(keys, token).await == ReleaseAnswer::Released,
        1 => lab.cancel(keys, token).await == CancelAnswer::Released,
        _ => {
            let broke = lab.ask(&break_now(keys, fence, false)).await;
            matches!(broke, Broke::Broken { .. })
        }
    };
    assert!(ended, "{}: way {way}", lab.engine);
}

#[test]
fn another_type_under_the_queue_or_the_waiters_stops_no_release() {
    on_every_engine(async |lab| {
        let _ear = lab.listen("here").await;
        for way in 0..3 {
            for (odd, waits) in [(0, false), (0, true), (1, true)] {
                let keys = keys(&format!("job{way}{odd}{waits}"));
                let (holder, next) = (token(), token());
                let fence = lab.granted(&keys, &holder, &TRY).await;
                if waits {
                    lab.waiting(&keys, &next, &WOKEN).await;
                }
                let key = &[keys.queue(), keys.waiters()][odd].to_string();
                lab.meddle(&DELETE, key, &[]).await;
                lab.meddle(&SET, key, &["x"]).await;
                lab.refused_for(key, &keys, &next, &WOKEN).await;
                ends(lab, &keys, &holder, way, fence).await;
                assert!(lab.is_free(&keys).await, "{}: {key}", lab.engine);
                assert_eq!(lab.value(key).await, [Value::Bytes(b"x".to_vec())]);
                lab.refused_for(key, &keys, &next, &WOKEN).await;
            }
        }
    });
}

#[test]
fn another_type_beside_a_lock_is_named_with_what_mends_it() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        for noun in ["usage", "once", "cron", "latch", "barrier", "counter"] {
            let key = keys.beside(noun).to_string();
            lab.meddle(&SET, &key, &["x"]).await;
            let read = Meddle(&GET_FIELD, &key, &[]);
            let error = lab.refused(&read).await;
            let what = (error.kind(), error.maybe_applied());
            assert_eq!(what, (ErrorKind::WrongType, false), "{}", lab.engine);
            let named = format!("nothing was changed: `{key}` is damaged");
            let message = error.to_string();
            assert!(message.starts_with(&named), "{message}");
            assert!(message.contains("Delete the key"), "{message}");
        }
        let types = Types::beside(&keys);
        let damaged = types.damage(&lab.ask(&types).await);
        assert_eq!(damaged.len(), 6, "{}: {damaged:?}", lab.engine);
    });
}

/// Waiters that have died are among them: no client polls here.
#[test]
fn an_inspection_says_how_many_wait_beyond_those_that_it_shows() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        lab.granted(&keys, &token(), &TRY).await;
        for _ in 0..130 {
            lab.waiting(&keys, &token(), &WAIT).await;
        }
        let seen = lab.inspect(&keys).await;
        let counts = (seen.queue.len(), seen.waiter_count);
        assert_eq!(counts, (128, 130), "{}", lab.engine);
    });
}

#[test]
fn an_inspection_shows_which_side_key_is_damaged_and_how_to_repair_it() {
    on_every_engine(async |lab| {
        let (keys, holder) = (keys("job"), token());
        lab.granted(&keys, &holder, &TRY).await;
        assert!(lab.inspect(&keys).await.damaged.is_empty());
        lab.meddle(&SET, &keys.queue().to_string(), &["x"]).await;
        lab.damage(&keys.fence().to_string(), "9223372036854775-808")
            .await;
        let seen = lab.inspect(&keys).await;
        let InspectedState::Held(SeenHold { value, fence, .. }) = seen.state else {
            panic!("{}", lab.engine)
        };
        let shown = (value.as_slice(), fence);
        assert_eq!(shown, (holder.secret().as_bytes(), None), "{}", lab.engine);
        let [queue, fence] = &seen.damaged[..] else {
            panic!("{:?}", seen.damaged)
        };
        assert!(queue.starts_with("`{job}:ll:queue` is damaged"), "{queue}");
        assert!(fence.starts_with("`{job}:ll:fence` is damaged"), "{fence}");
    });
}

/// What is held is in the lock's key, so permits are given back without a count of them.
#[test]
fn another_type_under_the_usage_of_permits_stops_no_release() {
    on_every_engine(async |lab| {
        let _ear = lab.listen("here").await;
        for way in 0..3 {
            for waits in [false, true] {
                let name = format!("pool{way}{waits}");
                let keys = as_kind(&PERMITS, "w1 2", &name);
                let [holder, other, next] = [(); 3].map(|()| token());
                for holder in [&holder, &other] {
                    lab.granted(&keys, holder, &TRY).await;
                }
                if waits {
                    lab.waiting(&mutex_of(&keys), &next, &WOKEN).await;
                }
                let usage = &keys.beside("usage").to_string();
                lab.meddle(&DELETE, usage, &[]).await;
                lab.meddle(&SET, usage, &["x"]).await;
                let refused = lab
                    .refused(&acquire(&Held::of(&keys, &token()), &WAIT))
                    .await;
                assert_eq!(refused.kind(), ErrorKind::WrongType, "{}", lab.engine);
                ends(lab, &keys, &holder, way, None).await;
                let held = if way == 2 { 0 } else { 1 };
                let members = lab.members(&keys).await;
                assert!(waits || members.len() == held, "{} {way}", lab.engine);
                assert_eq!(lab.holds(&keys, &next).await, waits && way == 2);
                assert_eq!(lab.value(usage).await, [Value::Bytes(b"x".to_vec())]);
            }
        }
    });
}

/// The error says that nothing was changed.
#[test]
fn another_type_under_the_usage_of_permits_lets_no_half_of_a_hold_be_handed_over() {
    on_every_engine(async |lab| {
        let keys = as_kind(&PERMITS, "w1 2", "pool");
        let (holder, successor) = (token(), token());
        lab.granted(&keys, &holder, &TRY).await;
        let before = lab.members(&keys).await;
        let usage = &keys.beside("usage").to_string();
        lab.meddle(&DELETE, usage, &[]).await;
        lab.meddle(&SET, usage, &["x"]).await;
        let held = Held::of(&keys, &holder);
        let detach = Detach {
            script: keys.kind.detach.as_ref().unwrap(),
            held_for: held.for_ttl(ttl(30_000)),
            successor: &successor,
        };
        let refused = lab.refused(&detach).await;
        assert_eq!(refused.kind(), ErrorKind::WrongType, "{}", lab.engine);
        assert_eq!(lab.members(&keys).await, before, "{}", lab.engine);
    });
}
