//! Lock files in ordinary use.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;

use super::*;
use crate::base::error::ErrorKind;
use crate::store::embedded::folder::{Folder, FolderSettings};
use crate::store::embedded::io_error::{FileError, lacks_descriptors, system};
use crate::store::embedded::lockfile;
use crate::store::embedded::on_disk::FolderStore;
use crate::store::report::Verdict;

#[tokio::test]
async fn a_lock_excludes_and_its_fence_grows() {
    let scratch = Scratch::new();
    let clock = Clock::boot();
    let (one, two) = (
        Peer::on(&scratch, &clock, false),
        Peer::on(&scratch, &clock, false),
    );
    let (mine, theirs) = (one.token(), two.token());
    let first = one.take(&mine, 60_000).await.unwrap();
    assert_eq!(two.take(&theirs, 60_000).await, None);
    assert_eq!(one.take(&mine, 60_000).await, Some(first), "a replay");
    assert_eq!(two.tag(&release("job", &theirs)).await, "taken");
    assert_eq!(one.tag(&release("job", &mine)).await, "released");
    let second = two.take(&theirs, 60_000).await.unwrap();
    assert!(second > first);
    let held = one.run(&inspect("job")).await.unwrap();
    assert_eq!(
        (held.tag(), held.text(3).unwrap(), held.number(5).unwrap()),
        ("held", theirs.secret(), second)
    );
}

#[tokio::test]
async fn a_lease_ends_with_its_time_on_the_machines_clock() {
    let scratch = Scratch::new();
    let clock = Clock::manual();
    let (one, two) = (
        Peer::on(&scratch, &clock, false),
        Peer::on(&scratch, &clock, false),
    );
    one.take(&one.token(), 1000).await.unwrap();
    clock.advance(Duration::from_millis(1000));
    assert_eq!(two.take(&two.token(), 1000).await, None);
    clock.advance(Duration::from_millis(1));
    assert!(two.take(&two.token(), 1000).await.is_some());
}

#[tokio::test]
async fn the_folder_and_its_files_are_private_unless_the_folder_is_shared() {
    let scratch = Scratch::new();
    let peer = Peer::on(&scratch, &Clock::boot(), false);
    peer.take(&peer.token(), 1000).await.unwrap();
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let lock_in = |folder: &std::path::Path| {
        std::fs::read_dir(folder.join("locks"))
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path()
    };
    let folder = scratch.path().join("locks here");
    assert_eq!((mode(&folder), mode(&lock_in(&folder))), (0o700, 0o600));
    let shared = scratch.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o1777)).unwrap();
    let store = EmbeddedStore::folder(&shared, Clock::boot(), &peer.client, true);
    store
        .run(&acquire("job", &peer.token(), 1000), WITHIN)
        .await
        .unwrap();
    assert_eq!(
        (mode(&lock_in(&shared)), mode(&shared.join("sessions"))),
        (0o666, 0o1777)
    );
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_says_how_to_name_another() {
    let store = EmbeddedStore::folder(
        "/dev/null/x".as_ref(),
        Clock::boot(),
        &ClientId::random().unwrap(),
        true,
    );
    let error = store.run(&inspect("job"), WITHIN).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CannotCreate);
    assert!(error.to_string().contains("file:///"), "{error}");
    let checks = store.examine(WITHIN).await.unwrap().findings;
    assert!(checks.iter().any(|check| check.verdict == Verdict::Unfit));
}

#[tokio::test]
async fn scanning_finds_our_locks_that_match_and_no_side_keys() {
    let scratch = Scratch::new();
    let clock = Clock::manual();
    let peer = Peer::on(&scratch, &clock, false);
    for number in 0..600 {
        peer.run(&acquire(&format!("job:{number}"), &peer.token(), 60_000))
            .await
            .unwrap();
    }
    peer.run(&acquire("other", &peer.token(), 60_000))
        .await
        .unwrap();
    peer.run(&acquire("job:over", &peer.token(), 10))
        .await
        .unwrap();
    clock.advance(Duration::from_secs(1));
    peer.run(&made_up(
        "redis.call('SET', KEYS[1], 'foreign', 'PX', 99999) return { 'x' }",
        &["job:x"],
        &[],
    ))
    .await
    .unwrap();
    let pages = pages(&peer.store, "job:*").await;
    let names = pages.iter().flatten().map(|(name, _)| name);
    let mut found: Vec<_> = names.collect();
    found.sort_unstable();
    found.dedup();
    assert!(
        found.len() == 600 && pages.len() > 2,
        "{} on {} pages",
        found.len(),
        pages.len()
    );
}

