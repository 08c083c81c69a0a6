//! Inspecting and breaking locks: which client holds what, and which clients wait.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use leaselock_fence::{Fence, Name};

use super::handle::Client;
use super::inspection::{BreakOptions, BreakOutcome, Holder, Holding, Inspection, Waiter};
use super::views::{Break, BreakRedisson, Broke, Inspect, Inspected, InspectedState, SeenHold};
use crate::base::error::{BreakError, RequestError};
use crate::base::process::{Process, tame};
use crate::base::{StoreError, clock, token};
use crate::engine::services::{Engine, OPERATOR_WITHIN};
use crate::engine::values::{LockMode, LogEvent};
use crate::interop::Protocol;
use crate::interop::protocol::{custom::wake_one, redisson};
use crate::script::damage::Types;
use crate::script::{LockKeys, keys};

const WHY_MAX: usize = 200;

/// Reads each client's record once.
pub(super) struct Processes<'a> {
    engine: &'a Engine,
    known: HashMap<String, Process>,
}

impl Processes<'_> {
    pub(super) fn of(engine: &Engine) -> Processes<'_> {
        Processes {
            engine,
            known: HashMap::new(),
        }
    }

    /// Reads the records of these clients, all at once.
    pub(super) async fn learn(
        &mut self,
        clients: impl Iterator<Item = &str>,
    ) -> Result<(), StoreError> {
        let clients: HashSet<&str> = clients.collect();
        let new = clients
            .into_iter()
            .filter(|it| !self.known.contains_key(*it));
        let found = join_all(new.map(|client| self.engine.who(client, OPERATOR_WITHIN))).await;
        for process in found {
            let process = process?;
            self.known.insert(process.client.clone(), process);
        }
        Ok(())
    }

    pub(super) fn all(self) -> impl Iterator<Item = Process> {
        self.known.into_values()
    }

    fn find(&self, client: &str) -> Process {
        let known = self.known.get(client).cloned();
        known.unwrap_or_else(|| Process::unknown(client.to_owned()))
    }
}

impl Client {
    /// Shows which client holds a name, why, since when, and which clients wait for it.
    ///
    /// On a quorum, the holder is the client with the votes of a majority. A quorum has no queue and shows no waiters.
    ///
    /// # Errors
    /// [`RequestError`] when the name is bad or the store, or a majority, does not reply.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::inspect::Holding;
    ///
    /// let inspection = client.inspect("invoices").await?;
    /// match inspection.state {
    ///     Holding::Free => println!("it is free"),
    ///     Holding::Held { holders, count, .. } => {
    ///         println!("{count} hold it; the first is {:?}", holders[0].process);
    ///     }
    ///     _ => println!("the key is not a lock"),
    /// }
    /// println!("{} wait", inspection.queue.len());
    /// # Ok(()) }
    /// ```
    pub async fn inspect(&self, name: &str) -> Result<Inspection, RequestError> {
        inspect(&self.state.engine, &Name::new(name)?).await
    }

    /// Takes a lock away from its holder, as an operator.
    ///
    /// The store refuses each further renewal, and tells the holder, whose lease is lost from then on
    /// ([`LostReason::Broken`](crate::LostReason::Broken)). A holder that waits for no lock of this store hears of it by
    /// its next renewal. The next waiter in the queue gets the lock when the holder has released it, and when its lease
    /// ends at the latest. So no two hold it at the same time.
    ///
    /// With [`now`](BreakOptions::now) the next waiter gets it in the same step, although the holder may work on until it
    /// hears of the break: only fencing protects against that.
    ///
    /// All readers, or all holders of permits, lose it together, unless [`only`](BreakOptions::only) names one grant. On
    /// a quorum every node that replies breaks it; no waiter is woken there, and waiters poll after five seconds at most.
    ///
    /// The [event log](Client::log) says who broke it, and [why](BreakOptions::because).
    ///
    /// # Cancel safety
    /// When dropped, it may have happened, on a quorum possibly on some nodes only.
    ///
    /// # Errors
    /// [`BreakError`] says why nothing was broken, or with `Unknown` that it may have been.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::inspect::BreakOptions;
    ///
    /// # let lease = client.mutex("invoices").acquire().await?;
    /// let seen = lease.fence().expect("locks have fencing tokens unless switched off");
    /// let broken = client.break_lease("invoices", BreakOptions::default().only(seen)).await?;
    /// println!("taken from {:?}", broken.process);
    /// # Ok(()) }
    /// ```
    pub async fn break_lease(
        &self,
        name: &str,
        terms: BreakOptions,
    ) -> Result<BreakOutcome, BreakError> {
        break_lease(&self.state.engine, &Name::new(name)?, terms).await
    }
}

pub(crate) async fn inspect(engine: &Arc<Engine>, name: &Name) -> Result<Inspection, RequestError> {
    let keys = LockKeys::new(&engine.ids.prefix, name)?;
    let inspect = Inspect { keys: &keys };
    let seen = engine.ask(&inspect, OPERATOR_WITHIN).await?;
    let mut processes = Processes::of(engine);
    processes.learn(seen.clients()).await?;
    let mut seen = shown(name, seen, &processes);
    if !engine.store.is_majority() {
        let types = Types::beside(&keys);
        let found = engine.store.ask_one(&types, OPERATOR_WITHIN).await?;
        let mut damaged = types.damage(&found);
        damaged.retain(|one| !seen.damaged.contains(one));
        seen.damaged.append(&mut damaged);
    }
    Ok(seen)
}

