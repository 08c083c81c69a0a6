//! The front for programs without async: the same words, with the same meaning.

use std::sync::mpsc::channel;
use std::thread;

use leaselock::blocking::{Client, OnceStart};
use leaselock::inspect::{BreakOptions, Holding};
use leaselock::strict::StrictStatus;
use leaselock::{
    AcquireError, BarrierError, Claim, CounterError, ExtendError, LatchError, LimiterError,
};
use leaselock::{LostReason, OnceError, OnceState, RunError, TickState, Wait};
use testkit::{Server, wait_until};

use crate::support::{LONG, PATIENCE, leftovers, millis};

fn rig() -> (Server, Client, Client) {
    let server = Server::start();
    let client = || Client::connect(&server.url()).unwrap();
    let (one, two) = (client(), client());
    (server, one, two)
}

#[test]
fn the_words_of_the_async_front_mean_the_same() {
    let (server, one, two) = rig();
    let mutex = one.mutex("job").ttl(LONG).note("a note");
    let lease = mutex.try_acquire().unwrap().unwrap();
    assert!(two.mutex("job").try_acquire().unwrap().is_none());
    let busy = two.mutex("job").acquire_within(millis(10)).unwrap_err();
    assert!(matches!(busy, AcquireError::StillBusy { .. }), "{busy:?}");
    assert_eq!(
        two.mutex("job").holder().unwrap().unwrap().fence,
        lease.fence()
    );
    assert!(matches!(
        two.inspect("job").unwrap().state,
        Holding::Held(_)
    ));
    assert_eq!((two.list("*").unwrap().len(), one.held().len()), (1, 1));
    assert!(lease.is_held() && lease.view().is_held() && lease.remaining() > LONG / 2);
    lease.extend(2 * LONG).unwrap();
    let handle = lease.detach().unwrap();
    let attached = two.attach(handle);
    attached.extend(LONG).unwrap();
    attached.release().unwrap();
    let lease = one.mutex("job").acquire().unwrap();
    two.break_lease("job", BreakOptions::default()).unwrap();
    assert!(lease.release().is_err());
    drop(one.mutex("job").ttl(LONG).acquire().unwrap());
    assert!(one.close().unconfirmed == 0 && leftovers(&server).is_empty());
    assert!(matches!(
        one.mutex("job").acquire(),
        Err(AcquireError::Closed)
    ));
    assert!(!two.doctor().unwrap().checks.is_empty());
    assert_eq!(two.stats().clock_jumps, 0);
    assert_eq!(two.strict_status().unwrap(), StrictStatus::Missing);
    assert!(two.init_strict().is_err(), "it is not in strict mode");
}

#[test]
fn a_thread_that_waits_in_the_queue_is_served_by_the_release() {
    let (_server, one, two) = rig();
    let lease = one.mutex("job").ttl(LONG).acquire().unwrap();
    let fence = lease.fence();
    let waiting = std::thread::spawn({
        let two = two.clone();
        move || two.mutex("job").ttl(LONG).acquire().unwrap()
    });
    wait_until(PATIENCE, "it is in line", || {
        one.inspect("job").unwrap().queue.len() == 1
    });
    lease.release().unwrap();
    let next = waiting.join().unwrap();
    assert!(next.fence() > fence);
    next.release().unwrap();
}

#[test]
fn lost_within_waits_for_the_loss_and_no_longer() {
    let (_server, one, two) = rig();
    let lease = one.mutex("job").ttl(millis(900)).acquire().unwrap();
    assert_eq!(lease.lost_within(millis(10)), None);
    let (told, hears) = channel();
    lease.on_lost(move |lost| told.send(lost).unwrap());
    two.break_lease("job", BreakOptions::default()).unwrap();
    let lost = lease.lost_within(PATIENCE).unwrap();
    assert_eq!(lost.reason, LostReason::KeyMissing);
    assert_eq!(hears.recv_timeout(PATIENCE).unwrap(), lost);
    assert_eq!(lease.lost_within(LONG), Some(lost), "it stays lost");
}

#[test]
fn on_lost_is_called_for_a_release_too_and_once() {
    let (_server, one, _two) = rig();
    let lease = one.mutex("job").ttl(LONG).acquire().unwrap();
    let (told, hears) = channel();
    lease.on_lost(move |lost| told.send(lost.reason).unwrap());
    lease.release().unwrap();
    assert_eq!(hears.recv_timeout(PATIENCE), Ok(LostReason::Released));
    assert!(
        hears.recv_timeout(PATIENCE).is_err(),
        "and then its sender is gone"
    );
}