#[tokio::test]
async fn a_file_held_by_another_process_is_a_time_out_and_can_be_inspected() {
    let scratch = Scratch::new();
    let peer = Peer::on(&scratch, &Clock::boot(), false);
    let token = peer.token();
    peer.take(&token, 60_000).await.unwrap();
    let path = scratch
        .path()
        .join("locks here/locks")
        .join(crate::store::embedded::lockfile::file_name("job"));
    let file = std::fs::File::open(path).unwrap();
    file.lock().unwrap();
    let error = peer
        .store
        .run(&release("job", &token), Duration::from_millis(20))
        .await
        .unwrap_err();
    assert!(
        error.kind() == ErrorKind::NoReply && !error.maybe_applied(),
        "{error}"
    );
    assert_eq!(peer.tag(&inspect("job")).await, "held");
    file.unlock().unwrap();
    assert_eq!(peer.tag(&release("job", &token)).await, "released");
}

#[tokio::test]
async fn nothing_is_left_of_locks_that_are_over() {
    let scratch = Scratch::new();
    let clock = Clock::manual();
    let peer = Peer::on(&scratch, &clock, false);
    for number in 0..40 {
        peer.run(&acquire(&format!("job:{number}"), &peer.token(), 1000))
            .await
            .unwrap();
    }
    let left = || {
        std::fs::read_dir(scratch.path().join("locks here/locks"))
            .unwrap()
            .count()
    };
    assert_eq!(left(), 40);
    clock.advance(Duration::from_secs(8 * 24 * 3600));
    // A sweep comes with every 256th call and examines sixteen files.
    for _ in 0..256 * 6 {
        peer.run(&inspect("another")).await.unwrap();
    }
    assert_eq!(left(), 0);
}

#[tokio::test]
async fn the_doctor_finds_an_ordinary_folder_fit() {
    let scratch = Scratch::new();
    let peer = Peer::on(&scratch, &Clock::boot(), true);
    let checks = peer.store.examine(WITHIN).await.unwrap().findings;
    assert!(
        checks.iter().all(|check| check.verdict < Verdict::Unfit),
        "{checks:?}"
    );
    assert!(
        checks
            .iter()
            .any(|check| check.topic == "session files" && check.found == "2"),
        "{checks:?}"
    );
}

