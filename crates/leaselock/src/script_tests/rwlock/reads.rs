//! The scripts that serve many reads in one call: the leases and fencing tokens that they give.

use leaselock_fence::Fence;

use crate::base::token::Token;
use crate::engine::values::calls::AcquireTerms;
use crate::engine::values::calls_many::*;
use crate::engine::values::grant::*;
use crate::engine::values::kind::{Held, Kind, Resource};
use crate::rwlock::READ;
use crate::script::Value;
use crate::script_tests::lab::*;

pub(crate) const UNFENCED: How<'static> = How {
    fencing: false,
    ..TRY
};

/// The names share a slot, as the embedded stores require.
pub(crate) fn as_kind(kind: &'static Kind, mode: &str, name: &str) -> Resource {
    let lock = keys(&format!("{{t}}{name}")).lock.clone();
    Resource::at(kind, lock, None).with_mode(Some(mode.into()))
}

pub(crate) fn read(name: &str) -> Resource {
    as_kind(&READ, "s", name)
}

pub(crate) fn mutex_of(read: &Resource) -> Resource {
    Resource::at(&crate::mutex::MUTEX, read.lock.clone(), None)
}

pub(crate) fn new_token(fenced: bool) -> Token {
    if fenced { token() } else { unfenced_token() }
}

/// The fencing token of each item that was served.
pub(crate) fn granted(answers: Replies<Acquired>) -> Vec<Option<Option<Fence>>> {
    let fence = |answer: Acquired| match answer {
        Acquired::Granted { fence, .. } => fence,
        other => panic!("{other:?}"),
    };
    answers.into_iter().map(|one| one.map(fence)).collect()
}

impl Lab {
    pub(crate) async fn read_many(&self, items: &[Item]) -> Vec<Option<Option<Fence>>> {
        granted(self.ask(&AcquireMany { items }).await)
    }

    pub(crate) async fn leave_many(&self, items: &[Item]) -> Replies<ReleaseAnswer> {
        self.ask(&ReleaseMany { items }).await
    }

    /// All holds of the name, in no order, without the fencing token that readers share.
    pub(crate) async fn members(&self, read: &Resource) -> Vec<String> {
        let Value::Bytes(all) = &self.meddle(&MEMBERS, &read.lock, &[]).await[0] else {
            panic!("{}", self.engine)
        };
        let text = std::str::from_utf8(all).unwrap();
        let is_hold = |member: &&str| !member.starts_with('f') || member.len() > 20;
        let mut all: Vec<_> = text
            .split_whitespace()
            .filter(is_hold)
            .map(str::to_owned)
            .collect();
        all.sort();
        all
    }

    pub(crate) async fn lasts_ms(&self, key: &str) -> i64 {
        match self.meddle(&TTL_OF, key, &[]).await[0] {
            Value::Int(left) => left,
            ref other => panic!("{other:?}"),
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
            assert_eq!(lab.latest_fence(name).await, number.get());
            assert_eq!(lab.members(name).await, [ours.secret()]);
            assert!((29_000..=30_001).contains(&lab.lasts_ms(&name.lock).await));
            assert!(lab.lasts_ms(&name.fence().to_string()).await > 90_000_000);
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
    let held = Held::of(&up, &token());
    assert!(Item::of(&held, AcquireTerms::plain(ttl(30_000))).is_none());
}
