//! The scripts that serve many reads in one call: what they serve, what they leave to the script for one read, and the
//! proof that each reply and its effect are those of that script.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::lab::*;
use crate::base::fence::Fence;
use crate::base::token::Token;
use crate::engine::batch::batchable::*;
use crate::engine::calls_many::*;
use crate::engine::grant::*;
use crate::engine::kind::Kind;
use crate::engine::resource::Resource;
use crate::rwlock::READ;
use crate::script::Value;
use crate::semaphore::PERMITS;

const UNFENCED: How<'static> = How {
    fencing: false,
    ..TRY
};

/// The names share a slot, as the embedded stores require.
fn as_kind(kind: &'static Kind, mode: &str, name: &str) -> Resource {
    let lock = keys(&format!("{{t}}{name}")).lock.clone();
    Resource::at(kind, lock, None).with_mode(Some(mode.into()))
}

fn read(name: &str) -> Resource {
    as_kind(&READ, "s", name)
}

fn mutex_of(read: &Resource) -> Resource {
    Resource::at(&crate::mutex::MUTEX, read.lock.clone(), None)
}

fn item(read: &Resource, token: &Token) -> Item {
    Item::of(read, token, ttl(30_000), token.is_fenced()).unwrap()
}

fn new_token(fenced: bool) -> Token {
    if fenced { token() } else { unfenced_token() }
}

/// The fencing token of each item that was served.
fn granted(answers: Replies<Acquired>) -> Vec<Option<Option<Fence>>> {
    let fence = |answer: Acquired| match answer {
        Acquired::Granted { fence, .. } => fence,
        other => panic!("{other:?}"),
    };
    answers.into_iter().map(|one| one.map(fence)).collect()
}

impl Lab {
    async fn read_many(&self, items: &[Item]) -> Vec<Option<Option<Fence>>> {
        granted(self.ask(&Acquires::many(items[0].terms, items)).await)
    }

    async fn leave_many(&self, items: &[Item]) -> Replies<ReleaseAnswer> {
        self.ask(&Releases::many(items[0].terms, items)).await
    }

    /// All holds of the name, in no order.
    async fn members(&self, read: &Resource) -> Vec<String> {
        let Value::Bytes(all) = &self.meddle(&MEMBERS, &read.lock, &[]).await[0] else {
            panic!("{}", self.engine)
        };
        let text = std::str::from_utf8(all).unwrap();
        let mut all: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        all.sort();
        all
    }

    async fn lasts_ms(&self, key: &str) -> i64 {
        match self.meddle(&TTL_OF, key, &[]).await[0] {
            Value::Int(left) => left,
            ref other => panic!("{other:?}"),
        }
    }

    async fn fence_text(&self, read: &Resource) -> Option<String> {
        let fence = read.fence().to_string();
        let kind = self.meddle(&TYPE_OF, &fence, &[]).await;
        if kind != [Value::Bytes(b"string".to_vec())] {
            return None;
        }
        match self.meddle(&GET, &fence, &[]).await.first() {
            Some(Value::Bytes(text)) => Some(String::from_utf8(text.clone()).unwrap()),
            _ => None,
        }
    }
}

#[test]
fn of_many_reads_each_of_a_free_name_is_the_first_of_its_readers() {
    on_every_engine(async |lab| {
        let (a, b, ours) = (read("a"), read("b"), token());
        let fences = lab.read_many(&[item(&a, &ours), item(&b, &ours)]).await;
        for (name, fence) in [&a, &b].into_iter().zip(fences) {
            let number = fence.unwrap().unwrap();
            assert_eq!(
                lab.fence_text(name).await,
                Some(format!("{number}:{number}s"))
            );
            assert_eq!(lab.members(name).await, [ours.secret()]);
            assert!((29_000..=30_001).contains(&lab.lasts_ms(&name.lock).await));
            assert!(lab.lasts_ms(&name.fence().to_string()).await > 600_000_000);
            let next = lab.granted(name, &token(), &TRY).await;
            assert_eq!(next, Some(number), "those that come later join it");
        }
        let writer = lab.acquire(&mutex_of(&a), &token(), &TRY).await;
        assert!(matches!(writer, Acquired::Busy { .. }), "{writer:?}");
    });
}

