//! The search for a deadlock, which a waiter makes for itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::Name;
use tokio::sync::Notify;

use super::calls::{InspectHolds, InspectedHolds, Waits, WakeVictim};
use super::graph::{Circle, Digest, Graph, GraphWait};
use super::published::Published;
use crate::base::StoreError;
use crate::base::error::Link;
use crate::base::process::tame;
use crate::engine::guard::owner::OwnerState;
use crate::engine::services::Engine;
use crate::script::{LockKeys, keys};

/// The second check follows soon: the other side of a circle may have come at the same moment.
const SECOND_CHECK: Duration = Duration::from_secs(1);
/// A detector that runs only when a wait begins sleeps in a system in which all wait.
const LATER_CHECKS: Duration = Duration::from_secs(5);
/// An owner of another process may be free within this time: a job that left a process behind ends meanwhile.
const FIRST_CHECK_OF_AN_HEIR: Duration = Duration::from_secs(2);
/// How often others leave it to the victim to find out.
const LEFT_TO_THE_VICTIM: u32 = 2;
/// A search that meets more locks finds nothing.
const LOCKS_MAX: usize = 64;
const LABEL_MAX: usize = 200;

/// Finds a circle that one waiting owner is in.
pub(crate) struct Detector {
    engine: Arc<Engine>,
    published: Published,
    within: Duration,
    left_to_the_victim: u32,
}

/// One reading, with the tokens of the waiters, which are secrets.
struct Reading {
    graph: Graph,
    tokens: BTreeMap<Digest, String>,
}

impl Detector {
    /// Creates it for the waiter `digest`; `None` for an owner that holds nothing that lasts.
    pub(crate) fn new(
        engine: &Arc<Engine>,
        owner: &Arc<OwnerState>,
        lock: &str,
        digest: Digest,
        within: Duration,
    ) -> Option<Self> {
        let wait = GraphWait {
            owner: owner.id.clone(),
            label: owner.label.clone(),
            lock: lock.to_owned(),
            waiter: digest,
        };
        Some(Detector {
            engine: Arc::clone(engine),
            published: Published::new(engine, owner, wait, within)?,
            within,
            left_to_the_victim: 0,
        })
    }

    /// Ends when this owner is in a circle and must let go. `polled`: the waiter is in the queue, or has polled again.
    pub(crate) async fn run(&mut self, polled: &Notify) -> Vec<Link> {
        polled.notified().await;
        if self.published.is_inherited() {
            self.engine.clock.sleep(FIRST_CHECK_OF_AN_HEIR).await;
        }
        let (mut pause, mut by_timer) = (SECOND_CHECK, false);
        loop {
            match self.check(by_timer).await {
                Ok(Some(circle)) => return circle,
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(target: "leaselock", %error, "a search for a deadlock failed")
                }
            }
            let next = self.engine.clock.now().plus(pause);
            tokio::select! {
                () = polled.notified() => by_timer = false,
                () = self.engine.clock.sleep_until(next) => (pause, by_timer) = (LATER_CHECKS, true),
            }
        }
    }

    /// Reads twice, because only what is the same in both readings was so at one moment.
    async fn check(&mut self, by_timer: bool) -> Result<Option<Vec<Link>>, StoreError> {
        if !self.published.publish().await? {
            return Ok(None);
        }
        let me = self.published.wait().owner.clone();
        let first = self.read().await?;
        if first.graph.circle_of(&me).is_none() {
            return Ok(None);
        }
        let second = self.read().await?;
        let graph = first.graph.common(&second.graph);
        let Some(circle) = graph.circle_of(&me) else {
            return Ok(None);
        };
        if circle.victim != me && self.left_to_the_victim < LEFT_TO_THE_VICTIM {
            self.left_to_the_victim += u32::from(by_timer);
            self.wake(&graph, &circle, &second.tokens).await?;
            return Ok(None);
        }
        Ok(self.links(&graph, &circle))
    }

    /// Reads the lock that is waited for, what the owners of its holds wait for, and so on.
    async fn read(&self) -> Result<Reading, StoreError> {
        let (mut graph, mut tokens) = (Graph::default(), BTreeMap::new());
        let mut open = vec![self.published.wait().lock.clone()];
        while let Some(lock) = open.pop() {
            if graph.locks.contains_key(&lock) || graph.locks.len() == LOCKS_MAX {
                continue; // a lock that was not read counts as free
            }
            let keys = LockKeys::at(lock.as_str().into());
            let inspect = InspectHolds { keys: &keys };
            let InspectedHolds {
                lock: seen,
                tokens: waiting,
            } = self.engine.store.ask_one(&inspect, self.within).await?;
            let mut by_client = BTreeMap::<&str, Vec<Digest>>::new();
            for hold in seen.holds.iter().filter(|hold| !hold.client.is_empty()) {
                by_client
                    .entry(&hold.client)
                    .or_default()
                    .push(hold.digest.clone());
            }
            for (client, held) in by_client {
                let owners = keys::client_owners(&self.engine.ids.prefix, client);
                let waits = Waits {
                    owners: &owners,
                    held: &held,
                };
                let waits = self.engine.store.ask_one(&waits, self.within).await?;
                for (digest, wait) in held.into_iter().zip(waits) {
                    let Some(wait) = wait.filter(|wait| self.name(&wait.lock).is_some()) else {
                        continue;
                    };
                    open.push(wait.lock.clone());
                    graph.waits.insert(digest, wait);
                }
            }
            tokens.extend(seen.queue.iter().map(|one| one.digest.clone()).zip(waiting));
            graph.locks.insert(lock, seen);
        }
        Ok(Reading { graph, tokens })
    }

    /// Wakes the victim, which then searches for itself.
    async fn wake(
        &self,
        graph: &Graph,
        circle: &Circle,
        tokens: &BTreeMap<Digest, String>,
    ) -> Result<(), StoreError> {
        let wait = graph.wait_of(&circle.victim);
        let Some((wait, token)) = wait.and_then(|wait| Some((wait, tokens.get(&wait.waiter)?)))
        else {
            return Ok(());
        };
        let keys = LockKeys::at(wait.lock.as_str().into());
        let wake = WakeVictim { keys: &keys, token };
        self.engine.store.ask_one(&wake, self.within).await
    }

    /// The name of a lock that another client has published.
    fn name(&self, lock: &str) -> Option<Name> {
        Name::new(lock.strip_prefix(&self.engine.ids.prefix)?).ok()
    }

    /// The circle for people; `None` when a part of it is not known.
    fn links(&self, graph: &Graph, circle: &Circle) -> Option<Vec<Link>> {
        let mut links = Vec::new();
        let before = circle.owners.iter().cycle().skip(circle.owners.len() - 1);
        for (owner, before) in circle.owners.iter().zip(before) {
            let wait = graph.wait_of(owner)?;
            let held = &graph.wait_of(before)?.lock;
            let is_theirs = |digest: &Digest| {
                graph
                    .waits
                    .get(digest)
                    .is_some_and(|wait| wait.owner == *owner)
            };
            let holds = &graph.locks.get(held)?.holds;
            let hold = holds.iter().find(|hold| is_theirs(&hold.digest))?;
            let waited_us = graph.locks.get(&wait.lock)?.now_us;
            let waited_us = waited_us.saturating_sub(graph.waiter_of(owner)?.ticket);
            links.push(Link {
                owner: tame(&wait.label, LABEL_MAX),
                client: hold.client.clone(),
                holds: self.name(held)?,
                waits_for: self.name(&wait.lock)?,
                since: Duration::from_micros(waited_us),
            });
        }
        Some(links)
    }
}
