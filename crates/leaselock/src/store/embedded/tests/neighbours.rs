//! What another user may put into a shared folder, and how its users are protected.

use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use rustix::fs::{CWD, FileType, Mode, makedev};

use super::*;
use crate::base::error::ErrorKind;

mod growing;

/// Far longer than any step here takes.
const HANGS: Duration = Duration::from_secs(60);

/// A foreign file in the place of one of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plant {
    Fifo,
    Socket,
    Folder,
    Symlink,
    SymlinkToFifo,
    HardLink,
    /// A device with endless bytes, and one without any.
    Zeros,
    Nothing,
}

const FILES: [Plant; 6] = [
    Plant::Fifo,
    Plant::Socket,
    Plant::Folder,
    Plant::Symlink,
    Plant::SymlinkToFifo,
    Plant::HardLink,
];

/// Lists the plants; without those that this user or file system does not allow.
fn plants() -> Vec<Plant> {
    let scratch = Scratch::new();
    let at = scratch.path().join("device");
    let opened = make_device(&at, Plant::NULL)
        .map_err(std::io::Error::from)
        .and_then(|()| File::open(&at));
    let mut plants = FILES.to_vec();
    match opened {
        Ok(_) => plants.extend([Plant::Zeros, Plant::Nothing]),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            println!("without devices, which cannot be made or opened here: {error}");
        }
        Err(error) => panic!("a device: {error}"),
    }
    plants
}

fn make_device(at: &Path, minor: u32) -> rustix::io::Result<()> {
    let (kind, mode) = (FileType::CharacterDevice, Mode::from_raw_mode(0o666));
    rustix::fs::mknodat(CWD, at, kind, mode, makedev(1, minor))
}

impl Plant {
    /// The numbers of `/dev/null` and `/dev/zero` among the devices of memory.
    const NULL: u32 = 3;
    const ZERO: u32 = 5;

    /// Replaces what is there.
    fn put(self, scratch: &Scratch, at: &Path) {
        if at.is_dir() {
            std::fs::remove_dir_all(at).unwrap();
        } else {
            std::fs::remove_file(at).ok();
        }
        let elsewhere = scratch.path().join("elsewhere");
        let link = |at: &Path| symlink(relative(scratch, at).join("elsewhere"), at).unwrap();
        let fifo = |at: &Path| {
            let mode = Mode::from_raw_mode(0o666);
            rustix::fs::mknodat(CWD, at, FileType::Fifo, mode, 0).unwrap();
        };
        match self {
            Plant::Fifo => fifo(at),
            Plant::Socket => drop(UnixDatagram::bind(at).unwrap()),
            Plant::Folder => std::fs::create_dir(at).unwrap(),
            Plant::Symlink => {
                std::fs::write(&elsewhere, "private").unwrap();
                link(at);
            }
            Plant::SymlinkToFifo => {
                std::fs::remove_file(&elsewhere).ok();
                fifo(&elsewhere);
                link(at);
            }
            Plant::HardLink => {
                std::fs::remove_file(&elsewhere).ok();
                std::fs::write(&elsewhere, "private").unwrap();
                std::fs::hard_link(&elsewhere, at).unwrap();
            }
            Plant::Zeros => make_device(at, Plant::ZERO).unwrap(),
            Plant::Nothing => make_device(at, Plant::NULL).unwrap(),
        }
    }

    fn is_a_file_of_its_own(scratch: &Scratch) -> bool {
        std::fs::read(scratch.path().join("elsewhere")).unwrap() == b"private"
    }
}

/// Returns the path from a file to the folder of the test. An absolute link would be refused for its mount alone.
fn relative(scratch: &Scratch, at: &Path) -> PathBuf {
    let below = at.strip_prefix(scratch.path()).unwrap().components();
    below.skip(1).map(|_| "..").collect()
}

/// Runs it on a separate thread with a runtime of one thread, which a blocking call would block.
fn without_hanging<T: Send + 'static>(
    what: impl std::fmt::Debug,
    test: impl AsyncFnOnce() -> T + Send + 'static,
) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        sender.send(runtime.block_on(test())).ok();
    });
    receiver
        .recv_timeout(HANGS)
        .unwrap_or_else(|_| panic!("{what:?}: it hangs or has failed"))
}

fn folder(scratch: &Scratch) -> PathBuf {
    scratch.path().join("locks here")
}

fn shared() -> Scratch {
    let scratch = Scratch::new();
    std::fs::create_dir(folder(&scratch)).unwrap();
    let everybody = std::fs::Permissions::from_mode(0o1777);
    std::fs::set_permissions(folder(&scratch), everybody).unwrap();
    scratch
}

fn lock_path(scratch: &Scratch, name: &str) -> PathBuf {
    let name = crate::store::embedded::lockfile::file_name(name);
    folder(scratch).join("locks").join(name)
}

