//! The ttl of side keys and the order of the queue where the plain cases of a script skip work that is rarely needed.

use super::lab::*;
use super::rwlock::reads::as_kind;
use crate::engine::values::grant::*;
use crate::engine::values::kind::{Held, Resource};
use crate::script::{Script, Value};
use crate::semaphore::PERMITS;

/// Writes what an acquisition of a waiter writes: a member and its entry, with a short ttl.
static MEMBER: Script = Script::new(
    "MEMBER",
    "redis.call('ZADD', KEYS[1], '0', ARGV[1]) redis.call('PEXPIRE', KEYS[1], 5000) return {'ok'}",
);

static ENTRY: Script = Script::new(
    "ENTRY",
    "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) redis.call('PEXPIRE', KEYS[1], 5000) return {'ok'}",
);

/// Adds a waiter that has been in the queue since then.
async fn waits_since(lab: &Lab, keys: &Resource, ticket: &str) {
    let token = token();
    let member = format!("{ticket}{}{ticket} 0 5000 1 away", token.secret());
    lab.meddle(&MEMBER, &keys.queue().to_string(), &[&member])
        .await;
    let entry = [token.secret(), &member];
    lab.meddle(&ENTRY, &keys.waiters().to_string(), &entry)
        .await;
}

async fn left_ms(lab: &Lab, key: &str) -> i64 {
    match lab.meddle(&TTL_OF, key, &[]).await[0] {
        Value::Int(left) => left,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn a_waiter_that_joins_renews_the_queue_until_its_first_poll() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        let (queue, waiters) = (keys.queue().to_string(), keys.waiters().to_string());
        lab.granted(&keys, &token(), &TRY).await;
        waits_since(lab, &keys, "1000000000000000").await;
        lab.waiting(&keys, &token(), &WAIT).await;
        for key in [&queue, &waiters] {
            assert!(left_ms(lab, key).await > 45_000, "{} {key}", lab.engine);
        }
    });
}

/// A server may evict the entries alone; what a waiter then writes must have a ttl.
#[test]
fn entries_that_were_lost_behind_a_queue_are_written_again_with_a_ttl() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        let (queue, waiters) = (keys.queue().to_string(), keys.waiters().to_string());
        lab.granted(&keys, &token(), &TRY).await;
        lab.waiting(&keys, &token(), &WAIT).await;
        lab.meddle(&DELETE, &waiters, &[]).await;
        let position = lab.waiting(&keys, &token(), &WAIT).await;
        assert_eq!(position, 2, "{}", lab.engine);
        for key in [&queue, &waiters] {
            assert!(left_ms(lab, key).await > 0, "{} {key}", lab.engine);
        }
    });
}

#[test]
fn a_clock_that_went_back_puts_no_newcomer_before_the_waiters() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        lab.granted(&keys, &token(), &TRY).await;
        waits_since(lab, &keys, "8000000000000000").await;
        for position in [2, 3] {
            let newcomer = token();
            for _poll in 0..2 {
                let position_now = lab.waiting(&keys, &newcomer, &WAIT).await;
                assert_eq!(position_now, position, "{}", lab.engine);
            }
        }
    });
}

#[test]
fn a_member_whose_entry_was_lost_is_granted_nothing() {
    on_every_engine(async |lab| {
        let _ear = lab.listen("here").await;
        let wait = How {
            channel: "here",
            ..WAIT
        };
        for more in [0, 1] {
            let (keys, holder, gone) = (keys(&format!("job{more}")), token(), token());
            lab.granted(&keys, &holder, &TRY).await;
            lab.waiting(&keys, &gone, &wait).await;
            let also_gone = token();
            lab.waiting(&keys, &also_gone, &wait).await;
            // Its cancellation does not find the member any more.
            lab.meddle(&DELETE, &keys.waiters().to_string(), &[]).await;
            assert_eq!(lab.cancel(&keys, &gone).await, CancelAnswer::Absent);
            let next = token();
            if more == 1 {
                lab.waiting(&keys, &next, &wait).await;
            }
            lab.release(&keys, &holder).await;
            for gone in [&gone, &also_gone] {
                assert!(!lab.holds(&keys, gone).await, "{}", lab.engine);
            }
            assert_eq!(lab.holds(&keys, &next).await, more == 1, "{}", lab.engine);
            assert_eq!(lab.queue_length(&keys).await, 0, "{}", lab.engine);
        }
    });
}

