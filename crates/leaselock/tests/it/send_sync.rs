//! Every public type and future can go to another thread. Whether it can is decided by the compiler: what fails here
//! fails to build.

use std::future::Future;
use std::time::Duration;

use leaselock::barrier::*;
use leaselock::clock::*;
use leaselock::counter::*;
use leaselock::cron::*;
use leaselock::detached::*;
use leaselock::election::*;
use leaselock::error::*;
use leaselock::inspect::*;
use leaselock::interop::*;
use leaselock::latch::*;
use leaselock::lease::*;
use leaselock::limiter::*;
use leaselock::multilock::*;
use leaselock::once::*;
use leaselock::options::*;
use leaselock::report::*;
use leaselock::rwlock::*;
use leaselock::semaphore::*;
use leaselock::strict::*;
use leaselock::*;
use leaselock_fence::{Admission, FenceChecker, FenceRefused, FileFenceChecker, FileFenceError};

fn is_send<F: Future + Send>(future: F) {
    drop(future); // not polled: nothing happens
}

fn is_everything<T: Send + Sync + Unpin + 'static>() {}

#[test]
fn every_type_is_send_sync_unpin_and_static() {
    is_everything::<(Client, Mutex, RwLock, Semaphore, Owner, Wait)>();
    is_everything::<(Lease, LeaseView, LossWatch, Lost, LostReason, LeaseState)>();
    is_everything::<(Name, Fence, Sequencer, StoreError, ErrorKind)>();
    is_everything::<(
        AcquireError,
        LeaseError,
        ReleaseError,
        RunError<String, Vec<u8>>,
    )>();
    is_everything::<(RequestError, BreakError, InvalidInput, Remains)>();
    is_everything::<(Link, NodeVote, Vote)>();
    is_everything::<(MultiLock, Lease<Several>, LeaseView<Several>)>();
    is_everything::<(
        Lease<()>,
        Lease<Shared>,
        Lease<Upgradable>,
        ChangeError<Upgradable>,
        Lease<Permits>,
        Lease<OnceRun>,
        Lease<CronRun>,
    )>();
    is_everything::<(Election, LeaderObserver, Proclamation, Lease<Leader>)>();
    is_everything::<(Once, OnceRun, OnceStart, OnceResult, OnceState)>();
    is_everything::<(OnceError, OnCrash, LeaseView<OnceRun>)>();
    is_everything::<(Cron, CronRun, Claim, CronState, TickState)>();
    is_everything::<(Overlap, CronError)>();
    is_everything::<(Latch, LatchState, LatchError)>();
    is_everything::<(Barrier, BarrierPass, BarrierError)>();
    is_everything::<(Limiter, LimiterError, Rate, RateDecision)>();
    is_everything::<(Counter, CounterError, UnknownChange)>();
    is_everything::<(Handle, DetachedLease)>();
    is_everything::<(Options, Waiting, Clock, Moment, Quarantine, StrictStatus)>();
    is_everything::<(Inspection, Holding, Holder, Waiter, Process)>();
    is_everything::<(LockMode, PermitCount, BreakOptions, BreakOutcome)>();
    is_everything::<(Report, Finding, Verdict, Guarantee)>();
    is_everything::<(Stats, KindStats, Distribution, CloseReport)>();
    is_everything::<(LoadedFunctions, LogEntry)>();
    is_everything::<(Preset, Protocol, Exclusive, TlsOptions)>();
    is_everything::<(FenceChecker, Admission, FenceRefused)>();
    is_everything::<(FileFenceChecker, FileFenceError)>();
    is_everything::<(
        leaselock_tower::LimiterService<()>,
        leaselock_tower::SemaphoreService<()>,
    )>();
}