#[test]
fn many_reads_of_one_name_join_its_readers_and_the_first_of_them_mints_one_number_for_all() {
    on_every_engine(async |lab| {
        let (free, held, longer) = (read("free"), read("held"), read("longer"));
        let minted = lab.granted(&held, &token(), &TRY).await;
        let long = How {
            ttl_ms: 90_000,
            ..TRY
        };
        let earlier = lab.granted(&longer, &token(), &long).await;
        let names = [&free, &held, &longer, &free, &held, &longer];
        let items = names.map(|name| item(name, &token()));
        let fences = lab.read_many(&items).await;
        let new = fences[0].unwrap();
        assert!(new > minted && new > earlier, "{}: {fences:?}", lab.engine);
        let all = [new, minted, earlier, new, minted, earlier].map(Some);
        assert_eq!(fences, all, "{}", lab.engine);
        for (name, count) in [(&free, 2), (&held, 3), (&longer, 3)] {
            assert_eq!(lab.members(name).await.len(), count, "{}", lab.engine);
        }
        assert!(
            lab.lasts_ms(&longer.lock).await > 80_000,
            "the key is not shortened"
        );
    });
}

#[test]
fn a_key_of_readers_lives_as_long_as_those_who_join_by_a_call_for_many() {
    on_every_engine(async |lab| {
        let name = read("job");
        let short = How {
            ttl_ms: 5_000,
            ..TRY
        };
        lab.granted(&name, &token(), &short).await;
        lab.read_many(&[item(&name, &token())]).await;
        assert!(lab.lasts_ms(&name.lock).await > 25_000, "{}", lab.engine);
    });
}

#[test]
fn a_call_for_many_reads_that_runs_twice_grants_the_same() {
    on_every_engine(async |lab| {
        let (a, b) = (read("a"), read("b"));
        let items = [item(&a, &token()), item(&b, &token()), item(&a, &token())];
        let first = lab.read_many(&items).await;
        assert!(first.iter().all(Option::is_some), "{first:?}");
        assert_eq!(lab.read_many(&items).await, first, "{}", lab.engine);
        assert_eq!(lab.members(&a).await.len(), 2, "{}", lab.engine);
        let released = lab.leave_many(&items).await;
        assert_eq!(released, [Some(ReleaseAnswer::Released); 3]);
        assert_eq!(lab.leave_many(&items).await, [None; 3], "{}", lab.engine);
        for name in [&a, &b] {
            let kind = lab.meddle(&TYPE_OF, &name.lock, &[]).await;
            assert_eq!(kind, [Value::Bytes(b"none".to_vec())], "{}", lab.engine);
        }
    });
}

/// Another library sees only that there is a key.
#[test]
fn after_many_releases_the_key_lives_as_long_as_the_longest_read_that_is_left() {
    on_every_engine(async |lab| {
        let (name, stays, goes) = (read("job"), token(), [token(), token()]);
        let short = How {
            ttl_ms: 20_000,
            ..TRY
        };
        lab.granted(&name, &stays, &short).await;
        let going = goes.each_ref().map(|token| item(&name, token));
        lab.read_many(&going).await;
        assert!(lab.lasts_ms(&name.lock).await > 25_000, "{}", lab.engine);
        let released = lab.leave_many(&going).await;
        assert_eq!(released, [Some(ReleaseAnswer::Released); 2]);
        assert_eq!(lab.members(&name).await, [stays.secret()]);
        let left = lab.lasts_ms(&name.lock).await;
        assert!((10_000..=20_001).contains(&left), "{} {left}", lab.engine);
    });
}

