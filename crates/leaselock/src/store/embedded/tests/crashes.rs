//! Crashes, reboots, a careless `rm` and damage, and what other processes then do.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::base::error::ErrorKind;
use crate::store::embedded::file_format::{self, Found, Present};
use crate::store::embedded::time::{self, Meta};

pub(super) fn folder(scratch: &Scratch) -> PathBuf {
    scratch.path().join("locks here")
}

pub(super) fn lock_file(scratch: &Scratch) -> File {
    let path = folder(scratch)
        .join("locks")
        .join(crate::store::embedded::lockfile::file_name("job"));
    File::options().read(true).write(true).open(path).unwrap()
}

pub(super) fn newest(file: &File) -> Present {
    match file_format::read(file.as_fd(), file.metadata().unwrap().len()).unwrap() {
        Found::Current(present) => present,
        other => panic!("{other:?}"),
    }
}

/// Returns the slot of the newer state, and the size of a slot.
fn latest_slot(file: &File) -> (u64, u64) {
    let present = newest(file);
    (present.slot, present.slot_size)
}

#[tokio::test]
async fn a_grant_that_a_power_cut_tore_never_was_and_no_fence_is_repeated() {
    let scratch = Scratch::new();
    let clock = Clock::boot();
    let (one, two) = (
        Peer::on(&scratch, &clock, false),
        Peer::on(&scratch, &clock, false),
    );
    let token = one.token();
    let mut fences = vec![one.take(&token, 60_000).await.unwrap()];
    one.run(&release("job", &token)).await.unwrap();
    let torn = one.take(&one.token(), 60_000).await.unwrap();
    let file = lock_file(&scratch);
    let (slot, slot_size) = latest_slot(&file);
    for kept in [0, 1, 8, 63, 64, 100] {
        let mut bytes = vec![0; usize::try_from(slot_size).unwrap()];
        file.read_exact_at(&mut bytes[..kept], slot * slot_size)
            .unwrap();
        file.write_all_at(&bytes, slot * slot_size).unwrap();
        of_another_boot(&file, (1 - slot) * slot_size);
        before_this_boot(&file);
        // A new key's numbers are up to three milliseconds ahead of the clock (lua/inline/mint.lua): less than any boot takes.
        tokio::time::sleep(Duration::from_millis(4)).await;
        let token = two.token();
        fences.push(
            two.take(&token, 60_000)
                .await
                .expect("free, as before the torn write"),
        );
        two.run(&release("job", &token)).await.unwrap();
        two.take(&token, 60_000).await.unwrap();
        two.run(&release("job", &token)).await.unwrap();
    }
    assert!(
        fences.is_sorted_by(|a, b| a < b) && fences[1] > torn,
        "{fences:?} {torn}"
    );
}

/// Dates the file as if nothing had been written since the machine started.
fn before_this_boot(file: &File) {
    file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000))
        .unwrap();
}

#[tokio::test]
async fn a_held_file_that_was_emptied_zeroed_or_cut_is_damage_and_never_free() {
    type Damage = fn(&File);
    let damages: [(&str, Damage); 8] = [
        ("emptied", |file| file.set_len(0).unwrap()),
        ("cut short", |file| file.set_len(100).unwrap()),
        ("half", |file| file.set_len(2048).unwrap()),
        ("emptied and long", |file| {
            file.set_len(0).unwrap();
            file.set_len(4096).unwrap();
        }),
        ("zeroed", |file| file.write_all_at(&[0; 4096], 0).unwrap()),
        ("newer copy zeroed", |file| {
            let (slot, size) = latest_slot(file);
            file.write_all_at(&[0; 2048], slot * size).unwrap();
        }),
        ("newer copy garbled", |file| {
            let (slot, size) = latest_slot(file);
            file.write_all_at(b"garbage", slot * size + 80).unwrap();
        }),
        ("newer header garbled", |file| {
            let (slot, size) = latest_slot(file);
            file.write_all_at(b"garbage", slot * size + 3).unwrap();
        }),
    ];
    for (what, damage) in damages {
        for calls_before in [1, 2, 3] {
            let scratch = Scratch::new();
            let clock = Clock::boot();
            let (one, two) = (
                Peer::on(&scratch, &clock, true),
                Peer::on(&scratch, &clock, true),
            );
            let mine = one.token();
            for _ in 1..calls_before {
                one.take(&mine, 60_000).await.unwrap();
                one.run(&release("job", &mine)).await.unwrap();
            }
            let fence = one.take(&mine, 60_000).await.unwrap();
            damage(&lock_file(&scratch));
            for (peer, call) in [
                (&two, acquire("job", &two.token(), 1000)),
                (&two, inspect("job")),
                (&one, release("job", &mine)),
            ] {
                let error = peer.run(&call).await.expect_err(what);
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
                let said = error.to_string();
                assert!(
                    said.contains("/locks/job-") && said.contains("delete"),
                    "{said}"
                );
            }
            let other = two
                .run(&acquire("other", &two.token(), 1000))
                .await
                .unwrap();
            assert_eq!(other.tag(), "fenced");
            let path = folder(&scratch).join("locks");
            std::fs::remove_file(path.join(crate::store::embedded::lockfile::file_name("job")))
                .unwrap();
            assert!(
                two.take(&two.token(), 1000).await.unwrap() > fence,
                "{what}"
            );
        }
    }
}

