//! The read-write lock.

use leaselock::inspect::{Holding, LockMode};
use leaselock::interop::Protocol;
use leaselock::lease::Shared;
use leaselock::{AcquireError, Client, Lease, LeaseError, LostReason, ReleaseError, Wait};
use tokio::task::JoinHandle;

use crate::engine::Engine;
use crate::support::{LONG, by_message, eventually, is_free, millis, soon, until_queued, waiter};

fn reader(client: &Client, name: &str) -> JoinHandle<Result<Lease<Shared>, AcquireError>> {
    let lock = client.rwlock(name).ttl(LONG);
    tokio::spawn(async move { lock.read().await })
}

async fn clients<const N: usize>(engine: &Engine) -> [Client; N] {
    let mut clients = Vec::new();
    for _ in 0..N {
        clients.push(engine.client_of_one_store().await);
    }
    clients.try_into().ok().unwrap()
}

pub(super) async fn readers_share_and_a_writer_is_alone(engine: &Engine) {
    let [one, two] = clients(engine).await;
    let (ours, theirs) = (
        one.rwlock("config").ttl(LONG),
        two.rwlock("config").ttl(LONG),
    );
    let readers = [ours.read().await.unwrap(), theirs.read().await.unwrap()];
    assert!(one.mutex("config").try_acquire().await.unwrap().is_none());
    assert!(theirs.try_write().await.unwrap().is_none());
    for reader in readers {
        assert!(theirs.try_write().await.unwrap().is_none());
        reader.release().await.unwrap();
    }
    let writer = theirs.try_write().await.unwrap().unwrap();
    assert!(ours.try_read().await.unwrap().is_none());
    assert!(one.mutex("config").try_acquire().await.unwrap().is_none());
    writer.release().await.unwrap();
    let mutex = one.mutex("config").try_acquire().await.unwrap().unwrap();
    assert!(theirs.try_read().await.unwrap().is_none());
    mutex.release().await.unwrap();
    let reader = theirs.try_read().await.unwrap().unwrap();
    reader.release().await.unwrap();
}

/// Eight readers come one after the other while a writer waits: it does not wait for them.
pub(super) async fn readers_that_come_later_do_not_keep_a_writer_waiting(engine: &Engine) {
    if !engine.wakes() {
        return; // without wake-ups the first that polls is granted
    }
    let [one, two] = clients(engine).await;
    let first = one.rwlock("config").ttl(LONG).read().await.unwrap();
    let writing = waiter(&two, "config", LONG);
    until_queued(&one, "config", 1).await;
    assert!(one.rwlock("config").try_read().await.unwrap().is_none());
    let later: Vec<_> = (0..8).map(|_| reader(&one, "config")).collect();
    until_queued(&one, "config", 9).await;
    first.release().await.unwrap();
    let writer = soon(writing).await.unwrap().unwrap();
    assert!(later.iter().all(|reader| !reader.is_finished()));
    writer.release().await.unwrap();
    for reader in later {
        soon(reader)
            .await
            .unwrap()
            .unwrap()
            .release()
            .await
            .unwrap();
    }
}

/// None of them is released before all have been granted.
pub(super) async fn the_release_of_a_writer_lets_in_all_readers_that_wait_behind_it(
    engine: &Engine,
) {
    let [one, two, three] = clients(engine).await;
    let writer = one.rwlock("config").ttl(LONG).write().await.unwrap();
    let readers = [&one, &two, &three, &two].map(|client| reader(client, "config"));
    until_queued(&one, "config", 4).await;
    writer.release().await.unwrap();
    let mut held = Vec::new();
    for reader in readers {
        let reader = soon(reader).await.unwrap().unwrap();
        assert!(reader.is_held());
        held.push(reader);
    }
    for reader in held {
        reader.release().await.unwrap();
    }
    let writer = one.rwlock("config").try_write().await.unwrap().unwrap();
    writer.release().await.unwrap();
}

