//! A grant that counts only once replicas have it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use leaselock::clock::Clock;
use leaselock::cron::{Claim, CronError};
use leaselock::interop::Protocol;
use leaselock::once::{Once, OnceError, OnceStart, OnceState};
use leaselock::options::Options;
use leaselock::{AcquireError, Client, ErrorKind, Lease, Wait};
use testkit::{Cut, Fault, Proxy, Server, Value, Way};

use crate::support::{
    LONG, calls, eventually, is_free, latest_fence, leftovers, millis, soon, until_queued,
};

/// How long replicas may take that are frozen and never answer.
const WITHIN: Duration = Duration::from_millis(300);
/// For one that runs, while another is waited for that does not exist.
const FOR_ONE: Duration = Duration::from_secs(3);
/// For those that run, on any machine.
const AT_EASE: Duration = Duration::from_secs(30);

fn pair() -> (Server, Server) {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    (primary, replica)
}

/// Takes locks that `replicas` must have within that time.
fn client(server: &Server, replicas: u32, within: Duration) -> Client {
    let defaults = Options::default().ttl(LONG).min_replicas(replicas, within);
    let builder = Client::builder().url(&server.url()).defaults(defaults);
    builder.open().unwrap()
}

fn plain(server: &Server) -> Client {
    let defaults = Options::default().ttl(LONG);
    Client::builder()
        .url(&server.url())
        .defaults(defaults)
        .open()
        .unwrap()
}

