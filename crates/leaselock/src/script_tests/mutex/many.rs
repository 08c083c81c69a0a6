//! One test per reply of the scripts that serve many requests in one call, and the proof that each reply is the one of
//! the script for a single request.

use proptest::prelude::*;

use crate::base::token::Token;
use crate::engine::values::calls_many::*;
use crate::engine::values::grant::*;
use crate::engine::values::kind::Resource;
use crate::mutex::MUTEX;
use crate::script::Value;
use crate::script_tests::lab::*;
use crate::script_tests::random::random_cases;

/// The locks share a slot, as the embedded stores require.
fn some_keys(letter: char) -> Resource {
    keys(&format!("{{t}}{letter}"))
}

impl Lab {
    async fn acquire_many(&self, items: &[Item]) -> Replies<Acquired> {
        self.ask(&AcquireMany { items }).await
    }

    async fn release_many(&self, items: &[Item]) -> Replies<ReleaseAnswer> {
        self.ask(&ReleaseMany { items }).await
    }

    async fn extend_many(&self, items: &[Item], ms: u64) -> Replies<ExtendAnswer> {
        let each = items.iter().map(|item| item.held.for_ttl(ttl(ms)));
        let each: Vec<_> = each.collect();
        self.ask(&ExtendMany::of(&each).unwrap()).await
    }

