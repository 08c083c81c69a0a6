//! One test per reply of the script that acquires several mutexes or none.

use super::lab::*;
use crate::base::error::ErrorKind;
use crate::base::token::{Token, client_of};
use crate::engine::values::calls::*;
use crate::engine::values::grant::Acquired;
use crate::engine::values::kind::{Held, Resource};
use crate::mutex::MUTEX;
use crate::script::Value;

/// The locks share a slot, as the embedded stores require.
fn three() -> [Resource; 3] {
    ['a', 'b', 'c'].map(|letter| keys(&format!("{{t}}{letter}")))
}

fn ask<'a>(held: &'a [&'a Held]) -> AcquireAll<'a> {
    AcquireAll {
        step: MUTEX.acquire_all.as_ref().unwrap(),
        held,
        terms: AcquireTerms::plain(ttl(30_000)),
    }
}

fn held(locks: &[Resource], token: &Token) -> Vec<Held> {
    locks.iter().map(|keys| Held::of(keys, token)).collect()
}

impl Lab {
    async fn acquire_all(&self, locks: &[Resource], token: &Token) -> AcquiredAll {
        let held = held(locks, token);
        self.ask(&ask(&held.iter().collect::<Vec<_>>())).await
    }

    async fn none_is_held(&self, locks: &[Resource], token: &Token) {
        for keys in locks {
            assert!(!self.holds(keys, token).await, "{}: {keys:?}", self.engine);
        }
    }
}

#[test]
fn all_of_several_free_mutexes_are_granted_each_with_a_larger_number_of_its_own() {
    on_every_engine(async |lab| {
        let (locks, ours) = (three(), token());
        lab.set_fence(&locks[1], 8_000_000_000_000_004).await; // more than the clock says
        let AcquiredAll::Granted { fences, time_us } = lab.acquire_all(&locks, &ours).await else {
            panic!("{}", lab.engine)
        };
        let numbers: Vec<u64> = fences.iter().map(|fence| fence.unwrap().get()).collect();
        assert_eq!(numbers[1], 8_000_000_000_000_005);
        assert!(
            numbers[0] >= time_us && numbers[2] >= time_us,
            "{numbers:?}"
        );
        for (keys, fence) in locks.iter().zip(&fences) {
            assert!(lab.holds(keys, &ours).await);
            let Value::Int(left) = lab.meddle(&TTL_OF, &keys.lock, &[]).await[0] else {
                panic!()
            };
            assert!((25_000..=30_000).contains(&left), "{left}");
            let known = lab.granted(keys, &ours, &TRY).await;
            assert_eq!(known, *fence, "the grant of each is an ordinary one");
        }
    });
}

#[test]
fn without_fencing_several_mutexes_have_no_number_and_no_fence_key_is_written() {
    on_every_engine(async |lab| {
        let (locks, ours) = (three(), unfenced_token());
        let AcquiredAll::Granted { fences, .. } = lab.acquire_all(&locks, &ours).await else {
            panic!("{}", lab.engine)
        };
        assert_eq!(fences, [None; 3]);
        for keys in &locks {
            assert!(lab.holds(keys, &ours).await);
            let kind = lab.meddle(&TYPE_OF, &keys.fence().to_string(), &[]).await;
            assert_eq!(kind, [Value::Bytes(b"none".to_vec())]);
        }
    });
}

#[test]
fn of_several_mutexes_none_is_acquired_when_one_is_held_and_its_holder_is_named() {
    on_every_engine(async |lab| {
        let (locks, ours, theirs) = (three(), token(), token());
        lab.granted(&locks[1], &theirs, &TRY).await;
        let AcquiredAll::Busy { seen, at } = lab.acquire_all(&locks, &ours).await else {
            panic!("{}", lab.engine)
        };
        assert_eq!(at, 1);
        assert_eq!(
            seen.holder.as_deref(),
            client_of(theirs.secret().as_bytes())
        );
        assert!(seen.remaining.unwrap().as_millis() > 20_000);
        lab.none_is_held(&locks, &ours).await;
        assert!(lab.holds(&locks[1], &theirs).await);
    });
}

#[test]
fn a_foreign_holder_keeps_all_mutexes_out_and_what_is_no_string_is_left_to_its_own_request() {
    on_every_engine(async |lab| {
        let (locks, ours) = (three(), token());
        lab.meddle(&SET, &locks[2].lock, &["foreign"]).await;
        let AcquiredAll::Busy { seen, at } = lab.acquire_all(&locks, &ours).await else {
            panic!("{}", lab.engine)
        };
        assert!(at == 2 && seen.holder.is_none() && seen.remaining.is_some());
        lab.meddle(&ADD_MEMBER, &locks[0].lock, &["reader"]).await;
        lab.meddle(&DELETE, &locks[2].lock, &[]).await;
        let answer = lab.acquire_all(&locks, &ours).await;
        assert!(matches!(answer, AcquiredAll::Separate { .. }), "{answer:?}");
        lab.none_is_held(&locks, &ours).await;
    });
}

#[test]
fn a_waiter_of_one_of_several_free_mutexes_is_not_overtaken() {
    on_every_engine(async |lab| {
        let (locks, ours, holder, waiter) = (three(), token(), token(), token());
        lab.granted(&locks[2], &holder, &TRY).await;
        lab.waiting(&locks[2], &waiter, &WAIT).await;
        lab.meddle(&EXPIRE, &locks[2].lock, &[]).await;
        let answer = lab.acquire_all(&locks, &ours).await;
        assert!(
            matches!(answer, AcquiredAll::Separate { .. }),
            "{}: {answer:?}",
            lab.engine
        );
        lab.none_is_held(&locks, &ours).await;
    });
}

#[test]
fn a_damaged_fence_of_one_of_several_mutexes_is_an_error_and_none_is_acquired() {
    on_every_engine(async |lab| {
        let (locks, ours) = (three(), token());
        lab.meddle(&SET, &locks[2].fence().to_string(), &["soon"])
            .await;
        let held = held(&locks, &ours);
        let held: Vec<&Held> = held.iter().collect();
        let asked = lab.store.ask_one(&ask(&held), WITHIN).await;
        let error = asked.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{}", lab.engine);
        assert!(!error.maybe_applied());
        lab.none_is_held(&locks, &ours).await;
    });
}

#[test]
fn the_same_request_for_several_mutexes_finds_its_own_grant_and_changes_nothing() {
    on_every_engine(async |lab| {
        let (locks, ours) = (three(), token());
        let first = lab.acquire_all(&locks, &ours).await;
        assert!(matches!(first, AcquiredAll::Granted { .. }));
        let fence = |at: usize| lab.granted(&locks[at], &ours, &TRY);
        let before = fence(0).await;
        let AcquiredAll::Busy { seen, at } = lab.acquire_all(&locks, &ours).await else {
            panic!("{}", lab.engine)
        };
        assert_eq!(at, 0);
        assert_eq!(seen.holder.as_deref(), client_of(ours.secret().as_bytes()));
        assert_eq!(fence(0).await, before);
    });
}

/// The state of a name before the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Free,
    Held,
    Foreign,
    NoString,
    Waited,
    FenceAhead,
}