#[test]
fn a_mutex_after_readers_and_readers_after_a_mutex_have_larger_numbers_in_calls_for_many() {
    on_every_engine(async |lab| {
        let (name, mut last) = (read("job"), None);
        let mutex = mutex_of(&name);
        for _ in 0..3 {
            for resource in [&name, &mutex] {
                let items = [item(resource, &token())];
                let fence = lab.read_many(&items).await[0].unwrap();
                assert!(fence > last, "{} {fence:?} {last:?}", lab.engine);
                last = fence;
                let released = lab.leave_many(&items).await;
                assert_eq!(released, [Some(ReleaseAnswer::Released)]);
            }
        }
    });
}

#[test]
fn a_call_of_more_reads_than_the_limit_has_no_effect() {
    on_every_engine(async |lab| {
        let names: Vec<_> = (0..=MANY_MAX).map(|n| read(&n.to_string())).collect();
        let ours = token();
        let items: Vec<Item> = names.iter().map(|name| item(name, &ours)).collect();
        assert!(lab.read_many(&items).await.iter().all(Option::is_none));
        let served = lab.read_many(&items[..MANY_MAX]).await;
        assert!(served.iter().all(Option::is_some), "{}", lab.engine);
        assert!(lab.leave_many(&items).await.iter().all(Option::is_none));
        let released = lab.leave_many(&items[..MANY_MAX]).await;
        assert!(released.iter().all(Option::is_some), "{}", lab.engine);
    });
}

#[test]
fn no_upgradable_read_is_an_item() {
    let up = as_kind(&READ, "u", "job");
    assert!(Item::of(&up, &token(), ttl(30_000), true).is_none());
}

/// The state of one name before a call.
#[derive(Debug, Clone, Copy)]
enum Before {
    Free,
    FreeAfterReaders,
    FreeAfterWriter,
    Read,
    ReadByUs,
    ReadByUsAndOthers,
    ReadWithoutFencing,
    ReadInThePast,
    ReadByUsInThePast,
    Upgradable,
    UpgradableBesideUs,
    Written,
    Permits,
    Waited,
    WaitedBesideUs,
    FreeWithWaiter,
    Hash,
    ForeignSet,
    FenceAhead,
    FenceAheadOfReaders,
    FenceDamaged,
    FenceHash,
    FenceDamagedOfReaders,
    FenceShortOfReaders,
}

use Before::*;

/// What a call for many serves: a read with fencing, one without, and the release of our read.
const SERVED: [(Before, bool, bool, bool); 24] = [
    (Free, true, true, false),
    (FreeAfterReaders, true, false, false),
    (FreeAfterWriter, true, true, false),
    (Read, true, true, false),
    (ReadByUs, true, true, true),
    (ReadByUsAndOthers, true, true, true),
    (ReadWithoutFencing, true, true, false),
    (ReadInThePast, true, true, false),
    (ReadByUsInThePast, true, true, false),
    (Upgradable, false, false, false),
    (UpgradableBesideUs, true, true, true),
    (Written, false, false, false),
    (Permits, false, false, false),
    (Waited, false, false, false),
    (WaitedBesideUs, false, false, false),
    (FreeWithWaiter, false, false, false),
    (Hash, false, false, false),
    (ForeignSet, false, false, false),
    (FenceAhead, false, true, false),
    (FenceAheadOfReaders, false, false, false),
    (FenceDamaged, false, true, false),
    (FenceHash, false, true, false),
    (FenceDamagedOfReaders, false, true, false),
    (FenceShortOfReaders, false, true, false),
];