    async fn time_left(&self, key: &str) -> i64 {
        match self.meddle(&TTL_OF, key, &[]).await[0] {
            Value::Int(left) => left,
            ref other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_most_items_are_the_same_number_in_rust_and_in_lua() {
    let source = MUTEX.batch.as_ref().unwrap().acquire_many.source();
    assert!(source.contains(&format!("local MANY_MAX = {MANY_MAX} ")));
}

#[test]
fn of_many_each_that_is_free_is_granted_and_each_that_is_held_is_busy() {
    on_every_engine(async |lab| {
        let (a, b, c) = (some_keys('a'), some_keys('b'), some_keys('c'));
        let (ours, theirs) = (token(), token());
        lab.granted(&b, &theirs, &TRY).await;
        let answers = lab
            .acquire_many(&[item(&a, &ours), item(&b, &ours), item(&c, &ours)])
            .await;
        for (keys, answer) in [(&a, &answers[0]), (&c, &answers[2])] {
            let Some(Acquired::Granted {
                fence: Some(fence),
                time_us,
                ..
            }) = answer
            else {
                panic!("{}: {answers:?}", lab.engine)
            };
            assert!(fence.get() >= *time_us);
            assert!(lab.holds(keys, &ours).await && lab.time_left(&keys.lock).await > 25_000);
            assert_eq!(
                lab.granted(keys, &ours, &TRY).await,
                Some(*fence),
                "a replay"
            );
        }
        let Some(Acquired::Busy { seen }) = &answers[1] else {
            panic!("{}: {answers:?}", lab.engine)
        };
        assert_eq!(
            seen.holder.as_deref(),
            crate::base::token::client_of(theirs.secret().as_bytes())
        );
        assert!(seen.remaining.unwrap().as_millis() > 20_000);
    });
}

/// A later number would say that the first one's grant is over, to a downgrade and to a break by its fencing token.
#[test]
fn of_two_items_of_one_lock_the_second_mints_no_number() {
    on_every_engine(async |lab| {
        let (a, b) = (some_keys('a'), some_keys('b'));
        let items = [item(&a, &token()), item(&b, &token()), item(&a, &token())];
        let answers = lab.acquire_many(&items).await;
        let Some(Acquired::Granted { fence, .. }) = answers[0] else {
            panic!("{}: {answers:?}", lab.engine)
        };
        assert_eq!(answers[2], None, "{}", lab.engine);
        let latest = lab.latest_fence(&a).await;
        assert_eq!(fence.map(|it| it.get()), Some(latest), "{}", lab.engine);
    });
}

#[test]
fn of_many_without_fencing_none_has_a_number_and_no_fence_key_is_written() {
    on_every_engine(async |lab| {
        let (a, ours) = (some_keys('a'), unfenced_token());
        let answers = lab.acquire_many(&[item(&a, &ours)]).await;
        assert!(matches!(
            answers[0],
            Some(Acquired::Granted { fence: None, .. })
        ));
        let kind = lab.meddle(&TYPE_OF, &a.fence().to_string(), &[]).await;
        assert_eq!(kind, [Value::Bytes(b"none".to_vec())]);
    });
}

#[test]
fn a_foreign_holder_of_one_of_many_has_no_name_and_no_end() {
    on_every_engine(async |lab| {
        let a = some_keys('a');
        lab.meddle(&SET, &a.lock, &["foreign"]).await;
        let answers = lab.acquire_many(&[item(&a, &token())]).await;
        let Some(Acquired::Busy { seen }) = &answers[0] else {
            panic!("{answers:?}")
        };
        assert_eq!(seen.holder, None);
    });
}

#[test]
fn an_item_that_is_no_plain_case_has_no_effect_and_is_left_to_its_own_script() {
    on_every_engine(async |lab| {
        let (ours, other) = (token(), token());
        let (replay, in_line, ahead, no_fence) = (
            some_keys('a'),
            some_keys('b'),
            some_keys('c'),
            some_keys('d'),
        );
        lab.granted(&replay, &ours, &TRY).await;
        lab.granted(&in_line, &other, &TRY).await;
        lab.waiting(&in_line, &token(), &WAIT).await;
        lab.meddle(&DELETE, &in_line.lock, &[]).await;
        lab.set_fence(&ahead, 8_000_000_000_000_007).await;
        lab.meddle(&ADD_HASH, &no_fence.fence().to_string(), &[])
            .await;
        let items = [&replay, &in_line, &no_fence].map(|keys| item(keys, &ours));
        assert_eq!(lab.acquire_many(&items).await, [None, None, None]);
        for free in [&in_line, &no_fence] {
            let kind = lab.meddle(&TYPE_OF, &free.lock, &[]).await;
            assert_eq!(
                kind,
                [Value::Bytes(b"none".to_vec())],
                "{}: {free:?}",
                lab.engine
            );
        }
        let kind = lab
            .meddle(&TYPE_OF, &no_fence.fence().to_string(), &[])
            .await;
        assert_eq!(kind, [Value::Bytes(b"hash".to_vec())]);
        let answers = lab.acquire_many(&[item(&ahead, &ours)]).await;
        let Some(Acquired::Granted { fence, .. }) = &answers[0] else {
            panic!("{}: {answers:?}", lab.engine)
        };
        assert_eq!(fence.unwrap().get(), 8_000_000_000_000_008);
    });
}

#[test]
fn a_key_of_another_type_spoils_no_request_but_its_own() {
    on_every_engine(async |lab| {
        let (bad, good, ours) = (some_keys('a'), some_keys('b'), token());
        lab.meddle(&ADD_HASH, &bad.lock, &[]).await;
        let items = [item(&bad, &ours), item(&good, &ours)];
        let answers = lab.acquire_many(&items).await;
        assert!(
            matches!(answers[..], [None, Some(Acquired::Granted { .. })]),
            "{answers:?}"
        );
        let answers = lab.extend_many(&items, 60_000).await;
        assert!(matches!(
            answers[..],
            [None, Some(ExtendAnswer::Extended { .. })]
        ));
        assert_eq!(
            lab.release_many(&items).await,
            [None, Some(ReleaseAnswer::Released)]
        );
        let kind = lab.meddle(&TYPE_OF, &bad.lock, &[]).await;
        assert_eq!(kind, [Value::Bytes(b"hash".to_vec())]);
    });
}

#[test]
fn a_lock_that_is_asked_for_twice_in_one_call_is_granted_once() {
    on_every_engine(async |lab| {
        let (a, one, two) = (some_keys('a'), token(), token());
        let answers = lab.acquire_many(&[item(&a, &one), item(&a, &two)]).await;
        assert!(
            matches!(answers[..], [Some(Acquired::Granted { .. }), None]),
            "{answers:?}"
        );
        assert!(lab.holds(&a, &one).await);
        let twice = [item(&a, &one), item(&a, &one)];
        let answers = lab.release_many(&twice).await;
        assert_eq!(
            answers,
            [Some(ReleaseAnswer::Released), Some(ReleaseAnswer::Expired)]
        );
    });
}

#[test]
fn of_many_each_is_released_by_its_holder_alone_and_once() {
    on_every_engine(async |lab| {
        let (held, taken, free, waited) = (
            some_keys('a'),
            some_keys('b'),
            some_keys('c'),
            some_keys('d'),
        );
        let (ours, other) = (token(), token());
        lab.granted(&held, &ours, &TRY).await;
        lab.granted(&taken, &other, &TRY).await;
        lab.granted(&waited, &ours, &TRY).await;
        lab.waiting(&waited, &other, &WAIT).await;
        let items = [&held, &taken, &free, &waited].map(|keys| item(keys, &ours));
        use ReleaseAnswer::{Expired, Released, Taken};
        let answers = lab.release_many(&items).await;
        assert_eq!(answers, [Some(Released), Some(Taken), Some(Expired), None]);
        assert!(lab.holds(&taken, &other).await);
        assert!(
            lab.holds(&waited, &ours).await,
            "its own script hands it over"
        );
        let replay = lab.release_many(&items[..3]).await;
        assert_eq!(replay, [Some(Expired), Some(Taken), Some(Expired)]);
    });
}

#[test]
fn of_many_each_is_extended_and_never_shortened_or_created() {
    on_every_engine(async |lab| {
        let (held, long, taken, free) = (
            some_keys('a'),
            some_keys('b'),
            some_keys('c'),
            some_keys('d'),
        );
        let (ours, other) = (token(), token());
        lab.granted(&held, &ours, &TRY).await;
        lab.granted(
            &long,
            &ours,
            &How {
                ttl_ms: 90_000,
                ..TRY
            },
        )
        .await;
        lab.granted(&taken, &other, &TRY).await;
        let items = [&held, &long, &taken, &free].map(|keys| item(keys, &ours));
        for _ in 0..2 {
            let answers = lab.extend_many(&items, 60_000).await;
            let [
                Some(ExtendAnswer::Extended { .. }),
                Some(ExtendAnswer::Extended { .. }),
                None,
                Some(ExtendAnswer::EXPIRED),
            ] = answers[..]
            else {
                panic!("{}: {answers:?}", lab.engine)
            };
        }
        assert!((55_000..=60_000).contains(&lab.time_left(&held.lock).await));
        assert!(lab.time_left(&long.lock).await > 80_000);
        assert!(lab.time_left(&taken.lock).await <= 30_000);
        assert!(!lab.holds(&free, &ours).await);
    });
}

#[test]
fn a_call_of_more_items_than_the_limit_has_no_effect() {
    on_every_engine(async |lab| {
        let ours = token();
        let items: Vec<Item> = (0..=MANY_MAX)
            .map(|number| item(&keys(&format!("{{t}}{number}")), &ours))
            .collect();
        assert!(lab.acquire_many(&items).await.iter().all(Option::is_none));
        assert!(lab.release_many(&items).await.iter().all(Option::is_none));
        assert!(
            lab.extend_many(&items, 1_000)
                .await
                .iter()
                .all(Option::is_none)
        );
        let answers = lab.acquire_many(&items[..MANY_MAX]).await;
        assert!(answers.iter().all(Option::is_some));
    });
}

/// The state of one name before a call.
#[derive(Debug, Clone, Copy)]
enum Before {
    Free,
    Ours,
    Theirs,
    Foreign,
    Waited,
    FreeWithLine,
    Hash,
    FenceAhead,
}

async fn set_up(lab: &Lab, keys: &Resource, before: Before, ours: &Token) {
    let theirs = token();
    match before {
        Before::Free => {}
        Before::Ours => drop(lab.acquire(keys, ours, &TRY).await),
        Before::Theirs => drop(lab.acquire(keys, &theirs, &TRY).await),
        Before::Foreign => drop(lab.meddle(&SET, &keys.lock, &["foreign"]).await),
        Before::Waited => {
            lab.acquire(keys, ours, &TRY).await;
            lab.acquire(keys, &theirs, &WAIT).await;
        }
        Before::FreeWithLine => {
            lab.acquire(keys, &theirs, &TRY).await;
            lab.acquire(keys, &token(), &WAIT).await;
            lab.meddle(&DELETE, &keys.lock, &[]).await;
        }
        Before::Hash => drop(lab.meddle(&ADD_HASH, &keys.lock, &[]).await),
        Before::FenceAhead => {
            lab.set_fence(keys, 8_000_000_000_000_007).await;
        }
    }
}

/// Shows a reply without times and without the other clients' tokens.
fn word<T: std::fmt::Debug>(answer: &T) -> String {
    let shown = format!("{answer:?}");
    shown
        .split([' ', '{'])
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Compares two sets of names with the same history: one is served item by item, the other in one call.
///
/// Where the call has a reply for an item, it is the reply of the script for one.
async fn same_as_one_by_one(lab: &Lab, case: usize, befores: &[Before], kind: u8) {
    let ours = token();
    let names = |set: &str| -> Vec<Resource> {
        let name = |number| keys(&format!("{{t{case}}}{set}{number}"));
        (0..befores.len()).map(name).collect()
    };
    let (singles, many) = (names("one"), names("many"));
    for (number, before) in befores.iter().enumerate() {
        set_up(lab, &singles[number], *before, &ours).await;
        set_up(lab, &many[number], *before, &ours).await;
    }
    let items: Vec<Item> = many.iter().map(|keys| item(keys, &ours)).collect();
    let at_once: Vec<Option<String>> = match kind {
        0 => words(lab.acquire_many(&items).await),
        1 => words(lab.release_many(&items).await),
        _ => words(lab.extend_many(&items, 30_000).await),
    };
    for (number, answer) in at_once.iter().enumerate() {
        let keys = &singles[number];
        let Some(answer) = answer else {
            continue;
        };
        let one = match kind {
            0 => word(&lab.acquire(keys, &ours, &TRY).await),
            1 => word(&lab.release(keys, &ours).await),
            _ => word(&lab.extend(keys, &ours, 30_000).await),
        };
        assert_eq!(answer, &one, "{}: {:?}", lab.engine, befores[number]);
        let holds = lab.holds(&many[number], &ours).await;
        assert_eq!(
            holds,
            lab.holds(keys, &ours).await,
            "{}: {:?}",
            lab.engine,
            befores[number]
        );
    }
}

fn words<R: std::fmt::Debug>(answers: Replies<R>) -> Vec<Option<String>> {
    answers
        .iter()
        .map(|answer| answer.as_ref().map(word))
        .collect()
}

#[test]
fn items_of_one_call_get_the_replies_that_they_get_one_by_one() {
    let before = prop_oneof![
        Just(Before::Free),
        Just(Before::Ours),
        Just(Before::Theirs),
        Just(Before::Foreign),
        Just(Before::Waited),
        Just(Before::FreeWithLine),
        Just(Before::Hash),
        Just(Before::FenceAhead),
    ];
    let cases = (prop::collection::vec(before, 1..8), 0..3u8);
    random_cases(150, &cases, async |lab, case, (befores, kind)| {
        same_as_one_by_one(lab, case, befores, *kind).await;
    });
}