#[test]
fn run_releases_after_the_body_and_says_when_the_lease_was_gone() {
    let (server, one, two) = rig();
    let mutex = one.mutex("job").ttl(millis(900));
    let ran = mutex.run(|lease| lease.is_held()).unwrap();
    assert!(ran.value && ran.released.is_ok());
    let lost = mutex.run(|lease| {
        two.break_lease("job", BreakOptions::default()).unwrap();
        wait_until(PATIENCE, "the body sees it", || !lease.is_held());
    });
    assert!(matches!(lost, Err(RunError::Lost(lost)) if lost.reason == LostReason::KeyMissing));
    let panics =
        std::panic::AssertUnwindSafe(|| mutex.run(|_| std::panic::panic_any("on purpose")));
    assert!(
        std::panic::catch_unwind(panics)
            .map(|ran: Result<leaselock::RunResult<()>, _>| ran.is_ok())
            .is_err()
    );
    wait_until(PATIENCE, "the panic released it", || {
        leftovers(&server).is_empty()
    });
}

#[test]
fn work_is_done_once_without_async_and_a_second_caller_gets_its_result() {
    let (_server, one, two) = rig();
    let (ours, theirs) = (one.once("job").ttl(LONG), two.once("job").ttl(LONG));
    let OnceStart::Run(run) = ours.begin().unwrap() else {
        panic!("it is the first")
    };
    assert!(run.is_held() && run.attempt() == 1 && run.fence() == run.view().fence());
    let refused = theirs.forget().unwrap_err();
    assert!(matches!(refused, OnceError::Running { fence, .. } if fence == run.fence()));
    let busy = theirs.clone().wait(Wait::Never).begin().unwrap_err();
    assert!(
        matches!(busy, OnceError::Acquire(AcquireError::StillBusy { .. })),
        "{busy:?}"
    );
    run.cancel().unwrap();
    assert_eq!(theirs.state().unwrap(), OnceState::Absent);
    let failed = ours.run(|_| Err::<Vec<u8>, _>("no paper")).unwrap_err();
    assert!(matches!(failed, OnceError::Failed { attempt: 1, .. }));
    let ran = ours.run(|run| {
        assert!(run.lease().is_held());
        Ok::<_, String>(format!("attempt {}", run.attempt()))
    });
    assert_eq!(ran.unwrap().value, b"attempt 2");
    let told = theirs.run(|_| Ok::<_, String>("another")).unwrap();
    assert!(!told.ran_here && told.value == b"attempt 2");
    assert!(theirs.forget().unwrap());
    let invalid = ours.attempts(0).validate();
    assert!(invalid.is_err());
}

#[test]
fn readers_writers_and_permits_without_async_mean_the_same() {
    let (_server, one, two) = rig();
    let (ours, theirs) = (one.rwlock("job").ttl(LONG), two.rwlock("job").ttl(LONG));
    let readers = [ours.read().unwrap(), theirs.try_read().unwrap().unwrap()];
    assert_eq!(readers[0].fence(), readers[1].fence());
    assert!(ours.try_write().unwrap().is_none());
    let busy = ours.write_within(millis(10)).unwrap_err();
    assert!(matches!(busy, AcquireError::StillBusy { .. }), "{busy:?}");
    for reader in readers {
        reader.extend(2 * LONG).unwrap();
        reader.release().unwrap();
    }
    let writer = theirs.write().unwrap();
    assert!(ours.read_within(millis(10)).is_err() && ours.try_read().unwrap().is_none());
    writer.release().unwrap();

    let (ours, theirs) = (one.semaphore("pool", 3), two.semaphore("pool", 3));
    let held = [ours.acquire().unwrap(), theirs.acquire_many(2).unwrap()];
    assert!(ours.try_acquire().unwrap().is_none());
    assert!(theirs.acquire_many_within(2, millis(10)).is_err());
    assert!(matches!(
        ours.try_acquire_many(4),
        Err(AcquireError::TooMany { permits: 3, .. })
    ));
    assert_eq!(ours.set_permits(5).unwrap(), 3, "held now");
    let more = theirs.try_acquire_many(2).unwrap().unwrap();
    drop(more);
    held.into_iter().for_each(|lease| lease.release().unwrap());
    ours.unset_permits().unwrap();
    assert!(two.list("*").unwrap().is_empty());
    assert!(one.close().unconfirmed == 0 && two.close().unconfirmed == 0);
}

