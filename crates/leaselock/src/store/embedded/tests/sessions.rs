//! Leases that end with the process that acquired them, or continue with its job.

use super::*;

/// Waits until the lock is free.
///
/// Other tests start processes, which have a copy of every descriptor until they run their program. So a death may free
/// the lock a moment late here.
async fn free_soon(peer: &Peer) {
    while peer.tag(&inspect("job")).await != "free" {
        tokio::task::yield_now().await;
    }
    assert!(peer.take(&peer.token(), 1000).await.is_some());
}

#[tokio::test]
async fn a_lease_of_a_dead_process_is_free_at_once() {
    let scratch = Scratch::new();
    let clock = Clock::boot();
    let (one, two) = (
        Peer::on(&scratch, &clock, true),
        Peer::on(&scratch, &clock, true),
    );
    one.take(&one.token(), 3_600_000).await.unwrap();
    assert_eq!(two.take(&two.token(), 1000).await, None);
    assert_eq!(two.tag(&inspect("job")).await, "held");
    drop(one);
    free_soon(&two).await;
}

#[tokio::test]
async fn a_lease_without_a_session_stays_until_its_time_is_over() {
    let scratch = Scratch::new();
    let clock = Clock::boot();
    let (one, two) = (
        Peer::on(&scratch, &clock, false),
        Peer::on(&scratch, &clock, true),
    );
    one.take(&one.token(), 3_600_000).await.unwrap();
    drop(one);
    assert_eq!(two.take(&two.token(), 1000).await, None);
}

#[tokio::test]
async fn a_living_process_that_does_not_renew_loses_its_lease() {
    let scratch = Scratch::new();
    let clock = Clock::manual();
    let (one, two) = (
        Peer::on(&scratch, &clock, true),
        Peer::on(&scratch, &clock, true),
    );
    one.take(&one.token(), 1000).await.unwrap();
    let job = Job::inheriting(|| one.store.session_descriptor());
    clock.advance(Duration::from_secs(2));
    assert!(two.take(&two.token(), 1000).await.is_some());
    drop(job);
}

#[tokio::test]
async fn a_job_holds_on_when_its_wrapper_dies_until_it_ends_itself() {
    let scratch = Scratch::new();
    let clock = Clock::manual();
    let (one, two) = (
        Peer::on(&scratch, &clock, true),
        Peer::on(&scratch, &clock, true),
    );
    one.take(&one.token(), 1000).await.unwrap();
    let job = Job::inheriting(|| one.store.session_descriptor());
    drop(one);
    for _ in 0..3 {
        clock.advance(Duration::from_secs(3600));
        let busy = two.run(&acquire("job", &two.token(), 1000)).await.unwrap();
        assert_eq!(
            (busy.tag(), busy.number(0).unwrap()),
            ("busy", 1000),
            "look again in a second"
        );
        // The write must not lose an expired lease.
        let waiting = two
            .run(&enqueue("job", &two.token(), 1000, "channel"))
            .await
            .unwrap();
        assert_eq!(waiting.tag(), "waiting");
    }
    drop(job);
    free_soon(&two).await;
}

#[tokio::test]
async fn the_longest_hold_ends_a_job_that_goes_on_alone() {
    let scratch = Scratch::new();
    let clock = Clock::manual();
    let (one, two) = (
        Peer::on(&scratch, &clock, true),
        Peer::on(&scratch, &clock, true),
    );
    one.store
        .limit_session(clock.now().plus(Duration::from_secs(10)));
    one.take(&one.token(), 1000).await.unwrap();
    let job = Job::inheriting(|| one.store.session_descriptor());
    drop(one);
    clock.advance(Duration::from_millis(9900));
    let busy = two.run(&acquire("job", &two.token(), 1000)).await.unwrap();
    assert_eq!((busy.tag(), busy.number(0).unwrap()), ("busy", 100));
    clock.advance(Duration::from_millis(101));
    assert!(two.take(&two.token(), 1000).await.is_some());
    drop(job);
}

#[tokio::test]
async fn a_hand_over_to_a_process_that_died_meanwhile_is_free_at_once() {
    let scratch = Scratch::new();
    let clock = Clock::boot();
    let [one, two, three] = [(); 3].map(|()| Peer::on(&scratch, &clock, true));
    let (holder, waiter) = (one.token(), two.token());
    one.take(&holder, 60_000).await.unwrap();
    let channel = "ll:wake:two";
    let store = two.store.clone();
    let listener = tokio::spawn(async move { store.listen(channel, Box::new(|_| {})).await });
    two.run(&enqueue("job", &waiter, 60_000, channel))
        .await
        .unwrap();
    while three
        .run(&made_up(
            "return { 'x', redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2] }",
            &["k"],
            &[channel],
        ))
        .await
        .unwrap()
        .number(0)
        .unwrap()
        == 0
    {
        tokio::task::yield_now().await;
    }
    assert_eq!(one.tag(&release("job", &holder)).await, "released");
    let held = three.run(&inspect("job")).await.unwrap();
    assert_eq!(held.text(3).unwrap(), waiter.secret());
    listener.abort();
    listener.await.unwrap_err();
    drop(two);
    free_soon(&three).await;
}

#[tokio::test]
async fn what_dead_processes_left_is_swept() {
    let scratch = Scratch::new();
    let clock = Clock::boot();
    let (one, two) = (
        Peer::on(&scratch, &clock, true),
        Peer::on(&scratch, &clock, true),
    );
    one.take(&one.token(), 1000).await.unwrap();
    let job = Job::inheriting(|| one.store.session_descriptor());
    let client = one.client.clone();
    drop(one);
    drop(job);
    let files = [
        client.as_str().to_owned(),
        format!("{}.main", client.as_str()),
    ];
    let left = || {
        files.iter().any(|file| {
            scratch
                .path()
                .join("locks here/sessions")
                .join(file)
                .exists()
        })
    };
    assert!(left());
    two.run(&inspect("job")).await.unwrap();
    assert!(left(), "no call pays for it");
    let store = two.store.clone();
    let sweeping =
        tokio::spawn(async move { store.follow(&crate::store::port::no_leases()).await });
    while left() {
        tokio::task::yield_now().await;
    }
    sweeping.abort();
    assert!(two.store.session_descriptor().is_some());
}