/// No call waits for the disk, so a power cut may leave any file empty.
#[tokio::test]
async fn a_file_that_a_power_cut_emptied_is_a_free_lock_with_a_greater_fence() {
    for length in [0, 100, 4096, 8192] {
        let scratch = Scratch::new();
        let clock = Clock::boot();
        let peer = Peer::on(&scratch, &clock, false);
        let fence = peer.take(&peer.token(), 60_000).await.unwrap();
        lock_file(&scratch).set_len(0).unwrap();
        lock_file(&scratch).set_len(length).unwrap();
        before_this_boot(&lock_file(&scratch));
        let two = Peer::on(&scratch, &clock, false);
        assert!(two.take(&two.token(), 60_000).await.unwrap() > fence);
        assert_eq!(peer.take(&peer.token(), 60_000).await, None);
    }
}

#[tokio::test]
async fn a_time_that_no_clock_had_is_damage_and_its_removal_mends_it() {
    for (anchor_us, last_us) in [
        (1 << 53, 5),
        (5, (1 << 53) + 1),
        (u64::MAX, u64::MAX),
        (5, 1 << 63),
    ] {
        for boot in [time::boot_id(), [3; 16]] {
            let scratch = Scratch::new();
            let clock = Clock::boot();
            let namespace = time::namespace();
            let meta = Meta {
                boot,
                anchor_us,
                last_us,
                namespace,
            };
            let peer = Peer::on(&scratch, &clock, true);
            let token = peer.token();
            let fence = peer.take(&token, 60_000).await.unwrap();
            let path = folder(&scratch).join("meta");
            std::fs::write(&path, meta.text()).unwrap();
            for peer in [&peer, &Peer::on(&scratch, &clock, true)] {
                for call in [acquire("job", &peer.token(), 1000), inspect("job")] {
                    let error = peer.run(&call).await.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                    let mend = format!("Delete {}", path.display());
                    assert!(error.to_string().contains(&mend), "{error}");
                }
            }
            std::fs::remove_file(&path).unwrap();
            assert_eq!(peer.tag(&release("job", &token)).await, "released");
            let next = peer.take(&peer.token(), 60_000).await.unwrap();
            assert!(fence < next && next < 1 << 53);
        }
    }
}

#[tokio::test]
async fn lock_files_from_a_time_that_no_clock_had_do_not_bring_it_back() {
    let scratch = Scratch::new();
    let peer = Peer::on(&scratch, &Clock::boot(), true);
    peer.take(&peer.token(), 60_000).await.unwrap();
    let file = lock_file(&scratch);
    let present = newest(&file);
    let ahead = file_format::Record {
        anchor_us: 1 << 60,
        ..present.record.clone()
    };
    file_format::write(file.as_fd(), present, ahead).unwrap();
    std::fs::remove_file(folder(&scratch).join("meta")).unwrap();
    let two = Peer::on(&scratch, &Clock::boot(), true);
    assert!(two.time().await < 1 << 52);
}

/// Makes one copy the only whole one, as if it had been written before the machine started.
pub(super) fn of_another_boot(file: &File, at: u64) {
    let mut header = [0; 64];
    file.read_exact_at(&mut header, at).unwrap();
    let length = u32::from_le_bytes(header[12..16].try_into().unwrap());
    let mut bytes = vec![0; 64 + usize::try_from(length).unwrap()];
    file.read_exact_at(&mut bytes, at).unwrap();
    bytes[24..40].fill(1);
    let sum = crc32fast::hash(&bytes[12..]);
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    file.write_all_at(&bytes, at).unwrap();
}

