//! What others see, and what an operator may do.

use std::ops::ControlFlow;
use std::time::{Duration, SystemTime};

use leaselock::clock::Clock;
use leaselock::cron::Claim;
use leaselock::error::{BreakError, RequestError};
use leaselock::inspect::{BreakOptions, Holding, Inspection};
use leaselock::once::OnceStart;
use leaselock::{ErrorKind, Fence, LostReason, Wait};

use crate::engine::Engine;
use crate::support::{LONG, eventually, is_free, millis, soon, until_queued, waiter};

pub(super) async fn inspect_shows_who_holds_why_and_who_waits(engine: &Engine) {
    let named = engine.builder().await.process_name("nightly");
    let (one, two) = (named.open().unwrap(), engine.client().await);
    assert_eq!(two.inspect("job").await.unwrap().state, Holding::Free);
    let mutex = one.mutex("job").ttl(LONG).note("month end");
    let lease = mutex.acquire().await.unwrap();
    let _waiting = waiter(&two, "job", LONG);
    until_queued(&one, "job", 1).await;
    let look = async || {
        let seen = two.inspect("job").await.unwrap();
        let holder = seen.state.exclusive().cloned();
        (seen, holder.unwrap())
    };
    eventually("who they are and why was said", async || {
        let (seen, holder) = look().await;
        let holder_pid = holder.process.and_then(|process| process.pid);
        holder_pid.is_some() && holder.note.is_some() && seen.queue[0].process.pid.is_some()
    })
    .await;
    let (seen, holder) = look().await;
    let process = holder.process.clone().unwrap();
    let pid = std::process::id();
    assert_eq!(
        (process.name.as_deref(), process.pid),
        (Some("nightly"), Some(pid))
    );
    assert!(process.host.is_some() && process.started > Some(SystemTime::UNIX_EPOCH));
    assert!(
        process
            .to_string()
            .starts_with(&format!("nightly[{pid}] on "))
    );
    assert_eq!(
        (holder.note.as_deref(), holder.fence),
        (Some("month end"), lease.fence())
    );
    assert_eq!(
        holder.process.as_ref().map(|it| &*it.client),
        Some(one.id())
    );
    assert!(holder.remaining.unwrap() <= LONG && holder.since.is_some());
    assert!(!holder.is_foreign() && holder.digest.len() == 8);
    let at = &seen.queue[0];
    assert_eq!(
        (at.position, at.process.client.as_str(), at.priority),
        (1, two.id(), 0)
    );
}

pub(super) async fn a_mutex_is_shown_as_one_and_a_free_name_as_nothing(engine: &Engine) {
    let client = engine.client().await;
    let kind = async || client.inspect("job").await.unwrap().kind;
    assert_eq!(kind().await, None);
    let lease = client.mutex("job").ttl(LONG).acquire().await.unwrap();
    assert_eq!(kind().await, Some("mutex"));
    lease.release().await.unwrap();
}

pub(super) async fn every_lock_is_shown_and_listed_as_what_it_is_held_as(engine: &Engine) {
    let client = engine.client_of_one_store().await;
    let shown = async || {
        let mut seen = Vec::new();
        for (name, _) in KINDS {
            let one = client.inspect(name).await.unwrap();
            seen.push((one.name, one.kind.unwrap_or("free")));
        }
        seen
    };
    let (mutex, pool) = (client.mutex("a").ttl(LONG), client.semaphore("d", 2));
    let (read, upgradable) = (client.rwlock("b"), client.rwlock("c"));
    let several = client.mutex("h").ttl(LONG).along_with(["i"]);
    let _held = (
        mutex.acquire().await.unwrap(),
        read.ttl(LONG).read().await.unwrap(),
        upgradable.clone().ttl(LONG).read().await.unwrap(),
        upgradable.ttl(LONG).upgradable_read().await.unwrap(),
        pool.ttl(LONG).acquire().await.unwrap(),
        several.acquire().await.unwrap(),
    );
    let leading = client.election("e").ttl(LONG).campaign().await.unwrap();
    leading.proclaimed().await.unwrap();
    let OnceStart::Run(run) = client.once("f").ttl(LONG).begin().await.unwrap() else {
        panic!("it has run");
    };
    let cron = client.cron("g").ttl(LONG).start_within(LONG * 60);
    let due = cron.state().await.unwrap().now - LONG;
    let Claim::Run(tick) = cron.claim(due).await.unwrap() else {
        panic!("it has run");
    };
    let expected = KINDS.map(|(name, kind)| (name.to_owned(), kind));
    assert_eq!(shown().await, expected);
    if engine.lists {
        let listed = client.list("*").await.unwrap();
        let mut listed: Vec<_> = listed
            .into_iter()
            .map(|it| (it.name, it.kind.unwrap()))
            .collect();
        listed.sort();
        assert_eq!(listed, expected);
    }
    // A record outlives what it is about.
    run.finish(Ok(Vec::new())).await.unwrap();
    tick.finish().await.unwrap();
    leading.release().await.unwrap();
    for name in ["e", "f", "g"] {
        let lease = client.mutex(name).ttl(LONG).acquire().await.unwrap();
        assert_eq!(client.inspect(name).await.unwrap().kind, Some("mutex"));
        lease.release().await.unwrap();
    }
}

