//! Processes that fight for one name while connections, scripts, processes and the server itself are struck; a history
//! of what they saw is checked afterwards.

use std::path::Path;
use std::time::Duration;

use leaselock::{Client, LeaseError};
use testkit::{Child, Recorder, Server, clock, history};

use crate::support::{LONG, millis, soon};

const PROCESSES: usize = 4;
const TASKS: usize = 4;
/// How long the nemesis strikes, and how long the children go on in peace.
const STRIKES: Duration = Duration::from_secs(10);
/// Short, so that leases end by themselves in between; long against most pauses of the server.
const TTL: Duration = Duration::from_millis(1_500);

/// What each child does until it is killed: takes, works, sometimes extends, sometimes forgets to release.
pub(crate) async fn hammer(url: &str, path: &Path) {
    let recorder = Recorder::append(path).unwrap();
    let clients = [Client::open(url).unwrap(), Client::open(url).unwrap()];
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let mutex = clients[task % 2]
                .mutex("job")
                .ttl(TTL)
                .renewal(task % 4 != 3);
            let recorder = recorder.clone();
            tokio::spawn(async move {
                for turn in 0_u64.. {
                    one_turn(&mutex, &recorder, turn).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

async fn one_turn(mutex: &leaselock::Mutex, recorder: &Recorder, turn: u64) {
    let attempt = recorder.invoke("job");
    let Ok(lease) = mutex.acquire_within(millis(3_000)).await else {
        attempt.failed();
        return;
    };
    let fence = lease.fence().unwrap().get();
    let now = clock::now();
    attempt.granted(fence, now + lease.remaining());
    // The work that is protected: some turns take longer than others.
    tokio::time::sleep(millis(turn % 5)).await;
    if turn.is_multiple_of(4) {
        match lease.extend(TTL).await {
            Ok(()) => {
                let now = clock::now();
                attempt.extended(fence, now + lease.remaining());
            }
            Err(LeaseError::Lost(_)) => attempt.lost(),
            Err(_) => {}
        }
    }
    attempt.release();
    if turn.is_multiple_of(7) {
        drop(lease);
    } else if lease.release().await.is_ok() {
        attempt.released();
    }
}

fn strike(server: &Server, children: &mut [Child], spawn: &impl Fn() -> Child, turn: usize) {
    match turn % 6 {
        0 => drop(server.cli(&["CLIENT", "KILL", "TYPE", "normal"])),
        1 => drop(server.cli(&["SCRIPT", "FLUSH"])),
        2 => drop(server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"])),
        3 => {
            let paused = server.pause();
            // The pause is the fault; once it is longer than a lease.
            std::thread::sleep(if turn == 9 {
                TTL + millis(300)
            } else {
                millis(300)
            });
            drop(paused);
        }
        4 => {
            let victim = turn % children.len();
            children[victim].kill();
            children[victim] = spawn();
        }
        _ => drop(server.cli(&["CONFIG", "RESETSTAT"])), // a turn without a fault
    }
}

#[test]
fn no_two_hold_at_once_and_fences_grow_whatever_is_struck() {
    let server = Server::start();
    let folder = testkit::tempdir().unwrap();
    let path = folder.path().join("history");
    let (url, at) = (server.url(), path.display().to_string());
    let spawn = || Child::start("hammer", &[&url, &at]);
    let mut children: Vec<Child> = (0..PROCESSES).map(|_| spawn()).collect();
    let end = clock::now() + STRIKES;
    let mut turn = 0;
    while clock::now() < end {
        // Between two faults the children get on with it.
        std::thread::sleep(millis(350));
        strike(&server, &mut children, &spawn, turn);
        turn += 1;
    }
    // A client that comes next in peace is served although all are in the queue, and some of the dead as well.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = Client::open(&url).unwrap();
        let lease = soon(client.mutex("job").ttl(LONG).acquire()).await.unwrap();
        lease.release().await.unwrap();
    });
    drop(children);
    let events = history::read(&path).unwrap();
    let summary = history::check(&events).unwrap_or_else(|violations| {
        let shown: Vec<String> = violations.iter().take(5).map(ToString::to_string).collect();
        panic!("{} violations: {shown:#?}", violations.len())
    });
    println!("{turn} strikes, {} events, {summary:?}", events.len());
    assert!(
        summary.grants > 100 && summary.contended > 50,
        "{summary:?}"
    );
}
