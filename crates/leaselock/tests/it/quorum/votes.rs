//! What counts as a vote, and what is refused.

use leaselock::error::{BreakError, Vote};
use leaselock::inspect::BreakOptions;
use leaselock::interop::Protocol;
use leaselock::{AcquireError, Client, LeaseError, LostReason};

use testkit::Value;

use super::Nodes;
use crate::support::{LONG, eventually, millis, soon};

#[tokio::test]
async fn a_lock_is_the_plain_key_on_a_majority_and_excludes_other_libraries_on_each_node() {
    let nodes = Nodes::start(3);
    let quorum = nodes.quorum();
    let lease = quorum.mutex("job").ttl(LONG).acquire().await.unwrap();
    nodes.all_have_voted().await;
    for server in &nodes.0 {
        let theirs = server.cli(&["SET", "job", "theirs", "NX", "PX", "1000"]);
        assert_eq!(theirs, Value::Nil);
    }
    lease.release().await.unwrap();
    nodes.nothing_is_left().await;
    for server in &nodes.0[..2] {
        let theirs = server.cli(&["SET", "job", "theirs", "NX", "PX", "60000"]);
        assert_ne!(theirs, Value::Nil);
    }
    assert!(quorum.mutex("job").try_acquire().await.unwrap().is_none());
    eventually("its own vote was taken back", async || {
        nodes.holding("job") == 2
    })
    .await;
}

#[tokio::test]
async fn a_minority_that_another_holds_does_not_matter() {
    let nodes = Nodes::start(3);
    nodes.0[0].cli(&["SET", "job", "theirs", "PX", "60000"]);
    let quorum = nodes.quorum();
    let lease = soon(quorum.mutex("job").ttl(LONG).acquire()).await.unwrap();
    lease.extend(LONG).await.unwrap();
    lease.release().await.unwrap();
    assert_eq!(nodes.0[0].cli(&["GET", "job"]).text(), Some("theirs"));
}

/// A majority of those that were acquired would be two.
#[tokio::test]
async fn an_extension_needs_a_majority_of_all_nodes_and_its_failure_releases_nothing() {
    let nodes = Nodes::start(5);
    for server in &nodes.0[3..] {
        server.cli(&["SET", "job", "theirs", "PX", "60000"]);
    }
    let quorum = nodes.quorum();
    let lease = quorum.mutex("job").ttl(LONG).acquire().await.unwrap();
    nodes.0[0].cli(&["DEL", "job"]);
    let gone = soon(lease.extend(LONG)).await.unwrap_err();
    assert!(
        matches!(&gone, LeaseError::Lost(lost) if lost.reason == LostReason::KeyMissing),
        "{gone:?}"
    );
    assert_eq!(nodes.holding("job"), 4, "nothing was released");
    drop(lease);
    eventually("its own votes are", async || nodes.holding("job") == 2).await;
}

#[tokio::test]
async fn an_extension_that_no_majority_answers_leaves_the_lease_until_its_deadline() {
    let nodes = Nodes::start(3);
    let quorum = nodes.builder().node_timeout(millis(200)).open().unwrap();
    let mutex = quorum.mutex("job").ttl(LONG).renewal(false);
    let lease = mutex.acquire().await.unwrap();
    let frozen = [nodes.0[0].pause(), nodes.0[1].pause()];
    let unknown = soon(lease.extend(LONG)).await.unwrap_err();
    let LeaseError::Unknown { source, .. } = &unknown else {
        panic!("{unknown:?}")
    };
    let said: Vec<&Vote> = source.votes().iter().map(|one| &one.vote).collect();
    assert_eq!(
        said,
        [&Vote::Silent, &Vote::Silent, &Vote::Answered],
        "{unknown}"
    );
    assert!(lease.is_held());
    drop(frozen);
    soon(lease.extend(LONG)).await.unwrap();
    soon(lease.release()).await.unwrap();
    nodes.nothing_is_left().await;
}

