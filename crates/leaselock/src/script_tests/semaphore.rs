//! The scripts that take and give back many permits in one call: what they serve, what they leave to the script for one,
//! and the proof that each reply and its effect are those of that script.

use leaselock_fence::Fence;
use proptest::prelude::*;

use super::lab::*;
use super::random::random_cases;
use super::rwlock::reads::{as_kind, granted, mutex_of, new_token};
use crate::base::token::Token;
use crate::client::inspection::BreakOptions;
use crate::client::views::*;
use crate::engine::values::calls_many::*;
use crate::engine::values::grant::*;
use crate::engine::values::kind::Resource;
use crate::rwlock::READ;
use crate::script::{Script, Value};
use crate::semaphore::PERMITS;

/// How many permits are there and used, by the operator's word or not, and how many holds have a fencing token.
static USAGE: Script = Script::new(
    "USAGE",
    "local kept = redis.pcall('HMGET', KEYS[1], 'sum', 'permits', 'pinned')
     if kept.err then return {'ok', 'no hash'} end
     local all = redis.call('HLEN', KEYS[1])
     return {'ok', table.concat({kept[1] or '-', kept[2] or '-', kept[3] or '-', all}, ',')}",
);
static PIN: Script = Script::new(
    "PIN",
    "redis.call('HSET', KEYS[1], 'pinned', '1', 'permits', ARGV[1]) return {'ok'}",
);
const UNFENCED: How<'static> = How {
    fencing: false,
    ..TRY
};

fn pool(name: &str, mode: &str) -> Resource {
    as_kind(&PERMITS, mode, name)
}

fn reader_of(pool: &Resource) -> Resource {
    Resource::at(&READ, pool.lock.clone(), None).with_mode(Some("s".into()))
}

/// The fencing token of each item that was served.
async fn take(lab: &Lab, items: &[Item]) -> Vec<Option<Option<Fence>>> {
    granted(lab.ask(&AcquireMany { items }).await)
}

async fn give_back(lab: &Lab, items: &[Item]) -> Replies<ReleaseAnswer> {
    lab.ask(&ReleaseMany { items }).await
}

