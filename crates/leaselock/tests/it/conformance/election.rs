//! Leader election.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leaselock::election::{Election, LeaderObserver};
use leaselock::inspect::BreakOptions;
use leaselock::lease::Leader;
use leaselock::{AcquireError, Client, Fence, Lease, LeaseView, RunError};
use tokio::task::JoinHandle;

use crate::engine::Engine;
use crate::support::{LONG, by_message, eventually, is_free, millis, soon, until_queued};

const NAME: &str = "scheduler";

fn election(client: &Client, value: &str) -> Election {
    client.election(NAME).ttl(LONG).value(value)
}

fn campaigner(client: &Client, value: &str) -> JoinHandle<Result<Lease<Leader>, AcquireError>> {
    let election = election(client, value);
    tokio::spawn(async move { election.campaign().await })
}

/// Who leads, by the value and the term.
type Shown = Option<(String, Fence)>;

fn shown(value: &str, leading: &Lease<Leader>) -> Shown {
    Some((value.to_owned(), leading.term()))
}

/// What an observer tells in the course of time.
struct Follower(LeaderObserver);

impl Follower {
    async fn of(client: &Client) -> Follower {
        let mut observer = client.election(NAME).observe();
        soon(observer.changed()).await.unwrap();
        Follower(observer)
    }

    fn sees(&self) -> Shown {
        let leader = self.0.current()?;
        Some((leader.value.clone(), leader.term))
    }

    /// Until this is told, without the help of a timer where messages arrive.
    async fn is_told(&mut self, engine: &Engine, wanted: Shown) {
        let told = async {
            while self.sees() != wanted {
                self.0.changed().await.unwrap();
            }
        };
        match engine.wakes() {
            true => by_message(told).await,
            false => soon(told).await,
        }
    }
}

async fn clients<const N: usize>(engine: &Engine) -> [Client; N] {
    let mut clients = Vec::new();
    for _ in 0..N {
        clients.push(engine.client_of_one_store().await);
    }
    clients.try_into().ok().unwrap()
}

pub(super) async fn followers_see_who_leads_and_a_resignation_makes_the_next_one_lead(
    engine: &Engine,
) {
    let [one, two, three] = clients(engine).await;
    let mut followers = [Follower::of(&three).await, Follower::of(&three).await];
    assert_eq!(followers[0].sees(), None);
    let first = soon(election(&one, "one").campaign()).await.unwrap();
    for follower in &mut followers {
        follower.is_told(engine, shown("one", &first)).await;
    }
    assert_eq!(followers[0].0.current().unwrap().client, one.id());
    let next = campaigner(&two, "two");
    until_queued(&one, NAME, 1).await;
    first.release().await.unwrap();
    let second = soon(next).await.unwrap().unwrap();
    soon(second.proclaimed()).await.unwrap();
    for follower in &mut followers {
        follower.is_told(engine, shown("two", &second)).await;
    }
    assert_eq!(second.value(), "two");
    // Who comes late reads the same.
    let leader = one.election(NAME).leader().await.unwrap().unwrap();
    assert_eq!(
        (leader.term, leader.client.as_str()),
        (second.term(), two.id())
    );
    if engine.lists {
        let names = three.list("*").await.unwrap();
        assert_eq!(names.len(), 1, "{names:?}"); // the record of the leader is no lock
    }
    second.release().await.unwrap();
}

/// However soon a leader resigns, and whether it was proclaimed by then or not: no client sees it afterwards.
pub(super) async fn a_leader_that_has_resigned_is_never_shown(engine: &Engine) {
    let [one, two] = clients(engine).await;
    let mut follower = Follower::of(&two).await;
    for _ in 0..20 {
        let leading = soon(election(&one, "gone").campaign()).await.unwrap();
        leading.release().await.unwrap();
        assert_eq!(two.election(NAME).leader().await.unwrap(), None);
    }
    follower.is_told(engine, None).await;
    let leading = soon(election(&one, "here").campaign()).await.unwrap();
    follower.is_told(engine, shown("here", &leading)).await;
    leading.release().await.unwrap();
}

