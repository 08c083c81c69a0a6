//! A program whose executor does not come round: what the client promises does not depend on it. And one without threads.

use std::process::Command;

use leaselock::clock::{Clock, Moment};
use leaselock::lease::LeaseState;
use leaselock::{Client, LostReason};
use testkit::Server;

use crate::support::{LONG, eventually, is_free, millis};

/// Keeps the only thread of the executor busy. No other task runs meanwhile.
fn busy_until(moment: Moment) {
    while Clock::boot().now() < moment {
        std::hint::spin_loop();
    }
}

#[tokio::test]
async fn a_lease_is_renewed_while_the_executor_is_busy_for_several_ttls() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let rival = Client::open(&server.url()).unwrap();
    let ttl = millis(1_000);
    let lease = client.mutex("job").ttl(ttl).acquire().await.unwrap();
    let first = lease.deadline();
    busy_until(first.plus(2 * ttl));
    assert_eq!(lease.state(), LeaseState::Held);
    assert!(lease.deadline() > first.plus(2 * ttl));
    assert!(rival.mutex("job").try_acquire().await.unwrap().is_none());
    lease.release().await.unwrap();
}

/// The executor has had no turn since, and everything is known.
#[tokio::test]
async fn a_loss_is_known_although_the_executor_was_busy_past_the_deadline() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let mutex = client.mutex("job").ttl(millis(300)).renewal(false);
    let lease = mutex.acquire().await.unwrap();
    let (losing, view) = (lease.lost(), lease.view());
    assert!(losing.check().is_ok());
    busy_until(lease.deadline());
    assert_eq!(losing.check().unwrap_err().reason, LostReason::Expired);
    assert!(!lease.is_held() && !view.is_held() && client.held().is_empty());
}

#[tokio::test]
async fn a_dropped_lease_is_released_while_the_executor_is_busy() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let lease = client.mutex("job").ttl(LONG).acquire().await.unwrap();
    drop(lease);
    testkit::wait_until(crate::support::PATIENCE, "it is released", || {
        crate::support::leftovers(&server).is_empty()
    });
}

/// The runtime that took the lease is gone; the lease is renewed and then released all the same.
#[test]
fn a_lease_outlives_the_runtime_that_took_it() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let ttl = millis(1_000);
    let lease = runtime()
        .block_on(client.mutex("job").ttl(ttl).acquire())
        .unwrap();
    busy_until(lease.deadline().plus(ttl));
    assert!(lease.is_held());
    runtime().block_on(async {
        lease.extend(ttl).await.unwrap();
        lease.release().await.unwrap();
        eventually("it is free", async || is_free(&client, "job").await).await;
    });
}

/// Set for a process of this test program that can start no thread.
const WITHOUT_THREADS: &str = "LEASELOCK_TEST_WITHOUT_THREADS";

/// The system refuses a thread with a stack that is larger than its memory.
#[test]
fn a_thread_that_cannot_start_is_an_error_and_no_panic() {
    if std::env::var_os(WITHOUT_THREADS).is_some() {
        return has_no_threads();
    }
    let test = "starved::a_thread_that_cannot_start_is_an_error_and_no_panic";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--test-threads=1", "--nocapture"])
        .env(WITHOUT_THREADS, "")
        .env("RUST_MIN_STACK", "1000000000000000000")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&child.stderr);
    let ran = String::from_utf8_lossy(&child.stdout).contains("1 passed");
    assert!(
        child.status.success() && ran && !told.contains("panicked"),
        "{told}"
    );
}

fn has_no_threads() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = Client::open("mem:").unwrap();
        let told = client.mutex("job").acquire().await.unwrap_err();
        let told = told.to_string();
        assert!(told.contains("cannot start the client's thread"), "{told}");
        let client = Client::open("redis://localhost:1").unwrap();
        let told = client.inspect("job").await.unwrap_err().to_string();
        assert!(told.contains("cannot start a thread"), "{told}");
    });
}
