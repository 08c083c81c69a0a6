use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::calls::LEADERSHIP;
use super::handle::Election;
use super::mode::{Leader, Proclaimer};
use crate::base::error::LostReason;
use crate::base::{Clock, StoreError};
use crate::client::Client;
use crate::client::inspection::BreakOptions;
use crate::client::named::Named;
use crate::engine::services::LeaseRecord;
use crate::engine::values::grant::StepReply;
use crate::{Lease, LeaseError};

/// A follower reads by timer after 15 s: what it learns before that, a message has told it.
const BEFORE_A_READ: Duration = Duration::from_secs(10);

/// What this leader sends, at a later time.
struct Late(Proclaimer, Arc<LeaseRecord>);

impl Late {
    fn of(leading: &Lease<Leader>) -> Option<Late> {
        let (value, tell) = (leading.value().into(), watch::Sender::new(None));
        let late = Proclaimer::new(leading, &value, tell)?;
        Some(Late(late, Arc::clone(leading.parts().1)))
    }

    async fn send(&self) -> Result<StepReply, StoreError> {
        self.0.send(&self.1).await
    }
}

fn election(client: &Client, value: &str) -> Election {
    let election = client.election("job").ttl(Duration::from_secs(60));
    election.value(value)
}

/// A leader that has sent no proclamation yet.
fn silent(client: &Client) -> Named {
    Named::new(&client.state, &LEADERSHIP, "job".to_owned())
}

/// The request of a process that was frozen arrives when another client leads.
#[tokio::test]
async fn a_proclamation_that_comes_late_changes_nothing() {
    let client = Client::open("mem:").unwrap();
    let frozen = election(&client, "frozen").campaign().await.unwrap();
    let late = Late::of(&frozen).unwrap();
    let broken = client
        .break_lease("job", BreakOptions::default().now())
        .await;
    broken.unwrap();
    assert_eq!(late.send().await.unwrap(), Err(LostReason::KeyMissing));
    let leading = election(&client, "leader").campaign().await.unwrap();
    leading.proclaimed().await.unwrap();
    assert_eq!(late.send().await.unwrap(), Err(LostReason::TakenOver));
    let seen = election(&client, "").leader().await.unwrap().unwrap();
    assert_eq!((&*seen.value, seen.term), ("leader", leading.term()));
    leading.release().await.unwrap();
}

/// The resignation may overtake the proclamation, which uses another connection.
#[tokio::test]
async fn a_proclamation_that_a_resignation_has_overtaken_shows_nobody() {
    let client = Client::open("mem:").unwrap();
    let leading = election(&client, "gone").campaign().await.unwrap();
    let late = Late::of(&leading).unwrap();
    leading.release().await.unwrap();
    assert_eq!(late.send().await.unwrap(), Err(LostReason::KeyMissing));
    assert_eq!(election(&client, "").leader().await.unwrap(), None);
}

/// The hand-over to it told the followers nothing, so they still see the leader before it.
#[tokio::test]
async fn followers_are_told_when_a_leader_resigns_before_it_was_proclaimed() {
    let client = Client::open("mem:").unwrap();
    let leading = election(&client, "first").campaign().await.unwrap();
    leading.proclaimed().await.unwrap();
    let mut observer = election(&client, "").observe();
    observer.changed().await.unwrap();
    assert_eq!(observer.current().unwrap().term, leading.term());
    let next = silent(&client);
    let next = tokio::spawn(async move { next.acquire().await });
    while client.inspect("job").await.unwrap().queue.is_empty() {
        tokio::task::yield_now().await;
    }
    leading.release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    let told = async {
        while observer.current().is_some() {
            observer.changed().await.unwrap();
        }
    };
    tokio::time::timeout(BEFORE_A_READ, told).await.unwrap();
}

