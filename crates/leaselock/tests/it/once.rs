//! Work that runs once: between processes that crash and freeze, and when requests or replies are lost.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leaselock::{
    AcquireError, Client, ErrorKind, OnCrash, Once, OnceError, OnceResult, OnceStart, OnceState,
};
use testkit::process::Signal;
use testkit::{Child, Cut, Fault, Proxy, Server, TempDir, Way, tempdir};
use tokio::task::JoinSet;

use crate::support::{LONG, calls, eventually, introduced, millis, pttl, soon};

const CALLERS: usize = 25;
const PROCESSES: usize = 4;
/// The lease of a dead process ends after it, so it is short.
const SHORT: Duration = Duration::from_secs(1);
/// The keys of the rounds in which a process is killed.
const KEYS: usize = 30;

/// What a child does.
pub(crate) async fn obeys(order: &str, url: &str, folder: &Path) {
    let client = Client::connect(url).unwrap();
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

fn note(folder: &Path, file: &str, line: &str) {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(folder.join(file));
    file.unwrap()
        .write_all(format!("{line}\n").as_bytes())
        .unwrap();
}

fn lines(folder: &Path, file: &str) -> Vec<String> {
    let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
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
        let once = once.ttl(millis(300));
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
    _server: Option<Server>,
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
            client: Client::connect(&url).unwrap(),
            url,
            path,
            _server: server,
        }
    }

    fn folder(&self) -> &Path {
        self.path.path()
    }

    fn child(&self, order: &str) -> Child {
        let folder = self.folder().display().to_string();
        Child::start("once", &[order, &self.url, &folder])
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
    let client = Client::connect(&server.url()).unwrap();
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

struct Counted {
    once: Once,
    runs: Arc<AtomicUsize>,
}

impl Counted {
    fn new(client: &Client, key: &str, runs: &Arc<AtomicUsize>) -> Counted {
        Counted {
            once: client.once(key).ttl(LONG).on_crash(OnCrash::Refuse),
            runs: Arc::clone(runs),
        }
    }

    async fn run(&self) -> Result<OnceResult, OnceError> {
        let ran = self.once.run(async |_| {
            self.runs.fetch_add(1, Ordering::SeqCst);
            Ok::<_, String>("result")
        });
        soon(ran).await
    }
}

/// The request to begin, its reply, the result and its confirmation are cut at every few bytes. A run that may have begun
/// without the client's knowledge never began: it is no crash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_connection_ends_anywhere_is_made_once_and_its_result_is_kept() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let client = Client::connect(&proxy.url()).unwrap();
    let rival = Client::connect(&server.url()).unwrap();
    let none = Arc::default();
    Counted::new(&client, "warm", &none).run().await.unwrap();
    let before = [Way::ToServer, Way::ToClient].map(|way| proxy.bytes(way));
    Counted::new(&client, "key100", &none).run().await.unwrap();
    let mut key = 100;
    for (way, before) in [Way::ToServer, Way::ToClient].into_iter().zip(before) {
        let length = usize::try_from(proxy.bytes(way) - before).unwrap();
        for bytes in (0..length).step_by(9) {
            key += 1;
            let (key, runs) = (format!("key{key}"), Arc::default());
            let how = [Cut::Close, Cut::Reset][bytes % 2];
            proxy.set(way, Fault::CutAfter { bytes, how });
            let ran = Counted::new(&client, &key, &runs).run().await;
            proxy.heal();
            let told = Counted::new(&rival, &key, &runs).run().await;
            let context = format!("{way:?} {bytes}: {ran:?} {told:?}");
            let told = told.expect(&context);
            assert_eq!(told.value, b"result", "{context}");
            match ran {
                Ok(ran) => assert!(ran.value == b"result" && !told.ran_here, "{context}"),
                // Half a reply may be no reply of a server, after which no request is repeated.
                Err(OnceError::Acquire(AcquireError::Unknown { .. })) => {
                    assert!(told.ran_here, "{context}");
                }
                Err(_) => panic!("{context}"),
            }
            assert_eq!(runs.load(Ordering::SeqCst), 1, "{context}");
        }
    }
}

