//! Processes that are killed, connections that are cut, and a damaged record.

use std::path::Path;
use std::time::{Duration, SystemTime};

use leaselock::cron::{Claim, Cron, CronError, Overlap, TickState};
use leaselock::options::OnCrash;
use leaselock::{AcquireError, Client, ErrorKind};
use testkit::notes::{lines, note};
use testkit::{Child, Cut, Fault, Proxy, Server, Way, tempdir};

use super::{is_over, latest, run, server_time};
use crate::support::{LONG, eventually, millis, pttl, soon};

/// The ticks of the rounds in which a process is killed.
const TICKS: u32 = 20;
const SECOND: Duration = Duration::from_secs(1);

/// What a child does: one tick after the other. What was run before a kill is not run by this process.
pub(crate) async fn obeys(order: &str, url: &str, folder: &Path) {
    let client = Client::open(url).unwrap();
    let cron = client.cron("job").ttl(millis(300)).start_within(LONG * 60);
    // A tick that has crashed keeps the name for as long as its lease lasts, and must not leave out the others.
    let cron = cron.overlap(Overlap::Wait);
    let cron = match order {
        "again" => cron.on_crash(OnCrash::Again),
        _ => cron,
    };
    let first_s: u64 = lines(folder, "first")[0].parse().unwrap();
    let mut number = 0;
    while number < TICKS {
        let tick = SystemTime::UNIX_EPOCH + Duration::from_secs(first_s) + number * SECOND;
        match cron.claim(tick).await.unwrap() {
            Claim::Run(run) => {
                note(folder, "runs", &number.to_string());
                tokio::time::sleep(millis(3)).await; // so that kills come between the work and its end too
                run.finish().await.unwrap();
            }
            // That of the process before this one, which was killed.
            Claim::Running { rest } if order == "again" => {
                tokio::time::sleep(rest).await; // until its lease is over
                continue;
            }
            Claim::Running { .. } | Claim::Over => {}
            other => panic!("{other:?}"),
        }
        number += 1;
    }
    note(folder, "ends", "well");
}

/// Kills come before, during and after the work of each tick. How often each was run.
async fn killed_again_and_again(order: &str) -> Vec<usize> {
    let (server, place) = (Server::start(), tempdir().unwrap());
    let (url, folder) = (server.url(), place.path());
    let client = Client::open(&url).unwrap();
    let first = server_time(&client.cron("job")).await - LONG;
    let first_s = first.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    note(folder, "first", &first_s.as_secs().to_string());
    let mut pause = 7;
    while lines(folder, "ends").is_empty() {
        let begun = lines(folder, "runs").len();
        let child = Child::start("cron", &[order, &url, &folder.display().to_string()]);
        eventually("it works", async || {
            lines(folder, "runs").len() > begun || !lines(folder, "ends").is_empty()
        })
        .await;
        pause = pause * 5 % 37;
        tokio::time::sleep(millis(pause)).await; // a moment of the work that the test does not choose
        drop(child); // kills it, unless it has done all the work
    }
    let mut counts = vec![0; TICKS as usize];
    for line in lines(folder, "runs") {
        counts[line.parse::<usize>().unwrap()] += 1;
    }
    counts
}

#[tokio::test]
async fn a_tick_is_run_at_most_once_whenever_its_process_is_killed() {
    let runs = killed_again_and_again("once").await;
    assert!(runs.iter().all(|count| *count <= 1), "{runs:?}");
    assert!(runs.iter().sum::<usize>() > TICKS as usize / 2, "{runs:?}");
}

#[tokio::test]
async fn a_tick_that_is_run_again_is_run_at_least_once_whenever_its_process_is_killed() {
    let runs = killed_again_and_again("again").await;
    assert!(runs.iter().all(|count| *count >= 1), "{runs:?}");
}

/// Claims it until it is over, and counts the runs.
async fn until_over(cron: &Cron, tick: SystemTime) -> usize {
    let mut runs = 0;
    eventually("the tick is over", async || {
        match soon(cron.claim(tick)).await.unwrap() {
            Claim::Run(run) => {
                runs += 1;
                run.finish().await.unwrap();
                false
            }
            Claim::Running { .. } => false, // by a claim that is taken back soon
            Claim::Over => true,
            other => panic!("{other:?}"),
        }
    })
    .await;
    runs
}