/// Two addresses, one server: what seems to be two votes of three is one.
#[tokio::test]
async fn one_server_under_two_addresses_has_one_vote() {
    let nodes = Nodes::start(2);
    let [one, two] = [nodes.0[0].port(), nodes.0[1].port()];
    let urls = [
        format!("redis://127.0.0.1:{one}"),
        format!("redis://localhost:{one}"),
        format!("redis://127.0.0.1:{two}"),
    ];
    let quorum = Client::builder().urls(&urls).durable_nodes();
    let quorum = quorum.node_timeout(millis(500)).open().unwrap();
    let lease = soon(quorum.mutex("job").ttl(LONG).acquire()).await.unwrap();
    lease.release().await.unwrap();
    let report = quorum.doctor().await.unwrap();
    let mut checks = report.nodes.iter().flat_map(|node| &node.findings);
    let identity = checks.find(|check| check.topic == "identity");
    assert!(
        identity.is_some_and(|check| check.found.contains("the same server")),
        "{report:#?}"
    );
    assert!(!report.is_fit());
    nodes.0[1].kill();
    // Each address may still be late with its vote on the name before, and with what takes it back.
    let refusal = soon(quorum.mutex("next").try_acquire()).await.unwrap_err();
    let AcquireError::NoQuorum { votes, granted, .. } = &refusal else {
        panic!("{refusal:?}")
    };
    let said: Vec<&Vote> = votes.iter().map(|one| &one.vote).collect();
    assert_eq!(
        (*granted, said),
        (1, vec![&Vote::Granted, &Vote::SameServer, &Vote::Silent])
    );
}

#[tokio::test]
async fn a_node_that_refuses_is_named_with_its_reason_and_the_others_decide() {
    let nodes = Nodes::start(3);
    nodes.0[0].cli(&["LPUSH", "job", "x"]);
    let quorum = nodes.quorum();
    let lease = soon(quorum.mutex("job").ttl(LONG).acquire()).await.unwrap();
    soon(lease.release()).await.unwrap();
    nodes.0[1].cli(&["LPUSH", "job", "x"]);
    let refusal = soon(quorum.mutex("job").try_acquire()).await.unwrap_err();
    let text = refusal.to_string();
    assert!(
        text.matches(": refused: something that is no lock").count() == 2
            && text.contains(": granted"),
        "{text}"
    );
    assert_eq!(nodes.0[0].cli(&["TYPE", "job"]).text(), Some("list"));
}

#[tokio::test]
async fn what_makes_no_sense_on_a_quorum_is_refused_with_the_reason() {
    let nodes = Nodes::start(3);
    let quorum = nodes.quorum();
    let job = || quorum.mutex("job");
    for (mutex, says) in [
        (job().priority(3), "no queue"),
        (job().protocol(Protocol::SetnxGetset), "native"),
        (job().ttl(2 * LONG), "longest_ttl"),
    ] {
        let refusal = mutex.clone().validate().unwrap_err().to_string();
        assert!(refusal.contains(says), "{refusal}");
        let refusal = mutex.try_acquire().await.unwrap_err();
        assert!(
            matches!(&refusal, AcquireError::Invalid(why) if why.to_string().contains(says)),
            "{refusal}"
        );
    }
    let lease = job().acquire().await.unwrap();
    let refusal = lease.extend(2 * LONG).await.unwrap_err();
    assert!(
        matches!(refusal, LeaseError::Invalid(_)) && lease.is_held(),
        "{refusal}"
    );
}

#[tokio::test]
async fn a_lease_that_is_broken_on_a_majority_is_lost_and_goes_on_when_it_is_released() {
    let nodes = Nodes::start(3);
    let (one, two) = (nodes.quorum(), nodes.quorum());
    let lease = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    nodes.all_have_voted().await;
    let broken = two.break_lease("job", BreakOptions::default()).await;
    assert!(broken.unwrap().remaining.is_some());
    let gone = soon(lease.extend(LONG)).await.unwrap_err();
    assert!(matches!(gone, LeaseError::Lost(lost) if lost.reason == LostReason::Broken));
    assert!(two.mutex("job").try_acquire().await.unwrap().is_none());
    lease.release().await.unwrap();
    assert!(soon(two.mutex("job").acquire()).await.is_ok());
}