pub(super) async fn terms_grow_from_leader_to_leader(engine: &Engine) {
    let [one, two] = clients(engine).await;
    let mut before = Fence::new(0);
    for client in [&one, &two, &one, &one] {
        let leading = soon(election(client, "me").campaign()).await.unwrap();
        assert!(leading.term() > before && leading.fence() == leading.term());
        before = leading.term();
        leading.release().await.unwrap();
    }
}

pub(super) async fn followers_are_told_that_nobody_leads(engine: &Engine) {
    let [one, two] = clients(engine).await;
    let mut follower = Follower::of(&two).await;
    for resigns in [true, false] {
        let leading = soon(election(&one, "one").campaign()).await.unwrap();
        follower.is_told(engine, shown("one", &leading)).await;
        match resigns {
            true => leading.release().await.unwrap(),
            false => drop(leading),
        }
        follower.is_told(engine, None).await;
    }
}

pub(super) async fn followers_are_told_when_the_lease_of_a_leader_ends_by_itself(engine: &Engine) {
    let [one, two] = clients(engine).await;
    let short = election(&one, "one").ttl(millis(2000)).renewal(false);
    let leading = soon(short.campaign()).await.unwrap();
    soon(leading.proclaimed()).await.unwrap();
    let mut follower = Follower::of(&two).await;
    assert!(follower.sees() == shown("one", &leading) || !leading.is_held());
    follower.is_told(engine, None).await;
    assert!(!leading.is_held());
}

pub(super) async fn a_campaign_that_is_dropped_leaves_nothing_in_line(engine: &Engine) {
    let [one, two] = clients(engine).await;
    let leading = soon(election(&one, "one").campaign()).await.unwrap();
    let late = election(&two, "two").campaign_within(millis(50)).await;
    assert!(matches!(late, Err(AcquireError::TimedOut { .. })));
    let next = campaigner(&two, "two");
    until_queued(&one, NAME, 1).await;
    next.abort();
    until_queued(&one, NAME, 0).await;
    assert!(leading.is_held());
    leading.release().await.unwrap();
    assert_eq!(two.election(NAME).leader().await.unwrap(), None);
}

/// The record of a task would otherwise be shown for the next one, which has the same token.
pub(super) async fn tasks_of_one_client_lead_one_after_the_other_each_with_its_value(
    engine: &Engine,
) {
    let [one, two] = clients(engine).await;
    let first = soon(election(&one, "first").campaign()).await.unwrap();
    let second = campaigner(&one, "second");
    until_queued(&two, NAME, 1).await;
    let third = campaigner(&one, "third");
    until_queued(&two, NAME, 2).await;
    let mut before = first.term();
    first.release().await.unwrap();
    let [second, third] = if engine.wakes() {
        [second, third]
    } else {
        // Without wake-ups the first that polls leads.
        eventually("one of them leads", async || {
            second.is_finished() || third.is_finished()
        })
        .await;
        if second.is_finished() {
            [second, third]
        } else {
            [third, second]
        }
    };
    for next in [second, third] {
        let leading = soon(next).await.unwrap().unwrap();
        soon(leading.proclaimed()).await.unwrap();
        let leader = two.election(NAME).leader().await.unwrap().unwrap();
        assert_eq!(
            (leader.value.as_str(), leader.term),
            (leading.value(), leading.term())
        );
        assert!(leading.term() > before);
        before = leading.term();
        leading.release().await.unwrap();
    }
}

pub(super) async fn a_leader_and_the_holder_of_the_mutex_exclude_each_other(engine: &Engine) {
    let [one, two] = clients(engine).await;
    let lease = soon(one.mutex(NAME).ttl(LONG).acquire()).await.unwrap();
    assert!(
        election(&two, "two")
            .try_campaign()
            .await
            .unwrap()
            .is_none()
    );
    let mut follower = Follower::of(&two).await;
    assert_eq!(follower.sees(), None); // it holds, and does not lead
    lease.release().await.unwrap();
    let leading = election(&two, "two").try_campaign().await.unwrap().unwrap();
    follower.is_told(engine, shown("two", &leading)).await;
    assert!(one.mutex(NAME).try_acquire().await.unwrap().is_none());
    assert!(one.rwlock(NAME).try_read().await.unwrap().is_none());
    leading.release().await.unwrap();
    let reader = one
        .rwlock(NAME)
        .ttl(LONG)
        .try_read()
        .await
        .unwrap()
        .unwrap();
    assert_eq!(one.election(NAME).leader().await.unwrap(), None);
    reader.release().await.unwrap();
}