/// The claim, its reply, the end and its confirmation are cut at every few bytes. A caller whose reply was lost gets the run
/// by its next request, or none of it has ever begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_whose_connection_ends_anywhere_is_run_exactly_once() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let client = Client::open(&proxy.url()).unwrap();
    let cron = |client: &Client| client.cron("job").ttl(LONG).start_within(LONG * 60);
    let (one, other) = (cron(&client), cron(&Client::open(&server.url()).unwrap()));
    let mut tick = server_time(&other).await - LONG * 30;
    until_over(&one, tick).await;
    let before = [Way::ToServer, Way::ToClient].map(|way| proxy.bytes(way));
    tick += SECOND;
    run(&one, tick).await.finish().await.unwrap();
    let after = [Way::ToServer, Way::ToClient].map(|way| proxy.bytes(way));
    for (index, way) in [Way::ToServer, Way::ToClient].into_iter().enumerate() {
        let length = usize::try_from(after[index] - before[index]).unwrap();
        for bytes in (0..length).step_by(9) {
            tick += SECOND;
            let how = [Cut::Close, Cut::Reset][bytes % 2];
            proxy.set(way, Fault::CutAfter { bytes, how });
            let claimed = soon(one.claim(tick)).await;
            let context = format!("{way:?} {bytes}: {claimed:?}");
            let here = match claimed {
                Ok(Claim::Run(run)) => {
                    let ended = soon(run.finish()).await;
                    let is_fine = matches!(ended, Ok(()) | Err(CronError::NotConfirmed { .. }));
                    assert!(is_fine, "{context} {ended:?}");
                    1
                }
                // Half a reply may be no reply of a server, after which no request is repeated.
                Err(CronError::Acquire(AcquireError::Unknown { .. })) => 0,
                _ => panic!("{context}"),
            };
            proxy.heal();
            let there = until_over(&other, tick).await;
            assert_eq!(here + there, 1, "{context}");
        }
    }
}

#[tokio::test]
async fn a_claim_that_is_dropped_is_taken_back() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let [one, other] = [proxy.url(), server.url()].map(|url| Client::open(&url).unwrap());
    let [one, other] = [one, other].map(|client| client.cron("job").ttl(LONG).start_within(LONG));
    let tick = server_time(&other).await;
    run(&one, tick).await.finish().await.unwrap();
    proxy.set(Way::ToClient, Fault::Swallow);
    let tick = tick + Duration::from_micros(1);
    let claims = tokio::spawn(async move { one.claim(tick).await });
    eventually("the tick has begun", async || {
        latest(&other).await == Some(TickState::Running)
    })
    .await;
    claims.abort();
    proxy.heal();
    assert_eq!(until_over(&other, tick).await, 1);
}

/// The store has recorded the end, its run does not know: it says the same again.
#[tokio::test]
async fn an_end_whose_confirmation_vanished_is_confirmed_later() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let builder = Client::builder().url(&proxy.url());
    let one = builder.request_timeout(millis(300)).open().unwrap();
    let one = one.cron("job").ttl(LONG);
    let other = Client::open(&server.url()).unwrap().cron("job");
    let tick = server_time(&other).await - SECOND;
    run(&one, tick).await.finish().await.unwrap(); // the server knows the scripts
    let runs = run(&one, tick + SECOND).await;
    proxy.set(Way::ToClient, Fault::Swallow);
    let finish = tokio::spawn(runs.finish());
    eventually("the store has it", async || {
        latest(&other).await == Some(TickState::Done)
    })
    .await;
    assert!(!finish.is_finished());
    proxy.heal();
    soon(finish).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_record_that_is_damaged_is_an_error_and_the_name_is_free() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let cron = client.cron("job").ttl(LONG);
    let tick = server_time(&cron).await;
    let runs = run(&cron, tick).await;
    server.cli(&["SET", "{job}:ll:cron", "text"]);
    let refused = soon(runs.finish()).await.unwrap_err();
    assert!(
        matches!(refused, CronError::NotConfirmed { ref source, .. } if source.kind() == ErrorKind::WrongType),
        "{refused}"
    );
    assert!(soon(cron.claim(tick)).await.is_err());
    assert!(cron.state().await.is_err());
    let damaged = "{job}:ll:cron";
    assert_eq!(server.cli(&["GET", damaged]).text(), Some("text"));
    eventually("the name is free", async || pttl(&server, "job") == -2).await;
    // A record that was lost makes the latest tick be run again, and its late end is told.
    server.cli(&["DEL", damaged]);
    let runs = run(&cron, tick).await;
    server.cli(&["DEL", damaged]);
    let stale = soon(runs.finish()).await.unwrap_err();
    assert!(
        matches!(stale, CronError::Stale { latest: None, .. }),
        "{stale}"
    );
    eventually("the name is free", async || pttl(&server, "job") == -2).await;
    run(&cron, tick).await.finish().await.unwrap();
    assert!(is_over(&cron, tick).await);
}
