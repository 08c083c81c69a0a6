//! A process that vanishes in the middle of its turns, with fencing tokens reserved that no holder has used.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use leaselock::Client;
use testkit::{Child, Server, clock, tempdir};

use crate::support::{
    FENCE_AHEAD_US, LONG, eventually, latest_fence, set_fence, soon, time_us, until_queued, waiter,
};
use crate::waiting::together::arrives;

/// The lease of a dead process ends after it, so it is short.
const TTL: Duration = Duration::from_secs(2);
const TASKS: usize = 8;
/// The turn that never ends.
const STAYS: usize = 4;

/// What the process does until it is killed: its tasks wait together, and each leaves its fence; one keeps the lease.
pub(crate) async fn take_turns_until_one_stays(url: &str, folder: &Path) {
    let client = Client::open(url).unwrap();
    let mutex = client.mutex("job").ttl(TTL);
    let waiters: Vec<_> = (0..TASKS).map(|_| arrives(&mutex)).collect();
    let fences = folder.join("fences");
    let tasks: Vec<_> = waiters
        .into_iter()
        .enumerate()
        .map(|(number, waiter)| {
            let fences = fences.clone();
            tokio::spawn(async move {
                let lease = waiter.await.unwrap();
                let mut file = OpenOptions::new().append(true).open(fences).unwrap();
                writeln!(file, "{}", lease.fence().unwrap()).unwrap();
                if number + 1 == STAYS {
                    std::future::pending::<()>().await;
                }
                lease.release().await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// The fences that the dead process used, the last one that its grant reserved, and the next holder's. `ahead_us`: the fences that are
/// known run ahead of the server's clock by so much, as if that had stepped back.
async fn dies_in_the_middle_of_its_turns(server: &Server, ahead_us: u64) -> (Vec<u64>, u64, u64) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("fences");
    fs::write(&path, "").unwrap();
    let client = Client::open(&server.url()).unwrap();
    if ahead_us > 0 {
        let known = clock::wall_us() + ahead_us;
        set_fence(server, "job", known);
    }
    let lease = client.mutex("job").ttl(LONG).acquire().await.unwrap();
    let at = folder.path().display().to_string();
    let mut process = Child::start("turns until one stays", &[&server.url(), &at]);
    until_queued(&client, "job", 1).await;
    lease.release().await.unwrap();
    let used = || -> Vec<u64> {
        let text = fs::read_to_string(&path).unwrap();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| line.parse().unwrap()).collect()
    };
    eventually("one stays", async || used().len() == STAYS).await;
    let last = latest_fence(server, "job").unwrap();
    let next = waiter(&client, "job", LONG);
    eventually("it waits behind them", async || {
        let line = client.inspect("job").await.unwrap().queue;
        line.iter().any(|place| place.process.client == client.id())
    })
    .await;
    assert!(!next.is_finished());
    process.kill();
    let lease = soon(next).await.unwrap().unwrap();
    let fence = lease.fence().unwrap().get();
    lease.release().await.unwrap();
    (used(), last, fence)
}

fn check(used: &[u64], last: u64, fence: u64) {
    assert!(used.windows(2).all(|pair| pair[0] < pair[1]), "{used:?}");
    assert!(
        used[STAYS - 1] <= last && last - used[STAYS - 1] < 64,
        "the turn that stayed is of the grant that the server knows: {used:?} {last}"
    );
    assert!(fence > last, "{fence} {last}");
}

#[tokio::test]
async fn after_a_crash_in_the_middle_of_turns_the_next_fence_is_larger_and_not_ahead_of_the_clock()
{
    let server = Server::start();
    let (used, last, fence) = dies_in_the_middle_of_its_turns(&server, 0).await;
    check(&used, last, fence);
    let now = time_us(&server);
    assert!(fence <= now + FENCE_AHEAD_US, "{fence} is ahead of {now}");
}

/// Then time does not make the next fence larger, and only what was reserved does.
#[tokio::test]
async fn after_a_crash_in_the_middle_of_turns_the_next_fence_is_larger_although_the_clock_stepped_back()
 {
    let server = Server::start();
    let (used, last, fence) = dies_in_the_middle_of_its_turns(&server, 3_600_000_000).await;
    check(&used, last, fence);
    assert!(fence <= last + 64 * 2, "no leap: {fence} {last}");
}