#[test]
fn a_read_is_upgraded_and_a_writer_downgraded_and_a_change_that_fails_gives_the_lease_back() {
    let (server, one, two) = rig();
    let (ours, theirs) = (one.rwlock("job").ttl(LONG), two.rwlock("job").ttl(LONG));
    let other = theirs.read().unwrap();
    let reading = ours.upgradable_read().unwrap();
    assert!(theirs.try_upgradable_read().unwrap().is_none());
    assert!(theirs.upgradable_read_within(millis(10)).is_err());
    let busy = reading.try_upgrade().unwrap_err();
    assert!(matches!(*busy.error, AcquireError::StillBusy { .. }));
    let busy = busy.lease.upgrade_within(millis(10)).unwrap_err();
    assert!(busy.lease.is_held() && busy.lease.name().as_str() == "job");
    busy.lease.extend(2 * LONG).unwrap();
    let upgrading = thread::spawn(move || busy.lease.upgrade().unwrap());
    wait_until(PATIENCE, "it is in line", || {
        two.inspect("job").unwrap().queue.len() == 1
    });
    other.release().unwrap();
    let writing = upgrading.join().unwrap();
    assert!(theirs.try_read().unwrap().is_none());

    let wrong = one.rwlock("another").downgrade(writing).unwrap_err();
    let reading = ours.downgrade_to_upgradable(wrong.lease).unwrap();
    let beside = theirs.try_read().unwrap().unwrap();
    let reading = reading.downgrade().unwrap();
    theirs
        .try_upgradable_read()
        .unwrap()
        .unwrap()
        .release()
        .unwrap();
    reading.release().unwrap();
    beside.release().unwrap();
    let reading = ours.downgrade(ours.write().unwrap()).unwrap();
    drop(theirs.try_read().unwrap().unwrap());
    drop(reading);
    assert!(one.close().unconfirmed == 0 && two.close().unconfirmed == 0);
    assert_eq!(leftovers(&server), Vec::<String>::new());
}

#[test]
fn several_names_are_held_as_one() {
    let (server, one, two) = rig();
    let both = one
        .mutex("a")
        .ttl(LONG)
        .along_with(["b"])
        .validate()
        .unwrap();
    let lease = both.acquire().unwrap();
    assert!(two.mutex("b").try_acquire().unwrap().is_none());
    assert!(both.try_acquire().unwrap().is_none());
    let busy = both.acquire_within(millis(10)).unwrap_err();
    assert!(matches!(busy, AcquireError::StillBusy { .. }), "{busy:?}");
    assert!(lease.is_held() && lease.fences().count() == 2 && lease.ttl() == LONG);
    lease.extend(2 * LONG).unwrap();
    assert!(lease.view().remaining() > LONG);
    lease.release().unwrap();
    assert!(one.mutex("a").along_with(["a"]).validate().is_err());
    drop(both.acquire().unwrap());
    assert_eq!((one.close().unconfirmed, leftovers(&server)), (0, vec![]));
}

#[test]
fn an_owner_holds_what_it_holds_already() {
    let (_server, one, two) = rig();
    let me = one.owner("import 42");
    let mutex = one.mutex("job").ttl(LONG).owner(&me);
    let (outer, inner) = (mutex.acquire().unwrap(), mutex.acquire().unwrap());
    assert_eq!(outer.fence(), inner.fence());
    outer.release().unwrap();
    assert!(two.mutex("job").try_acquire().unwrap().is_none());
    inner.release().unwrap();
    two.mutex("job").acquire().unwrap().release().unwrap();
    assert!(one.inherit_owner("no such line").is_err());
}

#[test]
fn followers_see_who_leads_and_the_next_leader_after_a_resignation() {
    let (_server, one, two) = rig();
    let [first, second] = [(&one, "one"), (&two, "two")]
        .map(|(client, value)| client.election("scheduler").ttl(LONG).value(value));
    let leading = first.campaign().unwrap();
    assert_eq!(
        (leading.value(), leading.fence()),
        ("one", Some(leading.term()))
    );
    assert!(second.try_campaign().unwrap().is_none());
    assert!(second.campaign_within(millis(10)).is_err());
    let mut observer = second.observe();
    observer.changed().unwrap();
    let term = leading.term();
    assert_eq!(observer.current().map(|leader| leader.term), Some(term));
    leading.extend(2 * LONG).unwrap();
    let next = thread::spawn({
        let second = second.clone();
        move || second.run(|lease| lease.fence()).unwrap()
    });
    wait_until(PATIENCE, "it is in line", || {
        one.inspect("scheduler").unwrap().queue.len() == 1
    });
    leading.resign().unwrap();
    let led = next.join().unwrap();
    assert!(led.value > Some(term) && led.released.is_ok());
    while observer.current().is_some() {
        observer.changed().unwrap(); // that the second leads, if it comes in time, and that it has resigned
    }
    assert_eq!(first.leader().unwrap(), None);
    let bad = first.value("x".repeat(4097));
    assert!(bad.validate().is_err());
}

