//! Work that runs once, between processes that crash and freeze.

use std::path::Path;
use std::time::Duration;

use leaselock::Client;
use leaselock::once::{OnceError, OnceStart, OnceState};
use leaselock::options::OnCrash;
use testkit::notes::{lines, note};
use testkit::process::Signal;
use testkit::{Child, Server, TempDir, tempdir};
use tokio::task::JoinSet;

use crate::support::{LONG, calls, eventually, introduced, millis, soon};

const CALLERS: usize = 25;
const PROCESSES: usize = 4;
/// The lease of a dead process ends after it, so it is short.
const SHORT: Duration = Duration::from_secs(1);
/// The keys of the rounds in which a process is killed.
const KEYS: usize = 30;

/// What a child does.
pub(crate) async fn obeys(order: &str, url: &str, folder: &Path) {
    let client = Client::open(url).unwrap();
    match order {
        "callers" => call(&client, folder).await,
        "hang" => {
            let once = client.once("job").ttl(SHORT);
            let ran = once.run(async |_| {
                note(folder, "runs", "begun");
                std::future::pending::<Result<Vec<u8>, String>>().await
            });
            ran.await.unwrap();
        }
        "old" => {
            let once = client.once("job").ttl(SHORT);
            let OnceStart::Run(run) = once.begin().await.unwrap() else {
                panic!("it is the first")
            };
            note(folder, "runs", "begun");
            until_told(folder).await;
            let late = run.finish(Ok(b"old".to_vec())).await.unwrap_err();
            assert!(
                matches!(late, OnceError::Stale { fence: Some(_), .. }),
                "{late}"
            );
        }
        "refuse" => work(&client, folder, OnCrash::Refuse).await,
        "again" => work(&client, folder, OnCrash::Again).await,
        _ => panic!("an order that nobody gives: {order}"),
    }
}

async fn until_told(folder: &Path) {
    while !folder.join("go").exists() {
        tokio::time::sleep(millis(2)).await; // between two reads of the condition
    }
}