pub(super) async fn a_waiting_writer_that_leaves_lets_in_the_readers_behind_it(engine: &Engine) {
    if !engine.wakes() {
        return; // without wake-ups the first that polls is granted
    }
    let [one, two] = clients(engine).await;
    let first = one.rwlock("config").ttl(LONG).read().await.unwrap();
    let writing = waiter(&two, "config", LONG);
    until_queued(&one, "config", 1).await;
    let second = reader(&one, "config");
    until_queued(&one, "config", 2).await;
    writing.abort();
    let second = by_message(second).await;
    let second = second.unwrap().unwrap();
    assert!(first.is_held() && second.is_held());
    second.release().await.unwrap();
    first.release().await.unwrap();
}

/// So a writer that has lost its lease is refused once a reader of the next phase has shown its number, and a reader
/// that has lost its own once the next writer has.
pub(super) async fn all_readers_of_a_phase_have_one_fence_between_those_of_the_writers(
    engine: &Engine,
) {
    let [one, two] = clients(engine).await;
    let (ours, theirs) = (
        one.rwlock("config").ttl(LONG),
        two.rwlock("config").ttl(LONG),
    );
    let mut last = None;
    for _ in 0..3 {
        let writer = ours.write().await.unwrap();
        assert!(writer.fence() > last);
        last = writer.fence();
        writer.release().await.unwrap();
        let first = ours.read().await.unwrap();
        let second = theirs.read().await.unwrap();
        assert!(first.fence() > last && second.fence() == first.fence());
        last = first.fence();
        first.release().await.unwrap();
        let third = ours.read().await.unwrap();
        assert_eq!(third.fence(), last);
        second.release().await.unwrap();
        third.release().await.unwrap();
        // A failover may lose the writer of a larger number between two readers.
        let next = ours.read().await.unwrap();
        assert!(next.fence() > last);
        last = next.fence();
        next.release().await.unwrap();
        // Nor has it the number of readers before, if the one that it joins has none.
        let unfenced = ours.clone().fencing(false).read().await.unwrap();
        assert_eq!(unfenced.fence(), None);
        let joins = theirs.read().await.unwrap();
        assert!(joins.fence() > last);
        last = joins.fence();
        unfenced.release().await.unwrap();
        joins.release().await.unwrap();
    }
}

pub(super) async fn a_read_is_renewed_beyond_several_ttls_and_extended(engine: &Engine) {
    let [one, two] = clients(engine).await;
    let ttl = std::time::Duration::from_millis(1_500);
    let reader = one.rwlock("config").ttl(ttl).read().await.unwrap();
    let began = testkit::clock::now();
    eventually("three ttls are over", async || {
        assert!(two.mutex("config").try_acquire().await.unwrap().is_none());
        testkit::clock::now() > began + 3 * ttl
    })
    .await;
    assert!(reader.is_held());
    reader.extend(LONG).await.unwrap();
    assert!(reader.remaining() > LONG / 2);
    reader.release().await.unwrap();
}

pub(super) async fn a_read_that_is_not_renewed_is_lost_and_its_writer_comes_in(engine: &Engine) {
    let [one, two] = clients(engine).await;
    let ttl = std::time::Duration::from_millis(1_500);
    let long = one.rwlock("config").ttl(LONG).read().await.unwrap();
    let short = two.rwlock("config").ttl(ttl).renewal(false);
    let short = short.read().await.unwrap();
    let writing = waiter(&two, "config", LONG);
    until_queued(&one, "config", 1).await;
    soon(short.lost()).await;
    assert!(!writing.is_finished() && long.is_held());
    drop(short);
    long.release().await.unwrap();
    let writer = soon(writing).await.unwrap().unwrap();
    writer.release().await.unwrap();
}

pub(super) async fn a_dropped_read_is_released(engine: &Engine) {
    let [one, two] = clients(engine).await;
    let reader = one.rwlock("config").ttl(LONG).read().await.unwrap();
    let writing = waiter(&two, "config", LONG);
    until_queued(&one, "config", 1).await;
    drop(reader);
    let writer = soon(writing).await.unwrap().unwrap();
    writer.release().await.unwrap();
}

