//! Upgrades and downgrades of the read-write lock: one test per reply in the headers of their scripts.

use std::sync::Arc;

use leaselock_fence::Fence;

use crate::base::clock::Clock;
use crate::base::token::Token;
use crate::client::inspection::BreakOptions;
use crate::client::views::*;
use crate::engine::services::batch::batcher::Batcher;
use crate::engine::services::batch::driver::Releases;
use crate::engine::values::calls::Release;
use crate::engine::values::grant::*;
use crate::engine::values::kind::{Held, Kind, LockMode, Resource};
use crate::mutex::MUTEX;
use crate::rwlock::{DOWNGRADE, READ, UPGRADE};
use crate::script::Value;
use crate::script_tests::lab::*;

const HERE: How<'static> = How {
    channel: "here",
    ..WAIT
};

/// The name `job` as each kind of request sees it.
struct Job {
    read: Resource,
    upgradable: Resource,
    upgrade: Resource,
    to_read: Resource,
    to_upgradable: Resource,
    write: Resource,
}

fn job(name: &str) -> Job {
    let of = |kind: &'static Kind, mode: Option<&str>| {
        let lock = keys(name).lock.clone();
        Resource::at(kind, lock, None).with_mode(mode.map(Into::into))
    };
    Job {
        read: of(&READ, Some("s")),
        upgradable: of(&READ, Some("u")),
        upgrade: of(&UPGRADE, Some("x")),
        to_read: of(&DOWNGRADE, Some("s")),
        to_upgradable: of(&DOWNGRADE, Some("u")),
        write: of(&MUTEX, None),
    }
}

fn lasting(ttl_ms: u64) -> How<'static> {
    How { ttl_ms, ..TRY }
}

async fn left_ms(lab: &Lab, job: &Job) -> i64 {
    match lab.meddle(&TTL_OF, &job.read.lock, &[]).await[0] {
        Value::Int(left) => left,
        ref other => panic!("{other:?}"),
    }
}

/// Returns how the name is held, and how many wait.
async fn modes(lab: &Lab, job: &Job) -> (Vec<LockMode>, usize) {
    let seen = lab.inspect(&job.write).await;
    let modes = match seen.state {
        InspectedState::Free => vec![],
        InspectedState::Held(_) => vec![LockMode::Exclusive],
        InspectedState::Shared { holds, .. } => holds.iter().map(|hold| hold.mode).collect(),
        InspectedState::Other { kind } => panic!("{kind}"),
    };
    (modes, seen.queue.len())
}

async fn over(lab: &Lab, keys: &Resource, token: &Token) -> bool {
    match lab.acquire(keys, token, &TRY).await {
        Acquired::Gone { is_taken, .. } => is_taken,
        other => panic!("{}: {other:?}", lab.engine),
    }
}

fn fence_in(message: &str) -> Option<Fence> {
    let first = message.strip_prefix("grant ")?.split(' ').next()?;
    Some(Fence::new(first.parse().unwrap()))
}

#[test]
fn an_upgrade_without_other_readers_is_granted_a_larger_number_and_again_the_same() {
    on_every_engine(async |lab| {
        let (job, up) = (job("job"), token());
        let read = lab.granted(&job.upgradable, &up, &TRY).await;
        let wrote = lab.granted(&job.upgrade, &up, &TRY).await;
        assert!(wrote > read, "{}", lab.engine);
        assert_eq!(
            lab.granted(&job.upgrade, &up, &lasting(60_000)).await,
            wrote
        );
        assert!(left_ms(lab, &job).await > 30_000, "{}", lab.engine);
        assert_eq!(modes(lab, &job).await, ([LockMode::Exclusive].into(), 0));
        assert!(lab.holds(&job.write, &up).await);
        assert_eq!(lab.release(&job.write, &up).await, ReleaseAnswer::Released);
        assert_eq!(modes(lab, &job).await, (vec![], 0));
    });
}

/// They wait for its read, so it must not wait for them.
#[test]
fn an_upgrade_passes_all_who_wait() {
    on_every_engine(async |lab| {
        let (job, up) = (job("job"), token());
        let _here = lab.listen("here").await;
        lab.granted(&job.upgradable, &up, &TRY).await;
        lab.waiting(&job.write, &token(), &HERE).await;
        lab.granted(&job.upgrade, &up, &TRY).await;
        assert_eq!(modes(lab, &job).await, ([LockMode::Exclusive].into(), 1));
    });
}

