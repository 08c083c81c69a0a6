//! Readers and holders of permits: how long the lock's key lives, with which other libraries are kept out.

use super::lab::*;
use crate::engine::values::calls_many::*;
use crate::engine::values::grant::*;
use crate::engine::values::kind::{Kind, Resource};
use crate::rwlock::READ;
use crate::script::keys::LockKeys;
use crate::script::{Script, Value};
use crate::semaphore::PERMITS;

const SHORT: How<'static> = How {
    ttl_ms: 20_000,
    ..TRY
};
const LONG: How<'static> = How {
    ttl_ms: 60_000,
    ..TRY
};

/// The kinds of holds, and how a request for one of each says so.
fn kinds() -> [(&'static Kind, &'static str); 2] {
    [(&READ, "s"), (&PERMITS, "w2 5")]
}

fn shared(keys: &Resource, (kind, mode): (&'static Kind, &str)) -> Resource {
    Resource::new(kind, LockKeys::clone(keys)).with_mode(Some(mode.into()))
}

async fn left_ms(lab: &Lab, keys: &Resource) -> i64 {
    match lab.meddle(&TTL_OF, &keys.lock, &[]).await[0] {
        Value::Int(left) => left,
        ref other => panic!("{other:?}"),
    }
}

/// A waiter in the queue takes a release and a cancel out of their plain cases.
#[test]
fn beside_a_waiter_too_the_key_lives_no_longer_than_the_longest_hold_that_is_left() {
    on_every_engine(async |lab| {
        for kind in kinds() {
            for cancels in [false, true] {
                let mutex = keys(&format!("{}-{cancels}", kind.1.replace(' ', "-")));
                let held = shared(&mutex, kind);
                let (short, long) = (token(), token());
                lab.granted(&held, &short, &SHORT).await;
                lab.granted(&held, &long, &LONG).await;
                assert_eq!(lab.waiting(&mutex, &token(), &WAIT).await, 1);
                assert!(left_ms(lab, &held).await > SHORT.ttl_ms.cast_signed());
                if cancels {
                    let gone = lab.cancel(&held, &long).await;
                    assert_eq!(gone, CancelAnswer::Released, "{}", lab.engine);
                } else {
                    let gone = lab.release(&held, &long).await;
                    assert_eq!(gone, ReleaseAnswer::Released, "{}", lab.engine);
                }
                assert_eq!(lab.queue_length(&mutex).await, 1);
                let left = left_ms(lab, &held).await;
                let most = SHORT.ttl_ms.cast_signed() + 1;
                assert!((1..=most).contains(&left), "{} {kind:?} {left}", lab.engine);
                let again = lab.extend(&held, &short, 30_000).await;
                assert!(
                    matches!(again, ExtendAnswer::Extended { .. }),
                    "{} {again:?}",
                    lab.engine
                );
            }
        }
    });
}

/// A set of holds is no lock of a mutex, and neither is it free: a call for many mutexes leaves its side keys alone.
#[test]
fn a_call_for_many_mutexes_writes_no_fence_beside_holds_that_have_none() {
    on_every_engine(async |lab| {
        for kind in kinds() {
            let mutex = keys(&format!("job-{}", kind.1.replace(' ', "-")));
            let unfenced = How {
                fencing: false,
                ..LONG
            };
            let held = shared(&mutex, kind);
            lab.granted(&held, &unfenced_token(), &unfenced).await;
            let items = &[item(&mutex, &token())];
            let answers = lab.ask(&AcquireMany { items }).await;
            assert!(matches!(answers[..], [None]), "{} {answers:?}", lab.engine);
            let fence = lab.meddle(&TYPE_OF, &mutex.fence().to_string(), &[]).await;
            assert_eq!(fence, [Value::Bytes(b"none".to_vec())], "{}", lab.engine);
        }
    });
}

/// A holder whose grant came by a message may poll once more before it knows of it.
#[test]
fn a_holder_that_asks_again_with_more_permits_lets_a_waiter_in() {
    on_every_engine(async |lab| {
        let mutex = keys("pool");
        let [before, after] = ["w3 3", "w3 5"].map(|mode| shared(&mutex, (&PERMITS, mode)));
        let (holder, next) = (token(), token());
        lab.granted(&before, &holder, &LONG).await;
        let listener = lab.listen("next").await;
        let waits = How {
            channel: "next",
            ..WAIT
        };
        let wanted = shared(&mutex, (&PERMITS, "w2 3"));
        assert_eq!(lab.waiting(&wanted, &next, &waits).await, 1);
        lab.granted(&after, &holder, &LONG).await;
        assert!(
            listener.heard(&next).await.starts_with("grant "),
            "{}",
            lab.engine
        );
    });
}

static TEN_THOUSAND: Script = Script::new(
    "TEN_THOUSAND",
    "for i = 1, 10000 do
       redis.call('ZADD', KEYS[1], '9000000000000000', string.format('%022d.DEADDEAD1', i))
     end
     redis.call('PEXPIRE', KEYS[1], 60000)
     return {'ok'}",
);

/// On a server alone: so many holds take the other stores long.
#[tokio::test]
async fn beyond_ten_thousand_holders_a_permit_that_is_given_back_is_the_next_waiters() {
    let (lab, mutex) = (redis(), keys("pool"));
    let pool = shared(&mutex, (&PERMITS, "w1 10002"));
    lab.meddle(&TEN_THOUSAND, &pool.lock, &[]).await;
    let [one, other, next] = [(); 3].map(|()| token());
    lab.granted(&pool, &one, &TRY).await;
    lab.granted(&pool, &other, &TRY).await;
    let listener = lab.listen("next").await;
    let waits = How {
        channel: "next",
        ..WAIT
    };
    assert_eq!(lab.waiting(&pool, &next, &waits).await, 1);
    let released = lab.release(&pool, &one).await;
    assert_eq!(released, ReleaseAnswer::Released);
    assert!(listener.heard(&next).await.starts_with("grant "));
}