/// Checks that every kind of call is refused with a message, and that calls on other names continue.
async fn is_refused(peer: &Peer, kind: ErrorKind, file: &str) {
    for call in [acquire("job", &peer.token(), 1000), inspect("job")] {
        let error = peer.run(&call).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        let said = error.to_string();
        assert!(said.contains(file) && said.contains("elete"), "{said}");
    }
    let token = peer.token();
    let other = peer.run(&acquire("other", &token, 1000)).await.unwrap();
    assert_eq!(other.tag(), "fenced");
    assert_eq!(peer.tag(&inspect("other")).await, "held");
    assert_eq!(peer.tag(&release("other", &token)).await, "released");
}

#[test]
fn what_lies_in_place_of_a_lock_file_is_refused_and_other_names_go_on() {
    for plant in plants() {
        without_hanging(plant, async move || {
            let scratch = shared();
            let peer = Peer::on(&scratch, &Clock::boot(), true);
            peer.tag(&inspect("job")).await;
            plant.put(&scratch, &lock_path(&scratch, "job"));
            is_refused(&peer, ErrorKind::Corrupt, "/locks/job-").await;
            assert_eq!(peer.listed().await, Vec::<String>::new());
            assert!(peer.store.examine(WITHIN).await.is_ok());
            if plant == Plant::HardLink || plant == Plant::Symlink {
                assert!(Plant::is_a_file_of_its_own(&scratch), "it was written");
            }
        });
    }
}

/// Until then the holder may be alive, so no other client is granted before.
#[test]
fn where_a_holders_session_is_no_session_its_ttl_decides() {
    for plant in plants() {
        for suffix in ["", ".main"] {
            without_hanging((plant, suffix), async move || {
                let scratch = shared();
                let clock = Clock::manual();
                let one = Peer::on(&scratch, &clock, true);
                let two = Peer::on(&scratch, &clock, true);
                one.take(&one.token(), 1000).await.unwrap();
                let client = one.client.clone();
                drop(one);
                for file in [client.as_str(), &format!("{}.main", client.as_str())] {
                    std::fs::write(folder(&scratch).join("sessions").join(file), "").unwrap();
                }
                let name = format!("{}{suffix}", client.as_str());
                plant.put(&scratch, &folder(&scratch).join("sessions").join(name));
                assert_eq!(two.take(&two.token(), 1000).await, None);
                assert_eq!(two.tag(&inspect("job")).await, "held");
                clock.advance(Duration::from_millis(1001));
                assert_eq!(two.tag(&inspect("job")).await, "free");
                assert!(two.take(&two.token(), 1000).await.is_some());
            });
        }
    }
}

#[test]
fn what_lies_in_place_of_meta_or_its_lock_is_named_and_not_touched() {
    for plant in plants() {
        for file in ["meta", "meta.lock", "meta.new"] {
            without_hanging((plant, file), async move || {
                let scratch = shared();
                plant.put(&scratch, &folder(&scratch).join(file));
                let peer = Peer::on(&scratch, &Clock::boot(), true);
                let error = peer.run(&inspect("job")).await.unwrap_err();
                let path = folder(&scratch).join(file);
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                let said = error.to_string();
                assert!(said.contains(path.to_str().unwrap()), "{said}");
                if plant == Plant::HardLink || plant == Plant::Symlink {
                    assert!(Plant::is_a_file_of_its_own(&scratch), "it was written");
                }
            });
        }
    }
}

#[test]
fn what_lies_in_place_of_a_sub_folder_is_named() {
    let folders = [Plant::Folder, Plant::SymlinkToFifo];
    for plant in plants()
        .into_iter()
        .filter(|plant| !folders.contains(plant))
    {
        for name in ["locks", "sessions", "wake"] {
            without_hanging((plant, name), async move || {
                let scratch = shared();
                plant.put(&scratch, &folder(&scratch).join(name));
                let peer = Peer::on(&scratch, &Clock::boot(), true);
                let error = peer.run(&inspect("job")).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                let path = folder(&scratch).join(name);
                assert!(
                    error.to_string().contains(path.to_str().unwrap()),
                    "{error}"
                );
            });
        }
    }
}

