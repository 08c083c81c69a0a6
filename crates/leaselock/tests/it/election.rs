//! Elections on a server: what they cost, what is lost with a record, and what a failover does to terms.

use std::time::Duration;

use leaselock::lease::Leader;
use leaselock::{Client, ErrorKind, Fence, Lease, LeaseError};
use testkit::Server;

use crate::support::{LONG, by_message, calls, eventually, soon, until_queued};

const LEADER: &str = "{scheduler}:ll:leader";
const FENCE: &str = "{scheduler}:ll:fence";

fn value_of(value: &str) -> impl Fn(&Client) -> leaselock::election::Election {
    move |client| client.election("scheduler").ttl(LONG).value(value)
}

/// Leads, and every client can read it.
async fn leads(client: &Client, value: &str) -> Lease<Leader> {
    let leading = soon(value_of(value)(client).campaign()).await.unwrap();
    soon(leading.proclaimed()).await.unwrap();
    leading
}

/// Followers of several clients; each listens once, and each follower reads once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_costs_one_message_and_one_read_for_each_of_a_thousand_followers() {
    const CLIENTS: usize = 10;
    const EACH: usize = 100;
    let server = Server::start();
    let leader = Client::open(&server.url()).unwrap();
    let mut followers = Vec::new();
    for _ in 0..CLIENTS {
        let client = Client::open(&server.url()).unwrap();
        for _ in 0..EACH {
            let mut observer = client.election("scheduler").observe();
            soon(observer.changed()).await.unwrap();
            followers.push(observer);
        }
    }
    let election = value_of("me")(&leader);
    let before = soon(election.campaign()).await.unwrap(); // sends the scripts
    soon(before.proclaimed()).await.unwrap();
    before.release().await.unwrap();
    for follower in &mut followers {
        let settled = async {
            while follower.current().is_some() {
                follower.changed().await.unwrap();
            }
        };
        by_message(settled).await;
    }
    server.cli(&["CONFIG", "RESETSTAT"]);
    let leading = soon(election.campaign()).await.unwrap();
    for follower in &mut followers {
        by_message(follower.changed()).await.unwrap();
        assert_eq!(follower.current().unwrap().term, leading.term());
    }
    assert_eq!(calls(&server, "publish"), 1);
    let (reads, requests) = (followers.len(), calls(&server, "evalsha"));
    // To acquire and to proclaim; and whatever the message before may have left to read.
    assert!(
        requests >= reads + 2 && requests <= 2 * reads + 2,
        "{requests}"
    );
    leading.release().await.unwrap();
}

/// A hand-over tells the next campaigner, which then tells the followers: there is no second message to them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_are_told_once_when_a_leader_hands_over() {
    let server = Server::start();
    let [one, two, three] = [(); 3].map(|()| Client::open(&server.url()).unwrap());
    let first = leads(&one, "one").await;
    let mut follower = three.election("scheduler").observe();
    soon(follower.changed()).await.unwrap();
    let next = value_of("two")(&two);
    let next = tokio::spawn(async move { next.campaign().await });
    until_queued(&one, "scheduler", 1).await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    first.release().await.unwrap();
    let second = soon(next).await.unwrap().unwrap();
    by_message(follower.changed()).await.unwrap();
    assert_eq!(follower.current().unwrap().term, second.term());
    assert_eq!(calls(&server, "publish"), 2); // the grant, and the proclamation
    second.release().await.unwrap();
}

/// What is damaged refuses the hand-over, and the campaigner keeps its position: otherwise it would find out by a timer.
#[tokio::test]
async fn a_campaigner_that_cannot_be_granted_learns_so_from_the_resignation() {
    let server = Server::start();
    let [one, two] = [(); 2].map(|()| Client::open(&server.url()).unwrap());
    let first = leads(&one, "one").await;
    let next = value_of("two")(&two);
    let next = tokio::spawn(async move { next.campaign().await });
    until_queued(&one, "scheduler", 1).await;
    server.cli(&["DEL", FENCE]);
    server.cli(&["LPUSH", FENCE, "something"]);
    first.release().await.unwrap();
    let refused = by_message(next).await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("fence"), "{refused}");
}

/// The data of earlier, as after a failover to a replica that lagged behind.
#[tokio::test]
async fn a_leader_of_an_earlier_term_than_one_that_was_told_is_never_told() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let mut observer = client.election("scheduler").observe();
    let first = leads(&client, "one").await;
    let earlier = ["scheduler", LEADER].map(|key| {
        let value = server.cli(&["GET", key]);
        (key, value.text().unwrap().to_owned())
    });
    first.release().await.unwrap();
    let second = leads(&client, "two").await;
    soon(observer.changed()).await.unwrap();
    assert_eq!(observer.current().unwrap().term, second.term());
    for (key, value) in &earlier {
        server.cli(&["SET", key, value, "PX", "60000"]);
    }
    server.cli(&["PUBLISH", "ll:broadcast:election:{scheduler}", ""]);
    by_message(observer.changed()).await.unwrap();
    assert_eq!(observer.current(), None);
    let read = client.election("scheduler").leader().await.unwrap();
    assert_eq!(read.unwrap().value, "one"); // a single read has no memory
    drop(second);
}

