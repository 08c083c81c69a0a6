//! Servers that forget a lease, or end it early, while a client holds it: with strict mode no other gets the lock
//! until that lease is over by its holder's own clock, and without it another does.

use std::time::Duration;

use leaselock::{Client, Lease, Mutex};
use testkit::history::{self, Attempt, Violation};
use testkit::{Recorder, Server, clock, wait_until};

use crate::rounds;

/// Longer than any of the faults takes on a busy machine, so that a second grant is one too early.
const LONGEST: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(60);
/// Rounds mostly wait.
const AT_ONCE: usize = 8;

#[derive(Debug, Clone, Copy)]
enum Fault {
    /// The server is killed and comes back without its data.
    Restart,
    /// A replica that lacks the grant is promoted.
    LossyFailover,
    /// A replica that has everything is promoted, and its clock is ahead.
    ClockAhead,
}

/// The servers of one round.
struct Stage {
    fault: Fault,
    first: Server,
    second: Option<Server>,
}

impl Stage {
    fn set(fault: Fault) -> Stage {
        let first = Server::start();
        let replica = || Server::builder().shifted_clock().replica_of(&first);
        let second = match fault {
            Fault::Restart => None,
            Fault::LossyFailover | Fault::ClockAhead => Some(replica().start()),
        };
        if let (Fault::ClockAhead, Some(second)) = (fault, &second) {
            second.set_clock_offset_ms(20_000);
        }
        Stage {
            fault,
            first,
            second,
        }
    }

    /// The replica has what was written so far.
    fn in_step(&self) {
        let Some(second) = &self.second else { return };
        let mark = self.first.cli(&["INCR", "mark"]).integer().unwrap();
        wait_until(PATIENCE, "the replica is in step", || {
            second.cli(&["GET", "mark"]).text() == Some(&mark.to_string())
        });
    }

    /// A client that takes locks from now on takes them here.
    fn successor(&self) -> &Server {
        self.second.as_ref().unwrap_or(&self.first)
    }

    /// Takes the lock and strikes: the successor serves afterwards.
    async fn strike(&self, take: impl AsyncFnOnce()) {
        match (self.fault, &self.second) {
            (Fault::Restart, _) => {
                take().await;
                self.first.restart();
            }
            (Fault::LossyFailover, Some(second)) => {
                let frozen = second.pause();
                self.first.cli(&["CLIENT", "KILL", "TYPE", "replica"]);
                take().await;
                self.first.kill();
                drop(frozen);
                second.promote();
            }
            (_, Some(second)) => {
                take().await;
                self.in_step();
                self.first.cli(&["FAILOVER"]);
                wait_until(PATIENCE, "the replica takes over", || second.is_primary());
            }
            (_, None) => unreachable!("there are two servers to fail over"),
        }
    }
}

fn client(server: &Server, strict: bool) -> Client {
    let builder = Client::builder().url(&server.url());
    let builder = if strict {
        builder.strict(LONGEST)
    } else {
        builder
    };
    builder.open().unwrap()
}

async fn granted(mutex: &Mutex, recorder: &Recorder) -> (Lease, Attempt) {
    let attempt = recorder.invoke(mutex.name().unwrap());
    let lease = mutex.acquire_within(PATIENCE).await.unwrap();
    let (fence, now) = (lease.fence().unwrap().get(), clock::now());
    attempt.granted(fence, now + lease.remaining());
    (lease, attempt)
}

/// Every other holder renews, and so may learn of its loss before the lease is over.
async fn round(fault: Fault, strict: bool, number: usize, recorder: Recorder) {
    let stage = Stage::set(fault);
    let lock = |client: &Client| client.mutex(format!("{fault:?}/{number}")).ttl(LONGEST);
    let holder = client(&stage.first, strict);
    if strict {
        holder.init_strict().await.unwrap();
    }
    stage.in_step();
    let held = tokio::sync::OnceCell::new();
    stage
        .strike(async || {
            let mutex = lock(&holder).renewal(number.is_multiple_of(2));
            held.set(granted(&mutex, &recorder).await).unwrap();
        })
        .await;
    let (lease, attempt) = held.into_inner().unwrap();
    let told = tokio::spawn(async move {
        lease.lost().await;
        attempt.lost();
    });
    let (lease, attempt) = granted(&lock(&client(stage.successor(), strict)), &recorder).await;
    attempt.release();
    drop(lease);
    told.await.unwrap();
}

/// How many of the rounds saw two holders at once.
async fn overlaps(fault: Fault, strict: bool, rounds: usize) -> usize {
    let folder = testkit::tempdir().unwrap();
    let path = folder.path().join("history");
    let recorder = Recorder::append(&path).unwrap();
    let numbers: Vec<usize> = (0..rounds).collect();
    for some in numbers.chunks(AT_ONCE) {
        let running: Vec<_> = some
            .iter()
            .map(|number| {
                let (recorder, number) = (recorder.clone(), *number);
                // Servers are started and stopped by calls that block.
                std::thread::spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread();
                    let runtime = { runtime }.enable_all().build().unwrap();
                    runtime.block_on(round(fault, strict, number, recorder));
                })
            })
            .collect();
        running.into_iter().for_each(|one| one.join().unwrap());
    }
    let events = history::read(&path).unwrap();
    match history::check(&events) {
        Ok(summary) => {
            assert_eq!(summary.grants, 2 * rounds);
            0
        }
        Err(violations) => {
            let other = |violation: &&Violation| !matches!(violation, Violation::Overlap { .. });
            let others: Vec<_> = violations.iter().filter(other).collect();
            assert!(others.is_empty(), "{others:?}");
            violations.len()
        }
    }
}

/// The same scenario shows two holders without strict mode: so it could show them with it.
async fn only_strict_mode_excludes(fault: Fault) {
    let rounds = rounds(2, 100);
    let with = overlaps(fault, true, rounds).await;
    let without = overlaps(fault, false, rounds.min(10)).await;
    println!("{fault:?}: {with} of {rounds} rounds with strict mode, {without} without");
    assert_eq!(with, 0);
    assert!(without > 0);
}

#[tokio::test]
async fn a_restart_without_persistence_makes_no_second_holder() {
    only_strict_mode_excludes(Fault::Restart).await;
}

#[tokio::test]
async fn a_failover_that_loses_a_grant_makes_no_second_holder() {
    only_strict_mode_excludes(Fault::LossyFailover).await;
}

#[tokio::test]
async fn a_failover_to_a_clock_that_is_ahead_makes_no_second_holder() {
    only_strict_mode_excludes(Fault::ClockAhead).await;
}
