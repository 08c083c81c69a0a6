//! What each kind of lease shows.

use std::time::Duration;

use leaselock::counter::CounterError;
use leaselock::detached::Handle;
use leaselock::{Client, Lease, Sequencer};
use leaselock_fence::{Admission, FenceChecker};

/// The sequencer of a lease, after its way through text.
fn through_text(shown: Option<Sequencer>) -> Sequencer {
    let shown = shown.unwrap();
    let read: Sequencer = shown.to_string().parse().unwrap();
    assert_eq!(read, shown);
    read
}

#[tokio::test]
async fn every_lease_with_a_fence_shows_its_name_its_fence_and_whose_grant_it_is() {
    let client = Client::open("mem:").unwrap();
    let mutex = client.mutex("invoices/2026 07").acquire().await.unwrap();
    let permit = client.semaphore("pool", 3).acquire().await.unwrap();
    let leading = client.election("scheduler").campaign().await.unwrap();
    assert_eq!(through_text(leading.sequencer()).fence(), leading.term());
    for lease in [mutex.into(), permit.into(), leading.into()] {
        let lease: Lease<()> = lease;
        let shown = through_text(lease.sequencer());
        assert_eq!(
            (shown.name(), Some(shown.fence())),
            (lease.name(), lease.fence())
        );
        assert_eq!(shown.owner().len(), 16);
        assert_eq!(lease.view().sequencer(), Some(shown));
    }

    let several = client
        .mutex("from")
        .along_with(["to"])
        .acquire()
        .await
        .unwrap();
    let shown: Vec<Sequencer> = several.sequencers().collect();
    let of_leases = several
        .leases()
        .iter()
        .map(|lease| through_text(lease.sequencer()));
    assert_eq!(shown, of_leases.collect::<Vec<_>>());
    assert_eq!(shown.len(), 2);
}

#[tokio::test]
async fn readers_that_hold_together_show_the_same_and_a_writer_shows_more() {
    let client = Client::open("mem:").unwrap();
    let lock = client.rwlock("config");
    let before = lock.write().await.unwrap();
    let first = through_text(before.sequencer());
    before.release().await.unwrap();
    let (one, other) = (
        lock.read().await.unwrap(),
        lock.upgradable_read().await.unwrap(),
    );
    let reading = through_text(one.sequencer());
    assert_eq!(reading.owner(), Sequencer::SHARED);
    assert_eq!(through_text(other.sequencer()), reading);
    assert!(reading.fence() > first.fence());
    one.release().await.unwrap();
    let writing = through_text(other.upgrade().await.unwrap().sequencer());
    assert!(writing.fence() > reading.fence());
    assert_ne!(writing.owner(), Sequencer::SHARED);
}

#[tokio::test]
async fn a_sequencer_stays_while_the_lease_lives_and_is_new_with_the_next_one() {
    let [client, borrower] = [0, 1].map(|_| Client::open("mem:sequencer-stays").unwrap());
    let mutex = client.mutex("invoices");
    let lease = mutex.acquire().await.unwrap();
    let shown = through_text(lease.sequencer());
    lease.extend(Duration::from_secs(20)).await.unwrap();
    assert_eq!(through_text(lease.sequencer()), shown);
    let lent = borrower.attach(lease.lend().unwrap());
    assert_eq!(through_text(lent.handle().sequencer()), shown);
    lease.release().await.unwrap();
    let next = through_text(mutex.acquire().await.unwrap().sequencer());
    assert!(next.fence() > shown.fence());
    assert_ne!(next.owner(), shown.owner());
}

/// One process has worked under the lease, and another goes on with it.
#[tokio::test]
async fn a_detached_lease_is_admitted_where_it_was_before_and_an_earlier_holder_is_late() {
    let [client, other] = [0, 1].map(|_| Client::open("mem:sequencer-detached").unwrap());
    let mutex = client.mutex("invoices");
    let mut checker = FenceChecker::new("invoices".parse().unwrap());
    let earlier = mutex.acquire().await.unwrap();
    let late = through_text(earlier.sequencer());
    earlier.release().await.unwrap();
    let lease = mutex.acquire().await.unwrap();
    let before = through_text(lease.sequencer());
    assert_eq!(checker.admit(&before).unwrap(), Admission::Raised);
    let settled = client.counter("settled");
    settled.clone().fenced(&before).add(1).await.unwrap();
    let handle = lease.detach().await.unwrap().to_secret_string();

    let goes_on = other.attach(handle.parse::<Handle>().unwrap());
    let after = through_text(goes_on.handle().sequencer());
    assert_eq!(after, before);
    assert_eq!(checker.admit(&after).unwrap(), Admission::Known);
    let settles = other.counter("settled");
    assert_eq!(settles.fenced(&after).add(1).await.unwrap(), 2);
    checker.admit(&late).unwrap_err();
    let refused = settled.fenced(&late).add(1).await.unwrap_err();
    assert!(matches!(refused, CounterError::Stale { .. }), "{refused:?}");
    goes_on.release().await.unwrap();
}

#[tokio::test]
async fn a_lease_without_fencing_shows_nothing() {
    let client = Client::open("mem:").unwrap();
    let lease = client
        .mutex("invoices")
        .fencing(false)
        .acquire()
        .await
        .unwrap();
    assert_eq!(lease.sequencer(), None);
    let several = client.mutex("from").fencing(false).along_with(["to"]);
    assert_eq!(several.acquire().await.unwrap().sequencers().count(), 0);
}

#[tokio::test]
async fn the_secret_of_a_lease_is_not_in_its_sequencer() {
    let client = Client::open("mem:").unwrap();
    let lease = client.mutex("invoices").acquire().await.unwrap();
    let shown = through_text(lease.sequencer());
    let handle = lease.detach().await.unwrap().to_secret_string();
    assert!(!handle.contains(shown.owner()), "{handle}");
}