const KINDS: [(&str, &str); 9] = [
    ("a", "mutex"),
    ("b", "read"),
    ("c", "upgradable"),
    ("d", "permits"),
    ("e", "leader"),
    ("f", "once"),
    ("g", "cron"),
    ("h", "mutex"),
    ("i", "mutex"),
];

pub(super) async fn clients_are_listed_with_the_schedules_that_they_serve(engine: &Engine) {
    let (one, two) = (engine.client_of_one_store().await, engine.client().await);
    if !engine.lists {
        two.list_clients().await.unwrap_err();
        return;
    }
    assert_eq!(two.list_clients().await.unwrap(), []);
    let serving = one.cron("nightly").serve().unwrap();
    let served = || async {
        let listed = two.list_clients().await.unwrap();
        let ours = listed.into_iter().find(|it| it.client == one.id());
        ours.map(|it| {
            it.serves
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        })
    };
    let says = async |names: &[&str]| served().await.is_some_and(|served| served == names);
    eventually("it serves", async || says(&["nightly"]).await).await;
    let lease = two.mutex("job").ttl(LONG).acquire().await.unwrap();
    eventually("a holder is listed too", async || {
        let listed = two.list_clients().await.unwrap();
        let other = listed.iter().find(|it| it.client == two.id());
        other.is_some_and(|it| it.serves.is_empty() && it.pid == Some(std::process::id()))
    })
    .await;
    lease.release().await.unwrap();
    // A lease that goes on without this client does not run its schedules.
    let lease = one.mutex("kept").ttl(LONG).acquire().await.unwrap();
    let kept = lease.detach().await.unwrap();
    let listed = two.list_clients().await.unwrap();
    let count = listed.iter().filter(|it| !it.serves.is_empty()).count();
    assert_eq!((listed.len() > 1, count), (true, 1), "{listed:?}");
    drop(serving);
    one.close().await;
    assert_eq!(served().await, None);
    two.attach(kept).release().await.unwrap();
}

pub(super) async fn list_finds_the_held_locks_of_a_pattern_under_the_clients_prefix(
    engine: &Engine,
) {
    let client = engine.client_of_one_store().await;
    let mut leases = Vec::new();
    for name in ["jobs/a", "jobs/b", "mail/a"] {
        leases.push(client.mutex(name).ttl(LONG).acquire().await.unwrap());
    }
    if !engine.lists {
        let refused = client.list("*").await.unwrap_err();
        let RequestError::Store(refused) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(refused.kind(), ErrorKind::Forbidden, "{refused}");
        return;
    }
    let found = async |pattern: &str| {
        let all = client.list(pattern).await.unwrap();
        let mut names: Vec<String> = all.into_iter().map(|seen| seen.name).collect();
        names.sort();
        names
    };
    assert_eq!(found("*").await, ["jobs/a", "jobs/b", "mail/a"]);
    assert_eq!(found("jobs/*").await, ["jobs/a", "jobs/b"]);
    assert_eq!(found("*/[ab]").await.len(), 3);
    assert_eq!(found("jobs/?").await.len(), 2);
    let other = engine.builder().await.prefix("elsewhere:").open().unwrap();
    assert_eq!(other.list("*").await.unwrap().len(), 0);
    for lease in leases {
        lease.release().await.unwrap();
    }
    assert!(found("*").await.is_empty());
}