/// Until the reader learns of the upgrade, it relies on the end of its read.
#[test]
fn an_upgrade_lasts_as_long_as_its_read_would_have() {
    on_every_engine(async |lab| {
        let here = lab.listen("here").await;
        for by_message in [false, true] {
            let (job, up, other) = (job(&format!("job-{by_message}")), token(), token());
            lab.granted(&job.upgradable, &up, &lasting(60_000)).await;
            if by_message {
                lab.granted(&job.read, &other, &TRY).await;
                lab.waiting(
                    &job.upgrade,
                    &up,
                    &How {
                        ttl_ms: 1_000,
                        ..HERE
                    },
                )
                .await;
                assert_eq!(
                    lab.release(&job.read, &other).await,
                    ReleaseAnswer::Released
                );
                let message = here.heard(&up).await;
                let ttl_ms: u64 = message.split(' ').nth(4).unwrap().parse().unwrap();
                assert!(ttl_ms > 50_000, "{}: {message}", lab.engine);
            } else {
                lab.granted(&job.upgrade, &up, &lasting(1_000)).await;
            }
            assert!(left_ms(lab, &job).await > 50_000, "{}", lab.engine);
        }
    });
}

#[test]
fn an_upgrade_beside_readers_is_busy_or_waits_first_and_is_granted_by_the_last_of_them() {
    on_every_engine(async |lab| {
        let (job, up, readers) = (job("job"), token(), [token(), token()]);
        let here = lab.listen("here").await;
        let read = lab.granted(&job.upgradable, &up, &TRY).await;
        for reader in &readers {
            assert_eq!(lab.granted(&job.read, reader, &TRY).await, read);
        }
        let urgent = How {
            priority: i32::MAX,
            ..HERE
        };
        assert_eq!(lab.waiting(&job.write, &token(), &urgent).await, 1);
        let busy = lab.acquire(&job.upgrade, &up, &TRY).await;
        let Acquired::Busy { seen } = busy else {
            panic!("{busy:?}")
        };
        let own = crate::base::token::client_of(up.secret().as_bytes());
        assert!(seen.holder.is_some() && seen.holder.as_deref() != own);
        for _ in 0..2 {
            assert_eq!(
                lab.waiting(&job.upgrade, &up, &HERE).await,
                1,
                "{}",
                lab.engine
            );
        }
        assert_eq!(modes(lab, &job).await.1, 2);
        let late = lab.acquire(&job.read, &token(), &TRY).await;
        assert!(matches!(late, Acquired::Busy { .. }), "{late:?}");
        for reader in &readers {
            assert_eq!(here.count(), 0, "{}", lab.engine);
            lab.release(&job.read, reader).await;
        }
        let message = here.heard(&up).await;
        assert!(fence_in(&message) > read, "{}: {message}", lab.engine);
        assert!(lab.holds(&job.write, &up).await, "{}", lab.engine);
        assert_eq!(
            lab.granted(&job.upgrade, &up, &TRY).await,
            fence_in(&message)
        );
    });
}

#[test]
fn only_one_upgradable_reader_holds_and_the_next_comes_when_it_goes_on_as_a_reader() {
    on_every_engine(async |lab| {
        let (job, up, next) = (job("job"), token(), token());
        let here = lab.listen("here").await;
        let read = lab.granted(&job.upgradable, &up, &TRY).await;
        let busy = lab.acquire(&job.upgradable, &next, &TRY).await;
        assert!(matches!(busy, Acquired::Busy { .. }), "{busy:?}");
        assert_eq!(lab.waiting(&job.upgradable, &next, &HERE).await, 1);
        assert_eq!(lab.granted(&job.to_read, &up, &TRY).await, read);
        assert_eq!(fence_in(&here.heard(&next).await), read, "{}", lab.engine);
        let held = [LockMode::Shared, LockMode::Upgradable];
        let (mut seen, waiting) = modes(lab, &job).await;
        seen.sort_by_key(|mode| *mode != LockMode::Shared);
        assert_eq!((seen, waiting), (held.to_vec(), 0), "{}", lab.engine);
        assert!(!over(lab, &job.upgrade, &up).await, "a plain reader");
    });
}

#[test]
fn an_upgrade_of_a_read_that_is_over_is_told_so_and_leaves_the_queue() {
    on_every_engine(async |lab| {
        let (job, up, reader) = (job("job"), token(), token());
        assert!(!over(lab, &job.upgrade, &up).await);
        lab.granted(&job.upgradable, &up, &TRY).await;
        lab.granted(&job.read, &reader, &TRY).await;
        lab.waiting(&job.upgrade, &up, &HERE).await;
        lab.meddle(&DELETE, &job.read.lock, &[]).await;
        assert!(!over(lab, &job.upgrade, &up).await);
        assert_eq!(modes(lab, &job).await, (vec![], 0), "{}", lab.engine);
        let writer = token();
        lab.granted(&job.write, &writer, &TRY).await;
        assert!(over(lab, &job.upgrade, &up).await);
        assert!(over(lab, &job.to_read, &up).await);
    });
}

