//! What the renewal task does at an alarm, on a clock that is moved by hand.

use std::sync::atomic::{AtomicBool, Ordering};

use leaselock_fence::Name;

use super::send::batches;
use super::*;
use crate::base::{ClientId, Drift, StoreError, Token};
use crate::engine::services::lease::state::{LeaseMachine, LeaseTerms};
use crate::engine::values::{AcquireTerms, ExtendAnswer, Held, Resource};
use crate::mutex::MUTEX;
use crate::store::EmbeddedStore;

fn renewal(clock: &Clock) -> Renewal {
    renewal_with(clock, &Cleanup::new().0)
}

fn renewal_with(clock: &Clock, cleanup: &Cleanup) -> Renewal {
    let store = Executor::embedded(EmbeddedStore::memory("", clock.clone()));
    let cleanup = cleanup.clone();
    Renewal::new(
        store,
        clock.clone(),
        None,
        cleanup,
        Arc::default(),
        Weak::new(),
    )
}

fn lease(clock: &Clock) -> LeaseRecord {
    lease_of(clock, 9_000)
}

fn lease_of(clock: &Clock, ttl_ms: u64) -> LeaseRecord {
    let name = Name::new("job").unwrap();
    let resource = Resource::at(&MUTEX, Arc::from(&name), None);
    let token = Token::random(&ClientId::random().unwrap(), false).unwrap();
    let held = Held { resource, token };
    let (ttl, drift) = (Ttl::whole_ms(ttl_ms).unwrap(), Drift { ppm: 0 });
    let now = clock.now();
    let deadline = drift.deadline(now, ttl);
    let terms = LeaseTerms::of(AcquireTerms::plain(ttl), None, now);
    let core = LeaseMachine::granted(now, deadline, now, terms, drift);
    LeaseRecord::new(name, held, None, None, clock.clone(), core)
}

fn passed_on(record: &LeaseRecord, clock: &Clock) -> Arc<LeaseRecord> {
    let ttl = record.ttl();
    let core = record.core().passed_on(clock.now(), ttl, None);
    record.end(LostReason::Released, clock.now());
    Arc::new(record.passed_on(None, core))
}

#[test]
fn a_lease_that_was_handed_over_locally_stays_although_the_record_before_it_is_over() {
    let clock = Clock::manual();
    let renewal = Arc::new(renewal(&clock));
    let first = Arc::new(lease(&clock));
    let id = renewal.add(Arc::clone(&first));
    let due = renewal.work();
    clock.advance(due.saturating_since(clock.now()));
    // The alarm came for the first record, and meanwhile the lease is handed over locally.
    let (rung, record) = renewal.table().schedule.due_until(clock.now()).remove(0);
    assert!(rung == id && Arc::ptr_eq(&record, &first));
    let next = passed_on(&first, &clock);
    renewal.pass_on(id, Arc::clone(&next));
    assert!(!renewal.step(id, &record, clock.now()));
    assert!(Arc::ptr_eq(&renewal.held()[0], &next));
    assert!(Arc::ptr_eq(&renewal.current(id, &first), &next));
    let (_, record) = renewal.table().schedule.due_until(clock.now()).remove(0);
    assert!(
        Arc::ptr_eq(&record, &next),
        "it is checked, because its renewal is due"
    );
}

#[test]
fn an_alarm_moves_only_when_the_next_record_needs_it_sooner() {
    let clock = Clock::manual();
    let renewal = Arc::new(renewal(&clock));
    let first = Arc::new(lease(&clock));
    let id = renewal.add(Arc::clone(&first));
    renewal.work();
    let sleeps_until = renewal.table().sleeps_until;
    let mut last = first;
    for _ in 0..1_000 {
        let next = passed_on(&last, &clock);
        renewal.pass_on(id, Arc::clone(&next));
        last = next;
    }
    let first = renewal.table().schedule.first();
    assert_eq!(first, Some(sleeps_until), "no task is woken");
    assert_eq!(renewal.held().len(), 1);
}

