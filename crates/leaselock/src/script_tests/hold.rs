//! The scripts in `lua/hold/`, which reads and permits have in common: one test per reply in their headers.

use super::lab::*;
use crate::base::error::LostReason;
use crate::base::token::Token;
use crate::client::views::*;
use crate::engine::values::calls::ReleaseAlone;
use crate::engine::values::calls_many::{ExtendMany, MANY_MAX, Replies};
use crate::engine::values::calls_optional::*;
use crate::engine::values::grant::*;
use crate::engine::values::kind::{Held, Kind, Resource};
use crate::rwlock::{READ, UPGRADE};
use crate::script::Value;
use crate::semaphore::PERMITS;

const SHORT: How<'static> = How {
    ttl_ms: 20_000,
    ..TRY
};
const LONG_MS: u64 = 60_000;

/// Each way to hold, and what is behind the token in the set then.
const WAYS: [(&Kind, &str, &str); 3] =
    [(&READ, "s", ""), (&READ, "u", "u"), (&PERMITS, "w2 5", "2")];

/// The locks share a slot, as the embedded stores require.
fn held_as((kind, mode, _): (&'static Kind, &str, &str), name: &str) -> Resource {
    let name = format!("{{t}}{name}-{}", mode.replace(' ', "-"));
    Resource::at(kind, keys(&name).lock.clone(), None).with_mode(Some(mode.into()))
}

impl Lab {
    async fn extend_together(
        &self,
        holds: &[(&Resource, &Token)],
        ms: u64,
    ) -> Replies<ExtendAnswer> {
        let holds = holds.iter().map(|(keys, token)| Held::of(keys, token));
        let holds: Vec<Held> = holds.collect();
        let each: Vec<_> = holds.iter().map(|held| held.for_ttl(ttl(ms))).collect();
        self.ask(&ExtendMany::of(&each).unwrap()).await
    }

    /// In server microseconds; `None` when there is no such hold.
    async fn ends_at(&self, resource: &Resource, member: &str) -> Option<u64> {
        match self
            .meddle(&ENDS_AT, &resource.lock, &[member])
            .await
            .first()
        {
            Some(Value::Bytes(text)) => Some(std::str::from_utf8(text).unwrap().parse().unwrap()),
            _ => None,
        }
    }

    async fn detach(&self, resource: &Resource, from: &Token, to: &Token) -> StepReply {
        let held = Held::of(resource, from);
        let step = Detach {
            script: resource.kind.detach.as_ref().unwrap(),
            held_for: held.for_ttl(ttl(LONG_MS)),
            successor: to,
        };
        self.ask(&step).await
    }

    async fn release_alone(&self, resource: &Resource, token: &Token) -> ReleaseAnswer {
        let held = &Held::of(resource, token);
        self.ask(&ReleaseAlone { held }).await
    }

    async fn key_lasts_ms(&self, resource: &Resource) -> i64 {
        match self.meddle(&TTL_OF, &resource.lock, &[]).await[0] {
            Value::Int(left) => left,
            ref other => panic!("{other:?}"),
        }
    }
}

fn is_extended(answer: Option<&Option<ExtendAnswer>>) -> bool {
    matches!(answer, Some(Some(ExtendAnswer::Extended { .. })))
}

#[test]
fn of_many_holds_each_gets_its_own_answer_and_its_whole_ttl_and_none_comes_back() {
    on_every_engine(async |lab| {
        for way in WAYS {
            let [held, over, none, string, hash] =
                ["held", "over", "none", "string", "hash"].map(|name| held_as(way, name));
            let (ours, theirs) = (token(), token());
            lab.granted(&held, &ours, &SHORT).await;
            lab.granted(&over, &ours, &SHORT).await;
            let member = |token: &Token| format!("{}{}", token.secret(), way.2);
            lab.meddle(&END_LONG_AGO, &over.lock, &[&member(&ours)])
                .await;
            lab.meddle(&SET, &string.lock, &["somebody"]).await;
            lab.meddle(&ADD_HASH, &hash.lock, &[]).await;
            let before = lab.ends_at(&held, &member(&ours)).await;
            let all = [&held, &over, &none, &string, &hash].map(|held| (held, &ours));
            let answers = lab.extend_together(&all, LONG_MS).await;
            assert!(is_extended(answers.first()), "{} {answers:?}", lab.engine);
            let one_by_one = [None; 4];
            assert_eq!(answers[1..], one_by_one, "{}", lab.engine);
            let after = lab.ends_at(&held, &member(&ours)).await;
            assert!(after > before.map(|end| end + 30_000_000), "{}", lab.engine);
            assert!(lab.key_lasts_ms(&held).await > 50_000, "{}", lab.engine);
            assert_eq!(lab.ends_at(&over, &member(&ours)).await, Some(1));
            if way.1 == "u" {
                assert_eq!(lab.ends_at(&held, "u").await, after, "{}", lab.engine);
            }
            // Never shorter, and not for another token.
            let both = [(&held, &ours), (&held, &theirs)];
            let again = lab.extend_together(&both, 10_000).await;
            assert!(
                is_extended(again.first()) && again[1].is_none(),
                "{again:?}"
            );
            assert_eq!(lab.ends_at(&held, &member(&ours)).await, after);
        }
    });
}

/// A client that reads one name many times has many holds at one key.
#[test]
fn many_holds_of_one_name_are_extended_in_one_call_and_more_than_the_most_are_left_alone() {
    on_every_engine(async |lab| {
        let held = held_as(WAYS[0], "one");
        let tokens: Vec<Token> = (0..MANY_MAX).map(|_| token()).collect();
        for token in &tokens {
            lab.granted(&held, token, &SHORT).await;
        }
        let mut all: Vec<_> = tokens.iter().map(|token| (&held, token)).collect();
        let answers = lab.extend_together(&all, LONG_MS).await;
        assert_eq!(answers.len(), MANY_MAX);
        assert!(answers.iter().all(|answer| is_extended(Some(answer))));
        all.push((&held, &tokens[0]));
        let refused = lab.extend_together(&all, LONG_MS).await;
        assert!(refused.iter().all(Option::is_none), "{}", lab.engine);
    });
}

#[test]
fn a_hold_passes_to_another_token_with_its_fence_and_the_old_one_holds_nothing() {
    on_every_engine(async |lab| {
        for way in WAYS {
            let held = held_as(way, "job");
            let (holder, successor, other) = (token(), token(), token());
            let [old, new] = [&holder, &successor].map(|one| format!("{}{}", one.secret(), way.2));
            assert_eq!(
                lab.detach(&held, &holder, &successor).await,
                Err(LostReason::KeyMissing)
            );
            let fence = lab.granted(&held, &holder, &SHORT).await;
            for _ in 0..2 {
                let passed = lab.detach(&held, &holder, &successor).await;
                assert_eq!(passed, Ok(()), "{}", lab.engine);
                assert!(lab.key_lasts_ms(&held).await > 50_000, "{}", lab.engine);
            }
            assert!(lab.ends_at(&held, &old).await.is_none(), "{}", lab.engine);
            let ends = lab.ends_at(&held, &new).await;
            assert!(ends.is_some(), "{}", lab.engine);
            if way.1 == "u" {
                assert_eq!(lab.ends_at(&held, "u").await, ends, "{}", lab.engine);
            }
            if way.0 == &PERMITS {
                let usage = held.usage().to_string();
                let kept = lab.meddle(&FENCE_OF, &usage, &[&new]).await;
                let expected = fence.unwrap().to_string().into_bytes();
                assert_eq!(kept, [Value::Bytes(expected)], "{}", lab.engine);
                let old = lab.meddle(&FENCE_OF, &usage, &[&old]).await;
                assert!(!matches!(old[..], [Value::Bytes(_)]), "{old:?}");
            }
            assert_eq!(lab.extend(&held, &holder, 10).await, ExtendAnswer::EXPIRED);
            assert_eq!(lab.release(&held, &holder).await, ReleaseAnswer::Expired);
            // A request of the successor finds the hold as its own.
            assert_eq!(lab.granted(&held, &successor, &SHORT).await, fence);
            assert_eq!(
                lab.release(&held, &successor).await,
                ReleaseAnswer::Released
            );

            lab.granted(&held, &holder, &SHORT).await;
            lab.meddle(&END_LONG_AGO, &held.lock, &[&old]).await;
            assert_eq!(
                lab.detach(&held, &holder, &other).await,
                Err(LostReason::KeyMissing)
            );
            lab.meddle(&SET, &held.lock, &["somebody"]).await;
            assert_eq!(
                lab.detach(&held, &holder, &other).await,
                Err(LostReason::TakenOver)
            );
        }
    });
}

#[test]
fn a_hold_is_given_back_by_the_locks_key_alone_and_the_count_is_made_anew() {
    on_every_engine(async |lab| {
        for way in WAYS {
            let held = held_as(way, "job");
            let (ours, stays) = (token(), token());
            assert_eq!(
                lab.release_alone(&held, &ours).await,
                ReleaseAnswer::Expired
            );
            lab.granted(&held, &ours, &TRY).await;
            let beside = match way.0 == &PERMITS {
                true => held.clone(),
                false => held_as(WAYS[0], "job").at_the_key_of(&held),
            };
            lab.granted(&beside, &stays, &SHORT).await;
            assert_eq!(
                lab.release_alone(&held, &ours).await,
                ReleaseAnswer::Released
            );
            assert_eq!(
                lab.release_alone(&held, &ours).await,
                ReleaseAnswer::Expired
            );
            let left = lab.key_lasts_ms(&held).await;
            assert!((1..=20_001).contains(&left), "{} {left}", lab.engine);
            let extended = lab.extend(&beside, &stays, LONG_MS).await;
            assert!(matches!(extended, ExtendAnswer::Extended { .. }));
            // Two of five are held, and one upgradable reader may come: not as if the first hold were there still.
            lab.granted(&held, &token(), &TRY).await;
            if way.0 == &PERMITS {
                let busy = lab.acquire(&held, &token(), &TRY).await;
                assert!(matches!(busy, Acquired::Busy { .. }), "{busy:?}");
            }
            lab.meddle(&SET, &held.lock, &["somebody"]).await;
            assert_eq!(lab.release_alone(&held, &ours).await, ReleaseAnswer::Taken);
        }
    });
}

/// As with `rwlock/release`: the reply to the upgrade may have been lost.
#[test]
fn an_upgrade_that_its_reader_does_not_know_of_is_given_back_by_the_locks_key_alone() {
    on_every_engine(async |lab| {
        let (held, ours) = (held_as(WAYS[1], "job"), token());
        lab.granted(&held, &ours, &TRY).await;
        let upgrade = Resource::at(&UPGRADE, held.lock.clone(), None).with_mode(Some("x".into()));
        lab.granted(&upgrade, &ours, &TRY).await;
        assert_eq!(
            lab.release_alone(&held, &token()).await,
            ReleaseAnswer::Taken
        );
        assert_eq!(
            lab.release_alone(&held, &ours).await,
            ReleaseAnswer::Released
        );
        let seen = lab.inspect(&held).await.state;
        assert!(matches!(seen, InspectedState::Free), "{}", lab.engine);
        assert_eq!(
            lab.release_alone(&held, &ours).await,
            ReleaseAnswer::Expired
        );
    });
}

#[test]
fn a_hold_is_confirmed_by_a_write_also_when_its_end_stays() {
    on_every_engine(async |lab| {
        for way in WAYS {
            let (held, ours) = (held_as(way, "job"), token());
            assert_eq!(
                lab.confirm(&held, &ours, LONG_MS).await,
                Err(LostReason::KeyMissing)
            );
            lab.granted(&held, &ours, &SHORT).await;
            let member = format!("{}{}", ours.secret(), way.2);
            let before = lab.ends_at(&held, &member).await;
            assert_eq!(lab.confirm(&held, &ours, 10).await, Ok(()));
            assert_eq!(lab.ends_at(&held, &member).await, before, "never shorter");
            assert_eq!(lab.confirm(&held, &ours, LONG_MS).await, Ok(()));
            let after = lab.ends_at(&held, &member).await;
            assert!(after > before.map(|end| end + 30_000_000), "{}", lab.engine);
            assert!(lab.key_lasts_ms(&held).await > 50_000, "{}", lab.engine);
            if way.1 == "u" {
                assert_eq!(lab.ends_at(&held, "u").await, after, "{}", lab.engine);
            }
            lab.meddle(&END_LONG_AGO, &held.lock, &[&member]).await;
            assert_eq!(
                lab.confirm(&held, &ours, LONG_MS).await,
                Err(LostReason::KeyMissing)
            );
            lab.meddle(&SET, &held.lock, &["somebody"]).await;
            assert_eq!(
                lab.confirm(&held, &ours, LONG_MS).await,
                Err(LostReason::TakenOver)
            );
        }
    });
}

/// The next waiter finds out by a poll, as the header says.
#[test]
fn a_release_by_the_locks_key_alone_leaves_the_queue_as_it_is() {
    on_every_engine(async |lab| {
        for way in WAYS {
            let (held, ours) = (held_as(way, "job"), token());
            lab.granted(&held, &ours, &TRY).await;
            let writer = Resource::at(&crate::mutex::MUTEX, held.lock.clone(), None);
            let waits = token();
            assert_eq!(lab.waiting(&writer, &waits, &WAIT).await, 1);
            lab.release_alone(&held, &ours).await;
            assert_eq!(lab.queue_length(&held).await, 1);
            lab.granted(&writer, &waits, &WAIT).await;
        }
    });
}

impl Resource {
    /// The same way to hold, at the key of another.
    fn at_the_key_of(&self, other: &Resource) -> Resource {
        Resource::at(self.kind, other.lock.clone(), None).with_mode(self.mode.clone())
    }
}