impl Lab {
    async fn set_up(&self, name: &Resource, before: Before, ours: &Token) {
        let (theirs, mutex) = (token(), mutex_of(name));
        let fence = name.fence().to_string();
        let readers: &[&Token] = match before {
            ReadByUs | ReadByUsInThePast => &[ours],
            ReadByUsAndOthers => &[ours, &theirs],
            UpgradableBesideUs | WaitedBesideUs => &[ours],
            FreeAfterReaders
            | Read
            | ReadInThePast
            | Waited
            | FreeWithWaiter
            | FenceDamagedOfReaders
            | FenceShortOfReaders => &[&theirs],
            _ => &[],
        };
        let how = if ours.is_fenced() { &TRY } else { &UNFENCED };
        for reader in readers {
            let how = if *reader == ours { how } else { &TRY };
            self.granted(name, reader, how).await;
        }
        match before {
            FreeAfterReaders => {
                self.release(name, &theirs).await;
            }
            FreeAfterWriter => {
                self.granted(&mutex, &theirs, &TRY).await;
                self.release(&mutex, &theirs).await;
            }
            ReadWithoutFencing => {
                let unfenced = unfenced_token();
                self.granted(name, &unfenced, &UNFENCED).await;
            }
            ReadInThePast | ReadByUsInThePast => {
                let who = readers[0].secret();
                self.meddle(&END_LONG_AGO, &name.lock, &[who]).await;
            }
            Upgradable | UpgradableBesideUs => {
                let up = Resource::at(&READ, name.lock.clone(), None);
                let up = up.with_mode(Some("u".into()));
                self.granted(&up, &theirs, &TRY).await;
            }
            Written => {
                self.granted(&mutex, &theirs, &TRY).await;
            }
            Permits => {
                let pool = Resource::at(&PERMITS, name.lock.clone(), None);
                let pool = pool.with_mode(Some("w2 5".into()));
                self.granted(&pool, &theirs, &TRY).await;
            }
            Waited | WaitedBesideUs => {
                self.waiting(&mutex, &token(), &WAIT).await;
            }
            FreeWithWaiter => {
                self.waiting(&mutex, &token(), &WAIT).await;
                self.meddle(&DELETE, &name.lock, &[]).await;
            }
            Hash => drop(self.meddle(&ADD_HASH, &name.lock, &[]).await),
            ForeignSet => {
                for member in ["one", "two"] {
                    self.meddle(&ADD_MEMBER, &name.lock, &[member]).await;
                }
            }
            FenceAhead
            | FenceAheadOfReaders
            | FenceDamaged
            | FenceDamagedOfReaders
            | FenceShortOfReaders => {
                let value = match before {
                    FenceAhead => "8000000000000000:8000000000000007",
                    FenceAheadOfReaders => "8000000000000000:8000000000000007s",
                    FenceShortOfReaders => "7:7s",
                    FenceDamagedOfReaders => "1700000000000000-1700000000000000s",
                    _ => "soon",
                };
                self.meddle(&SET, &fence, &[value]).await;
            }
            FenceHash => drop(self.meddle(&ADD_HASH, &fence, &[]).await),
            _ => {}
        }
    }

    /// What a call may change: the holds, whether the key has a ttl, and the fence.
    async fn state(&self, name: &Resource) -> (Vec<String>, bool, Option<String>) {
        let is_kept = self.lasts_ms(&name.lock).await >= 0;
        let fence = self.fence_text(name).await;
        (self.members(name).await, is_kept, fence)
    }
}

#[test]
fn only_plain_cases_are_served_and_every_other_is_left_as_it_was() {
    on_every_engine(async |lab| {
        for (number, (before, fenced, unfenced, release)) in SERVED.into_iter().enumerate() {
            for (request, is_served) in [fenced, unfenced, release].into_iter().enumerate() {
                let (name, ours) = (
                    read(&format!("{number}-{request}")),
                    new_token(request != 1),
                );
                lab.set_up(&name, before, &ours).await;
                let earlier = lab.state(&name).await;
                let items = [item(&name, &ours)];
                let served = match request {
                    2 => lab.leave_many(&items).await[0].is_some(),
                    _ => lab.read_many(&items).await[0].is_some(),
                };
                let what = format!("{} {before:?} {request}", lab.engine);
                assert_eq!(served, is_served, "{what}");
                let later = lab.state(&name).await;
                assert!(served || later == earlier, "{what}: {later:?} {earlier:?}");
            }
        }
    });
}