/// The key of the fence goes after 26 hours without a grant, and a leader may lead for longer.
#[tokio::test]
async fn the_term_of_a_leader_does_not_depend_on_the_key_of_the_fence() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let leading = leads(&client, "one").await;
    server.cli(&["DEL", FENCE]);
    let leader = client.election("scheduler").leader().await.unwrap();
    assert_eq!(leader.unwrap().term, leading.term());
    leading.release().await.unwrap();
    let next = soon(value_of("one")(&client).campaign()).await.unwrap();
    next.release().await.unwrap();
}

/// What a leader leaves that crashed has no one to remove it, and is not shown.
#[tokio::test]
async fn the_record_of_a_leader_is_shown_only_while_it_holds_the_name_and_has_a_ttl() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let leading = leads(&client, "one").await;
    let kept = server.cli(&["PTTL", LEADER]).integer().unwrap();
    assert!(kept > 6 * 24 * 60 * 60 * 1000, "{kept}");
    server.cli(&["DEL", "scheduler"]);
    assert_eq!(client.election("scheduler").leader().await.unwrap(), None);
    let mutex = client.mutex("scheduler").ttl(LONG).try_acquire().await;
    assert_eq!(client.election("scheduler").leader().await.unwrap(), None);
    assert!(leading.release().await.is_err());
    assert_eq!(client.election("scheduler").leader().await.unwrap(), None);
    mutex.unwrap().unwrap().release().await.unwrap();
    // Another type lies there: the next leader replaces it.
    server.cli(&["DEL", LEADER]);
    server.cli(&["LPUSH", LEADER, "something"]);
    let leading = leads(&client, "two").await;
    assert!(
        client
            .election("scheduler")
            .leader()
            .await
            .unwrap()
            .is_some()
    );
    leading.release().await.unwrap();
}

/// The store forgets a record in the end, because a leader that crashed leaves its own.
#[tokio::test]
async fn a_leader_writes_its_record_again_before_the_lease_outlasts_it() {
    const MONTH: Duration = Duration::from_secs(30 * 24 * 60 * 60);
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let leading = leads(&client, "one").await;
    let kept = || server.cli(&["PTTL", LEADER]).integer().unwrap();
    let month = i64::try_from(MONTH.as_millis()).unwrap();
    assert!(kept() < month);
    leading.extend(MONTH).await.unwrap();
    eventually("it is kept for longer", async || kept() > month).await;
    leading.release().await.unwrap();
}

/// The grant does not wait for the proclamation, and does not depend on it. It is sent until it is heard.
#[tokio::test]
async fn a_leader_whose_proclamation_is_refused_leads_and_is_told_so_and_proclaims_again() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let (allowed, reader) = (["~*scheduler", "~*:queue"], ["~*:waiters", "~*:fence"]);
    let rule = ["ACL", "SETUSER", "default", "resetkeys", "~ll:client:*"];
    server.cli(&[&rule[..], &allowed, &reader].concat());
    let leading = soon(value_of("one")(&client).campaign()).await.unwrap();
    let refused = soon(leading.proclaimed()).await.unwrap_err();
    let LeaseError::Store { source, .. } = &refused else {
        panic!("{refused:?}")
    };
    assert_eq!(source.kind(), ErrorKind::Forbidden, "{refused}");
    assert!(leading.is_held());
    server.cli(&["ACL", "SETUSER", "default", "allkeys"]);
    eventually("it is proclaimed", async || {
        let leader = client.election("scheduler").leader().await.unwrap();
        leader.is_some_and(|leader| leader.term == leading.term())
    })
    .await;
    eventually("and told so", async || leading.proclaimed().await.is_ok()).await;
    leading.release().await.unwrap();
}

/// Terms never repeat and grow, although each server forgets everything; no term begins before the leases of earlier ones
/// have ended.
#[tokio::test]
async fn in_strict_mode_no_leader_follows_a_lost_one_before_its_lease_has_ended() {
    const LONGEST: Duration = Duration::from_secs(1);
    let mut server = Server::start();
    let strict = |server: &Server| {
        Client::builder()
            .url(&server.url())
            .strict(LONGEST)
            .open()
            .unwrap()
    };
    let mut before = Fence::new(0);
    for _ in 0..2 {
        let client = strict(&server);
        let election = client.election("scheduler").ttl(LONGEST).value("me");
        let leading = soon(election.campaign()).await.unwrap(); // waits for the end of the quarantine
        assert!(leading.term() > before);
        before = leading.term();
        server = Server::start(); // and nothing of what the first one knew
        let next = strict(&server).election("scheduler").ttl(LONGEST);
        let refused = next.try_campaign().await.unwrap_err();
        assert!(
            matches!(refused, leaselock::AcquireError::Quarantined { .. }),
            "{refused}"
        );
        drop(leading);
    }
}