/// Its waiter may be frozen, and another reader may be upgradable by then.
#[test]
fn an_upgrade_whose_read_is_over_keeps_none_waiting_and_takes_no_other_read() {
    on_every_engine(async |lab| {
        let (job, frozen, next, reader) = (job("job"), token(), token(), token());
        let here = lab.listen("here").await;
        lab.granted(&job.upgradable, &frozen, &lasting(100)).await;
        lab.granted(&job.read, &reader, &TRY).await;
        lab.waiting(&job.upgrade, &frozen, &HERE).await;
        lab.meddle(&DELETE, &job.read.lock, &[]).await;
        lab.granted(&job.upgradable, &next, &HERE).await;
        assert_eq!(here.heard(&frozen).await, frozen.secret(), "{}", lab.engine);
        assert_eq!(modes(lab, &job).await, ([LockMode::Upgradable].into(), 0));
        assert!(lab.granted(&job.upgrade, &next, &TRY).await.is_some());
    });
}

#[test]
fn giving_up_an_upgrade_keeps_the_read_and_grants_the_readers_behind_it() {
    on_every_engine(async |lab| {
        let (job, up, reader, behind) = (job("job"), token(), token(), token());
        let here = lab.listen("here").await;
        assert_eq!(lab.cancel(&job.upgrade, &up).await, CancelAnswer::Absent);
        lab.granted(&job.upgradable, &up, &TRY).await;
        assert_eq!(lab.cancel(&job.upgrade, &up).await, CancelAnswer::Absent);
        lab.granted(&job.read, &reader, &TRY).await;
        lab.waiting(&job.upgrade, &up, &HERE).await;
        assert_eq!(lab.waiting(&job.read, &behind, &HERE).await, 2);
        assert_eq!(lab.cancel(&job.upgrade, &up).await, CancelAnswer::Left);
        assert!(here.heard(&behind).await.starts_with("grant "));
        assert_eq!(modes(lab, &job).await.0.len(), 3, "{}", lab.engine);
        assert_eq!(lab.cancel(&job.upgrade, &up).await, CancelAnswer::Absent);
        let extended = lab.extend(&job.upgradable, &up, 60_000).await;
        assert!(matches!(extended, ExtendAnswer::Extended { .. }));
    });
}

/// A request that was cut off may arrive when a later upgrade has been granted, whose holder writes.
#[test]
fn giving_up_an_upgrade_that_was_granted_changes_nothing() {
    on_every_engine(async |lab| {
        let (job, up) = (job("job"), token());
        lab.granted(&job.upgradable, &up, &TRY).await;
        lab.granted(&job.upgrade, &up, &TRY).await;
        for _ in 0..2 {
            let stays = lab.cancel(&job.upgrade, &up).await;
            assert_eq!(stays, CancelAnswer::Upgraded, "{}", lab.engine);
        }
        assert_eq!(modes(lab, &job).await, ([LockMode::Exclusive].into(), 0));
    });
}

/// The reader does not know yet, or will never know because the reply was lost.
#[test]
fn an_upgrade_is_extended_and_given_back_as_the_read_that_it_was() {
    on_every_engine(async |lab| {
        for cancels in [false, true] {
            let (job, up) = (job(&format!("job-{cancels}")), token());
            lab.granted(&job.upgradable, &up, &TRY).await;
            lab.granted(&job.upgrade, &up, &TRY).await;
            let extended = lab.extend(&job.upgradable, &up, 60_000).await;
            assert!(matches!(extended, ExtendAnswer::Extended { .. }));
            assert!(left_ms(lab, &job).await > 50_000, "{}", lab.engine);
            let other = lab.extend(&job.upgradable, &token(), 60_000).await;
            assert_eq!(other, ExtendAnswer::TAKEN, "{}", lab.engine);
            if cancels {
                let cancelled = lab.cancel(&job.upgradable, &up).await;
                assert_eq!(cancelled, CancelAnswer::Released, "{}", lab.engine);
            } else {
                let released = lab.release(&job.upgradable, &up).await;
                assert_eq!(released, ReleaseAnswer::Released, "{}", lab.engine);
            }
            assert_eq!(modes(lab, &job).await, (vec![], 0));
        }
    });
}

#[test]
fn a_downgrade_reads_on_with_a_larger_number_and_grants_the_readers_at_the_head() {
    on_every_engine(async |lab| {
        for (number, to) in ["s", "u"].into_iter().enumerate() {
            let (job, writer, behind) = (job(&format!("job-{to}")), token(), [token(), token()]);
            let here = lab.listen("here").await;
            let wrote = lab.granted(&job.write, &writer, &lasting(60_000)).await;
            for reader in &behind {
                lab.waiting(&job.read, reader, &HERE).await;
            }
            lab.waiting(&job.write, &token(), &HERE).await;
            let to = [&job.to_read, &job.to_upgradable][number];
            let read = lab.granted(to, &writer, &lasting(1_000)).await;
            assert!(read > wrote, "{}", lab.engine);
            for reader in &behind {
                assert_eq!(fence_in(&here.heard(reader).await), read, "{}", lab.engine);
            }
            let (held, waiting) = modes(lab, &job).await;
            assert_eq!((held.len(), waiting), (3, 1), "{}", lab.engine);
            assert!(left_ms(lab, &job).await > 50_000, "its time stays");
            assert_eq!(lab.granted(to, &writer, &TRY).await, read, "again the same");
            let as_writer = lab.release(&job.write, &writer).await;
            assert_eq!(as_writer, ReleaseAnswer::Taken, "{}", lab.engine);
        }
    });
}