pub(super) async fn pages_list_every_held_lock_with_all_that_an_inspection_shows(engine: &Engine) {
    if !engine.lists {
        return;
    }
    let client = engine.client_of_one_store().await;
    let mut leases = Vec::new();
    for at in 0..120 {
        let mutex = client.mutex(format!("job/{at}")).ttl(LONG).renewal(false);
        leases.push(mutex.acquire().await.unwrap());
        let noted = client.mutex(format!("noted/{at}")).ttl(LONG).note("July");
        leases.push(noted.renewal(false).acquire().await.unwrap());
    }
    let readers = client.rwlock("read").ttl(LONG).renewal(false);
    let _reader = readers.read().await.unwrap();
    eventually("the notes are there", async || {
        let all = client.list("noted/*").await.unwrap();
        let mut holders = all.iter().filter_map(|seen| seen.state.exclusive());
        all.len() == 120 && holders.all(|it| it.note.as_deref() == Some("July"))
    })
    .await;
    let other = engine.client_of_one_store().await;
    let waiting = waiter(&other, "job/7", LONG);
    eventually("both have written who they are", async || {
        let seen = client.inspect("job/7").await.unwrap();
        let holder = seen
            .state
            .exclusive()
            .and_then(|it| it.process.as_ref()?.pid);
        holder.is_some()
            && seen
                .queue
                .first()
                .is_some_and(|it| it.process.pid.is_some())
    })
    .await;
    let mut all = Vec::new();
    let pages = client.list_pages("*", |page| {
        all.extend(page);
        ControlFlow::Continue(())
    });
    pages.await.unwrap();
    let mut count = 0;
    let first = client.list_pages("*", |page| {
        count += page.len();
        ControlFlow::Break(())
    });
    first.await.unwrap();
    assert!(count <= all.len(), "it ended with the first page");
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all.dedup_by(|one, other| one.name == other.name);
    assert_eq!(all.len(), leases.len() + 1);
    for lock in all {
        let seen = client.inspect(&lock.name).await.unwrap();
        let rest = |seen: &Inspection| match &seen.state {
            Holding::Held { holders, .. } => holders[0].remaining,
            other => panic!("{other:?}"),
        };
        assert!(rest(&lock) >= rest(&seen), "it was read before");
        assert_eq!(without_rest(lock), without_rest(seen));
    }
    waiting.abort();
}

fn without_rest(mut seen: Inspection) -> Inspection {
    if let Holding::Held { holders, .. } = &mut seen.state {
        holders.iter_mut().for_each(|it| it.remaining = None);
    }
    for waiter in &mut seen.queue {
        waiter.waited = Duration::ZERO;
    }
    seen
}

pub(super) async fn holder_reads_and_never_acquires(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    let mutex = two.mutex("job");
    assert!(mutex.holder().await.unwrap().is_none());
    let lease = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    let holder = mutex.holder().await.unwrap().unwrap();
    assert_eq!(
        (holder.process.as_ref().map(|it| &*it.client), holder.fence),
        (Some(one.id()), lease.fence())
    );
    let patient = mutex.clone().wait(Wait::Forever);
    let read = soon(patient.holder()).await.unwrap();
    assert!(read.is_some(), "one read, whatever the wait policy");
    assert!(!mutex.free_within(millis(20)).await.unwrap());
    let checking = tokio::spawn(async move { patient.free_within(LONG).await });
    lease.release().await.unwrap();
    assert!(soon(checking).await.unwrap().unwrap());
    assert!(is_free(&one, "job").await);
}

pub(super) async fn a_break_takes_the_lock_from_its_holder_and_only_under_the_terms(
    engine: &Engine,
) {
    let (one, two) = (engine.client().await, engine.client().await);
    let free = two.break_lease("job", BreakOptions::default()).await;
    assert!(matches!(free, Err(BreakError::NotHeld { .. })), "{free:?}");
    let lease = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    let next = waiter(&two, "job", LONG);
    until_queued(&one, "job", 1).await;
    let another = BreakOptions::default().only(Fence::new(1));
    let refused = two.break_lease("job", another).await.unwrap_err();
    assert!(matches!(refused, BreakError::Mismatch { theirs, .. } if theirs == lease.fence()));
    let exact = BreakOptions::default().now().only(lease.fence().unwrap());
    let broken = two.break_lease("job", exact).await.unwrap();
    assert_eq!(
        (broken.process.as_ref().map(|it| &*it.client), broken.fence),
        (Some(one.id()), lease.fence())
    );
    assert_eq!(broken.remaining, None);
    let next = soon(next).await.unwrap().unwrap();
    assert!(next.fence() > lease.fence(), "it went to the next in line");
    let gone = lease.extend(LONG).await.unwrap_err();
    assert!(gone.to_string().contains("another holder"), "{gone}");
    assert_eq!(soon(lease.lost()).await.reason, LostReason::TakenOver);
}

