//! redislock 1.3.0 (Node).

use std::time::Duration;

use leaselock::interop::Preset;
use leaselock::options::Options;
use leaselock::{AcquireError, Client, LeaseError, Lost, LostReason, ReleaseError, Wait};

use super::{Rig, acquired, tries};
use crate::support::{LONG, millis, pttl, soon};

#[tokio::test]
async fn timeout_retries_and_delay_are_ttl_and_wait() {
    let rig = Rig::start();
    let mutex = rig.one.mutex("job").ttl(millis(20_000)).wait(Wait::Poll {
        count: Some(3),
        delay: millis(100),
        jitter_percent: 0,
    });
    let lease = mutex.acquire().await.unwrap();
    assert!((19_000..=20_000).contains(&pttl(&rig.server, "job")));
    match soon(mutex.acquire()).await.unwrap_err() {
        AcquireError::TimedOut {
            waited, retries, ..
        } => {
            assert!(waited >= millis(300), "{waited:?}");
            assert_eq!(retries, 3);
        }
        other => panic!("{other:?}"),
    }
    lease.release().await.unwrap();
}

#[tokio::test]
async fn its_defaults_come_with_its_preset() {
    let preset = Preset::REDISLOCK;
    assert_eq!(preset.ttl(), Some(millis(10_000)));
    let once = Wait::Poll {
        count: Some(0),
        delay: millis(50),
        jitter_percent: 0,
    };
    assert_eq!(preset.wait(), once);
    let rig = Rig::start();
    let lease = rig.one.mutex("job").preset(preset).acquire().await.unwrap();
    assert_eq!(
        (lease.ttl(), lease.name().as_str()),
        (Duration::from_secs(10), "job")
    );
    let busy = rig.two.mutex("job").preset(preset).acquire().await;
    assert!(matches!(
        busy,
        Err(AcquireError::TimedOut { retries: 0, .. })
    ));
}

#[tokio::test]
async fn retries_of_minus_one_are_retries_without_a_count() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine()).await;
    let endless = rig.theirs().wait(Wait::Poll {
        count: None,
        delay: millis(1),
        jitter_percent: 0,
    });
    let waiting = tokio::spawn(async move { endless.acquire().await });
    lease.release().await.unwrap();
    assert!(soon(waiting).await.unwrap().is_ok());
}

#[tokio::test]
async fn set_defaults_is_a_setting_of_the_client() {
    let rig = Rig::start();
    let defaults = Options::default().ttl(millis(200_000)).wait(tries(1));
    let builder = Client::builder().url(&rig.server.url()).defaults(defaults);
    let client = builder.open().unwrap();
    let lease = client.mutex("job").acquire().await.unwrap();
    assert_eq!(lease.ttl(), millis(200_000));
    let busy = client.mutex("job").acquire().await;
    assert!(matches!(
        busy,
        Err(AcquireError::TimedOut { retries: 1, .. })
    ));
    assert_eq!(
        acquired(&rig.one.mutex("other")).await.ttl(),
        leaselock::options::DEFAULT_TTL
    );
}