/// The store's word on the token counts as that of a renewal, which would come much later.
#[tokio::test]
async fn a_leader_learns_from_its_proclamation_that_the_lease_is_gone() {
    let client = Client::open("mem:").unwrap();
    let lease = silent(&client).acquire().await.unwrap();
    let broken = client
        .break_lease("job", BreakOptions::default().now())
        .await;
    broken.unwrap();
    let leading = Lease::leads(lease, &"me".into());
    let told = leading.proclaimed().await.unwrap_err();
    assert!(matches!(told, LeaseError::Lost(_)), "{told:?}");
    assert!(!leading.is_held());
}

/// A task that waited for the end of its lease by a timer would stay long after a resignation.
#[tokio::test]
async fn a_leadership_that_is_over_leaves_no_task_behind() {
    let client = Client::open("mem:").unwrap();
    let tasks = || {
        let background = client.engine().started().unwrap();
        background.handle.metrics().num_alive_tasks()
    };
    let lead = async || {
        let leading = election(&client, "me").campaign().await.unwrap();
        leading.proclaimed().await.unwrap();
        leading.release().await.unwrap();
    };
    lead().await;
    let before = tasks();
    for _ in 0..20 {
        lead().await;
    }
    let ended = async {
        while tasks() > before {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(BEFORE_A_READ, ended).await.unwrap();
}

/// The record of the first campaign is due a day after it was written, and that of the second one later.
#[tokio::test]
async fn followers_read_the_value_of_the_latest_campaign_of_an_owner_for_the_whole_term() {
    let hours = |count: u64| Duration::from_secs(count * 3_600);
    let clock = Clock::manual();
    let client = Client::builder().url("mem:").clock(clock).open().unwrap();
    let me = client.owner("import 42");
    let campaign = async |value| {
        let leading = election(&client, value)
            .owner(&me)
            .campaign()
            .await
            .unwrap();
        leading.proclaimed().await.unwrap();
        leading
    };
    let first = campaign("first").await;
    first.extend(hours(12)).await.unwrap();
    let second = campaign("second").await;
    first.extend(hours(30)).await.unwrap();
    // The client's thread sends this later than what the extension was to send.
    let marker = client.election("marker").campaign().await.unwrap();
    marker.proclaimed().await.unwrap();
    let seen = election(&client, "").leader().await.unwrap().unwrap();
    assert_eq!((&*seen.value, seen.term), ("second", first.term()));
    second.release().await.unwrap();
    first.release().await.unwrap();
}

/// As a failover does between the grant and the proclamation.
#[cfg(feature = "redis")]
#[tokio::test]
async fn a_record_that_the_store_has_lost_is_written_again_over_the_next_connection() {
    let server = testkit::Server::start();
    let [leader, follower] = [(); 2].map(|()| Client::open(&server.url()).unwrap());
    let leading = election(&leader, "me").campaign().await.unwrap();
    leading.proclaimed().await.unwrap();
    server.cli(&["DEL", "{job}:ll:leader"]);
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    let is_seen = async {
        loop {
            let seen = election(&follower, "").leader().await;
            if seen.is_ok_and(|leader| leader.is_some()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await; // between two checks of a condition
        }
    };
    tokio::time::timeout(BEFORE_A_READ, is_seen).await.unwrap();
    leading.release().await.unwrap();
}

/// A request of the lease was cut off, so its end is a cancel: it may still come.
#[tokio::test]
async fn followers_are_told_when_a_leadership_is_cancelled() {
    let client = Client::open("mem:").unwrap();
    let leading = election(&client, "me").campaign().await.unwrap();
    leading.proclaimed().await.unwrap();
    let mut observer = election(&client, "").observe();
    observer.changed().await.unwrap();
    assert_eq!(observer.current().unwrap().term, leading.term());
    leading.undo().await.unwrap();
    let told = async {
        while observer.current().is_some() {
            observer.changed().await.unwrap();
        }
    };
    tokio::time::timeout(BEFORE_A_READ, told).await.unwrap();
}