/// What some nodes refuse says nothing of those whose replies are lost.
#[tokio::test]
async fn a_break_is_refused_when_every_node_refuses_it_and_unknown_when_a_reply_is_lost() {
    let nodes = Nodes::start(3);
    let quorum = nodes.builder().node_timeout(millis(1500)).open().unwrap();
    let lease = quorum.mutex("job").ttl(LONG).acquire().await.unwrap();
    nodes.all_have_voted().await;
    let refuse = |at: usize| nodes.0[at].cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    refuse(0);
    refuse(1);
    let frozen = nodes.0[2].pause();
    let lost = soon(quorum.break_lease("job", BreakOptions::default())).await;
    assert!(matches!(lost, Err(BreakError::Unknown { .. })), "{lost:?}");
    drop(frozen);
    eventually("the third node has broken it all the same", async || {
        let held = nodes.0[2].cli(&["GET", "job"]);
        held.text().is_some_and(|token| token.contains('!'))
    })
    .await;
    refuse(2);
    eventually("every node replies, and refuses it", async || {
        let refused = soon(quorum.break_lease("job", BreakOptions::default())).await;
        matches!(refused, Err(BreakError::Store { .. }))
    })
    .await;
    drop(lease);
}

#[tokio::test]
async fn a_broken_lease_is_free_on_every_node_and_its_holder_is_told() {
    let nodes = Nodes::start(3);
    let (one, two) = (nodes.quorum(), nodes.quorum());
    let lease = one
        .mutex("job")
        .ttl(LONG)
        .note("month end")
        .acquire()
        .await
        .unwrap();
    nodes.all_have_voted().await;
    let Some(holder) = two.inspect("job").await.unwrap().state.exclusive().cloned() else {
        panic!("it is held")
    };
    assert_eq!(
        (holder.process.as_ref().map(|it| &*it.client), holder.fence),
        (Some(one.id()), lease.fence())
    );
    let broken = two
        .break_lease(
            "job",
            BreakOptions::default().now().only(lease.fence().unwrap()),
        )
        .await;
    assert_eq!(broken.unwrap().fence, lease.fence());
    let gone = soon(lease.extend(LONG)).await.unwrap_err();
    assert!(matches!(gone, LeaseError::Lost(_)), "{gone:?}");
    assert!(
        soon(two.mutex("job").try_acquire())
            .await
            .unwrap()
            .is_some()
    );
}

/// So a program that moves from one server to a quorum with that server in it excludes its older half.
#[tokio::test]
async fn a_client_of_one_node_alone_has_that_nodes_vote() {
    let nodes = Nodes::start(3);
    let alone = Client::open(&nodes.0[0].url()).unwrap();
    let lease = alone.mutex("job").ttl(LONG).acquire().await.unwrap();
    let quorum = nodes.quorum();
    let theirs = soon(quorum.mutex("job").ttl(LONG).acquire()).await.unwrap();
    assert!(theirs.fence().is_some());
    theirs.release().await.unwrap();
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_lease_that_was_handed_on_is_not_extended_beyond_the_longest_ttl() {
    let nodes = Nodes::start(3);
    let client = nodes.builder().longest_ttl(LONG).open().unwrap();
    let lease = client.mutex("job").ttl(LONG / 2).acquire().await.unwrap();
    let lent = client.attach(lease.lend().unwrap());
    let refused = lent.extend(2 * LONG).await;
    assert!(
        matches!(refused, Err(LeaseError::Invalid(_))),
        "{refused:?}"
    );
    lent.extend(LONG).await.unwrap();
    let detached = client.attach(lease.detach().await.unwrap());
    let refused = detached.extend(2 * LONG).await;
    assert!(
        matches!(refused, Err(LeaseError::Invalid(_))),
        "{refused:?}"
    );
    detached.release().await.unwrap();
}