/// Two sets of names with the same history: one is served in one call, the other item by item.
///
/// Each name has two items. Where the call has a reply for an item, it is the reply of the script for one.
async fn same_as_one_by_one(lab: &Lab, case: usize, befores: &[Before], request: u8) {
    let tokens = [(); 2].map(|()| new_token(request != 1));
    let names = |set: &str| -> Vec<Resource> {
        let name = |number| read(&format!("{case}{set}{number}"));
        (0..befores.len()).map(name).collect()
    };
    let (singles, many) = (names("one"), names("many"));
    for (number, before) in befores.iter().enumerate() {
        lab.set_up(&singles[number], *before, &tokens[0]).await;
        lab.set_up(&many[number], *before, &tokens[0]).await;
    }
    let both = tokens
        .iter()
        .flat_map(|token| (0..befores.len()).map(move |at| (at, token)));
    let both: Vec<(usize, &Token)> = both.collect();
    let items: Vec<Item> = both
        .iter()
        .map(|(at, token)| item(&many[*at], token))
        .collect();
    let mut fences = Vec::new();
    for name in singles.iter().chain(&many) {
        fences.push(lab.fence_text(name).await);
    }
    if request == 2 {
        let answers = lab.leave_many(&items).await;
        for ((at, token), answer) in both.iter().zip(&answers) {
            if let Some(answer) = answer {
                let one = lab.release(&singles[*at], token).await;
                assert_eq!(*answer, one, "{} {:?}", lab.engine, befores[*at]);
            }
        }
    } else {
        let how = if request == 1 { &UNFENCED } else { &TRY };
        let answers = lab.read_many(&items).await;
        for ((at, token), answer) in both.iter().zip(&answers) {
            if let Some(fence) = answer {
                let one = lab.granted(&singles[*at], token, how).await;
                assert_eq!(fence.is_some(), one.is_some(), "{:?}", befores[*at]);
                let is_old = |fence: &Option<Fence>, before: &Option<String>| {
                    let old = before.as_ref().zip(*fence);
                    old.is_some_and(|(text, fence)| text.starts_with(&fence.to_string()))
                };
                let joins = is_old(fence, &fences[befores.len() + at]);
                assert_eq!(joins, is_old(&one, &fences[*at]), "{:?}", befores[*at]);
            }
        }
    }
    let theirs = |members: Vec<String>| {
        let is_ours = |member: &String| tokens.iter().any(|token| member == token.secret());
        let ours: Vec<String> = members.iter().filter(|one| is_ours(one)).cloned().collect();
        (ours, members.len())
    };
    for (at, before) in befores.iter().enumerate() {
        let what = format!("{} {before:?}", lab.engine);
        let (one, other) = (lab.state(&singles[at]).await, lab.state(&many[at]).await);
        assert_eq!(theirs(one.0), theirs(other.0), "{what}");
        assert_eq!(one.1, other.1, "{what}");
        let is_shared = |text: Option<String>| text.map(|text| text.ends_with('s'));
        assert_eq!(is_shared(one.2), is_shared(other.2), "{what}");
    }
}

#[test]
fn reads_of_one_call_get_the_replies_and_have_the_effects_that_they_have_one_by_one() {
    let before = prop::sample::select(SERVED.map(|(before, ..)| before).to_vec());
    let cases = (prop::collection::vec(before, 1..6), 0..3u8);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let labs = every_engine();
    let case = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config {
        cases: 60,
        ..Config::default()
    });
    let outcome = runner.run(&cases, |(befores, request)| {
        case.set(case.get() + 1);
        for lab in &labs {
            runtime.block_on(same_as_one_by_one(lab, case.get(), &befores, request));
        }
        Ok(())
    });
    outcome.unwrap();
}