#[test]
fn a_lease_that_is_doubted_while_it_is_handed_over_is_verified_by_the_next_task() {
    let clock = Clock::manual();
    let renewal = Arc::new(renewal(&clock));
    let first = Arc::new(lease(&clock));
    let id = renewal.add(Arc::clone(&first));
    let next = passed_on(&first, &clock);
    renewal.verify_all();
    renewal.pass_on(id, Arc::clone(&next));
    assert_eq!(next.core().next(), clock.now(), "it is due");
    // What was verified since is not doubted any more.
    next.core().take_up(clock.now());
    clock.advance(Duration::from_millis(1));
    let (now, ttl) = (clock.now(), next.ttl());
    next.core().extended(now, now, ttl);
    let third = passed_on(&next, &clock);
    renewal.pass_on(id, Arc::clone(&third));
    assert!(third.core().next() > now);
}

#[tokio::test]
async fn a_lease_that_is_nearly_due_is_renewed_with_one_that_is_due_and_a_later_one_is_not() {
    let clock = Clock::manual();
    let renewal = Arc::new(renewal(&clock));
    let due = Arc::new(lease(&clock));
    clock.advance(EARLY_MAX / 2);
    let nearly = Arc::new(lease(&clock));
    clock.advance(EARLY_MAX * 2);
    let later = Arc::new(lease(&clock));
    for record in [&due, &nearly, &later] {
        renewal.add(Arc::clone(record));
    }
    let first = renewal.work();
    clock.advance(first.saturating_since(clock.now()));
    let next = renewal.work();
    let own_times = [nearly.core().next(), later.core().next()];
    assert_eq!(
        next, own_times[1],
        "the lease that was renewed early has no alarm"
    );
    assert_eq!(
        own_times[0],
        nearly.core().deadline(),
        "its reply is pending"
    );
}

/// Waits until a lease is renewed on this clock.
async fn renewed_after(clock: &Clock, by: Duration, deadline: impl Fn() -> Moment) {
    let before = deadline();
    clock.advance(by);
    while deadline() == before {
        tokio::time::sleep(Duration::from_millis(1)).await; // the condition is checked each millisecond
    }
}

/// An operator breaks a leader by the number that it has had for days.
#[tokio::test]
async fn a_lease_that_is_held_for_days_keeps_its_number_and_that_of_the_permits() {
    let hours = |count: u64| Duration::from_secs(count * 3_600);
    let clock = Clock::manual();
    let client = crate::Client::builder().url("mem:").clock(clock.clone());
    let client = client.open().unwrap();
    let lease = client.mutex("job").ttl(hours(24)).acquire().await.unwrap();
    let pool = client.semaphore("pool", 2).ttl(hours(24));
    pool.set_permits(5).await.unwrap();
    let permit = pool.acquire().await.unwrap();
    for _ in 0..24 {
        renewed_after(&clock, hours(9), || lease.deadline()).await;
    }
    assert!(lease.is_held() && permit.is_held());
    let seen = client.inspect("job").await.unwrap();
    let holder = seen.state.exclusive().unwrap();
    assert_eq!(holder.fence, lease.fence());
    let permits = client.inspect("pool").await.unwrap().permits;
    assert!(permits.is_some_and(|it| it.pinned && it.total == 5));
}

#[tokio::test]
async fn a_lease_that_is_extended_by_hand_for_days_keeps_its_number_and_one_by_its_handle_too() {
    let hours = |count: u64| Duration::from_secs(count * 3_600);
    let clock = Clock::manual();
    let client = crate::Client::builder().url("mem:").clock(clock.clone());
    let client = client.open().unwrap();
    let by_hand = |name| client.mutex(name).ttl(hours(24)).renewal(false);
    let lease = by_hand("job").acquire().await.unwrap();
    let detached = by_hand("moved").acquire().await.unwrap();
    let detached = client.attach(detached.detach().await.unwrap());
    for _ in 0..12 {
        clock.advance(hours(9));
        lease.extend(hours(24)).await.unwrap();
        detached.extend(hours(24)).await.unwrap();
    }
    let fence = async |name| {
        let seen = client.inspect(name).await.unwrap();
        seen.state.exclusive().unwrap().fence
    };
    assert_eq!(fence("job").await, lease.fence());
    assert_eq!(fence("moved").await, detached.handle().fence());
    detached.release().await.unwrap();
}

/// The replies of the store that has renewed two leases.
fn both_extended() -> Vec<Option<Result<ExtendAnswer, StoreError>>> {
    vec![Some(Ok(ExtendAnswer::Extended { time_us: 0 })); 2]
}