#[test]
fn threads_wait_at_a_latch_and_at_a_barrier() {
    let (_server, one, two) = rig();
    let latch = one.latch("ready", 2).validate().unwrap();
    let waits = thread::spawn({
        let latch = two.latch("ready", 2).kept(LONG);
        move || latch.wait()
    });
    assert_eq!(latch.arrive("a").unwrap(), 1);
    let closed = latch.wait_within(millis(10)).unwrap_err();
    assert!(
        matches!(closed, LatchError::StillClosed { left: 1, .. }),
        "{closed:?}"
    );
    assert_eq!(two.latch("ready", 2).arrive("b").unwrap(), 0);
    waits.join().unwrap().unwrap();
    assert!(latch.state().unwrap().is_open());

    let barrier = one.barrier("phase", 2).ttl(LONG).validate().unwrap();
    let alone = barrier.wait_within(millis(10)).unwrap_err();
    assert!(matches!(alone, BarrierError::TimedOut { .. }), "{alone:?}");
    let other = two.barrier("phase", 2).ttl(LONG);
    let other = thread::spawn(move || other.wait().unwrap());
    let (here, there) = (barrier.wait().unwrap(), other.join().unwrap());
    assert_eq!(here.generation, there.generation);
    assert!(here.is_leader() != there.is_leader());
}

#[test]
fn threads_share_a_limiter_and_a_counter() {
    let (_server, one, two) = rig();
    let mails = |client: &Client| {
        client
            .limiter("mails")
            .rate(2, LONG)
            .and(9, 2 * LONG)
            .burst(3)
    };
    let (here, there) = (mails(&one).validate().unwrap(), mails(&two));
    here.acquire(1).unwrap();
    there.acquire_within(1, millis(0)).unwrap();
    assert!(!here.try_acquire(1).unwrap().is_allowed());
    let limited = there.acquire_within(1, millis(10)).unwrap_err();
    assert!(matches!(limited, LimiterError::Limited { .. }), "{limited}");

    let visits = one.counter("visits").ttl(LONG).validate().unwrap();
    assert_eq!((visits.incr().unwrap(), visits.add(4).unwrap()), (1, 5));
    let other = two.counter("visits");
    let differs = other.compare_and_set(1, 2).unwrap_err();
    assert!(matches!(differs, CounterError::Differs { value: 5, .. }));
    other.compare_and_set(5, -5).unwrap();
    assert_eq!(visits.get().unwrap(), -5);
}

#[test]
fn threads_share_the_ticks_of_a_schedule() {
    let (_server, one, two) = rig();
    let here = one.cron("job").ttl(LONG).validate().unwrap();
    let there = two.cron("job").ttl(LONG).again(true);
    let tick = here.state().unwrap().now;
    let Claim::Run(run) = here.claim(tick).unwrap() else {
        panic!("it is free")
    };
    assert!((run.tick(), run.attempt(), run.is_held()) == (tick, 1, true));
    let running = there.claim(tick).unwrap();
    assert!(matches!(running, Claim::Running { .. }), "{running:?}");
    run.cancel().unwrap();
    let Claim::Run(run) = there.claim(tick).unwrap() else {
        panic!("it has not begun")
    };
    run.finish().unwrap();
    assert!(matches!(here.claim(tick).unwrap(), Claim::Over));
    let latest = here.state().unwrap().latest.unwrap();
    assert_eq!((latest.tick, latest.state), (tick, TickState::Done));
}

#[test]
fn a_lease_of_any_kind_is_lent_and_detached() {
    let (_server, one, two) = rig();
    let reading = one.rwlock("config").ttl(LONG).read().unwrap();
    let permits = one.semaphore("pool", 3).ttl(LONG).acquire_many(2).unwrap();
    for lease in [reading, permits] {
        let name = lease.name().to_string();
        let borrowed = two.borrow(lease.lend().unwrap()).unwrap();
        borrowed.extend(2 * LONG).unwrap();
        assert!(borrowed.is_held() && borrowed.fence() == lease.fence());
        drop(borrowed);
        let (lent, handle) = (lease.lend().unwrap(), lease.detach().unwrap());
        let refused = two.borrow(lent).unwrap_err();
        assert!(
            matches!(refused, ExtendError::Lost(_)),
            "its token is another now"
        );
        let attached = two.attach(handle);
        assert!(["read-write lock", "semaphore"].contains(&attached.kind()));
        attached.extend(LONG).unwrap();
        assert!(one.mutex(&name).try_acquire().unwrap().is_none());
        attached.release().unwrap();
        one.mutex(&name)
            .try_acquire()
            .unwrap()
            .unwrap()
            .release()
            .unwrap();
    }
}