#[tokio::test]
async fn on_a_full_disk_locks_are_released_and_new_names_are_refused() {
    let scratch = Scratch::new();
    let mount = scratch.path().join("locks here");
    std::fs::create_dir(&mount).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs"])
        .arg(&mount)
        .stderr(std::process::Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("skipped: mounting a small tmpfs needs root");
        return;
    }
    let peer = Peer::on(&scratch, &Clock::boot(), false);
    let token = peer.token();
    peer.take(&token, 60_000).await.unwrap();
    std::fs::write(mount.join("filler"), vec![1; 1 << 20]).unwrap_err();
    let refused = peer.run(&acquire("another", &peer.token(), 60_000)).await;
    let released = peer.run(&release("job", &token)).await;
    let again = peer.take(&token, 60_000).await;
    drop(peer);
    assert!(
        std::process::Command::new("umount")
            .arg(&mount)
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(released.unwrap().tag(), "released");
    assert!(again.is_some());
}

/// A lock on a file that other processes do not find excludes none of them.
#[tokio::test]
async fn a_file_that_was_taken_away_between_two_calls_is_not_used_any_more() {
    type Away = fn(&std::path::Path);
    let removed: Away = |file| std::fs::remove_file(file).unwrap();
    let moved: Away = |file| std::fs::rename(file, file.with_file_name("elsewhere")).unwrap();
    let replaced: Away = |file| {
        let copy = file.with_file_name("copy");
        std::fs::copy(file, &copy).unwrap();
        std::fs::rename(copy, file).unwrap();
    };
    for (away, frees) in [(removed, true), (moved, true), (replaced, false)] {
        let scratch = Scratch::new();
        let clock = Clock::boot();
        let (one, two) = (
            Peer::on(&scratch, &clock, false),
            Peer::on(&scratch, &clock, false),
        );
        let (mine, theirs) = (one.token(), two.token());
        one.take(&mine, 60_000).await.unwrap();
        away(&lock_file(&scratch));
        assert_eq!(two.take(&theirs, 60_000).await.is_some(), frees);
        let (tag, holder) = if frees {
            ("taken", &theirs)
        } else {
            ("released", &mine)
        };
        assert_eq!(one.tag(&release("job", &mine)).await, tag);
        let last = two.tag(&release("job", holder)).await;
        assert_eq!(last, if frees { "released" } else { "expired" });
    }
}

fn lock_file(scratch: &Scratch) -> std::path::PathBuf {
    let name = crate::store::embedded::lockfile::file_name("job");
    scratch.path().join("locks here/locks").join(name)
}

/// The system gives a lock to an open file, and every process with that open file has the lock.
#[test]
fn two_threads_of_a_process_exclude_each_other() {
    let scratch = Scratch::new();
    let settings = crate::store::embedded::folder::FolderSettings {
        path: scratch.path().to_owned(),
        clock: Clock::boot(),
        client: "client01".to_owned(),
        session: false,
    };
    let folder = crate::store::embedded::folder::Folder::open(&settings).unwrap();
    let lock = || crate::store::embedded::lockfile::lock(&folder, "job", true);
    drop(lock().unwrap());
    let held = lock().unwrap();
    assert!(held.is_some() && lock().is_err());
    drop(held);
    assert!(lock().is_ok());
}

/// How often a call is tried that never gets a descriptor.
async fn tries_without_descriptors(store: &FolderStore) -> i32 {
    let mut tries = 0;
    let attempt = |_: &Arc<Folder>| -> Result<(), FileError> {
        tries += 1;
        Err(system("open", Path::new("job"), Errno::MFILE).into())
    };
    let ended = store.keep_trying("job", WITHIN, attempt).await;
    assert!(lacks_descriptors(&ended.unwrap_err()));
    tries
}

#[tokio::test]
async fn idle_lock_files_give_way_once_when_descriptors_run_out() {
    let scratch = Scratch::new();
    let peer = Peer::on(&scratch, &Clock::boot(), false);
    let store = FolderStore::new(FolderSettings {
        path: scratch.path().join("locks here"),
        clock: Clock::boot(),
        client: peer.client.as_str().to_owned(),
        session: false,
    });
    let call = acquire("job", &peer.token(), 60_000);
    for idle in [true, false] {
        if idle {
            // One client in eight sweeps at its first call, which closes all files: the second call leaves one open.
            for _ in 0..2 {
                store.run(&call, WITHIN).await.unwrap();
            }
        }
        let tries = tries_without_descriptors(&store).await;
        assert_eq!(tries, if idle { 2 } else { 1 });
        assert!(!store.folder().unwrap().close_idle());
    }
}

/// The file by which a client knows that a holder's process is alive.
#[tokio::test]
async fn session_files_of_others_give_way_too_when_descriptors_run_out() {
    let scratch = Scratch::new();
    let holder = Peer::on(&scratch, &Clock::boot(), true);
    holder.take(&holder.token(), 60_000).await.unwrap();
    let store = FolderStore::new(FolderSettings {
        path: scratch.path().join("locks here"),
        clock: Clock::boot(),
        client: "another1".to_owned(),
        session: true,
    });
    for more in [1, 0] {
        if more == 1 {
            store.run(&inspect("job"), WITHIN).await.unwrap();
            store.folder().unwrap().kept.close_all();
        }
        assert_eq!(tries_without_descriptors(&store).await, 1 + more);
    }
}

#[tokio::test]
async fn a_task_that_is_not_polled_keeps_no_other_from_a_lock_file() {
    let scratch = Scratch::new();
    let store = FolderStore::new(FolderSettings {
        path: scratch.path().join("locks here"),
        clock: Clock::boot(),
        client: "client01".to_owned(),
        session: false,
    });
    let tries = AtomicU32::new(0);
    let mut idle = Box::pin(store.keep_trying("job", WITHIN, |_| {
        tries.fetch_add(1, Ordering::Relaxed);
        Err::<(), _>(FileError::Busy)
    }));
    // From then on it has its turn among the tasks of this client.
    while tries.load(Ordering::Relaxed) < 100 {
        let once = tokio::time::timeout(Duration::from_millis(1), &mut idle);
        assert!(once.await.is_err());
    }
    let mut busy = Some(FileError::Busy);
    let renewal = store.keep_trying("job", WITHIN, |_| busy.take().map_or(Ok(()), Err));
    let renewed = tokio::time::timeout(WITHIN / 5, renewal).await;
    renewed
        .expect("it waits for a task that is not polled")
        .unwrap();
}

#[tokio::test]
async fn who_holds_in_a_folder_that_was_moved_away_learns_it_and_goes_on_in_the_new_one() {
    let scratch = Scratch::new();
    let clock = Clock::boot();
    let (one, two) = (
        Peer::on(&scratch, &clock, true),
        Peer::on(&scratch, &clock, true),
    );
    let (mine, theirs) = (one.token(), two.token());
    one.take(&mine, 60_000).await.unwrap();
    std::fs::rename(
        scratch.path().join("locks here"),
        scratch.path().join("elsewhere"),
    )
    .unwrap();
    assert!(two.take(&theirs, 60_000).await.is_some());
    assert_eq!(one.tag(&release("job", &mine)).await, "taken");
    assert_eq!(two.tag(&release("job", &theirs)).await, "released");
    assert!(one.take(&mine, 60_000).await.is_some());
    assert_eq!(two.take(&theirs, 60_000).await, None, "the session is here");
}

#[tokio::test]
async fn a_list_answers_about_each_lock_as_a_call_about_it_does() {
    let (scratch, clock) = (Scratch::new(), Clock::manual());
    let peer = Peer::on(&scratch, &clock, false);
    let unfenced = Token::random(&peer.client, false).unwrap();
    for (name, token) in [
        ("job", peer.token()),
        ("unfenced", unfenced),
        ("{bank}:1", peer.token()),
    ] {
        assert_ne!(peer.tag(&acquire(name, &token, 60_000)).await, "busy");
    }
    for name in ["queued", "{bank}:2"] {
        for tag in ["fenced", "waiting"] {
            let token = peer.token();
            assert_eq!(peer.tag(&enqueue(name, &token, 60_000, "here")).await, tag);
        }
    }
    clock.advance(Duration::from_millis(7));
    let mut listed = pages(&peer.store, "*").await.concat();
    listed.sort_by(|(one, _), (other, _)| one.cmp(other));
    let names: Vec<_> = listed.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["job", "queued", "unfenced", "{bank}:1", "{bank}:2"]);
    for (name, answer) in listed {
        let asked = peer.run(&inspect(&name)).await.unwrap();
        assert_eq!(asked.tag(), "held");
        assert_eq!(answer, Some(asked), "{name}");
    }
}

/// As a backup in the folder: what it says may be over.
#[tokio::test]
async fn a_list_answers_nothing_from_a_copy_of_a_lock_file() {
    let scratch = Scratch::new();
    let peer = Peer::on(&scratch, &Clock::boot(), false);
    let token = peer.token();
    peer.take(&token, 60_000).await.unwrap();
    let locks = scratch.path().join("locks here/locks");
    let file = locks.join(lockfile::file_name("job"));
    std::fs::copy(&file, file.with_extension("old")).unwrap();
    assert_eq!(peer.tag(&release("job", &token)).await, "released");
    let listed = pages(&peer.store, "*").await.concat();
    assert_eq!(listed, [("job".to_owned(), None)]);
}