async fn usage(lab: &Lab, pool: &Resource) -> String {
    let key = pool.beside("usage").to_string();
    match &lab.meddle(&USAGE, &key, &[]).await[0] {
        Value::Bytes(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_many_permits_each_of_a_free_semaphore_is_taken() {
    on_every_engine(async |lab| {
        let (a, b, ours) = (pool("a", "w2 5"), pool("b", "w2 5"), token());
        let fences = take(lab, &[item(&a, &ours), item(&b, &ours)]).await;
        for (pool, fence) in [&a, &b].into_iter().zip(fences) {
            let number = fence.unwrap().unwrap();
            assert_eq!(usage(lab, pool).await, "2 1,5,-,3", "{}", lab.engine);
            assert!((29_000..=30_001).contains(&lab.lasts_ms(&pool.lock).await));
            for side in ["usage", "fence"] {
                let kept = lab.lasts_ms(&pool.beside(side).to_string()).await;
                assert!(kept > 90_000_000, "{} {side} {kept}", lab.engine);
            }
            assert_eq!(
                lab.granted(pool, &ours, &TRY).await,
                Some(number),
                "a replay"
            );
            let next = lab.granted(pool, &token(), &TRY).await;
            assert!(next > Some(number), "{}", lab.engine);
            let third = lab.acquire(pool, &token(), &TRY).await;
            assert!(matches!(third, Acquired::Busy { .. }), "{third:?}");
        }
    });
}

#[test]
fn of_one_semaphore_as_many_items_are_served_as_there_are_permits_each_with_a_larger_number() {
    on_every_engine(async |lab| {
        let (one, other) = (pool("one", "w1 4"), pool("other", "w1 4"));
        let before = lab.granted(&one, &token(), &TRY).await;
        let tokens = [(); 5].map(|()| token());
        let names = [&one, &other, &one, &one, &one];
        let items: Vec<_> = names.iter().zip(&tokens).map(|(n, t)| item(n, t)).collect();
        let fences = take(lab, &items).await;
        assert_eq!(fences[4], None, "a fifth permit: {}", lab.engine);
        let ours = [0, 2, 3].map(|at: usize| fences[at].unwrap());
        assert!(before < ours[0] && ours.is_sorted_by(|one, other| one < other));
        assert_eq!(usage(lab, &one).await, "4 4,4,-,6", "{}", lab.engine);
        let released = give_back(lab, &items).await;
        let served = [true, true, true, true, false];
        let expected = served.map(|is| is.then_some(ReleaseAnswer::Released));
        assert_eq!(released, expected, "{}", lab.engine);
        assert_eq!(usage(lab, &one).await, "1 1,4,-,3", "{}", lab.engine);
        let next = take(lab, &[item(&one, &token())]).await[0].unwrap();
        assert!(next > ours[2], "{}", lab.engine);
    });
}

#[test]
fn calls_for_many_permits_that_run_twice_count_once() {
    on_every_engine(async |lab| {
        let (a, b) = (pool("a", "w1 4"), pool("b", "w1 4"));
        let items = [item(&a, &token()), item(&b, &token()), item(&a, &token())];
        let first = take(lab, &items).await;
        assert!(first.iter().all(Option::is_some), "{first:?}");
        assert_eq!(take(lab, &items).await, [None; 3], "{}", lab.engine);
        assert_eq!(usage(lab, &a).await, "2 2,4,-,4", "{}", lab.engine);
        let released = give_back(lab, &items).await;
        assert_eq!(released, [Some(ReleaseAnswer::Released); 3]);
        assert_eq!(give_back(lab, &items).await, [None; 3], "{}", lab.engine);
        for pool in [&a, &b] {
            assert_eq!(usage(lab, pool).await, "0 0,4,-,2", "{}", lab.engine);
            assert_eq!(lab.lasts_ms(&pool.lock).await, -2, "{}", lab.engine);
        }
    });
}

/// A caller whose own hold is gone too writes no more.
#[test]
fn a_pinned_number_keeps_a_ttl_when_what_is_left_of_holds_that_ended_with_their_key_is_dropped() {
    on_every_engine(async |lab| {
        let (pool, ours) = (pool("pool", "w1 9"), token());
        for token in [&ours, &token(), &token(), &token()] {
            lab.granted(&pool, token, &TRY).await.unwrap();
        }
        let side = pool.beside("usage").to_string();
        lab.meddle(&PIN, &side, &["9"]).await;
        lab.meddle(&DELETE, &pool.lock, &[]).await; // as at the end of the longest hold
        let late = lab.release(&pool, &ours).await;
        assert_eq!(late, ReleaseAnswer::Expired, "{}", lab.engine);
        assert_eq!(usage(lab, &pool).await, "-,9,1,2", "{}", lab.engine);
        assert!(lab.lasts_ms(&side).await > 90_000_000, "{}", lab.engine);
    });
}

/// Another library sees only that there is a key.
#[test]
fn after_many_releases_the_key_lives_as_long_as_the_longest_hold_that_is_left() {
    on_every_engine(async |lab| {
        let (name, goes) = (pool("job", "w1 5"), [token(), token()]);
        let short = How {
            ttl_ms: 20_000,
            ..TRY
        };
        lab.granted(&name, &token(), &short).await;
        let going = goes.each_ref().map(|token| item(&name, token));
        take(lab, &going).await;
        assert!(
            lab.lasts_ms(&name.lock).await > 25_000,
            "the longest decides"
        );
        let released = give_back(lab, &going).await;
        assert_eq!(released, [Some(ReleaseAnswer::Released); 2]);
        let left = lab.lasts_ms(&name.lock).await;
        assert!((10_000..=20_001).contains(&left), "{} {left}", lab.engine);
    });
}

#[test]
fn a_key_of_longer_holds_is_not_shortened_by_those_of_a_call_for_many() {
    on_every_engine(async |lab| {
        let name = pool("job", "w1 5");
        let long = How {
            ttl_ms: 90_000,
            ..TRY
        };
        lab.granted(&name, &token(), &long).await;
        let taken = take(lab, &[item(&name, &token())]).await;
        assert!(taken[0].is_some() && lab.lasts_ms(&name.lock).await > 80_000);
    });
}

#[test]
fn a_call_of_more_permits_than_the_limit_has_no_effect() {
    on_every_engine(async |lab| {
        let name = pool("job", "w1 1000");
        let tokens: Vec<_> = (0..=MANY_MAX).map(|_| token()).collect();
        let items: Vec<Item> = tokens.iter().map(|token| item(&name, token)).collect();
        assert!(take(lab, &items).await.iter().all(Option::is_none));
        let served = take(lab, &items[..MANY_MAX]).await;
        assert!(served.iter().all(Option::is_some), "{}", lab.engine);
        assert!(give_back(lab, &items).await.iter().all(Option::is_none));
        let released = give_back(lab, &items[..MANY_MAX]).await;
        assert!(released.iter().all(Option::is_some), "{}", lab.engine);
    });
}

#[test]
fn permits_in_other_numbers_or_of_another_total_go_in_other_calls() {
    let ours = token();
    let one = item(&pool("a", "w1 5"), &ours);
    assert!(one.goes_with(&item(&pool("b", "w1 5"), &ours)));
    for mode in ["w2 5", "w1 6"] {
        assert!(!one.goes_with(&item(&pool("b", mode), &ours)), "{mode}");
    }
}

/// The state of one semaphore of 5 before a call for 2 permits.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Before {
    Free,
    FreeAfterOthers,
    FreeAfterWriter,
    FreeAfterReaders,
    Taken,
    TakenByUs,
    TakenByUsAndOthers,
    TakenWithoutFencing,
    TakenInThePast,
    TakenByUsInThePast,
    Full,
    FewerByTheOperator,
    MoreByTheOperator,
    UsageLost,
    UsageOfAnotherType,
    Written,
    Read,
    ReadAfterPermitsThatExpired,
    Waited,
    WaitedBesideUs,
    FreeWithWaiter,
    Hash,
    ForeignSet,
    FenceAhead,
    FenceDamaged,
    FenceHash,
}

use Before::*;

/// What a call for many serves: permits with fencing, permits without, and the release of ours.
const SERVED: [(Before, bool, bool, bool); 26] = [
    (Free, true, true, false),
    (FreeAfterOthers, true, true, false),
    (FreeAfterWriter, true, true, false),
    (FreeAfterReaders, true, true, false),
    (Taken, true, true, false),
    (TakenByUs, false, false, true),
    (TakenByUsAndOthers, false, false, true),
    (TakenWithoutFencing, true, true, false),
    (TakenInThePast, true, true, false),
    (TakenByUsInThePast, false, false, false),
    (Full, false, false, false),
    (FewerByTheOperator, false, false, false),
    (MoreByTheOperator, true, true, false),
    (UsageLost, false, false, false),
    (UsageOfAnotherType, false, false, false),
    (Written, false, false, false),
    (Read, false, false, false),
    (ReadAfterPermitsThatExpired, false, false, false),
    (Waited, false, false, false),
    (WaitedBesideUs, false, false, false),
    (FreeWithWaiter, false, false, false),
    (Hash, false, false, false),
    (ForeignSet, false, false, false),
    (FenceAhead, true, true, false),
    (FenceDamaged, false, true, false),
    (FenceHash, false, true, false),
];

async fn set_up(lab: &Lab, name: &Resource, before: Before, ours: &Token) {
    let (theirs, mutex, reader) = (token(), mutex_of(name), reader_of(name));
    let (fence, usage) = (name.fence().to_string(), name.beside("usage").to_string());
    let how = if ours.is_fenced() { &TRY } else { &UNFENCED };
    let us = matches!(
        before,
        TakenByUs | TakenByUsAndOthers | TakenByUsInThePast | WaitedBesideUs
    );
    if us {
        lab.granted(name, ours, how).await;
    }
    let them = matches!(
        before,
        FreeAfterOthers | Taken | TakenByUsAndOthers | TakenInThePast | Full | UsageLost
    );
    if them {
        lab.granted(name, &theirs, &TRY).await;
    }
    let in_the_past = |token: &Token| format!("{}2", token.secret());
    match before {
        FreeAfterOthers => drop(lab.release(name, &theirs).await),
        FreeAfterWriter => {
            lab.granted(&mutex, &theirs, &TRY).await;
            lab.release(&mutex, &theirs).await;
        }
        FreeAfterReaders => {
            lab.granted(&reader, &theirs, &TRY).await;
            lab.release(&reader, &theirs).await;
        }
        TakenWithoutFencing => drop(lab.granted(name, &unfenced_token(), &UNFENCED).await),
        TakenInThePast => {
            let member = in_the_past(&theirs);
            lab.meddle(&END_LONG_AGO, &name.lock, &[&member]).await;
        }
        TakenByUsInThePast => {
            let member = in_the_past(ours);
            lab.meddle(&END_LONG_AGO, &name.lock, &[&member]).await;
        }
        Full => drop(lab.granted(name, &token(), &TRY).await),
        FewerByTheOperator => drop(lab.meddle(&PIN, &usage, &["1"]).await),
        MoreByTheOperator => drop(lab.meddle(&PIN, &usage, &["50"]).await),
        UsageLost => drop(lab.meddle(&DELETE, &usage, &[]).await),
        UsageOfAnotherType => drop(lab.meddle(&SET, &usage, &["soon"]).await),
        Written => drop(lab.granted(&mutex, &theirs, &TRY).await),
        Read => drop(lab.granted(&reader, &theirs, &TRY).await),
        ReadAfterPermitsThatExpired => {
            // The usage says that there is one hold, and so there is.
            lab.granted(name, &theirs, &TRY).await;
            lab.meddle(&DELETE, &name.lock, &[]).await;
            lab.granted(&reader, &theirs, &TRY).await;
        }
        Waited | WaitedBesideUs | FreeWithWaiter => {
            if !us {
                lab.granted(name, &theirs, &TRY).await;
            }
            lab.waiting(&mutex, &token(), &WAIT).await;
            if before == FreeWithWaiter {
                lab.meddle(&DELETE, &name.lock, &[]).await;
            }
        }
        Hash => drop(lab.meddle(&ADD_HASH, &name.lock, &[]).await),
        ForeignSet => drop(lab.meddle(&ADD_MEMBER, &name.lock, &["one"]).await),
        FenceAhead => lab.set_fence(name, 8_000_000_000_000_000).await,
        FenceDamaged => drop(lab.meddle(&SET, &fence, &["soon"]).await),
        FenceHash => drop(lab.meddle(&ADD_HASH, &fence, &[]).await),
        Free | Taken | TakenByUs | TakenByUsAndOthers => {}
    }
}

/// What a call may change: how many hold it, whether one of these does, whether the key has a ttl, and the usage.
async fn state(lab: &Lab, name: &Resource, ours: &[Token]) -> (usize, Vec<bool>, bool, String) {
    let members = lab.members(name).await;
    let holds = |token: &Token| members.iter().any(|one| one.contains(token.secret()));
    let is_kept = lab.lasts_ms(&name.lock).await >= 0;
    let ours = ours.iter().map(holds).collect();
    (members.len(), ours, is_kept, usage(lab, name).await)
}

fn new_tokens(request: u8) -> [Token; 2] {
    [(); 2].map(|()| new_token(request != 1))
}

#[test]
fn only_plain_cases_of_permits_are_served_and_every_other_is_left_as_it_was() {
    on_every_engine(async |lab| {
        for (number, (before, fenced, unfenced, release)) in SERVED.into_iter().enumerate() {
            for (request, is_served) in [fenced, unfenced, release].into_iter().enumerate() {
                let name = pool(&format!("{number}-{request}"), "w2 5");
                let tokens = new_tokens(u8::try_from(request).unwrap());
                set_up(lab, &name, before, &tokens[0]).await;
                let earlier = state(lab, &name, &tokens).await;
                let items = [item(&name, &tokens[0])];
                let served = match request {
                    2 => give_back(lab, &items).await[0].is_some(),
                    _ => take(lab, &items).await[0].is_some(),
                };
                let what = format!("{} {before:?} {request}", lab.engine);
                assert_eq!(served, is_served, "{what}");
                let later = state(lab, &name, &tokens).await;
                assert!(served || later == earlier, "{what}: {later:?} {earlier:?}");
            }
        }
    });
}

/// Two sets of semaphores with the same history: one is served in one call, the other item by item.
///
/// Each has two items. Where the call has a reply for an item, it is the reply of the script for one.
async fn same_as_one_by_one(lab: &Lab, case: usize, befores: &[Before], request: u8) {
    let tokens = new_tokens(request);
    let [singles, many] = ["one", "many"].map(|set| {
        let name = |at| pool(&format!("{case}{set}{at}"), "w2 5");
        (0..befores.len()).map(name).collect::<Vec<_>>()
    });
    for (at, before) in befores.iter().enumerate() {
        for set in [&singles, &many] {
            set_up(lab, &set[at], *before, &tokens[0]).await;
        }
    }
    let both: Vec<(usize, &Token)> = tokens
        .iter()
        .flat_map(|token| (0..befores.len()).map(move |at| (at, token)))
        .collect();
    let items: Vec<Item> = both.iter().map(|(at, t)| item(&many[*at], t)).collect();
    if request == 2 {
        let answers = give_back(lab, &items).await;
        for ((at, token), answer) in both.iter().zip(answers) {
            if let Some(answer) = answer {
                let one = lab.release(&singles[*at], token).await;
                assert_eq!(answer, one, "{} {:?}", lab.engine, befores[*at]);
            }
        }
    } else {
        let how = if request == 1 { &UNFENCED } else { &TRY };
        let answers = take(lab, &items).await;
        for ((at, token), answer) in both.iter().zip(answers) {
            if let Some(fence) = answer {
                let one = lab.granted(&singles[*at], token, how).await;
                assert_eq!(fence.is_some(), one.is_some(), "{:?}", befores[*at]);
            }
        }
    }
    for (at, before) in befores.iter().enumerate() {
        let one = state(lab, &singles[at], &tokens).await;
        let other = state(lab, &many[at], &tokens).await;
        assert_eq!(one, other, "{} {before:?} {request}", lab.engine);
    }
}

#[test]
fn permits_of_one_call_get_the_replies_and_have_the_effects_that_they_have_one_by_one() {
    let before = prop::sample::select(SERVED.map(|(before, ..)| before).to_vec());
    let cases = (prop::collection::vec(before, 1..6), 0..3u8);
    random_cases(60, &cases, async |lab, case, (befores, request)| {
        same_as_one_by_one(lab, case, befores, *request).await;
    });
}

/// What has ended leaves a field beside the lock for each of its holds, when no script for permits removes it.
#[test]
fn those_who_hold_on_keep_their_fences_when_others_have_ended() {
    on_every_engine(async |lab| {
        for name in ["broken", "tried"] {
            let pool = pool(name, "w1 5");
            let short = How { ttl_ms: 50, ..TRY };
            for _ in 0..3 {
                lab.granted(&pool, &token(), &short).await;
            }
            let ours = [token(), token()];
            let mut fences = Vec::new();
            for ours in &ours {
                fences.push(lab.granted(&pool, ours, &TRY).await);
            }
            let shown = async || match lab.inspect(&pool).await.state {
                InspectedState::Shared { holds, .. } => {
                    holds.into_iter().map(|hold| hold.fence).collect()
                }
                _ => Vec::new(),
            };
            while shown().await.len() > ours.len() {
                tokio::task::yield_now().await;
            }
            if name == "tried" {
                // It reads what is held and knows nothing of permits.
                let alone = lab.acquire(&mutex_of(&pool), &token(), &TRY).await;
                assert!(matches!(alone, Acquired::Busy { .. }), "{alone:?}");
                let all = as_kind(&PERMITS, "w5 5", name);
                let tried = lab.acquire(&all, &token(), &TRY).await;
                assert!(matches!(tried, Acquired::Busy { .. }), "{tried:?}");
            }
            assert_eq!(shown().await, fences, "{}", lab.engine);
            let terms = BreakOptions::default().only(fences[0].unwrap());
            let broken = lab.ask(&break_of(&pool, terms)).await;
            let is_broken =
                matches!(broken, Broke::Broken { count: 1, fence, .. } if fence == fences[0]);
            assert!(is_broken, "{}: {broken:?}", lab.engine);
            assert_eq!(shown().await, fences, "{}", lab.engine);
        }
    });
}
