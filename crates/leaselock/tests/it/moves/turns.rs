//! Tasks of several clients, each client passing its leases on, and what they saw laid side by side.

use std::path::Path;

use leaselock::Client;
use testkit::history::Summary;
use testkit::{Recorder, Server, clock, history, tempdir};

use crate::support::LONG;

const CLIENTS: usize = 2;
const TASKS: usize = 4;

async fn take_turns(client: Client, recorder: Recorder, rounds: usize) {
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (mutex, recorder) = (client.mutex("job").ttl(LONG), recorder.clone());
            tokio::spawn(async move {
                for round in 0..rounds {
                    let attempt = recorder.invoke("job");
                    let lease = mutex.acquire().await.unwrap();
                    let now = clock::now();
                    attempt.granted(lease.fence().unwrap().get(), now + lease.remaining());
                    tokio::task::yield_now().await; // another that believed to hold would be seen
                    attempt.release();
                    if (task + round).is_multiple_of(5) {
                        drop(lease);
                    } else {
                        lease.release().await.unwrap();
                        attempt.released();
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// Two runtimes of two threads, so that the clients run at the same time.
fn history_of(url: &str, path: &Path, rounds: usize) -> Summary {
    let recorder = Recorder::append(path).unwrap();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (client, recorder) = (Client::open(url).unwrap(), recorder.clone());
            std::thread::spawn(move || {
                let mut builder = tokio::runtime::Builder::new_multi_thread();
                let runtime = builder.worker_threads(2).enable_all().build().unwrap();
                let turns = take_turns(client, recorder, rounds);
                let in_time = async { tokio::time::timeout(LONG, turns).await };
                runtime.block_on(in_time).unwrap();
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    let events = history::read(path).unwrap();
    history::check(&events).unwrap_or_else(|violations| {
        let shown: Vec<String> = violations.iter().take(5).map(ToString::to_string).collect();
        panic!("{} violations: {shown:#?}", violations.len())
    })
}

fn nobody_overlaps(url: &str) {
    const ROUNDS: usize = 250;
    let folder = tempdir().unwrap();
    let summary = history_of(url, &folder.path().join("history"), ROUNDS);
    assert_eq!(summary.grants, CLIENTS * TASKS * ROUNDS);
    assert!(summary.contended > summary.grants / 2, "{summary:?}");
}

#[test]
fn turns_of_two_clients_never_overlap_and_their_fences_grow_on_redis() {
    nobody_overlaps(&Server::start().url());
}

#[test]
fn turns_of_two_clients_never_overlap_and_their_fences_grow_in_a_folder() {
    let folder = tempdir().unwrap();
    nobody_overlaps(&format!("file://{}", folder.path().display()));
}
