//! How long side keys are kept, and the order of the line, when the plain cases leave out what they mostly need not do.

use super::lab::*;
use crate::engine::grant::*;
use crate::engine::resource::Resource;
use crate::script::{Script, Value};

/// As if the commands of this script had been a waiter's: a member and its entry, which end soon.
static MEMBER: Script = Script::new(
    "MEMBER",
    "redis.call('ZADD', KEYS[1], '0', ARGV[1]) redis.call('PEXPIRE', KEYS[1], 5000) return {'ok'}",
);

static ENTRY: Script = Script::new(
    "ENTRY",
    "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) redis.call('PEXPIRE', KEYS[1], 5000) return {'ok'}",
);

/// In line since then.
async fn stands_since(lab: &Lab, keys: &Resource, ticket: &str) {
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
fn whoever_gets_in_line_keeps_it_for_as_long_as_it_waits_for_its_first_look() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        let (line, waiters) = (keys.queue().to_string(), keys.waiters().to_string());
        lab.granted(&keys, &token(), &TRY).await;
        stands_since(lab, &keys, "1000000000000000").await;
        lab.waiting(&keys, &token(), &WAIT).await;
        for key in [&line, &waiters] {
            assert!(left_ms(lab, key).await > 45_000, "{} {key}", lab.engine);
        }
    });
}

/// The entries may be evicted alone; what is written then must not stay for ever.
#[test]
fn entries_that_were_lost_behind_a_line_are_made_anew_with_an_end() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        let (line, waiters) = (keys.queue().to_string(), keys.waiters().to_string());
        lab.granted(&keys, &token(), &TRY).await;
        lab.waiting(&keys, &token(), &WAIT).await;
        lab.meddle(&DELETE, &waiters, &[]).await;
        let place = lab.waiting(&keys, &token(), &WAIT).await;
        assert_eq!(place, 2, "{}", lab.engine);
        for key in [&line, &waiters] {
            assert!(left_ms(lab, key).await > 0, "{} {key}", lab.engine);
        }
    });
}

#[test]
fn a_clock_that_went_back_puts_nobody_before_those_who_wait() {
    on_every_engine(async |lab| {
        let keys = keys("job");
        lab.granted(&keys, &token(), &TRY).await;
        stands_since(lab, &keys, "8000000000000000").await;
        for place in [2, 3] {
            let newcomer = token();
            for _look in 0..2 {
                let stands = lab.waiting(&keys, &newcomer, &WAIT).await;
                assert_eq!(stands, place, "{}", lab.engine);
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
            // Its cancellation does not find it any more.
            lab.meddle(&DELETE, &keys.waiters().to_string(), &[]).await;
            assert_eq!(lab.cancel(&keys, &gone).await, Cancelled::Absent);
            let next = token();
            if more == 1 {
                lab.waiting(&keys, &next, &wait).await;
            }
            lab.release(&keys, &holder).await;
            for gone in [&gone, &also_gone] {
                assert!(!lab.holds(&keys, gone).await, "{}", lab.engine);
            }
            assert_eq!(lab.holds(&keys, &next).await, more == 1, "{}", lab.engine);
            assert_eq!(lab.line_length(&keys).await, 0, "{}", lab.engine);
        }
    });
}

/// Its end is left alone by most grants, so that they cost less, but not for long.
#[test]
fn the_fence_is_kept_for_seven_days_from_every_grant_on() {
    const WEEK_MS: i64 = 7 * 24 * 3_600_000;
    on_every_engine(async |lab| {
        let _ear = lab.listen("here").await;
        let wait = How {
            channel: "here",
            ..WAIT
        };
        let (keys, holder, next) = (keys("job"), token(), token());
        let fence = keys.fence().to_string();
        let old = ["1000000000000000:1000000000000000"];
        lab.meddle(&SET, &fence, &old).await;
        lab.granted(&keys, &holder, &TRY).await;
        assert!(left_ms(lab, &fence).await > WEEK_MS, "{}", lab.engine);
        lab.waiting(&keys, &next, &wait).await;
        for after in [&old[..], &[]] {
            match after {
                [] => lab.meddle(&DELETE, &fence, &[]).await,
                old => lab.meddle(&SET, &fence, old).await,
            };
            lab.release(&keys, &holder).await;
            assert!(lab.holds(&keys, &next).await, "{}", lab.engine);
            assert!(left_ms(lab, &fence).await > WEEK_MS, "{}", lab.engine);
            lab.release(&keys, &next).await;
            lab.granted(&keys, &holder, &TRY).await;
            lab.waiting(&keys, &next, &wait).await;
        }
    });
}