/// The store has the result, its run does not know: it says the same again.
#[tokio::test]
async fn a_result_whose_confirmation_vanished_is_confirmed_later() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let builder = Client::builder().url(&proxy.url());
    let client = builder.request_timeout(millis(300)).build().unwrap();
    let rival = Client::connect(&server.url()).unwrap();
    let runs = Arc::default();
    Counted::new(&client, "warm", &runs).run().await.unwrap();
    let OnceStart::Run(run) = client.once("job").ttl(LONG).begin().await.unwrap() else {
        panic!("it is the first")
    };
    proxy.set(Way::ToClient, Fault::Swallow);
    let finish = tokio::spawn(run.finish(Ok(b"result".to_vec())));
    let once = rival.once("job");
    eventually("the store has it", async || {
        matches!(once.state().await.unwrap(), OnceState::Done(_))
    })
    .await;
    assert!(!finish.is_finished());
    proxy.heal();
    assert_eq!(soon(finish).await.unwrap().unwrap().value, b"result");
}

/// Nothing was stored, so later callers find a crash; the name is free.
#[tokio::test]
async fn a_result_that_the_store_refuses_is_told_as_not_stored() {
    let server = Server::start();
    let client = Client::connect(&server.url()).unwrap();
    let once = client.once("job").ttl(LONG).on_crash(OnCrash::Refuse);
    let OnceStart::Run(run) = once.begin().await.unwrap() else {
        panic!("it is the first")
    };
    server.cli(&["SET", "{job}:ll:once", "text"]);
    let refused = soon(run.finish(Ok(Vec::new()))).await.unwrap_err();
    assert!(
        matches!(refused, OnceError::NotStored { ref source, .. } if source.kind() == ErrorKind::WrongType),
        "{refused}"
    );
    for refused in [
        once.begin().await.map(drop),
        once.state().await.map(drop),
        once.forget().await.map(drop),
    ] {
        assert!(refused.is_err());
    }
    assert_eq!(server.cli(&["GET", "{job}:ll:once"]).text(), Some("text"));
    eventually("the name is free", async || pttl(&server, "job") == -2).await;
}

#[tokio::test]
async fn results_are_kept_for_as_long_as_was_said_and_a_run_for_a_week() {
    const DAY_MS: i64 = 24 * 60 * 60 * 1000;
    let server = Server::start();
    let client = Client::connect(&server.url()).unwrap();
    let once = client.once("job").ttl(LONG).kept(LONG);
    let OnceStart::Run(run) = once.begin().await.unwrap() else {
        panic!("it is the first")
    };
    let left = pttl(&server, "{job}:ll:once");
    assert!((6 * DAY_MS..=7 * DAY_MS).contains(&left), "{left}");
    run.finish(Ok(Vec::new())).await.unwrap();
    let left = pttl(&server, "{job}:ll:once");
    assert!(
        (1..=i64::try_from(LONG.as_millis()).unwrap()).contains(&left),
        "{left}"
    );
    assert_eq!(pttl(&server, "job"), -2);
}

/// All its scripts ask at the gate, or hand over only behind an open one.
#[tokio::test]
async fn in_strict_mode_a_run_begins_behind_an_open_gate_only_and_its_result_is_stored_behind_a_closed_one()
 {
    let longest = LONG;
    let server = Server::start();
    let builder = Client::builder().url(&server.url()).strict(longest);
    let client = builder.build().unwrap();
    client.init_strict().await.unwrap();
    let once = client.once("job").wait(leaselock::Wait::Never);
    let OnceStart::Run(run) = once.begin().await.unwrap() else {
        panic!("it is the first")
    };
    run.cancel().await.unwrap();
    let OnceStart::Run(run) = once.begin().await.unwrap() else {
        panic!("it never began")
    };
    drop(run);
    eventually("it has crashed", async || {
        matches!(once.state().await.unwrap(), OnceState::Crashed { .. })
    })
    .await;
    let OnceStart::Run(run) = once.begin().await.unwrap() else {
        panic!("it crashed")
    };
    let queue = crate::support::waiter(&client, "job", LONG);
    crate::support::until_queued(&client, "job", 1).await;
    // As after a restart with the data: the gate is that of another server.
    let gate = format!("0123456789abcdef 0 {}", longest.as_millis());
    server.cli(&["SET", "ll:gate", &gate]);
    run.finish(Ok(b"done".to_vec())).await.unwrap();
    assert_eq!(pttl(&server, "job"), -2, "no one was granted");
    assert!(matches!(once.state().await.unwrap(), OnceState::Done(_)));
    let closed = client
        .once("other")
        .wait(leaselock::Wait::Never)
        .begin()
        .await;
    assert!(
        matches!(
            closed,
            Err(OnceError::Acquire(AcquireError::Quarantined { .. }))
        ),
        "{closed:?}"
    );
    queue.abort();
}
