//! A process dies that has many requests in the queue of one name: when the lock is released, the first waiter that is
//! alive is served at once, whatever number of dead ones stands in front, and no newcomer overtakes it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use leaselock::Client;
use leaselock::once::OnceStart;
use leaselock::options::Waiting;
use testkit::notes::{lines, note};
use testkit::{Child, clock, tempdir};
use tokio::task::JoinSet;

use crate::place::Place;

/// Longer than a round takes: only the release makes the name free.
const TTL: Duration = Duration::from_secs(3_600);
/// Thousands of waiters enter the queue of a folder within this.
const PATIENCE: Duration = Duration::from_secs(900);
/// From the release to the grant of the first live waiter: what one dead head costs, which is a poll.
const MOST: Duration = Duration::from_secs(6);
const LIVE: usize = 5;
/// So many join at once.
const AT_ONCE: usize = 500;

/// As what the waiters ask for the name. Each has an entry of its own in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Its tasks would share an entry without the note.
    Noted,
    Read,
    Permits,
    Campaign,
    /// It is in no queue, and asks again by itself: mutexes with a note have died in front of it.
    Once,
}

const KINDS: [Kind; 5] = [
    Kind::Noted,
    Kind::Read,
    Kind::Permits,
    Kind::Campaign,
    Kind::Once,
];

/// Waits for the name, and gives it back at once. Calls `joined` when it is in the queue. The fence of its grant.
async fn waits(client: Client, kind: Kind, joined: impl Fn() + Send + Sync + 'static) -> u64 {
    let told = AtomicBool::new(false);
    let on_wait = move |waiting: &Waiting| {
        if (waiting.position > 0 || kind == Kind::Once) && !told.swap(true, Ordering::SeqCst) {
            joined();
        }
    };
    let fence = match kind {
        Kind::Noted => {
            let mutex = client.mutex("job").note("waits").on_wait(on_wait);
            mutex.acquire().await.unwrap().fence()
        }
        Kind::Read => {
            let lock = client.rwlock("job").on_wait(on_wait);
            lock.read().await.unwrap().fence()
        }
        Kind::Permits => {
            let pool = client.semaphore("job", 1).on_wait(on_wait);
            pool.acquire().await.unwrap().fence()
        }
        Kind::Campaign => {
            let election = client.election("job").on_wait(on_wait);
            Some(election.campaign().await.unwrap().term())
        }
        Kind::Once => {
            let once = client.once("job").on_wait(on_wait);
            let OnceStart::Run(run) = once.begin().await.unwrap() else {
                panic!("no run ends with a result")
            };
            let fence = run.fence();
            run.cancel().await.unwrap();
            Some(fence)
        }
    };
    fence.unwrap().get()
}

/// A newcomer's only try. In a folder others may keep the lock's file busy for longer than a try lasts.
async fn tries(client: &Client, kind: Kind) -> Option<u64> {
    let fence = if kind == Kind::Read {
        let lease = client.rwlock("job").try_read().await.ok().flatten();
        lease.and_then(|lease| lease.fence())
    } else {
        let lease = client.mutex("job").try_acquire().await.ok().flatten();
        lease.and_then(|lease| lease.fence())
    };
    fence.map(|fence| fence.get())
}

/// What the process does that is killed: so many requests in the queue.
pub(crate) async fn wait_to_be_killed(url: &str, folder: &Path, kind: &str, count: usize) {
    let kind = KINDS.into_iter().find(|one| format!("{one:?}") == kind);
    let (client, kind) = (Client::open(url).unwrap(), kind.unwrap());
    let (mut waiters, joined) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
    for number in 0..count {
        // A storm of requests, of which a busy server replies to some in vain, is not what this is about.
        until("those before it wait", || {
            joined.load(Ordering::SeqCst) + AT_ONCE > number
        })
        .await;
        let (folder, joined) = (folder.to_owned(), Arc::clone(&joined));
        waiters.spawn(waits(client.clone(), kind, move || {
            note(&folder, "joined", "");
            joined.fetch_add(1, Ordering::SeqCst);
        }));
    }
    waiters.join_all().await;
}

async fn until(what: &str, reached: impl Fn() -> bool) {
    let end = clock::now() + PATIENCE;
    while !reached() {
        assert!(clock::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await; // between two checks of the condition
    }
}

/// From the release until the first live waiter, and until all of them were served.
async fn served_after(place: &Place, kind: Kind, dead: usize) -> (Duration, Duration) {
    let (url, folder) = (place.urls(), tempdir().unwrap());
    let connect = || Client::open(&url).unwrap();
    let holder = connect().mutex("job").ttl(TTL).acquire().await.unwrap();
    let path = folder.path().to_str().unwrap();
    let dies = if kind == Kind::Once {
        Kind::Noted
    } else {
        kind
    };
    let words = [&url, path, &format!("{dies:?}"), &dead.to_string()];
    let mut child = Child::start("waits to be killed", &words);
    let joined = |file: &str| lines(folder.path(), file).len();
    until("the dead wait", || joined("joined") == dead).await;

    let (served, is_served) = tokio::sync::watch::channel(Vec::new());
    let (served, mut waiters) = (Arc::new(served), JoinSet::new());
    for number in 0..LIVE {
        let (at, served) = (folder.path().to_owned(), Arc::clone(&served));
        let waits = waits(connect(), kind, move || note(&at, "alive", ""));
        waiters.spawn(async move {
            let fence = waits.await;
            served.send_modify(|all| all.push((number, fence, clock::now())));
        });
        until("the living wait", || joined("alive") == number + 1).await;
    }
    child.kill();
    let newcomer = connect();
    let released = clock::now();
    holder.release().await.unwrap();
    let mut overtook = Vec::new();
    while is_served.borrow().is_empty() && clock::now() < released + PATIENCE {
        overtook.extend(tries(&newcomer, kind).await);
    }
    waiters.join_all().await;
    let served = is_served.borrow();
    let (_, first, first_at) = served[0];
    if kind != Kind::Once {
        overtook.retain(|fence| *fence < first);
        assert!(
            overtook.is_empty(),
            "{place}, {kind:?}, {dead} dead: {overtook:?} overtaken"
        );
        let mut order: Vec<_> = served.iter().map(|one| (one.1, one.0)).collect();
        order.sort_unstable();
        let order: Vec<_> = order.iter().map(|one| one.1).collect();
        assert_eq!(order, [0, 1, 2, 3, 4], "{place}, {kind:?}, {dead} dead");
    }
    let last_at = served.iter().map(|one| one.2).max().unwrap();
    (first_at - released, last_at - released)
}

fn rounds() -> (Vec<Place>, &'static [usize]) {
    match crate::rounds(1, 2) {
        1 => (vec![Place::server(), Place::folder()], &[160]),
        _ => {
            let places = vec![Place::server(), Place::cluster(), Place::folder()];
            (places, &[110, 160, 1_000, 10_000])
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_any_number_of_dead_waiters_the_first_live_one_is_served_and_not_overtaken() {
    let (places, counts) = rounds();
    for place in places {
        for kind in KINDS {
            for dead in counts {
                let (first, last) = served_after(&place, kind, *dead).await;
                println!("{place}, {kind:?}, {dead} dead: first {first:?}, all {LIVE} {last:?}");
                assert!(first < MOST, "{place}, {kind:?}, {dead} dead: {first:?}");
            }
        }
    }
}
