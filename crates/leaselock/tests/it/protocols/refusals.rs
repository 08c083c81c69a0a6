//! What a way cannot do is refused when it is asked for, before anything is sent, with the reason.

use leaselock::interop::Protocol;
use leaselock::{AcquireError, Client, LeaseError, Mutex};
use testkit::Server;

use super::job;
use crate::support::{LONG, millis, soon};

const OTHERS: [Protocol; 6] = [
    Protocol::SetnxGetset,
    Protocol::setex_renamenx(),
    Protocol::WatchMulti,
    Protocol::SetnxPexpire,
    Protocol::PythonRedisLock,
    Protocol::Redisson,
];

/// No server answers there, so whatever is refused was refused before anything was sent.
fn nowhere() -> Client {
    Client::open("redis://127.0.0.1:1").unwrap()
}

#[track_caller]
fn refused(mutex: Mutex, says: &[&str]) {
    let refusal = mutex.validate().expect_err("it is not refused").to_string();
    for word in says {
        assert!(refusal.contains(word), "{refusal}");
    }
}

#[test]
fn what_a_way_cannot_do_is_refused_when_it_is_asked_for_and_off_when_it_is_not() {
    let client = nowhere();
    for protocol in OTHERS {
        let name = protocol.name();
        let lock = || job(&client, protocol);
        assert!(lock().validate().is_ok(), "{name}");
        assert!(
            lock()
                .fencing(false)
                .renewal(false)
                .priority(0)
                .validate()
                .is_ok()
        );
        refused(lock().fencing(true), &["fencing token", name]);
        refused(lock().priority(1), &["priority", "no queue", name]);
        refused(lock().note("because"), &["a note", name]);
    }
    for protocol in &OTHERS[..3] {
        refused(
            job(&client, *protocol).renewal(true),
            &["renewal", protocol.name()],
        );
    }
    for protocol in &OTHERS[3..] {
        assert!(job(&client, *protocol).renewal(true).validate().is_ok());
    }
    for protocol in &OTHERS[1..3] {
        refused(
            job(&client, *protocol).ttl(millis(1500)),
            &["whole seconds"],
        );
        refused(job(&client, *protocol).ttl(millis(500)), &["whole seconds"]);
    }
}

#[tokio::test]
async fn the_first_operation_refuses_it_too() {
    let refusal = job(&nowhere(), Protocol::Redisson)
        .fencing(true)
        .acquire()
        .await;
    assert!(
        matches!(refusal, Err(AcquireError::Invalid(_))),
        "{refusal:?}"
    );
}

#[tokio::test]
async fn other_ways_than_the_native_one_are_refused_where_nobody_else_locks_in_them() {
    let client = Client::open("mem:").unwrap();
    for protocol in OTHERS {
        refused(
            job(&client, protocol),
            &["Redis", "native", protocol.name()],
        );
        let refusal = job(&client, protocol).try_acquire().await;
        assert!(
            matches!(refusal, Err(AcquireError::Invalid(_))),
            "{refusal:?}"
        );
        assert!(job(&client, protocol).holder().await.is_err());
    }
}

#[tokio::test]
async fn a_lease_of_another_way_is_not_extended_or_detached_where_that_cannot_be() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    for protocol in OTHERS {
        let lease = job(&client, protocol).acquire().await.unwrap();
        let extended = lease.extend(2 * LONG).await;
        let can = !OTHERS[..3].contains(&protocol);
        assert_eq!(extended.is_ok(), can, "{protocol}: {extended:?}");
        assert!(can || matches!(extended, Err(LeaseError::Invalid(_))));
        assert!(lease.is_held());
        let detached = lease.detach().await;
        assert!(
            matches!(detached, Err(LeaseError::Invalid(_))),
            "{detached:?}"
        );
        // It is given up then.
        let next = soon(job(&client, protocol).acquire()).await.unwrap();
        next.release().await.unwrap();
    }
}

#[test]
fn every_way_is_known_by_its_name_and_an_unknown_one_lists_them() {
    for protocol in Protocol::ALL {
        assert_eq!(protocol.name().parse(), Ok(protocol));
    }
    let refusal = "setnx".parse::<Protocol>().unwrap_err().to_string();
    assert!(
        Protocol::ALL.iter().all(|one| refusal.contains(one.name())),
        "{refusal}"
    );
}