#[tokio::test]
async fn acquire_gives_a_lease_and_release_takes_it_back() {
    let rig = Rig::start();
    let lease = rig.mine().acquire().await.unwrap();
    assert_eq!(lease.name().as_str(), "job");
    assert!(rig.theirs().try_acquire().await.unwrap().is_none());
    lease.release().await.unwrap();
    assert!(rig.theirs().try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn a_lock_that_another_has_is_still_busy() {
    let rig = Rig::start();
    let _lease = acquired(&rig.mine()).await;
    let busy = rig.theirs().wait(tries(0)).acquire().await.unwrap_err();
    let text = busy.to_string();
    assert!(text.starts_with("`job` is still held after"), "{text}");
    assert!(
        matches!(busy, AcquireError::TimedOut { own: false, .. }),
        "{busy:?}"
    );
}

#[tokio::test]
async fn a_lock_already_held_is_busy_for_its_holder_too() {
    let rig = Rig::start();
    let mutex = rig.mine().wait(tries(0));
    let lease = mutex.acquire().await.unwrap();
    let again = mutex.acquire().await.unwrap_err();
    let text = again.to_string();
    assert!(text.contains("by this very client"), "{text}");
    assert!(
        matches!(again, AcquireError::TimedOut { own: true, .. }),
        "{again:?}"
    );
    assert!(mutex.try_acquire().await.unwrap().is_none());
    let bounded = mutex.acquire_within(millis(20)).await.unwrap_err();
    assert!(
        matches!(bounded, AcquireError::TimedOut { own: true, .. }),
        "{bounded:?}"
    );
    lease.release().await.unwrap(); // which it is as before
}

#[tokio::test]
async fn trouble_of_the_server_is_no_busy_lock() {
    let rig = Rig::start();
    rig.server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = rig.mine().wait(tries(0)).acquire().await;
    assert!(
        matches!(refused, Err(AcquireError::Store { .. })),
        "{refused:?}"
    );
    let nowhere = Client::open("redis://127.0.0.1:1/").unwrap();
    let down = nowhere.mutex("job").wait(tries(0)).acquire().await;
    assert!(matches!(down, Err(AcquireError::Store { .. })), "{down:?}");
}

#[tokio::test]
async fn a_release_says_that_the_lease_had_expired() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine()).await;
    rig.server.cli(&["DEL", "job"]);
    let released = lease.release().await.unwrap_err();
    assert!(
        matches!(
            released,
            ReleaseError::NotHeld(Lost {
                reason: LostReason::KeyMissing,
                ..
            })
        ),
        "{released:?}"
    );
    let lease = acquired(&rig.mine()).await;
    rig.server.cli(&["SET", "job", "theirs", "PX", "60000"]);
    let released = lease.release().await.unwrap_err();
    assert!(
        matches!(
            released,
            ReleaseError::NotHeld(Lost {
                reason: LostReason::TakenOver,
                ..
            })
        ),
        "{released:?}"
    );
    assert_eq!(rig.server.cli(&["GET", "job"]).text(), Some("theirs"));
}

#[tokio::test]
async fn extend_counts_from_now_and_never_shortens() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine().ttl(millis(10_000)).renewal(false)).await;
    lease.extend(LONG).await.unwrap();
    assert!(pttl(&rig.server, "job") > 59_000);
    lease.extend(millis(1_000)).await.unwrap();
    assert!(pttl(&rig.server, "job") > 58_000);
    let bad = lease.extend(Duration::ZERO).await;
    assert!(matches!(bad, Err(LeaseError::Invalid(_))), "{bad:?}");
    assert!(lease.is_held());
}

#[tokio::test]
async fn an_extend_says_that_the_lease_is_lost() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine()).await;
    rig.server.cli(&["DEL", "job"]);
    match lease.extend(LONG).await.unwrap_err() {
        LeaseError::Lost(lost) => assert_eq!(lost.reason, LostReason::KeyMissing),
        other => panic!("{other:?}"),
    }
    assert!(!lease.is_held());
}

#[tokio::test]
async fn acquired_locks_are_those_that_the_client_holds() {
    let rig = Rig::start();
    let leases = [
        acquired(&rig.one.mutex("a")).await,
        acquired(&rig.one.mutex("b")).await,
    ];
    let names = || -> Vec<String> {
        let held = rig.one.held();
        held.iter().map(|held| held.name().to_string()).collect()
    };
    assert_eq!(names(), ["a", "b"]);
    let [a, _b] = leases;
    a.release().await.unwrap();
    assert_eq!(names(), ["b"]);
    assert!(rig.two.held().is_empty());
}

#[tokio::test]
async fn check_says_who_holds_it_and_takes_nothing() {
    let rig = Rig::start();
    assert_eq!(rig.theirs().holder().await.unwrap(), None);
    let lease = acquired(&rig.mine()).await;
    let holder = rig.theirs().holder().await.unwrap().unwrap();
    assert_eq!(
        holder.process.as_ref().map(|it| &*it.client),
        Some(rig.one.id())
    );
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_lease_is_renewed_and_its_loss_is_told() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine().ttl(millis(1_500))).await;
    let deadline = lease.deadline();
    crate::support::eventually("a renewal", async || lease.deadline() > deadline).await;
    rig.take_away().await;
    assert_eq!(soon(lease.lost()).await.reason, LostReason::KeyMissing);
}