pub(super) async fn a_break_takes_the_lock_from_all_readers(engine: &Engine) {
    let [one, two] = clients(engine).await;
    let readers = [&one, &two].map(|client| client.rwlock("config").ttl(LONG));
    let readers = [
        readers[0].read().await.unwrap(),
        readers[1].read().await.unwrap(),
    ];
    let writing = waiter(&two, "config", LONG);
    until_queued(&one, "config", 1).await;
    let terms = leaselock::inspect::BreakOptions::default().now();
    one.break_lease("config", terms).await.unwrap();
    let writer = soon(writing).await.unwrap().unwrap();
    for reader in readers {
        assert!(reader.release().await.is_err());
    }
    writer.release().await.unwrap();
}

pub(super) async fn inspect_and_list_show_every_reader_until_its_lease_ends(engine: &Engine) {
    let [one, two] = clients(engine).await;
    let long = one.rwlock("config").ttl(LONG).read().await.unwrap();
    let short = two.rwlock("config").ttl(millis(500)).renewal(false);
    let mut short = Some(short.read().await.unwrap());
    let seen = two.inspect("config").await.unwrap();
    let Holding::Held { holders, count, .. } = &seen.state else {
        panic!("{seen:?}")
    };
    assert_eq!((*count, seen.permits), (2, None));
    let ids = holders
        .iter()
        .filter_map(|one| Some(&*one.process.as_ref()?.client));
    let ids: Vec<&str> = ids.collect();
    assert_eq!(ids, [two.id(), one.id()], "the one that ends first");
    for holder in holders {
        assert_eq!(holder.mode, LockMode::Shared);
        assert_eq!(holder.fence, long.fence());
        assert_eq!((holder.since, holder.digest.len()), (None, 8));
    }
    assert!(holders[0].remaining <= Some(millis(500)) && holders[1].remaining > Some(LONG / 2));
    if engine.lists {
        let listed = two.list("*").await.unwrap();
        assert_eq!((listed.len(), &listed[0].name), (1, &seen.name));
    }
    let reading = reader(&two, "config");
    let reading = soon(reading).await.unwrap().unwrap();
    let seen = one.mutex("config").wait(Wait::Never).holder().await;
    let last = seen.unwrap().unwrap();
    assert!(!last.is_foreign() && last.remaining.unwrap() > LONG / 2);
    eventually("the expired one is not shown any more", async || {
        let seen = two.inspect("config").await.unwrap();
        matches!(&seen.state, Holding::Held { count: 2, holders, .. }
            if holders.iter().all(|holder| holder.remaining > Some(LONG / 4)))
    })
    .await;
    drop(short.take());
    for lease in [long, reading] {
        lease.release().await.unwrap();
    }
    assert!(is_free(&one, "config").await);
}

pub(super) async fn inspect_shows_what_each_waiter_asks_for(engine: &Engine) {
    if !engine.wakes() {
        return; // without wake-ups a reader passes a writer that waits
    }
    let [one, two] = clients(engine).await;
    let reading = one.rwlock("config").ttl(LONG).read().await.unwrap();
    let writing = waiter(&two, "config", LONG);
    until_queued(&one, "config", 1).await;
    let behind = reader(&one, "config");
    until_queued(&one, "config", 2).await;
    let seen = two.inspect("config").await.unwrap();
    let modes: Vec<LockMode> = seen.queue.iter().map(|waiter| waiter.mode).collect();
    assert_eq!(modes, [LockMode::Exclusive, LockMode::Shared]);
    reading.release().await.unwrap();
    let writer = soon(writing).await.unwrap().unwrap();
    writer.release().await.unwrap();
    let behind = soon(behind).await.unwrap().unwrap();
    behind.release().await.unwrap();
}