pub(super) async fn a_body_runs_as_the_leader_and_is_stopped_when_the_lease_is_broken(
    engine: &Engine,
) {
    let [one, two] = clients(engine).await;
    let short = election(&one, "one").ttl(Duration::from_secs(1)); // a renewal finds out
    let term = short.run(async |leading| Ok::<_, Infallible>(leading.term()));
    assert!(term.await.unwrap() > Fence::new(0));
    let body = tokio::spawn(async move {
        let forever = |_| std::future::pending::<Result<(), Infallible>>();
        short.run(forever).await
    });
    eventually("it leads", async || {
        two.election(NAME).leader().await.unwrap().is_some()
    })
    .await;
    two.break_lease(NAME, BreakOptions::default())
        .await
        .unwrap();
    assert_eq!(two.election(NAME).leader().await.unwrap(), None);
    let stopped = soon(body).await.unwrap();
    assert!(matches!(stopped, Err(RunError::Lost(_))), "{stopped:?}");
}

pub(super) async fn a_candidate_leads_again_after_a_loss_until_it_is_told_to_stop(engine: &Engine) {
    let [one, two] = clients(engine).await;
    let short = election(&one, "one").ttl(Duration::from_secs(1)); // a renewal finds out
    let terms = Arc::new(Mutex::new(Vec::new()));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let led = Arc::clone(&terms);
    let leads = tokio::spawn(async move {
        let body = |leading: LeaseView<Leader>| {
            led.lock().unwrap().push(leading.term());
            std::future::pending::<Result<(), Infallible>>()
        };
        short.lead_until(stopped, body).await
    });
    eventually("it leads", async || terms.lock().unwrap().len() == 1).await;
    let taken = two.break_lease(NAME, BreakOptions::default()).await;
    taken.unwrap();
    eventually("it leads again", async || terms.lock().unwrap().len() == 2).await;
    let terms = terms.lock().unwrap().clone();
    assert!(terms[0] < terms[1], "{terms:?}");
    stop.send(()).unwrap();
    assert_eq!(soon(leads).await.unwrap().unwrap(), None);
    eventually("it has resigned", async || is_free(&two, NAME).await).await;
}

/// A helper that campaigns for what its caller leads already leads with it, and ends nothing when it resigns.
pub(super) async fn an_owner_that_leads_campaigns_again_and_leads_in_the_same_term(
    engine: &Engine,
) {
    let [one, two] = clients(engine).await;
    let me = one.owner("import 42");
    let leading = election(&one, "one").owner(&me).campaign().await.unwrap();
    leading.proclaimed().await.unwrap();
    let mut follower = Follower::of(&two).await;
    let again = election(&one, "one").owner(&me);
    let again = soon(again.campaign()).await.unwrap();
    assert_eq!(again.term(), leading.term());
    again.release().await.unwrap();
    leading.check().unwrap();
    let shown = two.election(NAME).leader().await.unwrap();
    assert_eq!(shown.map(|leader| leader.term), Some(leading.term()));
    leading.release().await.unwrap();
    follower.is_told(engine, None).await;
}

pub(super) async fn what_an_election_cannot_have_is_refused(engine: &Engine) {
    let [client] = clients(engine).await;
    for (wrong, right) in [
        (client.election(NAME).fencing(false), "fencing token"),
        (
            client.election(NAME).value("x".repeat(4097)),
            "at most 4096",
        ),
        (
            client
                .election(NAME)
                .protocol(leaselock::interop::Protocol::Redisson),
            "native",
        ),
        (client.election(""), "at least one byte"),
    ] {
        let refused = wrong.try_campaign().await.unwrap_err();
        assert!(matches!(refused, AcquireError::Invalid(_)), "{refused}");
        assert!(refused.to_string().contains(right), "{refused}");
    }
    let longest = client.election(NAME).value("é\n\0".repeat(1024));
    let leading = soon(longest.campaign()).await.unwrap();
    soon(leading.proclaimed()).await.unwrap();
    let seen = client.election(NAME).leader().await.unwrap().unwrap();
    assert_eq!(seen.value, leading.value());
    leading.release().await.unwrap();
    let mut observer = client.election("").observe();
    assert!(observer.changed().await.is_err());
}