#[tokio::test]
async fn a_hook_that_panics_ends_no_other_lease_of_the_client() {
    let clock = Clock::manual();
    let renewal = Arc::new(renewal(&clock));
    let [one, other] = [(); 2].map(|()| Arc::new(lease(&clock)));
    let is_told = Arc::new(AtomicBool::new(false));
    let tells = Arc::clone(&is_told);
    one.add_hook(Arc::new(move |_| {
        assert!(!tells.swap(true, Ordering::SeqCst), "a bug of the caller");
    }));
    let both = [&one, &other].map(|record| (renewal.add(Arc::clone(record)), Arc::clone(record)));
    let (now, ttl, before) = (clock.now(), other.ttl(), other.core().deadline());
    clock.advance(Duration::from_secs(1));
    renewal.report_all(both.to_vec(), clock.now(), ttl, both_extended());
    assert!(is_told.load(Ordering::SeqCst) && other.core().deadline() > before);
    assert!(renewal.table().schedule.first() > Some(now.plus(ttl.as_duration() / 3)));
}

/// The longest hold of its next task is shorter.
#[tokio::test]
async fn an_alarm_of_a_lease_that_is_handed_over_while_replies_are_read_stays() {
    let clock = Clock::manual();
    let renewal = Arc::new(renewal(&clock));
    let [one, other] = [(); 2].map(|()| Arc::new(lease(&clock)));
    let ids = [&one, &other].map(|record| renewal.add(Arc::clone(record)));
    clock.advance(Duration::from_secs(3));
    let (now, ttl, hold) = (clock.now(), one.ttl(), Duration::from_secs(1));
    // The hook runs between the reply for the first lease and the alarms of both.
    let (table, from, is_first) = (
        Arc::clone(&renewal),
        Arc::clone(&one),
        AtomicBool::new(true),
    );
    other.add_hook(Arc::new(move |_| {
        if !is_first.swap(false, Ordering::SeqCst) {
            let core = from.core().passed_on(now, ttl, Some(hold));
            from.end(LostReason::Released, now);
            table.pass_on(ids[0], Arc::new(from.passed_on(None, core)));
        }
    }));
    let both = vec![(ids[0], one), (ids[1], other)];
    renewal.report_all(both, now, ttl, both_extended());
    assert_eq!(renewal.table().schedule.first(), Some(now.plus(hold)));
}

/// Its holder, or the renewal task: the store still has the key.
#[tokio::test]
async fn a_lease_at_the_end_of_its_longest_hold_is_released_whoever_notices_it() {
    let clock = Clock::manual();
    let (cleanup, _task) = Cleanup::new();
    let renewal = Arc::new(renewal_with(&clock, &cleanup));
    let first = lease(&clock);
    let hold = Duration::from_secs(1);
    let core = first
        .core()
        .passed_on(clock.now(), Ttl::DEFAULT, Some(hold));
    let record = Arc::new(first.passed_on(None, core));
    renewal.add(Arc::clone(&record));
    clock.advance(hold);
    let lost = record.lost_by_now().unwrap();
    assert_eq!(lost.reason, LostReason::MaxHoldReached);
    renewal.work();
    let left = tokio::time::timeout(Duration::ZERO, cleanup.drained(&clock, hold, || 0));
    assert!(left.await.is_err(), "the release waits to be sent");
}

#[test]
fn leases_that_end_first_are_renewed_first() {
    let clock = Clock::manual();
    let renewal = Arc::new(renewal(&clock));
    let long = Arc::new(lease_of(&clock, 4_000));
    clock.advance(Duration::from_secs(3));
    let mut records = vec![Arc::new(lease_of(&clock, 9_000))];
    for _ in 0..3 {
        clock.advance(Duration::from_secs(1));
        records.insert(0, Arc::new(lease_of(&clock, 9_000)));
    }
    records.push(Arc::new(lease_of(&clock, 3_000)));
    records.push(long);
    let mut due: Vec<DueLease> = records
        .iter()
        .map(|record| (renewal.add(Arc::clone(record)), Arc::clone(record)))
        .collect();
    let ends = batches(&mut due, 2).into_iter().map(|batch| {
        let ends = batch.iter().map(|(_, record)| record.core().deadline());
        ends.collect::<Vec<_>>()
    });
    let ends: Vec<Moment> = ends.flatten().collect();
    assert!(ends.len() == 6 && ends.is_sorted(), "{ends:?}");
}
