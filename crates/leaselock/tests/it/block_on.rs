//! Programs without async: the calling thread blocks until the client's own thread has done what it waits for.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use std::convert::Infallible;

use leaselock::inspect::BreakOptions;
use leaselock::once::OnceStart;
use leaselock::{AcquireError, Client, LostReason};
use testkit::{Server, wait_until};

use crate::support::{LONG, PATIENCE, leftovers, millis};

fn rig() -> (Server, Client, Client) {
    let server = Server::start();
    let client = || Client::open(&server.url()).unwrap();
    let (one, two) = (client(), client());
    (server, one, two)
}

#[test]
fn every_async_method_works_without_a_runtime() {
    let (server, one, two) = rig();
    let mutex = one.mutex("job").ttl(LONG);
    let lease = one.block_on(mutex.try_acquire()).unwrap().unwrap();
    let busy = two.block_on(two.mutex("job").acquire_within(millis(10)));
    assert!(matches!(busy, Err(AcquireError::TimedOut { .. })));
    assert_eq!(two.block_on(two.list("*")).unwrap().len(), 1);
    one.block_on(lease.extend(2 * LONG)).unwrap();
    one.block_on(lease.release()).unwrap();
    let ran = one.block_on(mutex.run(async |_| Ok::<_, Infallible>("ran")));
    assert_eq!(ran.unwrap(), "ran");
    let once = one.once("charge").ttl(LONG);
    let OnceStart::Run(run) = one.block_on(once.begin()).unwrap() else {
        panic!("it is the first")
    };
    one.block_on(run.finish(Ok(b"paid".to_vec()))).unwrap();
    drop(one.block_on(mutex.acquire()).unwrap());
    assert_eq!(one.block_on(one.close()).unconfirmed, 0);
    assert!(leftovers(&server).iter().all(|key| key.contains("charge")));
    let closed = one.block_on(mutex.acquire());
    assert!(matches!(closed, Err(AcquireError::Closed)));
}

#[test]
fn it_works_on_a_quorum_and_in_memory_and_for_futures_of_others() {
    let servers = [(); 3].map(|()| Server::start());
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let builder = Client::builder().urls(urls).durable_nodes();
    let quorum = builder.open().unwrap();
    let memory = Client::open("mem:").unwrap();
    for client in [quorum, memory] {
        let mutex = client.mutex("job").ttl(LONG);
        let lease = client.block_on(mutex.acquire()).unwrap();
        assert!(client.block_on(mutex.try_acquire()).unwrap().is_none());
        client.block_on(lease.release()).unwrap();
        let within = client.block_on(async { tokio::time::timeout(LONG, async { 7 }).await });
        assert_eq!(within, Ok(7), "timers are there");
    }
}

#[test]
fn a_thread_that_waits_in_the_queue_is_served_by_the_release() {
    let (_server, one, two) = rig();
    let lease = one.block_on(one.mutex("job").ttl(LONG).acquire()).unwrap();
    let fence = lease.fence();
    let waiting = thread::spawn({
        let two = two.clone();
        move || two.block_on(two.mutex("job").ttl(LONG).acquire()).unwrap()
    });
    wait_until(PATIENCE, "it is in line", || {
        one.block_on(one.inspect("job")).unwrap().queue.len() == 1
    });
    one.block_on(lease.release()).unwrap();
    let next = waiting.join().unwrap();
    assert!(next.fence() > fence);
    two.block_on(next.release()).unwrap();
}

#[test]
fn a_loss_is_told_to_who_checks_who_waits_and_who_is_called() {
    let (_server, one, two) = rig();
    let lease = one
        .block_on(one.mutex("job").ttl(millis(900)).acquire())
        .unwrap();
    lease.check().unwrap();
    assert_eq!(one.block_on(lease.lost().within(millis(10))), None);
    let (told, hears) = channel();
    lease.on_lost(move |lost| told.send(lost).unwrap());
    two.block_on(two.break_lease("job", BreakOptions::default()))
        .unwrap();
    let lost = one.block_on(lease.lost().within(PATIENCE)).unwrap();
    assert_eq!(lost.reason, LostReason::Broken);
    assert_eq!(hears.recv_timeout(PATIENCE).unwrap(), lost);
    assert_eq!(lease.check(), Err(lost.clone()));
    assert_eq!(
        one.block_on(lease.lost().within(LONG)),
        Some(lost),
        "it stays lost"
    );
}

#[test]
fn on_lost_is_called_for_a_release_too_and_once() {
    let (_server, one, _two) = rig();
    let lease = one.block_on(one.mutex("job").ttl(LONG).acquire()).unwrap();
    let (told, hears) = channel();
    lease.on_lost(move |lost| told.send(lost.reason).unwrap());
    one.block_on(lease.release()).unwrap();
    assert_eq!(hears.recv_timeout(PATIENCE), Ok(LostReason::Released));
    assert!(
        hears.recv_timeout(PATIENCE).is_err(),
        "and then its sender is gone"
    );
}

#[test]
fn many_threads_share_one_client() {
    let (_server, one, _two) = rig();
    let (inside, sum) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let lease = one.block_on(one.mutex("job").ttl(LONG).acquire()).unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "alone");
                    sum.fetch_add(1, Ordering::SeqCst);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    one.block_on(lease.release()).unwrap();
                }
            });
        }
    });
    assert_eq!(sum.load(Ordering::SeqCst), 80);
}

/// A blocked thread would stop the executor.
#[tokio::test]
async fn inside_a_runtime_it_panics_rather_than_stop_it() {
    let client = Client::open("mem:").unwrap();
    let refused =
        |future: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(future)).is_err();
    assert!(refused(&|| drop(
        client.block_on(ready(client.mutex("job").try_acquire()))
    )));
    assert!(client.mutex("job").try_acquire().await.unwrap().is_some());
}

async fn ready<F: Future>(future: F) -> F::Output {
    future.await
}