/// What was read, with the processes of its clients, which are known.
pub(super) fn shown(name: &Name, seen: Inspected, processes: &Processes<'_>) -> Inspection {
    let kind = seen.state.kind();
    let state = match seen.state {
        InspectedState::Free => Holding::Free,
        InspectedState::Shared { holds, count } => {
            let holders = holds
                .into_iter()
                .map(|hold| holder(hold, processes))
                .collect();
            Holding::Held { holders, count }
        }
        InspectedState::Other { kind } => Holding::NotALock {
            kind: tame(&kind, 40),
        },
        InspectedState::Held(hold) => Holding::by(holder(hold, processes)),
    };
    let queue = seen.queue.into_iter().zip(1..);
    let queue = queue.map(|(waiter, position)| Waiter {
        position,
        process: processes.find(&waiter.client),
        priority: waiter.priority,
        mode: waiter.mode,
        waited: waiter.waited,
    });
    Inspection {
        name: name.as_str().to_owned(),
        state,
        kind,
        queue: queue.collect(),
        waiter_count: seen.waiter_count,
        permits: seen.permits,
        damaged: seen.damaged,
    }
}

fn holder(hold: SeenHold, processes: &Processes<'_>) -> Holder {
    // Readers share a fencing token, which says nothing of the time of each.
    let is_read = matches!(hold.mode, LockMode::Shared | LockMode::Upgradable);
    let note = tame(&String::from_utf8_lossy(&hold.why), WHY_MAX);
    Holder {
        mode: hold.mode,
        process: token::client_of(&hold.value).map(|client| processes.find(client)),
        note: Some(note).filter(|note| !note.is_empty()),
        fence: hold.fence,
        since: hold.fence.filter(|_| !is_read).and_then(since),
        remaining: hold.pttl_ms.map(Duration::from_millis),
        digest: token::digest(&hold.value),
        broken: token::is_broken(&hold.value),
    }
}

/// A fencing token is about the server's microseconds at the grant.
fn since(fence: Fence) -> Option<SystemTime> {
    clock::from_unix_ms(fence.get() / 1000)
}

pub(crate) async fn break_lease(
    engine: &Arc<Engine>,
    name: &Name,
    terms: BreakOptions,
) -> Result<BreakOutcome, BreakError> {
    terms.protocol.check(engine)?;
    let keys = LockKeys::new(&engine.ids.prefix, name)?.behind(engine.gate());
    let broke = match terms.protocol {
        Protocol::Redisson => break_redisson(engine, &keys.lock, &terms).await,
        protocol => {
            let broke = break_native(engine, &keys, &terms).await;
            if matches!(broke, Ok(Broke::Broken { rest_ms: 0, .. })) {
                wake_one(protocol, &engine.store, &engine.ids.prefix, &keys.lock).await;
            }
            broke
        }
    };
    let broke = broke.map_err(|error| BreakError::from_store(name, error))?;
    let own_name = name.clone();
    match broke {
        Broke::Broken {
            holder,
            fence,
            count,
            rest_ms,
        } => {
            let operator = terms.operator;
            let by = operator.unwrap_or_else(|| engine.ids.record.about().to_string());
            let event = LogEvent::new("broken", terms.reason.unwrap_or_default());
            let event = event.of(name, fence).by(by);
            engine.log.write(&event).await;
            let is_left = |client: &String| engine.store.only_job_lives(client);
            let lasts_with_job = rest_ms > 0 && holder.as_ref().is_some_and(is_left);
            let process = match &holder {
                Some(client) => {
                    let found = engine.who(client, OPERATOR_WITHIN).await;
                    Some(found.unwrap_or_else(|_| Process::unknown(client.clone())))
                }
                None => None,
            };
            Ok(BreakOutcome {
                count,
                process,
                fence,
                remaining: Some(Duration::from_millis(rest_ms)).filter(|rest| !rest.is_zero()),
                lasts_with_job,
            })
        }
        Broke::Free => Err(BreakError::NotHeld { name: own_name }),
        Broke::Foreign => Err(BreakError::Foreign { name: own_name }),
        Broke::Changed { fence } => Err(BreakError::Mismatch {
            name: own_name,
            ours: terms.only_fence,
            theirs: fence,
        }),
    }
}

async fn break_native(
    engine: &Engine,
    keys: &LockKeys,
    terms: &BreakOptions,
) -> Result<Broke, StoreError> {
    let at_node = engine.store.subscriptions_at(&keys.lock);
    let sharded = at_node.map(|(_, sharded)| sharded);
    let step = Break {
        keys,
        terms: terms.clone(),
        channel: &keys::wake_channels(&engine.ids.prefix),
        ends: &keys::wake_channel_ends(&keys.lock, sharded),
    };
    engine.ask(&step, OPERATOR_WITHIN).await
}

/// Its holders are another library's, and have no fencing token.
async fn break_redisson(
    engine: &Engine,
    lock: &str,
    terms: &BreakOptions,
) -> Result<Broke, StoreError> {
    let may = terms.at_once && terms.foreign && terms.only_fence.is_none();
    let channel = &redisson::channel(lock);
    let step = BreakRedisson { lock, channel, may };
    match engine.store.ask_one(&step, OPERATOR_WITHIN).await? {
        Broke::Foreign if terms.only_fence.is_some() => Ok(Broke::Changed { fence: None }),
        broke => Ok(broke),
    }
}