#[tokio::test]
async fn a_file_damaged_in_both_copies_is_reported_and_never_free() {
    let scratch = Scratch::new();
    let peer = Peer::on(&scratch, &Clock::boot(), false);
    peer.take(&peer.token(), 60_000).await.unwrap();
    lock_file(&scratch).write_all_at(b"damage", 70).unwrap();
    lock_file(&scratch)
        .write_all_at(b"damage", 2048 + 20)
        .unwrap();
    for call in [acquire("job", &peer.token(), 1000), inspect("job")] {
        let error = peer.run(&call).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(
            error.to_string().contains("/locks/job-") && error.to_string().contains("delete"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn another_boot_voids_leases_and_queues_and_keeps_fences() {
    let scratch = Scratch::new();
    let clock = Clock::boot();
    let peer = Peer::on(&scratch, &clock, false);
    let first = peer.take(&peer.token(), 60_000).await.unwrap();
    peer.run(&enqueue("job", &peer.token(), 60_000, "channel"))
        .await
        .unwrap();
    let file = lock_file(&scratch);
    let present = newest(&file);
    // As if it had been written in another boot, whose time was far ahead.
    let ahead_us = 3_600_000_000;
    let before = file_format::Record {
        boot: [1; 16],
        anchor_us: present.record.anchor_us + ahead_us,
        ..present.record.clone()
    };
    file_format::write(file.as_fd(), present, before).unwrap();
    let fence_key = mutex_keys("job").fence().to_string();
    let kept = peer
        .run(&made_up(
            "return { 'x', redis.call('PTTL', KEYS[1]) }",
            &[&fence_key],
            &[],
        ))
        .await
        .unwrap();
    let day_ms = 26 * 3600 * 1000;
    assert!(
        kept.signed(0).unwrap() > day_ms + 3_500_000,
        "its end counts in the time of then"
    );
    let free = peer.run(&inspect("job")).await.unwrap();
    let none_waits = [Value::Int(0)];
    assert_eq!(
        (free.tag(), free.array(1).unwrap()),
        ("free", &none_waits[..])
    );
    assert!(peer.take(&peer.token(), 60_000).await.unwrap() > first);
}

#[tokio::test]
async fn another_boot_voids_holds_and_keeps_the_numbers_of_a_semaphore() {
    let scratch = Scratch::new();
    let peer = Peer::on(&scratch, &Clock::boot(), true);
    let write = "redis.call('ZADD', KEYS[1], '9999999999999999', ARGV[1])
        redis.call('HSET', KEYS[2], 'permits', '10', ARGV[1], '1795224695691371')
        redis.call('PEXPIRE', KEYS[1], '60000') redis.call('PEXPIRE', KEYS[2], '60000') return { 'x' }";
    let read = "return { 'x', redis.call('EXISTS', KEYS[1]), redis.call('HLEN', KEYS[2]) }";
    let (keys, hold) = (
        ["job", "{job}:ll:usage"],
        format!("{}2", peer.token().secret()),
    );
    peer.run(&made_up(write, &keys, &[&hold])).await.unwrap();
    let read = made_up(read, &keys, &[]);
    assert_eq!(
        peer.run(&read).await.unwrap().values(),
        [1, 2].map(Value::Int)
    );
    let file = lock_file(&scratch);
    let present = newest(&file);
    let before = file_format::Record {
        boot: [1; 16],
        ..present.record.clone()
    };
    file_format::write(file.as_fd(), present, before).unwrap();
    drop(peer); // no process outlives a boot
    let peer = Peer::on(&scratch, &Clock::boot(), true);
    assert_eq!(
        peer.run(&read).await.unwrap().values(),
        [0, 2].map(Value::Int)
    );
}

#[tokio::test]
async fn time_goes_on_when_meta_is_lost_while_locks_are_there() {
    let scratch = Scratch::new();
    let clock = Clock::boot();
    let peer = Peer::on(&scratch, &clock, false);
    peer.take(&peer.token(), 60_000).await.unwrap();
    let before = std::fs::read_to_string(folder(&scratch).join("meta")).unwrap();
    for damage in [None, Some(""), Some("leaselock fol"), Some("garbage")] {
        match damage {
            None => std::fs::remove_file(folder(&scratch).join("meta")).unwrap(),
            Some(text) => std::fs::write(folder(&scratch).join("meta"), text).unwrap(),
        }
        let earlier = peer.time().await;
        for other in [&peer, &Peer::on(&scratch, &clock, false)] {
            assert!(other.time().await >= earlier);
            assert_eq!(
                other.take(&other.token(), 1000).await,
                None,
                "the lease is still there"
            );
        }
        let now = std::fs::read_to_string(folder(&scratch).join("meta")).unwrap();
        let anchor = |text: &str| Meta::parse(text).unwrap().anchor_us;
        assert_eq!(anchor(&now), anchor(&before));
    }
}

#[tokio::test]
async fn time_goes_on_after_a_reboot_with_a_wall_clock_that_is_behind() {
    let scratch = Scratch::new();
    let last_us = crate::base::clock::wall_us() + 10_000_000_000;
    let meta = Meta {
        boot: [3; 16],
        anchor_us: 5,
        last_us,
        namespace: time::namespace(),
    };
    std::fs::create_dir(folder(&scratch)).unwrap();
    std::fs::write(folder(&scratch).join("meta"), meta.text()).unwrap();
    let peer = Peer::on(&scratch, &Clock::boot(), false);
    assert!(peer.time().await > last_us);
}

#[tokio::test]
async fn another_format_or_another_time_namespace_is_unfit() {
    let meta = Meta {
        boot: time::boot_id(),
        anchor_us: 5,
        last_us: 6,
        namespace: "time:[1]".to_owned(),
    };
    let newer = meta.text().replace("folder 1", "folder 2");
    for text in [meta.text(), newer] {
        let scratch = Scratch::new();
        std::fs::create_dir(folder(&scratch)).unwrap();
        std::fs::write(folder(&scratch).join("meta"), &text).unwrap();
        let peer = Peer::on(&scratch, &Clock::boot(), false);
        let error = peer.run(&inspect("job")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedFilesystem, "{error}");
    }
}

#[tokio::test]
async fn a_folder_that_was_emptied_or_removed_is_used_anew() {
    let scratch = Scratch::new();
    let clock = Clock::boot();
    let (one, two) = (
        Peer::on(&scratch, &clock, true),
        Peer::on(&scratch, &clock, true),
    );
    let mut last = 0;
    for remove_folder in [false, true] {
        let token = one.token();
        one.take(&token, 60_000).await.unwrap();
        std::fs::remove_dir_all(folder(&scratch)).unwrap();
        if !remove_folder {
            std::fs::create_dir(folder(&scratch)).unwrap();
        }
        assert_eq!(one.tag(&release("job", &token)).await, "expired");
        let fence = two.take(&two.token(), 60_000).await.unwrap();
        assert!(fence > last);
        last = fence;
        assert_eq!(one.take(&token, 60_000).await, None);
        assert!(
            one.store.session_descriptor().is_some()
                && folder(&scratch)
                    .join("sessions")
                    .join(one.client.as_str())
                    .exists()
        );
        std::fs::remove_dir_all(folder(&scratch)).unwrap();
    }
}

/// Without fencing tokens every release removes the file, while others lock it; with a long note it grows each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_file_that_is_removed_and_grown_all_the_time_still_excludes() {
    static INSIDE: AtomicU32 = AtomicU32::new(0);
    let take = "if redis.call('GET', KEYS[1]) then return { 'busy' } end
        redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000) redis.call('SET', KEYS[2], ARGV[2], 'PX', 60000) return { 'mine' }";
    let give = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return { 'taken' } end
        redis.call('DEL', KEYS[1]) redis.call('DEL', KEYS[2]) return { 'free' }";
    let scratch = Scratch::new();
    let peers: Vec<Peer> = (0..4)
        .map(|_| Peer::on(&scratch, &Clock::boot(), false))
        .collect();
    let tasks = peers.into_iter().enumerate().map(|(number, peer)| {
        let note = "n".repeat(1500 * (number + 1));
        let token = peer.token();
        let (take, give) = (
            made_up(take, &["k", "{k}note"], &[token.secret(), &note]),
            made_up(give, &["k", "{k}note"], &[token.secret()]),
        );
        tokio::spawn(async move {
            let mut taken = 0;
            while taken < 300 {
                if peer.tag(&take).await == "mine" {
                    assert_eq!(INSIDE.fetch_add(1, Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    assert_eq!(INSIDE.fetch_sub(1, Ordering::SeqCst), 1);
                    assert_eq!(peer.tag(&give).await, "free");
                    taken += 1;
                }
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    for task in tasks {
        task.await.unwrap();
    }
}