pub(super) async fn a_broken_lease_is_lost_for_its_holder_and_the_next_is_served_when_it_is_released(
    engine: &Engine,
) {
    let (one, two) = (engine.client().await, engine.client().await);
    let lease = one.mutex("job").ttl(millis(3_000)).acquire().await.unwrap();
    let next = waiter(&two, "job", LONG);
    until_queued(&one, "job", 1).await;
    let broken = two.break_lease("job", BreakOptions::default()).await;
    let broken = broken.unwrap();
    assert_eq!((broken.count, broken.fence), (1, lease.fence()));
    assert!(broken.remaining.unwrap() <= millis(3_000), "{broken:?}");
    let lost = soon(lease.lost()).await;
    assert_eq!(lost.reason, LostReason::Broken);
    if Clock::boot().now() < lease.deadline() {
        lease.release().await.unwrap(); // no other client has held it
    }
    let next = soon(next).await.unwrap().unwrap();
    assert!(next.fence() > Some(broken.fence.unwrap()));
}

pub(super) async fn a_broken_lease_that_is_not_released_lasts_until_its_deadline(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    let lease = one.mutex("job").ttl(millis(1_500)).acquire().await.unwrap();
    let next = waiter(&two, "job", LONG);
    until_queued(&one, "job", 1).await;
    for _ in 0..2 {
        let broken = two.break_lease("job", BreakOptions::default()).await;
        assert!(broken.is_ok_and(|broken| broken.remaining.is_some()));
        let seen = two.inspect("job").await.unwrap();
        let holder = seen.state.exclusive().unwrap();
        assert!(holder.broken, "{holder:?}");
        assert_eq!(holder.process.as_ref().unwrap().client, one.id());
    }
    let next = soon(next).await.unwrap().unwrap();
    assert!(
        Clock::boot().now() >= lease.deadline(),
        "no two hold it at a time"
    );
    assert!(next.fence() > lease.fence());
    assert_eq!(lease.check().unwrap_err().reason, LostReason::Broken);
}

/// A third of the ttl is more than the test waits, where a message comes.
pub(super) async fn a_client_that_listens_hears_at_once_that_its_lease_was_broken(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    let other = two.mutex("other").ttl(LONG).acquire().await.unwrap();
    let listening = waiter(&one, "other", LONG);
    until_queued(&two, "other", 1).await;
    let ttl = match engine.hears_of_all() {
        true => 60 * LONG,
        false => millis(3_000),
    };
    let held = one.mutex("job").ttl(ttl).acquire().await.unwrap();
    let permit = one.semaphore("pool", 1).ttl(ttl).acquire().await.unwrap();
    let reading = one.rwlock("config").ttl(ttl).read().await.unwrap();
    let unfenced = one
        .mutex("plain")
        .fencing(false)
        .ttl(ttl)
        .acquire()
        .await
        .unwrap();
    for name in ["job", "pool", "config", "plain"] {
        two.break_lease(name, BreakOptions::default())
            .await
            .unwrap();
    }
    for lost in [held.lost(), unfenced.lost()] {
        assert_eq!(soon(lost).await.reason, LostReason::Broken);
    }
    assert_eq!(soon(permit.lost()).await.reason, LostReason::Broken);
    assert_eq!(soon(reading.lost()).await.reason, LostReason::Broken);
    drop((held, permit, reading, unfenced));
    for name in ["job", "pool", "config", "plain"] {
        eventually("it was given back", async || is_free(&two, name).await).await;
    }
    other.release().await.unwrap();
    let listened = soon(listening).await.unwrap().unwrap();
    listened.release().await.unwrap();
}
