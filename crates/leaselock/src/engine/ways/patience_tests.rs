//! How long a wait goes on while its requests fail.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::{DirEntry, File};
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use testkit::{TempDir, tempdir};

use super::run::NEVER_ANSWERED;
use crate::base::error::AcquireError;
use crate::base::{Clock, ErrorKind};
use crate::engine::guard::lease::Lease;
use crate::{Client, Mutex, Owner};

/// A folder with one lock file in it, and a clock that is moved by hand.
struct Scene {
    folder: TempDir,
    clock: Clock,
    client: Client,
}

impl Scene {
    async fn set() -> Self {
        let (folder, clock) = (tempdir().unwrap(), Clock::manual());
        let url = format!("file://{}/here", folder.path().display());
        let builder = Client::builder().url(&url).clock(clock.clone());
        let quick = builder.request_timeout(Duration::from_millis(5));
        let client = quick.open().unwrap();
        let lease = client.mutex("job").acquire().await.unwrap();
        lease.release().await.unwrap(); // the file stays, because of the fence
        Scene {
            folder,
            clock,
            client,
        }
    }

    /// The file of the lock. Beside it there may be the file in which the client says who it is.
    fn lock_file(&self) -> PathBuf {
        let locks = std::fs::read_dir(self.folder.path().join("here/locks")).unwrap();
        let is_job = |file: &DirEntry| file.file_name().as_encoded_bytes().starts_with(b"job-");
        let mut files = locks.map(|file| file.unwrap());
        files.find(is_job).unwrap().path()
    }

    /// As if others used the lock without a pause.
    fn contention(&self) -> File {
        let file = File::open(self.lock_file()).unwrap();
        flock(&file, FlockOperation::LockExclusive).unwrap();
        file
    }

    /// A lease that is not renewed shares no queue entry.
    fn alone(&self) -> Mutex {
        self.client.mutex("job").renewal(false)
    }

    /// What the future comes to within so much time of the clock.
    async fn within<T>(&self, time: Duration, future: impl Future<Output = T>) -> Option<T> {
        const STEP: Duration = Duration::from_millis(50);
        let (mut future, end) = (pin!(future), self.clock.now().plus(time));
        while self.clock.now() < end {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(outcome) = future.as_mut().poll(&mut context) {
                return Some(outcome);
            }
            self.clock.advance(STEP);
            tokio::time::sleep(Duration::from_millis(2)).await; // time for the store's own thread
        }
        None
    }
}

const LONG: Duration = Duration::from_secs(60);

async fn goes_on(scene: &Scene, wait: impl Future<Output = Result<Lease, AcquireError>>) {
    let mut wait = pin!(wait);
    let contention = scene.contention();
    let ended = scene.within(2 * NEVER_ANSWERED, wait.as_mut()).await;
    assert!(ended.is_none(), "{ended:?}");
    drop(contention);
    let granted = scene.within(LONG, wait).await;
    granted.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_wait_goes_on_while_others_use_the_lock_file_without_a_pause() {
    let scene = Scene::set().await;
    let mutex = scene.alone();
    goes_on(&scene, mutex.acquire()).await;
}

#[tokio::test]
async fn a_wait_that_tasks_share_goes_on_while_others_use_the_lock_file_without_a_pause() {
    let scene = Scene::set().await;
    let (one, two) = (scene.client.mutex("job"), scene.client.mutex("job"));
    let both = async {
        let give = async |mutex: &Mutex| {
            mutex
                .acquire()
                .await?
                .release()
                .await
                .map_err(|_| AcquireError::Closed)
        };
        let (one, two) = tokio::join!(give(&one), give(&two));
        one.and(two)?;
        scene.client.mutex("job").acquire().await
    };
    goes_on(&scene, both).await;
}

#[tokio::test]
async fn a_bounded_wait_behind_a_lock_file_in_use_ends_at_its_own_time() {
    let scene = Scene::set().await;
    let mutex = scene.alone();
    let _contention = scene.contention();
    let limit = 2 * NEVER_ANSWERED;
    let mut wait = pin!(mutex.acquire_within(limit));
    let early = scene
        .within(limit - Duration::from_secs(1), wait.as_mut())
        .await;
    assert!(early.is_none(), "{early:?}");
    let error = scene.within(LONG, wait).await.unwrap().unwrap_err();
    let AcquireError::Store { source, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(source.kind(), ErrorKind::NoReply);
}

#[tokio::test]
async fn a_wait_for_a_damaged_lock_file_ends_at_once() {
    let scene = Scene::set().await;
    std::fs::write(scene.lock_file(), [0x55; 4096]).unwrap();
    let error = scene.alone().acquire().await.unwrap_err();
    let AcquireError::Store { source, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(source.kind(), ErrorKind::Corrupt);
}

/// Its queue entry is taken back in the background, and may be granted until then.
#[tokio::test]
async fn an_owner_that_could_not_leave_the_queue_for_a_deadlock_is_told_that_it_may_be_granted() {
    let scene = Scene::set().await;
    let [one, two] = ["one", "two"].map(|label| scene.client.owner(label));
    let of = |name: &str, owner: &Owner| scene.client.mutex(name).owner(owner);
    let _first = of("first", &one).acquire().await.unwrap();
    let _second = of("job", &two).acquire().await.unwrap();
    let (victim, other) = (of("job", &one).priority(-1), of("first", &two));
    let (mut victim, mut other) = (pin!(victim.acquire()), pin!(other.acquire()));
    let queued = async {
        while scene.client.inspect("job").await.unwrap().queue.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    let waits = async {
        tokio::select! {
            ended = &mut victim => Some(ended),
            () = queued => None,
        }
    };
    assert!(matches!(scene.within(LONG, waits).await, Some(None)));
    let _busy = scene.contention();
    let deadlock = async {
        tokio::select! {
            ended = &mut victim => ended,
            ended = &mut other => panic!("{ended:?}"),
        }
    };
    let told = scene.within(LONG, deadlock).await.unwrap();
    assert!(
        matches!(told, Err(AcquireError::Unknown { .. })),
        "{told:?}"
    );
}
