//! Every public type and future can go to another thread. Whether it can is decided by the compiler: what fails here
//! fails to build.

use std::future::Future;
use std::time::Duration;

use leaselock::clock::*;
use leaselock::detached::*;
use leaselock::error::*;
use leaselock::inspect::*;
use leaselock::options::*;
use leaselock::report::*;
use leaselock::*;
use leaselock_fence::{Admission, FenceChecker, FenceRefused, FileFenceChecker, FileFenceError};

fn is_send<F: Future + Send>(future: F) {
    drop(future); // not polled: nothing happens
}

fn is_everything<T: Send + Sync + 'static>() {}

#[test]
fn every_type_is_send_sync_and_static() {
    is_everything::<Client>();
    is_everything::<Mutex>();
    is_everything::<Lease>();
    is_everything::<LeaseView>();
    is_everything::<LossWatch>();
    is_everything::<(Handle, LentHandle, BorrowedLease, Owner)>();
    is_everything::<DetachedLease>();
    is_everything::<(Options, Wait, Waiting, Name, Fence, Clock, Moment)>();
    is_everything::<(Inspection, Holding, Holder, Waiter, Process)>();
    is_everything::<(
        BreakOptions,
        BreakOutcome,
        CloseReport,
        LeaseState,
        LostReason,
        NotHeld,
    )>();
    is_everything::<(Report, Finding, Verdict, ErrorKind)>();
    is_everything::<(MultiLock, MultiLease, MultiLeaseView, MultiLossWatch)>();
    is_everything::<(MultiReleaseError, RunResult<()>)>();
    is_everything::<(Sequencer, FenceChecker, Admission, FenceRefused)>();
    is_everything::<(FileFenceChecker, FileFenceError)>();
    is_everything::<(Limiter, LimiterError, RateDecision)>();
    is_everything::<(Counter, CounterError, UnknownChange)>();
    is_everything::<(
        leaselock_tower::LimiterService<()>,
        leaselock_tower::SemaphoreService<()>,
    )>();
}

/// A builder may carry a connection of the user's own; it goes to another thread too.
#[test]
fn a_builder_is_send() {
    fn sent<T: Send + 'static>() {}
    sent::<ClientBuilder>();
}

#[tokio::test]
async fn every_future_is_send() {
    let client = Client::open("mem:").unwrap();
    let mutex = client.mutex("job");
    is_send(mutex.try_acquire());
    is_send(mutex.acquire());
    is_send(mutex.acquire_within(Duration::ZERO));
    is_send(mutex.holder());
    is_send(mutex.run(|lease| async move { lease.fence() }));
    is_send(client.inspect("job"));
    is_send(client.list("*"));
    is_send(client.break_lease("job", BreakOptions::default()));
    is_send(client.doctor());
    is_send(client.close());
    let lease = mutex.acquire().await.unwrap();
    is_send(lease.lost());
    is_send(lease.extend(TTL));
    is_send(lease.detach());
    let lease = client.mutex("other").acquire().await.unwrap();
    is_send(lease.release());
    let several = client.mutex("a").along_with(["b"]);
    is_send(several.try_acquire());
    is_send(several.acquire());
    is_send(several.acquire_within(Duration::ZERO));
    is_send(several.run(|lease| async move { lease.fence() }));
    let lease = several.acquire().await.unwrap();
    is_send(lease.lost());
    is_send(lease.extend(TTL));
    is_send(lease.release());
    let limiter = client.limiter("api").rate(1, TTL);
    is_send(limiter.try_acquire(1));
    is_send(limiter.acquire(1));
    is_send(limiter.acquire_within(1, Duration::ZERO));
    let counter = client.counter("visits");
    is_send(counter.add(1));
    is_send(counter.compare_and_set(0, 1));
    is_send(counter.get());
    let handle = client
        .mutex("third")
        .acquire()
        .await
        .unwrap()
        .detach()
        .await
        .unwrap();
    is_send(client.attach(handle.clone()).extend(TTL));
    is_send(client.attach(handle).release());
}

/// A value that must not be dropped unread makes the compiler warn. An expectation that no warning meets fails to build.
#[tokio::test]
#[deny(unfulfilled_lint_expectations)]
async fn what_must_not_be_dropped_unread_makes_the_compiler_warn() {
    let client = Client::open("mem:").unwrap();
    let mutex = client.mutex("report");
    let lease = mutex.acquire().await.unwrap();
    #[expect(unused_must_use, reason = "the watch tells of a loss")]
    lease.lost();
    #[expect(unused_must_use, reason = "another process borrows with it")]
    lease.lend().unwrap();
    lease.release().await.unwrap();
    #[expect(
        unused_must_use,
        reason = "it has the body's value, and whether the lease was ours to the end"
    )]
    mutex.run(async |_| 1).await.unwrap();
    let several = mutex.clone().along_with(["other"]);
    let both = several.acquire().await.unwrap();
    #[expect(unused_must_use, reason = "the watch tells of a loss")]
    both.lost();
    both.release().await.unwrap();
    let lease = mutex.acquire().await.unwrap();
    #[expect(unused_must_use, reason = "nobody else can release the lease")]
    lease.detach().await.unwrap();
}
