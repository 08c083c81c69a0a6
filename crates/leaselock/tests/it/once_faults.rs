//! Work that runs once, when requests or replies are lost, a store refuses, or a gate is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leaselock::once::{Once, OnceError, OnceResult, OnceStart, OnceState};
use leaselock::options::OnCrash;
use leaselock::{AcquireError, Client, ErrorKind};
use testkit::{Cut, Fault, Proxy, Server, Way};
use tokio::task::JoinSet;

use crate::support::{LONG, eventually, millis, pttl, soon};

/// Ends before the client's thread has given up a connection that is dead.
const SHORT: Duration = Duration::from_millis(300);

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

/// A connection that is cut, and one of another client that is not.
struct Lane {
    proxy: Proxy,
    client: Client,
    rival: Client,
}

impl Lane {
    async fn to(server: &Server) -> Lane {
        let proxy = Proxy::to(server.port());
        let lane = Lane {
            client: Client::open(&proxy.url()).unwrap(),
            rival: Client::open(&server.url()).unwrap(),
            proxy,
        };
        let none = Arc::default();
        Counted::new(&lane.client, "warm", &none)
            .run()
            .await
            .unwrap();
        lane
    }

    /// How many bytes a run sends and receives.
    async fn bytes_of_a_run(&self) -> [(Way, usize); 2] {
        let ways = [Way::ToServer, Way::ToClient];
        let before = ways.map(|way| self.proxy.bytes(way));
        let none = Arc::default();
        Counted::new(&self.client, "key100", &none)
            .run()
            .await
            .unwrap();
        let [sent, received] = ways.map(|way| self.proxy.bytes(way));
        let length = |now: u64, before: u64| usize::try_from(now - before).unwrap();
        [
            (ways[0], length(sent, before[0])),
            (ways[1], length(received, before[1])),
        ]
    }

    /// A run whose connection ends after so many bytes, and what another client is told then.
    async fn cut_after(&self, way: Way, bytes: usize, key: usize) {
        let (key, runs) = (format!("key{key}"), Arc::default());
        let how = [Cut::Close, Cut::Reset][bytes % 2];
        self.proxy.set(way, Fault::CutAfter { bytes, how });
        let ran = Counted::new(&self.client, &key, &runs).run().await;
        self.proxy.heal();
        let told = Counted::new(&self.rival, &key, &runs).run().await;
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

/// The request to begin, its reply, the result and its confirmation are cut at every few bytes. A run that may have begun
/// without the client's knowledge never began: it is no crash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_connection_ends_anywhere_is_made_once_and_its_result_is_kept() {
    const LANES: usize = 8;
    let server = Server::start();
    let lengths = Lane::to(&server).await.bytes_of_a_run().await;
    let cuts = lengths.map(|(way, length)| (0..length).step_by(9).map(move |at| (way, at)));
    let cuts: Vec<_> = cuts.into_iter().flatten().enumerate().collect();
    let mut lanes = JoinSet::new();
    for number in 0..LANES {
        let lane = Lane::to(&server).await;
        let cuts: Vec<_> = cuts.iter().skip(number).step_by(LANES).copied().collect();
        lanes.spawn(async move {
            for (at, (way, bytes)) in cuts {
                lane.cut_after(way, bytes, 101 + at).await; // keys of one length
            }
        });
    }
    while let Some(ended) = lanes.join_next().await {
        ended.unwrap();
    }
}

/// The client's thread, which would take the run back, has a dead connection until the lease of the run is over. The caller
/// reaches the store again at once: its run goes on under the token of the second request, and is neither busy nor crashed.
#[tokio::test]
async fn a_run_whose_first_reply_was_lost_is_the_callers_by_its_next_request() {
    let server = Server::start();
    let near = Proxy::to(server.port());
    let far = Proxy::to(near.port());
    let client = Client::open(&far.url()).unwrap();
    let rival = Client::open(&server.url()).unwrap();
    let runs = Arc::default();
    Counted::new(&client, "warm", &runs).run().await.unwrap();
    let lease = client.mutex("other").acquire().await.unwrap();
    near.set(Way::ToServer, Fault::HalfOpen);
    let before = far.bytes(Way::ToServer);
    drop(lease); // the client's thread releases it, and waits a second for the reply
    eventually("it has sent that", async || {
        far.bytes(Way::ToServer) > before
    })
    .await;
    near.heal();
    eventually("the caller is connected again", async || {
        let another = client.mutex("another").ttl(SHORT);
        another.try_acquire().await.is_ok()
    })
    .await;

    let how = Cut::Reset;
    far.set(Way::ToClient, Fault::CutAfter { bytes: 0, how });
    let once = client.once("job").ttl(SHORT).on_crash(OnCrash::Refuse);
    let run = match soon(once.begin()).await {
        Ok(OnceStart::Run(run)) => run,
        other => panic!("{other:?}"),
    };
    assert_eq!(run.attempt(), 1);
    run.finish(Ok(b"result".to_vec())).await.unwrap();
    client.close().await; // what takes the first request back has arrived, and changes nothing
    let told = Counted::new(&rival, "job", &runs).run().await.unwrap();
    assert!(told.value == b"result" && !told.ran_here && told.attempt == 1);
}

/// The store has the result, its run does not know: it says the same again.
#[tokio::test]
async fn a_result_whose_confirmation_vanished_is_confirmed_later() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let builder = Client::builder().url(&proxy.url());
    let client = builder.request_timeout(millis(300)).open().unwrap();
    let rival = Client::open(&server.url()).unwrap();
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
    let client = Client::open(&server.url()).unwrap();
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
    let client = Client::open(&server.url()).unwrap();
    let once = client.once("job").ttl(LONG).keep_for(LONG);
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
    let client = builder.open().unwrap();
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