const BEFORE: [Before; 6] = [
    Before::Free,
    Before::Held,
    Before::Foreign,
    Before::NoString,
    Before::Waited,
    Before::FenceAhead,
];

impl Lab {
    async fn prepare(&self, keys: &Resource, before: Before) {
        match before {
            Before::Free => {}
            Before::Held => drop(self.granted(keys, &token(), &TRY).await),
            Before::Foreign => drop(self.meddle(&SET, &keys.lock, &["foreign"]).await),
            Before::NoString => drop(self.meddle(&ADD_MEMBER, &keys.lock, &["reader"]).await),
            Before::Waited => {
                self.granted(keys, &token(), &TRY).await;
                self.waiting(keys, &token(), &WAIT).await;
                self.meddle(&EXPIRE, &keys.lock, &[]).await;
            }
            Before::FenceAhead => {
                self.set_fence(keys, 8_000_000_000_000_000).await;
            }
        }
    }
}

/// The model of the request: what each name answers to a request of its own.
#[test]
fn of_every_two_names_both_are_acquired_only_if_each_alone_would_be_and_otherwise_nothing_changes()
{
    on_every_engine(async |lab| {
        let is_plain = |before| !matches!(before, Before::Waited | Before::NoString);
        for (number, (one, other)) in pairs().enumerate() {
            let named = |set: &str| ['a', 'b'].map(|end| keys(&format!("{{{set}{number}}}{end}")));
            let (together, alone) = (named("together"), named("alone"));
            for (keys, before) in together.iter().chain(&alone).zip([one, other, one, other]) {
                lab.prepare(keys, before).await;
            }
            let fences = async || {
                let first = lab.latest_fence(&together[0]).await;
                (first, lab.latest_fence(&together[1]).await)
            };
            let (ours, before) = (token(), fences().await);
            let mut granted = [false; 2];
            for (granted, keys) in granted.iter_mut().zip(&alone) {
                let held = Held::of(keys, &token());
                let alone = acquire(&held, &TRY);
                let answer = lab.store.ask_one(&alone, WITHIN).await;
                *granted = matches!(answer, Ok(Acquired::Granted { .. }));
            }
            let case = format!("{}: {one:?} {other:?}", lab.engine);
            match lab.acquire_all(&together, &ours).await {
                AcquiredAll::Granted { .. } => {
                    assert_eq!(granted, [true; 2], "{case}");
                    for keys in &together {
                        assert!(lab.holds(keys, &ours).await, "{case}");
                    }
                    continue;
                }
                AcquiredAll::Busy { at, .. } => assert!(!granted[at], "{case}"),
                AcquiredAll::Separate { .. } => {
                    assert!(!is_plain(one) || !is_plain(other), "{case}");
                }
                AcquiredAll::AtGate(answer) => panic!("{case}: {answer:?}"),
            }
            lab.none_is_held(&together, &ours).await;
            assert_eq!(fences().await, before, "{case}");
            let plain = is_plain(one) && is_plain(other);
            assert!(
                !plain || granted != [true; 2],
                "{case}: refused for nothing"
            );
        }
    });
}

fn pairs() -> impl Iterator<Item = (Before, Before)> {
    let second = |one| BEFORE.into_iter().map(move |other| (one, other));
    BEFORE.into_iter().flat_map(second)
}