/// A request that was cut off may arrive when its lease has been upgraded again, and its holder writes.
#[test]
fn a_late_downgrade_does_not_take_a_later_upgrade_down() {
    on_every_engine(async |lab| {
        let (job, up) = (job("job"), token());
        let wrote = lab.granted(&job.write, &up, &TRY).await.unwrap();
        let mode = format!("u {wrote}");
        let down = job.to_upgradable.clone().with_mode(Some(mode.into()));
        lab.granted(&down, &up, &TRY).await;
        lab.granted(&down, &up, &TRY).await;
        lab.granted(&job.upgrade, &up, &TRY).await;
        assert!(!over(lab, &down, &up).await);
        assert_eq!(modes(lab, &job).await, ([LockMode::Exclusive].into(), 0));
        assert!(lab.holds(&job.write, &up).await, "{}", lab.engine);
        // Lost numbers forbid nothing.
        lab.meddle(&DELETE, &job.read.fence().to_string(), &[])
            .await;
        assert!(lab.granted(&down, &up, &TRY).await.is_some());
    });
}

#[test]
fn a_plain_reader_becomes_no_more_by_a_downgrade() {
    on_every_engine(async |lab| {
        let (job, reader) = (job("job"), token());
        lab.granted(&job.read, &reader, &TRY).await;
        assert!(!over(lab, &job.to_upgradable, &reader).await);
        assert!(!over(lab, &job.upgrade, &reader).await);
        assert_eq!(modes(lab, &job).await, ([LockMode::Shared].into(), 0));
        assert!(!over(lab, &job.to_read, &token()).await);
    });
}

#[test]
fn damaged_side_keys_leave_the_way_in_which_it_is_held() {
    on_every_engine(async |lab| {
        let (job, up, reader) = (job("job"), token(), token());
        lab.granted(&job.upgradable, &up, &TRY).await;
        lab.granted(&job.read, &reader, &TRY).await;
        let fence = job.read.fence().to_string();
        lab.meddle(&SET, &fence, &["x"]).await;
        lab.release(&job.read, &reader).await;
        let held = Held::of(&job.upgrade, &up);
        let request = acquire(&held, &WAIT);
        let refused = lab.store.ask_one(&request, WITHIN).await;
        assert!(refused.is_err(), "{}: {refused:?}", lab.engine);
        let mode = LockMode::Upgradable;
        assert!(modes(lab, &job).await.0.contains(&mode), "{}", lab.engine);
        lab.granted(&job.read, &reader, &TRY).await; // who joins readers needs no number of its own
        lab.meddle(&DELETE, &fence, &[]).await;
        lab.meddle(&SET, &job.read.queue().to_string(), &["x"])
            .await;
        let held = Held::of(&job.upgrade, &up);
        let request = acquire(&held, &WAIT);
        assert!(lab.store.ask_one(&request, WITHIN).await.is_err());
        assert!(lab.granted(&job.to_read, &up, &TRY).await.is_some());
    });
}

/// The reply to the upgrade was lost: its client still holds a read, as far as it knows.
#[test]
fn an_upgrade_without_its_clients_knowledge_that_was_broken_is_told_and_given_back() {
    on_every_engine(async |lab| {
        let (job, up) = (job("job"), token());
        lab.granted(&job.upgradable, &up, &TRY).await;
        lab.granted(&job.upgrade, &up, &TRY).await;
        lab.ask(&break_of(&job.write, BreakOptions::default()))
            .await;
        let renewed = lab.extend(&job.upgradable, &up, 30_000).await;
        assert_eq!(renewed, ExtendAnswer::BROKEN, "{}", lab.engine);
        let clock = Clock::boot();
        let releases = Batcher::<Releases>::new(&lab.store, &clock, &Arc::default(), true);
        let held = &Held::of(&job.upgradable, &up);
        let was_queued = false;
        let release = Release { held, was_queued };
        let found = releases.release(&release, WITHIN).await.unwrap();
        let released = releases.release_broken(&release, found, WITHIN).await;
        assert_eq!(released.unwrap(), ReleaseAnswer::Released, "{}", lab.engine);
        assert_eq!(modes(lab, &job).await, (vec![], 0), "{}", lab.engine);
    });
}