/// Another library's lock has one holder, so a reader that took it would keep other readers out.
pub(super) async fn a_reader_with_an_option_that_it_cannot_have_is_refused_and_holds_nothing(
    engine: &Engine,
) {
    let [client] = clients(engine).await;
    let lock = client.rwlock("config").ttl(LONG);
    for (wrong, what) in [
        (lock.clone().note("nightly"), "a note"),
        (lock.clone().protocol(Protocol::SetnxPexpire), "protocol"),
        (lock.clone().protocol(Protocol::Redisson), "protocol"),
    ] {
        let refusal = wrong.try_read().await.unwrap_err();
        assert!(matches!(refusal, AcquireError::Invalid(_)), "{refusal}");
        assert!(refusal.to_string().contains(what), "{refusal}");
        assert!(wrong.validate().is_err());
    }
    let writer = lock.try_write().await.unwrap().unwrap();
    writer.release().await.unwrap();
}

pub(super) async fn a_detached_read_is_extended_and_released_by_another_client(engine: &Engine) {
    let [one, two] = clients(engine).await;
    let (ours, theirs) = (
        one.rwlock("config").ttl(LONG),
        two.rwlock("config").ttl(LONG),
    );
    let (reading, beside) = (ours.read().await.unwrap(), ours.read().await.unwrap());
    let (fence, lost) = (reading.fence(), reading.lost());
    let handle = reading.detach().await.unwrap().to_secret_string();
    assert_eq!(soon(lost).await.reason, LostReason::Released);
    beside.release().await.unwrap();
    one.close().await;

    let attached = two.attach(handle.parse().unwrap());
    let shown = attached.handle();
    let seen = (shown.name().as_str(), shown.kind(), shown.fence());
    assert_eq!(seen, ("config", "read-write lock", fence));
    assert!(theirs.try_write().await.unwrap().is_none());
    attached.extend(2 * LONG).await.unwrap();
    let Holding::Held { holders, .. } = two.inspect("config").await.unwrap().state else {
        panic!("it is read")
    };
    assert!(holders.len() == 1 && holders[0].remaining > Some(LONG));
    assert!(holders[0].process.is_some(), "who acquired it");
    let writing = waiter(&two, "config", LONG);
    until_queued(&two, "config", 1).await;
    attached.release().await.unwrap();
    soon(writing)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    let again = two.attach(handle.parse().unwrap()).release().await;
    assert!(matches!(again, Err(ReleaseError::NotHeld(_))), "{again:?}");
}

pub(super) async fn a_lent_read_is_extended_by_its_borrower_and_stays_with_the_lender(
    engine: &Engine,
) {
    let [one, two] = clients(engine).await;
    let reading = one.rwlock("config").ttl(LONG).read().await.unwrap();
    let handle = reading.lend().unwrap().to_secret_string();
    let lent = two.attach(handle.parse().unwrap());
    assert_eq!(
        (lent.handle().fence(), lent.handle().sequencer()),
        (reading.fence(), reading.sequencer())
    );
    lent.extend(2 * LONG).await.unwrap();
    let writer = two.rwlock("config").ttl(LONG);
    assert!(writer.try_write().await.unwrap().is_none());
    reading.release().await.unwrap();
    let refused = lent.extend(LONG).await.unwrap_err();
    assert!(matches!(refused, LeaseError::Lost(_)), "{refused:?}");
    writer.write().await.unwrap().release().await.unwrap();
}

pub(super) async fn a_writer_whose_wait_ends_learns_which_client_reads(engine: &Engine) {
    let [one, two] = clients(engine).await;
    let reader = one.rwlock("config").ttl(LONG).read().await.unwrap();
    let writing = two.rwlock("config").ttl(LONG);
    let busy = writing.write_within(millis(50)).await.unwrap_err();
    let AcquireError::TimedOut { holder, own, .. } = &busy else {
        panic!("{busy:?}")
    };
    assert_eq!(
        (holder.as_deref().map(|it| &*it.client), *own),
        (Some(one.id()), false)
    );
    reader.release().await.unwrap();
}