#[track_caller]
fn too_few(error: &AcquireError, of: u32, have: u32, limit: Duration) {
    let AcquireError::TooFewReplicas {
        required: wanted,
        confirmed: answered,
        local_fsync: None,
        timeout: within,
        ..
    } = error
    else {
        panic!("{error:?}")
    };
    assert_eq!((*wanted, *answered, *within), (of, have, limit), "{error}");
    assert!(
        error
            .to_string()
            .contains(&format!("{have} of {of} replicas")),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_has_the_grant_when_it_counts() {
    let (primary, replica) = pair();
    let client = client(&primary, 1, AT_EASE);
    for round in 0..3 {
        let name = format!("job-{round}");
        let lease = soon(client.mutex(&name).acquire()).await.unwrap();
        let there = replica.cli(&["GET", &name]);
        assert_eq!(there, primary.cli(&["GET", &name]));
        assert!(!matches!(there, Value::Nil));
        let fence = lease.fence().unwrap().get();
        assert_eq!(latest_fence(&replica, &name), Some(fence));
        lease.release().await.unwrap();
    }
    // A connection that the server closed meanwhile is no obstacle.
    primary.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    eventually("taken again", async || {
        client
            .mutex("again")
            .wait(Wait::Never)
            .acquire()
            .await
            .is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_no_replica_has_in_time_is_given_back() {
    let (primary, replica) = pair();
    let client = client(&primary, 1, WITHIN);
    let frozen = replica.pause();
    for wait in [Wait::Never, Wait::Forever, Wait::retries(3)] {
        let error = soon(client.mutex("job").wait(wait).acquire())
            .await
            .unwrap_err();
        too_few(&error, 1, 0, WITHIN);
        assert!(is_free(&client, "job").await && client.held().is_empty());
    }
    assert!(
        soon(client.mutex("job").try_acquire()).await.is_err(),
        "it is not busy"
    );
    assert_eq!(leftovers(&primary), Vec::<String>::new());
    drop(frozen);
    let patient = client.mutex("job").min_replicas(1, AT_EASE);
    soon(patient.acquire())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

/// The result is stored all the same, so it cannot be given back: the error says what a failover may do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_is_told_once_a_replica_has_it_and_otherwise_as_one_that_a_failover_may_lose() {
    let (primary, replica) = pair();
    let careful = client(&primary, 1, AT_EASE);
    let done = async |_| Ok::<_, String>("result");
    let ran = soon(careful.once("first").run(done)).await.unwrap();
    assert!(ran.ran_here && ran.value == b"result");
    let there = replica.cli(&["HGET", "{first}:ll:once", "result"]);
    assert_eq!(there.text(), Some("result"));

    let frozen = replica.pause();
    let hurried = client(&primary, 1, WITHIN);
    let once = hurried.once("second");
    let ran = soon(once.run(done)).await.unwrap_err();
    let OnceError::NotReplicated { ref source, .. } = ran else {
        panic!("{ran}")
    };
    assert!(source.to_string().contains("0 of 1 replicas"), "{ran}");
    assert!(is_free(&hurried, "second").await && hurried.held().is_empty());
    let later = soon(once.run(done)).await.unwrap();
    assert!(!later.ran_here && later.value == b"result");
    // Another run follows a failure anyway, so no replica needs to have it.
    let failed = async |_| Err::<Vec<u8>, _>("no paper");
    let ran = soon(hurried.once("third").run(failed)).await.unwrap_err();
    assert!(matches!(ran, OnceError::Failed { .. }), "{ran}");
    let kept = hurried.once("fourth").keep_failures(true);
    let ran = soon(kept.run(failed)).await.unwrap_err();
    assert!(matches!(ran, OnceError::NotReplicated { .. }), "{ran}");
    drop(frozen);

    let memory = Client::open("mem:").unwrap().once("job");
    assert!(memory.min_replicas(1, WITHIN).validate().is_err());
    let once = plain(&primary).once("job");
    assert!(once.clone().min_replicas(1, LONG).validate().is_err());
    assert!(once.min_replicas(1, WITHIN).validate().is_ok());
}

/// The connection that stored it is gone. A server waits for what was written on the connection that asks, so the result is
/// written once more on another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_is_stored_again_is_written_again_before_replicas_are_counted() {
    let (primary, replica) = pair();
    let proxy = Proxy::to(primary.port());
    let client = Client::builder().url(&proxy.url()).open().unwrap();
    let begin = async |once: Once| match soon(once.begin()).await.unwrap() {
        OnceStart::Run(run) => run,
        other => panic!("it is the first, and not {other:?}"),
    };
    let warm = client.once("warm").ttl(LONG).min_replicas(1, AT_EASE);
    let run = begin(warm).await;
    let before = calls(&primary, "pexpire");
    let warmed = run.finish(Ok(b"warm".to_vec())); // which opens a connection that can be used again
    soon(warmed).await.unwrap();
    let writes_of_one = calls(&primary, "pexpire") - before;

    let run = begin(client.once("job").ttl(LONG).min_replicas(1, WITHIN)).await;
    let frozen = replica.pause();
    proxy.set(Way::ToClient, Fault::Hold);
    let before = calls(&primary, "pexpire");
    let finish = tokio::spawn(run.finish(Ok(b"result".to_vec())));
    eventually("it is stored", async || proxy.held() > 0).await;
    let state = plain(&primary).once("job").state().await.unwrap();
    assert!(matches!(state, OnceState::Done(_)) && !finish.is_finished());
    proxy.cut(Cut::Reset);
    proxy.heal();
    let ran = soon(finish).await.unwrap().unwrap_err();
    assert!(matches!(ran, OnceError::NotReplicated { .. }), "{ran}");
    assert!(calls(&primary, "pexpire") - before > writes_of_one);
    drop(frozen);
}

/// Each of them as the mutex: a permit or a read that a failover could take away is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_and_permits_count_once_a_replica_has_them_and_are_given_back_otherwise() {
    let (primary, replica) = pair();
    let careful = client(&primary, 1, AT_EASE);
    let (config, pool) = (careful.rwlock("config"), careful.semaphore("pool", 3));
    let held: [Lease<()>; 2] = [
        soon(config.read()).await.unwrap().into(),
        soon(pool.acquire_many(2)).await.unwrap().into(),
    ];
    for lease in held {
        let words = ["ZRANGEBYSCORE", lease.name().as_str(), "0", "+inf"]; // the holds
        let there = replica.cli(&words);
        assert_eq!(there, primary.cli(&words));
        assert_eq!(there.list().unwrap().len(), 1, "{there:?}");
        lease.release().await.unwrap();
    }

    let frozen = replica.pause();
    let hurried = client(&primary, 1, WITHIN);
    let (config, pool) = (hurried.rwlock("config"), hurried.semaphore("pool", 3));
    let refused = soon(config.read()).await.unwrap_err();
    too_few(&refused, 1, 0, WITHIN);
    let refused = soon(pool.try_acquire_many(2)).await.unwrap_err();
    too_few(&refused, 1, 0, WITHIN);
    for name in ["config", "pool"] {
        assert!(is_free(&hurried, name).await && hurried.held().is_empty());
    }
    drop(frozen);
}

/// A server seldom checks whose time is over, so the client does it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_is_given_back_when_its_time_is_over_and_the_server_has_not_noticed() {
    let (primary, replica) = pair();
    let frozen = replica.pause();
    let clock = Clock::manual();
    let careful = Client::builder().url(&primary.url()).clock(clock.clone());
    let careful = careful.open().unwrap();
    let mutex = careful.mutex("job").ttl(LONG).min_replicas(1, AT_EASE);
    let waits = tokio::spawn(async move { mutex.acquire().await });
    let server_waits = || {
        let clients = primary.cli(&["CLIENT", "LIST"]);
        clients.text().unwrap().contains("cmd=wait ")
    };
    eventually("the server waits for its replica", async || server_waits()).await;
    let other = plain(&primary);
    assert!(!is_free(&other, "job").await);

    clock.advance(AT_EASE);
    eventually("it is given back", async || is_free(&other, "job").await).await;
    assert!(server_waits(), "its time is not over for the server");
    let error = soon(waits).await.unwrap().unwrap_err();
    assert!(
        error.to_string().contains("has not said in time"),
        "{error}"
    );
    assert!(careful.held().is_empty());
    drop(frozen);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_was_handed_over_is_given_on_when_no_replica_has_it() {
    let (primary, replica) = pair();
    let (holder, careful) = (plain(&primary), client(&primary, 1, WITHIN));
    let lease = soon(holder.mutex("job").acquire()).await.unwrap();
    let mutex = careful.mutex("job");
    let first = tokio::spawn(async move { mutex.acquire().await });
    until_queued(&holder, "job", 1).await;
    let mutex = holder.mutex("job").note("stands by itself");
    let second = tokio::spawn(async move { mutex.acquire().await });
    until_queued(&holder, "job", 2).await;

    let frozen = replica.pause();
    lease.release().await.unwrap();
    too_few(&soon(first).await.unwrap().unwrap_err(), 1, 0, WITHIN);
    let next = soon(second).await.unwrap().unwrap();
    next.release().await.unwrap();
    assert!(is_free(&holder, "job").await);
    drop(frozen);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_was_handed_over_counts_when_a_replica_has_it() {
    let (primary, replica) = pair();
    let client = client(&primary, 1, AT_EASE);
    let lease = soon(client.mutex("job").acquire()).await.unwrap();
    let (primary, replica) = (Arc::new(primary), Arc::new(replica));
    let waiters: Vec<_> = (0..4)
        .map(|_| {
            let (mutex, primary, replica) = (client.mutex("job"), primary.clone(), replica.clone());
            tokio::spawn(async move {
                let lease = mutex.acquire().await.unwrap();
                assert_eq!(replica.cli(&["GET", "job"]), primary.cli(&["GET", "job"]));
                let fence = lease.fence().unwrap();
                lease.release().await.unwrap();
                fence
            })
        })
        .collect();
    until_queued(&client, "job", 4).await;
    let mut fences = HashSet::from([lease.fence().unwrap()]);
    lease.release().await.unwrap();
    for waiter in waiters {
        let own = fences.insert(soon(waiter).await.unwrap());
        assert!(own, "each has a grant of its own");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_replicas_than_there_are_never_answer_and_the_error_says_how_many_did() {
    let (primary, _replica) = pair();
    let client = client(&primary, 2, FOR_ONE);
    too_few(
        &soon(client.mutex("job").acquire()).await.unwrap_err(),
        2,
        1,
        FOR_ONE,
    );
    assert!(is_free(&client, "job").await);
}

/// Why the grant is written on the connection that waits: the server says of every other what is not true of it.
#[test]
fn what_a_server_counts_on_another_connection_proves_nothing() {
    let (primary, replica) = pair();
    let frozen = replica.pause();
    let (mut writes, mut waits) = (primary.connect().unwrap(), primary.connect().unwrap());
    writes.call(&["SET", "job", "1", "PX", "60000"]).unwrap();
    assert_eq!(waits.call(&["WAIT", "1", "50"]).unwrap(), Value::Integer(1));
    assert_eq!(
        writes.call(&["WAIT", "1", "50"]).unwrap(),
        Value::Integer(0)
    );
    drop(frozen);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_goes_away_while_it_waits_for_replicas_holds_nothing() {
    let (primary, replica) = pair();
    let (client, other) = (client(&primary, 1, AT_EASE), plain(&primary));
    let frozen = replica.pause();
    let mutex = client.mutex("job");
    let waits = tokio::spawn(async move { mutex.acquire().await });
    eventually("it was granted", async || !is_free(&other, "job").await).await;
    assert!(!waits.is_finished());
    waits.abort();
    eventually("it was given back", async || is_free(&other, "job").await).await;
    drop(frozen);
}

/// A release would record a run that did not finish, and at most once the tick would be over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_that_no_replica_has_in_time_or_whose_claim_is_dropped_has_not_begun() {
    let (primary, replica) = pair();
    let other = plain(&primary).cron("job");
    let tick = other.state().await.unwrap().now;
    let frozen = replica.pause();
    let hurried = client(&primary, 1, WITHIN).cron("job");
    let error = soon(hurried.claim(tick)).await.unwrap_err();
    let CronError::Acquire(error) = error else {
        panic!("{error:?}")
    };
    too_few(&error, 1, 0, WITHIN);
    assert_eq!(other.state().await.unwrap().latest, None);

    let patient = client(&primary, 1, LONG / 2).cron("job");
    let dropped = tokio::spawn(async move { patient.claim(tick).await.map(drop) });
    let has_begun = async || other.state().await.unwrap().latest.is_some();
    eventually("it has begun", has_begun).await;
    assert!(!dropped.is_finished());
    dropped.abort();
    eventually("it was taken back", async || !has_begun().await).await;

    let Claim::Run(run) = soon(other.claim(tick)).await.unwrap() else {
        panic!("another host may run it")
    };
    assert_eq!(run.attempt(), 1);
    run.finish().await.unwrap();
    drop(frozen);
    let careful = plain(&primary).cron("job").min_replicas(1, AT_EASE);
    let next = careful.state().await.unwrap().now;
    let Claim::Run(run) = soon(careful.claim(next)).await.unwrap() else {
        panic!("the replica confirms it")
    };
    let fields = ["HGETALL", "{job}:ll:cron"];
    assert_eq!(replica.cli(&fields), primary.cli(&fields));
    run.finish().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_wait_for_replicas_at_once() {
    let (primary, _replica) = pair();
    let client = client(&primary, 1, AT_EASE);
    let tasks: Vec<_> = (0..100)
        .map(|task| {
            let mutex = client.mutex(format!("job-{task}"));
            tokio::spawn(async move { mutex.acquire().await.map(|lease| lease.release()) })
        })
        .collect();
    for task in tasks {
        soon(task).await.unwrap().unwrap().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_disk_is_more_than_in_memory_and_needs_a_server_that_can_tell() {
    let with_file = || Server::builder().append_only();
    let primary = with_file().start();
    let replica = with_file().replica_of(&primary).start();
    let client = plain(&primary);
    let kept = client.mutex("job").fsynced(1, WITHIN * 10);
    if primary.cli(&["WAITAOF", "0", "0", "1"]).is_error() {
        let error = soon(kept.acquire()).await.unwrap_err();
        let AcquireError::Store { source, .. } = &error else {
            panic!("{error:?}")
        };
        assert_eq!(source.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("Redis 7.2 or later"), "{error}");
        assert!(is_free(&client, "job").await);
        return;
    }
    soon(kept.acquire()).await.unwrap().release().await.unwrap();

    let frozen = replica.pause();
    let few = client.mutex("job").fsynced(1, WITHIN);
    let error = soon(few.acquire()).await.unwrap_err();
    let AcquireError::TooFewReplicas {
        required: 1,
        confirmed: 0,
        local_fsync: Some(true),
        ..
    } = error
    else {
        panic!("{error:?}")
    };
    drop(frozen);

    let forgetful = Server::start();
    let client = plain(&forgetful);
    let kept = client.mutex("job").fsynced(0, WITHIN);
    let error = soon(kept.acquire()).await.unwrap_err();
    assert!(error.to_string().contains("appendonly yes"), "{error}");
    assert!(is_free(&client, "job").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_replica_can_be_waited_for_it_is_refused_before_anything_is_sent() {
    let server = Server::start();
    let theirs = leaselock::interop::redis::Client::open(server.url()).unwrap();
    let connection = theirs.get_multiplexed_async_connection().await.unwrap();
    let handed = Client::builder()
        .redis_connection(connection)
        .open()
        .unwrap();
    for client in [handed, Client::open("mem:").unwrap()] {
        let mutex = client.mutex("job").min_replicas(1, millis(100));
        let error = mutex.acquire().await.unwrap_err();
        assert!(matches!(error, AcquireError::Invalid(_)), "{error:?}");
        assert!(error.to_string().contains("redis+sentinel://"), "{error}");
        assert!(mutex.validate().is_err());
        assert!(is_free(&client, "job").await);
    }
    let client = plain(&server);
    for (mutex, says) in [
        (client.mutex("job").min_replicas(0, WITHIN), "at least one"),
        (
            client.mutex("job").min_replicas(1, LONG),
            "less than the ttl",
        ),
        (
            client
                .mutex("job")
                .min_replicas(1, WITHIN)
                .protocol(Protocol::SetnxPexpire),
            "native",
        ),
    ] {
        let error = mutex.validate().unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}
