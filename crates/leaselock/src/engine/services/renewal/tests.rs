//! What the renewal task does at an alarm, on a clock that is moved by hand.

use leaselock_fence::Name;

use super::*;
use crate::base::{ClientId, Drift, Token};
use crate::engine::services::lease::state::LeaseMachine;
use crate::engine::values::Resource;
use crate::mutex::MUTEX;
use crate::store::EmbeddedStore;

fn renewal(clock: &Clock) -> Renewal {
    let store = Executor::Embedded(EmbeddedStore::memory("", clock.clone()));
    let cleanup = Cleanup::new().0;
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
    let name = Name::new("job").unwrap();
    let resource = Resource::at(&MUTEX, Arc::from(&name), None);
    let token = Token::random(&ClientId::random().unwrap(), false).unwrap();
    let (ttl, drift) = (Ttl::whole_ms(9_000).unwrap(), Drift { ppm: 0 });
    let now = clock.now();
    let deadline = drift.deadline(now, ttl);
    let core = LeaseMachine::granted(now, deadline, now, ttl, drift, true, None);
    LeaseRecord::new(name, resource, token, None, None, clock.clone(), core)
}

fn passed_on(record: &LeaseRecord, clock: &Clock) -> Arc<LeaseRecord> {
    let ttl = record.ttl();
    let core = record.core().passed_on(clock.now(), ttl, None);
    record.end(LostReason::Released);
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
