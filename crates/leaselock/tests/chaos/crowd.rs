//! Thousands of waiters for one name in a folder, each with an entry of its own in the queue: no wait fails, all
//! are served in order, and while the holder stays no waiter rewrites the queue all the time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use leaselock::{Client, Mutex};
use testkit::{TempDir, clock, tempdir};
use tokio::task::JoinSet;

/// No lease ends by itself: only hand-overs move the queue.
const TTL: Duration = Duration::from_secs(24 * 3600);
/// Each client has threads and descriptors of its own, so larger crowds share some clients.
const CLIENTS_MOST: usize = 250;
/// All waiters of a crowd are in the queue, or served, within this.
const PATIENCE: Duration = Duration::from_secs(900);

/// How large the crowds are, and how long the holder stays once all are there.
fn crowds() -> (Vec<usize>, Duration) {
    match std::env::var("LEASELOCK_TEST_ROUNDS") {
        Ok(long) if long == "long" => (vec![1_000, 5_000, 20_000], Duration::from_secs(20)),
        Ok(size) => (vec![size.parse().unwrap()], Duration::from_secs(20)),
        Err(_) => (vec![200], Duration::from_secs(1)),
    }
}

/// Who waits, and what came of it.
struct Crowd {
    folder: TempDir,
    clients: Vec<Client>,
    queued: Arc<AtomicUsize>,
    served: Arc<AtomicUsize>,
    /// The fence of the latest grant.
    latest: Arc<AtomicU64>,
    waiters: JoinSet<()>,
}

impl Crowd {
    fn of(size: usize) -> Self {
        let folder = tempdir().unwrap();
        let url = format!("file://{}/locks-here", folder.path().display());
        let client = |_| Client::open(&url).unwrap();
        Crowd {
            folder,
            clients: (0..size.min(CLIENTS_MOST)).map(client).collect(),
            queued: Arc::default(),
            served: Arc::default(),
            latest: Arc::default(),
            waiters: JoinSet::new(),
        }
    }

    /// A lease that is not renewed is shared with no other task, so each task has an entry of its own.
    fn mutex(&self, number: usize) -> Mutex {
        let client = &self.clients[number % self.clients.len()];
        client.mutex("job").ttl(TTL).renewal(false)
    }

    fn joins(&mut self, number: usize) {
        let (queued, told) = (Arc::clone(&self.queued), AtomicUsize::new(0));
        // A poll that failed is told too, and has no place as long as none has succeeded.
        let mutex = self.mutex(number).on_wait(move |waiting| {
            if waiting.position > 0 && told.fetch_add(1, Ordering::SeqCst) == 0 {
                queued.fetch_add(1, Ordering::SeqCst);
            }
        });
        let (served, latest) = (Arc::clone(&self.served), Arc::clone(&self.latest));
        self.waiters.spawn(async move {
            let lease = mutex.acquire().await.unwrap();
            let fence = lease.fence().unwrap().get();
            let before = latest.fetch_max(fence, Ordering::SeqCst);
            assert!(before < fence, "{fence} was granted after {before}");
            served.fetch_add(1, Ordering::SeqCst);
            lease.release().await.unwrap();
        });
    }

    /// Waits until the counter says so; a waiter that has failed ends the test at once.
    async fn until(&mut self, what: &str, reached: impl Fn(&Self) -> bool) {
        let limit = clock::now() + PATIENCE;
        while !reached(self) {
            while let Some(ended) = self.waiters.try_join_next() {
                ended.unwrap();
            }
            assert!(clock::now() < limit, "{what}");
            tokio::time::sleep(Duration::from_millis(5)).await; // between two checks of the condition
        }
    }
}

/// How often the lock's file was written: the newer of its two copies has the higher number.
fn commits(folder: &Path) -> u64 {
    const SEQUENCE_AT: u64 = 16;
    let locks = folder.join("locks-here/locks");
    let mut files = std::fs::read_dir(locks).unwrap().map(|file| file.unwrap());
    let lock = files.find(|file| file.file_name().as_encoded_bytes().starts_with(b"job-"));
    let file = File::open(lock.unwrap().path()).unwrap(); // the others are what clients say about themselves
    let length = file.metadata().unwrap().len();
    let copy = length.ilog2() - 1;
    let sequence = |offset: u64| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, offset + SEQUENCE_AT)
            .unwrap();
        u64::from_le_bytes(bytes)
    };
    sequence(0).max(sequence(1 << copy))
}

/// Bytes that this process has written, to whatever file.
fn written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.map_or(0, |bytes| bytes.parse().unwrap())
}

/// Of the whole process so far: user and system time, in ticks of a hundredth of a second.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(") ").next().unwrap_or_default();
    let ticks = behind_name.split(' ').skip(11).take(2);
    let ticks: u64 = ticks.map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(10 * ticks)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap()
}

/// How many there are in so many seconds, when there were `count` within `time`.
fn in_a(seconds: u64, count: u64, time: Duration) -> u64 {
    1_000 * seconds * count / millis(time).max(1)
}

async fn crowd(size: usize, stay: Duration) {
    let mut crowd = Crowd::of(size);
    let holder = Client::open(&format!(
        "file://{}/locks-here",
        crowd.folder.path().display()
    ));
    let lease = holder
        .unwrap()
        .mutex("job")
        .ttl(TTL)
        .acquire()
        .await
        .unwrap();
    let began = clock::now();
    for number in 0..size {
        crowd.joins(number);
    }
    let all = |crowd: &Crowd| crowd.queued.load(Ordering::SeqCst) == size;
    crowd.until("all are in the queue", all).await;
    let gathered = clock::now() - began;
    tokio::time::sleep(stay).await; // how long the holder stays
    let folder = crowd.folder.path().to_owned();
    let (began, before) = (
        clock::now(),
        (commits(&folder), written(), processor_time()),
    );
    tokio::time::sleep(stay).await; // what is measured is what happens meanwhile
    let stood = clock::now() - began;
    let (commits, bytes) = (commits(&folder) - before.0, written() - before.1);
    let busy = processor_time() - before.2;
    // Each second the two in front make full requests, which write. All others need none, however long they wait.
    let seconds = stay.as_secs().max(1);
    assert!(
        commits <= 4 * seconds + size as u64 / 10,
        "{commits} writes"
    );
    let began = clock::now();
    lease.release().await.unwrap();
    let all = |crowd: &Crowd| crowd.served.load(Ordering::SeqCst) == size;
    crowd.until("all are served", all).await;
    let drained = clock::now() - began;
    println!(
        "{size} waiters: {gathered:.1?} to gather; while the holder stays {} writes and {} bytes a minute, {} ms of a \
         processor a minute; {} served a second",
        in_a(60, commits, stood),
        in_a(60, bytes, stood),
        in_a(60, millis(busy), stood),
        in_a(1, size as u64, drained)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn a_crowd_in_a_folder_is_served_in_order_and_none_of_its_waits_fails() {
    let (sizes, stay) = crowds();
    for size in sizes {
        crowd(size, stay).await;
    }
}