#[test]
fn a_sub_folder_that_is_a_link_to_another_folder_is_not_used() {
    let scratch = shared();
    let elsewhere = scratch.path().join("a folder elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    symlink("../a folder elsewhere", folder(&scratch).join("locks")).unwrap();
    without_hanging("link", async move || {
        let peer = Peer::on(&scratch, &Clock::boot(), true);
        let error = peer.run(&acquire("job", &peer.token(), 1000)).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(std::fs::read_dir(elsewhere).unwrap().count(), 0);
    });
}

#[test]
fn what_lies_in_place_of_a_waiters_socket_is_a_waiter_that_is_gone() {
    for plant in plants() {
        without_hanging(plant, async move || {
            let scratch = shared();
            let clock = Clock::boot();
            let peer = Peer::on(&scratch, &clock, true);
            peer.tag(&inspect("job")).await;
            let socket = folder(&scratch)
                .join("wake")
                .join(crate::store::embedded::datagram::file_name(b"channel"));
            plant.put(&scratch, &socket);
            let token = peer.token();
            peer.take(&token, 60_000).await.unwrap();
            peer.run(&enqueue("job", &peer.token(), 60_000, "channel"))
                .await
                .unwrap();
            assert_eq!(peer.tag(&release("job", &token)).await, "released");
            let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
            let private = scratch.path().join("elsewhere");
            if plant == Plant::Symlink {
                assert_ne!(
                    mode(&private),
                    0o666,
                    "its mode was changed through the link"
                );
            }
        });
    }
}

#[test]
fn a_link_to_a_socket_elsewhere_in_place_of_a_waiters_is_not_followed() {
    let scratch = shared();
    let elsewhere = UnixDatagram::bind(scratch.path().join("elsewhere")).unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    without_hanging("link", async move || {
        let peer = Peer::on(&scratch, &Clock::boot(), true);
        let token = peer.token();
        peer.take(&token, 60_000).await.unwrap();
        let name = crate::store::embedded::datagram::file_name(b"channel");
        let socket = folder(&scratch).join("wake").join(name);
        symlink("../../elsewhere", socket).unwrap();
        let waits = enqueue("job", &peer.token(), 60_000, "channel");
        peer.run(&waits).await.unwrap();
        assert_eq!(peer.tag(&release("job", &token)).await, "released");
        assert_eq!(peer.tag(&inspect("job")).await, "free");
        assert!(elsewhere.recv(&mut [0; 8]).is_err(), "it was told");
    });
}

#[test]
fn a_lock_on_a_file_that_is_never_given_back_is_a_time_out_that_names_it() {
    let scratch = shared();
    let peer = Peer::on(&scratch, &Clock::boot(), true);
    let within = Duration::from_millis(200);
    let waits_for = |file: PathBuf, peer: Peer| {
        without_hanging(file.clone(), async move || {
            let call = acquire("job", &peer.token(), 1000);
            let error = peer.store.run(&call, within).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NoReply, "{error}");
            let name = file.file_name().unwrap().to_str().unwrap();
            assert!(error.to_string().contains(name), "{error}");
        });
    };
    let meta_lock = folder(&scratch).join("meta.lock");
    let held = File::create(&meta_lock).unwrap();
    held.lock().unwrap();
    waits_for(meta_lock, Peer::on(&scratch, &Clock::boot(), true));
    held.unlock().unwrap();
    without_hanging("first use", async move || {
        peer.take(&peer.token(), 1000).await.unwrap();
    });
    let held = File::open(lock_path(&scratch, "job")).unwrap();
    held.lock().unwrap();
    waits_for(
        lock_path(&scratch, "job"),
        Peer::on(&scratch, &Clock::boot(), true),
    );
}

/// Returns how many bytes this thread has read so far; 0 where the system does not count them.
fn bytes_read() -> u64 {
    let io = std::fs::read_to_string("/proc/thread-self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.map_or(0, |bytes| bytes.parse().unwrap())
}

#[test]
fn a_file_that_is_too_large_or_full_of_keys_is_damaged_and_little_of_it_is_read() {
    const GIGABYTE: u32 = 1 << 30;
    let scratch = shared();
    without_hanging("large", async move || {
        let peer = Peer::on(&scratch, &Clock::boot(), true);
        peer.take(&peer.token(), 60_000).await.unwrap();
        let file = File::options()
            .write(true)
            .open(lock_path(&scratch, "job"))
            .unwrap();
        // Each with headers that say so, and with one that claims a gigabyte.
        for length in [1 << 27, 1 << 40, 8 << 20] {
            file.set_len(length).unwrap();
            let before = bytes_read();
            is_refused(&peer, ErrorKind::Corrupt, "/locks/job-").await;
            file.write_all_at(&GIGABYTE.to_le_bytes(), 12).unwrap();
            is_refused(&peer, ErrorKind::Corrupt, "/locks/job-").await;
            assert!(bytes_read() - before < 1 << 20, "{length}");
        }
    });
}

#[tokio::test]
async fn a_file_of_another_owner_in_a_private_folder_is_refused() {
    let scratch = Scratch::new();
    let settings = crate::store::embedded::folder::FolderSettings {
        path: folder(&scratch),
        clock: Clock::boot(),
        client: "client01".to_owned(),
        session: false,
    };
    let private = crate::store::embedded::folder::Folder::open(&settings).unwrap();
    let mut stat = rustix::fs::fstat(&private.root).unwrap();
    let path = || PathBuf::from("/some/lock");
    assert!(private.check_file_owner(&path, &stat).is_ok());
    stat.st_uid += 1;
    let error = private.check_file_owner(&path, &stat).unwrap_err();
    assert!(error.kind() == ErrorKind::Forbidden && error.to_string().contains("/some/lock"));
}

/// A file gets its name when it is whole.
#[tokio::test]
async fn a_new_file_that_never_got_its_name_is_swept() {
    let scratch = shared();
    let peer = Peer::on(&scratch, &Clock::boot(), false);
    peer.tag(&inspect("job")).await;
    let left = folder(&scratch).join("locks/.new-client01-0");
    std::fs::write(&left, "").unwrap();
    for _ in 0..256 * 2 {
        peer.run(&inspect("job")).await.unwrap();
    }
    assert!(!left.exists());
}