/// Most grants do not renew the fence's ttl, to cost less, but some do soon enough.
#[test]
fn the_fence_lasts_for_a_day_and_two_hours_from_every_grant_on() {
    const DAY_MS: i64 = 25 * 3_600_000;
    on_every_engine(async |lab| {
        let _ear = lab.listen("here").await;
        let wait = How {
            channel: "here",
            ..WAIT
        };
        let (keys, holder, next) = (keys("job"), token(), token());
        let fence = keys.fence().to_string();
        lab.set_fence(&keys, 1_000_000_000_000_000).await;
        lab.granted(&keys, &holder, &TRY).await;
        assert!(left_ms(lab, &fence).await > DAY_MS, "{}", lab.engine);
        lab.waiting(&keys, &next, &wait).await;
        for is_lost in [false, true] {
            if is_lost {
                lab.meddle(&DELETE, &fence, &[]).await;
            } else {
                lab.set_fence(&keys, 1_000_000_000_000_000).await;
            }
            lab.release(&keys, &holder).await;
            assert!(lab.holds(&keys, &next).await, "{}", lab.engine);
            assert!(left_ms(lab, &fence).await > DAY_MS, "{}", lab.engine);
            lab.release(&keys, &next).await;
            lab.granted(&keys, &holder, &TRY).await;
            lab.waiting(&keys, &next, &wait).await;
        }
    });
}

/// A release that grants its permits to the next one leaves the count as it was.
#[test]
fn the_number_of_permits_is_kept_by_every_hand_over() {
    on_every_engine(async |lab| {
        let _ear = lab.listen("here").await;
        let wait = How {
            channel: "here",
            ..WAIT
        };
        let (pool, holder, next) = (as_kind(&PERMITS, "w1 1", "pool"), token(), token());
        let usage = pool.beside("usage").to_string();
        lab.granted(&pool, &holder, &TRY).await;
        lab.waiting(&pool, &next, &wait).await;
        lab.meddle(&SHORTEN, &usage, &["60000"]).await;
        lab.release(&pool, &holder).await;
        assert!(left_ms(lab, &usage).await > 90_000_000, "{}", lab.engine);
        assert_eq!(lab.release(&pool, &next).await, ReleaseAnswer::Released);
    });
}

#[test]
fn permits_that_were_granted_before_a_damaged_fence_was_found_are_counted() {
    on_every_engine(async |lab| {
        let _ear = lab.listen("here").await;
        let unfenced = How {
            fencing: false,
            channel: "here",
            ..WAIT
        };
        let pool = |mode| as_kind(&PERMITS, mode, "pool");
        let (two, three, one) = (pool("w2 4"), pool("w3 4"), pool("w1 4"));
        let (ends, waits) = (token(), unfenced_token());
        lab.granted(&two, &ends, &TRY).await;
        lab.waiting(&three, &waits, &unfenced).await;
        let member = format!("{}2", ends.secret());
        lab.meddle(&END_LONG_AGO, &two.lock, &[&member]).await;
        let fence = two.fence().to_string();
        lab.meddle(&DELETE, &fence, &[]).await;
        lab.meddle(&SET, &fence, &["soon"]).await;
        let (fenced, wait) = (token(), WAIT);
        let held = Held::of(&one, &fenced);
        let asks = acquire(&held, &wait);
        let refused = lab.store.ask_one(&asks, WITHIN).await;
        assert!(refused.is_err(), "{}: {refused:?}", lab.engine);
        let no_wait = How {
            waits: false,
            ..unfenced
        };
        let more = lab.acquire(&two, &unfenced_token(), &no_wait).await;
        assert!(
            matches!(more, Acquired::Busy { .. }),
            "{}: {more:?}",
            lab.engine
        );
        let held = lab.members(&two).await;
        assert!(
            held.len() == 1 && held[0].contains(waits.secret()),
            "{held:?}"
        );
    });
}
