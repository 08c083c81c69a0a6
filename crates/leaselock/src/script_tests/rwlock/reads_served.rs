//! Which reads the scripts for many serve and which they leave to the script for one, and the proof that each reply and
//! its effect are those of that script.

use leaselock_fence::Fence;
use proptest::prelude::*;

use super::reads::*;
use crate::base::token::Token;
use crate::engine::values::calls_many::*;
use crate::engine::values::kind::Resource;
use crate::rwlock::READ;
use crate::script_tests::lab::*;
use crate::script_tests::random::random_cases;
use crate::semaphore::PERMITS;

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
    FenceDamaged,
    FenceHash,
}

use Before::*;

/// What a call for many serves: a read with fencing, one without, and the release of our read.
const SERVED: [(Before, bool, bool, bool); 21] = [
    (Free, true, true, false),
    (FreeAfterReaders, true, true, false),
    (FreeAfterWriter, true, true, false),
    (Read, true, true, false),
    (ReadByUs, true, true, true),
    (ReadByUsAndOthers, true, true, true),
    (ReadWithoutFencing, false, true, false),
    (ReadInThePast, true, true, false),
    (ReadByUsInThePast, true, true, false),
    (Upgradable, true, true, false),
    (UpgradableBesideUs, true, true, true),
    (Written, false, false, false),
    (Permits, false, false, false),
    (Waited, false, false, false),
    (WaitedBesideUs, false, false, false),
    (FreeWithWaiter, false, false, false),
    (Hash, false, false, false),
    (ForeignSet, false, false, false),
    (FenceAhead, true, true, false),
    (FenceDamaged, false, true, false),
    (FenceHash, false, true, false),
];

impl Lab {
    async fn set_up(&self, name: &Resource, before: Before, ours: &Token) {
        let (theirs, mutex) = (token(), mutex_of(name));
        let fence = name.fence().to_string();
        let readers: &[&Token] = match before {
            ReadByUs | ReadByUsInThePast => &[ours],
            ReadByUsAndOthers => &[ours, &theirs],
            UpgradableBesideUs | WaitedBesideUs => &[ours],
            FreeAfterReaders | Read | ReadInThePast | Waited | FreeWithWaiter => &[&theirs],
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
            FenceAhead => self.set_fence(name, 8_000_000_000_000_007).await,
            FenceDamaged => drop(self.meddle(&SET, &fence, &["soon"]).await),
            FenceHash => drop(self.meddle(&ADD_HASH, &fence, &[]).await),
            _ => {}
        }
    }

    /// What a call may change: the holds, whether the key has a ttl, and the fence.
    async fn state(&self, name: &Resource) -> (Vec<String>, bool, u64) {
        let is_kept = self.lasts_ms(&name.lock).await >= 0;
        let fence = self.latest_fence(name).await;
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
        fences.push(lab.latest_fence(name).await);
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
                let is_old = |fence: &Option<Fence>, before: &u64| {
                    fence.is_some_and(|fence| fence.get() == *before)
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
        assert_eq!(one.2 == 0, other.2 == 0, "{what}");
    }
}

#[test]
fn reads_of_one_call_get_the_replies_and_have_the_effects_that_they_have_one_by_one() {
    let before = prop::sample::select(SERVED.map(|(before, ..)| before).to_vec());
    let cases = (prop::collection::vec(before, 1..6), 0..3u8);
    random_cases(60, &cases, async |lab, case, (befores, request)| {
        same_as_one_by_one(lab, case, befores, *request).await;
    });
}