/// Many tasks of this process want the same result.
async fn call(client: &Client, folder: &Path) {
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (once, folder) = (client.once("job").ttl(LONG), folder.to_owned());
        callers.spawn(async move {
            let place = folder.clone();
            let ran = once.run(|run| async move {
                note(&place, "runs", &run.fence().to_string());
                until_told(&place).await;
                Ok::<_, String>(format!("result of {}", run.fence()))
            });
            let result = ran.await.unwrap();
            note(
                &folder,
                "results",
                &String::from_utf8(result.value).unwrap(),
            );
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended.unwrap();
    }
}

/// One key after the other; what was done before a kill is not done by this process.
async fn work(client: &Client, folder: &Path, on_crash: OnCrash) {
    for key in 0..KEYS {
        let once = client.once(format!("job{key}")).on_crash(on_crash);
        let once = once.ttl(LONG);
        let ran = once.run(async |_| {
            note(folder, "runs", &key.to_string());
            tokio::time::sleep(millis(3)).await; // so that kills come between the work and its result too
            Ok::<_, String>(key.to_string())
        });
        match ran.await {
            Ok(result) => assert_eq!(result.value, key.to_string().as_bytes()),
            Err(OnceError::Crashed { .. }) => assert_eq!(on_crash, OnCrash::Refuse),
            Err(error) => panic!("{error}"),
        }
    }
    note(folder, "ends", "well");
}

/// A store, and a client of it.
struct Place {
    client: Client,
    url: String,
    path: TempDir,
    server: Option<Server>,
}

impl Place {
    fn on_a_server() -> Place {
        let server = Server::start();
        Place::at(server.url(), Some(server))
    }

    fn in_a_folder() -> Place {
        let path = tempdir().unwrap();
        let url = format!("file://{}", path.path().join("locks").display());
        Place::of(url, path, None)
    }

    fn at(url: String, server: Option<Server>) -> Place {
        Place::of(url, tempdir().unwrap(), server)
    }

    fn of(url: String, path: TempDir, server: Option<Server>) -> Place {
        Place {
            client: Client::open(&url).unwrap(),
            url,
            path,
            server,
        }
    }

    fn folder(&self) -> &Path {
        self.path.path()
    }

    fn child(&self, order: &str) -> Child {
        let folder = self.folder().display().to_string();
        Child::start("once", &[order, &self.url, &folder])
    }

    /// The leases of dead processes end now: their keys are gone as if they had expired.
    fn end_leases(&self) {
        let keys: Vec<String> = (0..KEYS).map(|key| format!("job{key}")).collect();
        let command = std::iter::once("DEL").chain(keys.iter().map(String::as_str));
        let deleted = self
            .server
            .as_ref()
            .unwrap()
            .cli(&command.collect::<Vec<_>>());
        assert!(!deleted.is_error());
    }

    /// A child whose body has begun.
    async fn running(&self, order: &str) -> Child {
        let child = self.child(order);
        eventually("it runs", async || !lines(self.folder(), "runs").is_empty()).await;
        child
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_callers_in_four_processes_make_one_run_and_get_its_result() {
    let server = Server::start();
    let place = Place::at(server.url(), None);
    // A script that the server does not know costs one command more.
    let warm = place.client.once("warm");
    warm.run(async |_| Ok::<_, String>("done")).await.unwrap();
    introduced(&server, &place.client).await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    let children: Vec<_> = (0..PROCESSES).map(|_| place.child("callers")).collect();
    let all = PROCESSES * CALLERS;
    eventually("all have asked and listen", async || {
        let listens = server.cli(&["PUBSUB", "NUMSUB", "ll:broadcast:once:{job}"]);
        let listens = listens.list().unwrap()[1].integer().unwrap();
        // Each asks again once it listens; one runs.
        listens == 4 && calls(&server, "evalsha") >= 2 * all - 1
    })
    .await;
    note(place.folder(), "go", "");
    for child in children {
        child.ends_well();
    }
    let runs = lines(place.folder(), "runs");
    assert_eq!(runs.len(), 1, "{runs:?}");
    let results = lines(place.folder(), "results");
    assert_eq!(results.len(), all);
    let wanted = format!("result of {}", runs[0]);
    assert!(
        results.iter().all(|result| *result == wanted),
        "{results:?}"
    );
    let sent = calls(&server, "evalsha") + calls(&server, "eval") + calls(&server, "subscribe");
    assert!(sent <= 4 * all, "{sent} commands for {all} callers");
}

#[tokio::test]
async fn a_run_costs_two_commands_and_one_caller_that_comes_later_one() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let run = async |key: &str| {
        let once = client.once(key).ttl(LONG);
        let ran = once.run(async |_| Ok::<_, String>("done"));
        assert_eq!(soon(ran).await.unwrap().value, b"done");
    };
    run("warm").await;
    introduced(&server, &client).await;
    for (key, commands) in [("job", 2), ("job", 1)] {
        server.cli(&["CONFIG", "RESETSTAT"]);
        run(key).await;
        assert_eq!(calls(&server, "evalsha"), commands, "{key}");
    }
}

#[tokio::test]
async fn after_a_crash_the_next_caller_runs_or_is_refused() {
    for place in [Place::on_a_server(), Place::in_a_folder()] {
        let mut child = place.running("hang").await;
        let once = place.client.once("job").ttl(LONG);
        let waits = {
            let refusing = once.clone().on_crash(OnCrash::Refuse);
            tokio::spawn(async move { refusing.begin().await.map(drop) })
        };
        assert!(matches!(
            once.state().await.unwrap(),
            OnceState::Running { attempt: 1, .. }
        ));
        child.kill();
        let refused = soon(waits).await.unwrap().unwrap_err();
        assert!(
            matches!(refused, OnceError::Crashed { attempt: 1, .. }),
            "{refused}"
        );
        let ran = soon(once.run(async |_| Ok::<_, String>("done")))
            .await
            .unwrap();
        assert_eq!((ran.attempt, ran.ran_here), (2, true));
    }
}

#[tokio::test]
async fn a_run_that_was_frozen_past_its_lease_changes_nothing() {
    let place = Place::on_a_server();
    let child = place.running("old").await;
    child.stop();
    let once = place.client.once("job").ttl(LONG);
    let ran = soon(once.run(async |_| Ok::<_, String>("new")))
        .await
        .unwrap();
    assert_eq!((ran.attempt, ran.ran_here), (2, true));
    note(place.folder(), "go", "");
    child.signal(Signal::CONT);
    child.ends_well();
    let told = soon(once.run(async |_| Ok::<_, String>("third")))
        .await
        .unwrap();
    assert_eq!(told.value, b"new");
}

/// Kills come before, during and after the work of each key.
async fn killed_again_and_again(order: &str) -> Vec<usize> {
    let place = Place::on_a_server();
    let mut pause = 7;
    while lines(place.folder(), "ends").is_empty() {
        let begun = lines(place.folder(), "runs").len();
        let child = place.child(order);
        eventually("it works", async || {
            lines(place.folder(), "runs").len() > begun || !lines(place.folder(), "ends").is_empty()
        })
        .await;
        pause = pause * 5 % 37;
        tokio::time::sleep(millis(pause)).await; // a moment of the work that the test does not choose
        drop(child); // kills it, unless it has done all the work
        place.end_leases();
    }
    let mut runs = vec![0; KEYS];
    for line in lines(place.folder(), "runs") {
        runs[line.parse::<usize>().unwrap()] += 1;
    }
    runs
}

#[tokio::test]
async fn a_refused_run_is_made_at_most_once_whenever_its_process_is_killed() {
    let runs = killed_again_and_again("refuse").await;
    assert!(runs.iter().all(|count| *count <= 1), "{runs:?}");
}

#[tokio::test]
async fn a_repeated_run_is_made_at_least_once_whenever_its_process_is_killed() {
    let runs = killed_again_and_again("again").await;
    assert!(runs.iter().all(|count| *count >= 1), "{runs:?}");
}