/// A builder may carry a connection of the user's own; it goes to another thread too.
#[test]
fn a_builder_is_send() {
    fn sent<T: Send + Unpin + 'static>() {}
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
    is_send(mutex.free_within(Duration::ZERO));
    is_send(mutex.run(|lease| async move { Ok::<_, String>(lease.fence()) }));
    is_send(client.inspect("job"));
    is_send(client.list("*"));
    is_send(client.list_pages("*", |_| std::ops::ControlFlow::Continue(())));
    is_send(client.list_cron("*"));
    is_send(client.list_clients());
    is_send(client.break_lease("job", BreakOptions::default()));
    is_send(client.log(Duration::MAX));
    is_send(client.doctor());
    is_send(client.close());
    let lease = mutex.acquire().await.unwrap();
    is_send(lease.lost());
    is_send(lease.lost().within(Duration::ZERO));
    let view = lease.view();
    is_send(view.broken_by());
    is_send(lease.extend(DEFAULT_TTL));
    is_send(lease.detach());
    let lease = client.mutex("other").acquire().await.unwrap();
    is_send(lease.release());
    let several = client.mutex("a").along_with(["b"]);
    is_send(several.try_acquire());
    is_send(several.acquire());
    is_send(several.acquire_within(Duration::ZERO));
    is_send(several.run(|lease| async move { Ok::<_, String>(lease.fences().count()) }));
    let lease = several.acquire().await.unwrap();
    is_send(lease.lost());
    is_send(lease.extend(DEFAULT_TTL));
    is_send(lease.release());
    let limiter = client.limiter("api", Rate::new(1, DEFAULT_TTL));
    is_send(limiter.try_acquire());
    is_send(limiter.acquire());
    is_send(limiter.acquire_within(Duration::ZERO));
    is_send(limiter.acquire_many(2));
    is_send(limiter.try_acquire_many(2));
    is_send(limiter.acquire_many_within(2, Duration::ZERO));
    futures_of_conditions_are_send(&client);
    futures_of_other_locks_are_send(&client).await;
    is_send(client.ping());
    is_send(client.load_functions());
    is_send(client.init_strict());
    is_send(client.strict_status());
    is_send(Client::connect("mem:"));
    let counter = client.counter("visits");
    is_send(counter.add(1));
    is_send(counter.incr());
    is_send(async {
        if let Err(CounterError::Unknown(change)) = counter.add(1).await {
            is_send(change.resolve());
        }
    });
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
    is_send(client.attach(handle.clone()).extend(DEFAULT_TTL));
    is_send(client.attach(handle).release());
}

fn futures_of_conditions_are_send(client: &Client) {
    let latch = client.latch("ready", 2);
    is_send(latch.arrive("a"));
    is_send(latch.wait());
    is_send(latch.wait_within(Duration::ZERO));
    is_send(latch.state());
    let barrier = client.barrier("phase", 2);
    is_send(barrier.wait());
    is_send(barrier.wait_within(Duration::ZERO));
    let once = client.once("charge");
    is_send(once.begin());
    is_send(async {
        if let Ok(OnceStart::Run(run)) = once.begin().await {
            is_send(run.cancel());
        }
        if let Ok(OnceStart::Run(run)) = once.begin().await {
            is_send(run.finish(Ok(Vec::new())));
        }
    });
    is_send(once.run(|_| async { Ok::<_, String>("paid") }));
    is_send(once.run_json(|_| async { Ok::<_, String>(7) }));
    is_send(once.state());
    is_send(once.forget());
    let cron = client.cron("nightly");
    is_send(cron.claim(std::time::UNIX_EPOCH));
    is_send(cron.state());
}

async fn futures_of_other_locks_are_send(client: &Client) {
    let lock = client.rwlock("config");
    is_send(lock.read());
    is_send(lock.try_read());
    is_send(lock.read_within(Duration::ZERO));
    is_send(lock.run_read(async |_| Ok::<_, String>(())));
    is_send(lock.write());
    is_send(lock.try_write());
    is_send(lock.write_within(Duration::ZERO));
    is_send(lock.run_write(async |_| Ok::<_, String>(())));
    is_send(lock.upgradable_read());
    is_send(lock.try_upgradable_read());
    is_send(lock.upgradable_read_within(Duration::ZERO));
    let writing = lock.write().await.unwrap();
    is_send(lock.downgrade_to_upgradable(writing));
    let writing = lock.write().await.unwrap();
    is_send(lock.downgrade(writing));
    let reading = lock.upgradable_read().await.unwrap();
    is_send(reading.upgrade());
    let pool = client.semaphore("pool", 2);
    is_send(pool.acquire());
    is_send(pool.try_acquire_many(2));
    is_send(pool.acquire_many(2));
    is_send(pool.run_many(2, async |_| Ok::<_, String>(())));
    is_send(pool.unset_permits());
    is_send(pool.acquire_many_within(2, Duration::ZERO));
    is_send(pool.set_permits(2));
    is_send(pool.permits());
    let election = client.election("scheduler");
    is_send(election.campaign());
    is_send(election.try_campaign());
    is_send(election.campaign_within(Duration::ZERO));
    let body = async |_| Ok::<_, String>(());
    is_send(election.lead_until(std::future::ready(()), body));
    is_send(election.leader());
    is_send(election.run(async |_| Ok::<_, String>(())));
    let mut observer = election.observe();
    is_send(observer.changed());
    let leading = election.campaign().await.unwrap();
    is_send(leading.release());
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
    #[expect(unused_must_use, reason = "another process extends with it")]
    lease.lend().unwrap();
    lease.release().await.unwrap();
    #[expect(
        unused_must_use,
        reason = "it says whether the lease was ours to the end"
    )]
    mutex.run(async |_| Ok::<_, String>(())).await;
    let several = mutex.clone().along_with(["other"]);
    let both = several.acquire().await.unwrap();
    #[expect(unused_must_use, reason = "the watch tells of a loss")]
    both.lost();
    both.release().await.unwrap();
    let lease = mutex.acquire().await.unwrap();
    #[expect(unused_must_use, reason = "nobody else can release the lease")]
    lease.detach().await.unwrap();
}
