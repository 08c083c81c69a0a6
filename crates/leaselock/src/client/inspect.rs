//! Inspecting and breaking locks: which client holds what, and which clients wait.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::handle::{AnyClient, Client, on_every_client};
#[cfg(feature = "redis")]
use super::quorum::Quorum;
use super::views::{Break, Broke, Inspect, InspectedState, Survey};
use crate::base::error::{BreakError, InspectError, StoreError};
use crate::base::fence::Fence;
use crate::base::name;
use crate::base::name::Name;
use crate::base::token;
use crate::engine::core::Engine;
use crate::engine::identity::{Process, Who, tame};
use crate::script::keys::LockKeys;

const WITHIN: Duration = Duration::from_secs(2);
const WHY_MAX: usize = 200;

/// The state of one lock at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The lock's name, without the client's prefix.
    pub name: String,
    /// Whether it is held, and by which client.
    pub state: Holding,
    /// The waiters in queue order; the first 128.
    pub line: Vec<Waiter>,
    /// Damaged side keys that keep the lock from being granted: one sentence each, with the remedy.
    pub damaged: Vec<String>,
}

/// Whether a lock is held.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holding {
    /// No client holds it.
    Free,
    /// A client holds it.
    Held(Holder),
    /// The key holds a value that is not a lock, of this type. leaselock never touches it.
    NotALock {
        /// What the store calls its type, such as `hash`.
        kind: String,
    },
}

/// The holder of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// True if another library holds it: then only the remaining time is known.
    pub foreign: bool,
    /// The id of the client.
    pub client: Option<String>,
    /// The process, as it described itself; `None` when its record is gone.
    pub process: Option<Process>,
    /// The holder's note.
    pub why: Option<String>,
    /// The fencing token, `None` without fencing.
    ///
    /// The first one, when several were reserved for tasks of one client.
    pub fence: Option<Fence>,
    /// When the holder acquired it, by the store's clock, in milliseconds since 1970.
    pub since_unix_ms: Option<u64>,
    /// Time until the lease expires if it is not extended; `None` when it never does.
    pub remaining: Option<Duration>,
    /// A short hash of the holder's token, to tell one holder from another.
    pub digest: String,
}

impl Holder {
    /// Creates the holder of another library's lock, of which only the remaining time is known.
    pub(crate) fn foreign(remaining: Option<Duration>) -> Self {
        Holder {
            why: None,
            remaining,
            ..Holder::not_a_lock("")
        }
    }

    /// For [`holder`](crate::Mutex::holder): a value of another kind keeps the lock from being acquired.
    pub(crate) fn not_a_lock(kind: &str) -> Self {
        Holder {
            foreign: true,
            client: None,
            process: None,
            why: Some(format!(
                "something that is no lock lies there: a {}",
                tame(kind, 40)
            )),
            fence: None,
            since_unix_ms: None,
            remaining: None,
            digest: String::new(),
        }
    }
}

/// One position in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// The position; 1 is next.
    pub place: usize,
    /// The id of the client.
    pub client: String,
    /// The process, as it described itself.
    pub process: Option<Process>,
    /// Its priority; a larger one is served first.
    pub priority: i32,
}

/// Conditions for [`break_lease`](crate::Client::break_lease).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakOptions {
    /// Break only the grant with this fencing token: the holder may have changed since an inspection.
    pub only_fence: Option<Fence>,
    /// True to break a lock of another library too.
    pub foreign: bool,
}

impl BreakOptions {
    /// Breaks only the grant with this fencing token.
    #[must_use]
    pub fn only(mut self, fence: Fence) -> Self {
        self.only_fence = Some(fence);
        self
    }

    /// Breaks a lock of another library too.
    #[must_use]
    pub fn foreign(mut self, allowed: bool) -> Self {
        self.foreign = allowed;
        self
    }
}

/// The holder whose lease was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakOutcome {
    /// The id of the client; `None` for another library.
    pub client: Option<String>,
    /// The process, as it described itself.
    pub process: Option<Process>,
    /// The fencing token of the broken grant, the first one when several were reserved.
    ///
    /// The next grant's is larger than all of them; make the protected resource refuse these.
    pub fence: Option<Fence>,
}

/// Reads each client's record once.
struct People<'a> {
    engine: &'a Engine,
    known: HashMap<String, Option<Process>>,
}

impl People<'_> {
    fn of(engine: &Engine) -> People<'_> {
        People {
            engine,
            known: HashMap::new(),
        }
    }

    async fn find(&mut self, client: &str) -> Result<Option<Process>, StoreError> {
        if let Some(process) = self.known.get(client) {
            return Ok(process.clone());
        }
        let record = self.engine.record_of(client);
        let process = self.engine.ask(&Who { record: &record }, WITHIN).await?;
        self.known.insert(client.to_owned(), process.clone());
        Ok(process)
    }
}

on_every_client! {
    /// Shows which client holds a name, why, since when, and which clients wait for it.
    ///
    /// On a quorum, the holder is the client with the votes of a majority. A quorum has no queue and shows no waiters.
    ///
    /// # Cancel safety
    /// Safe: the call only reads.
    ///
    /// # Errors
    /// [`InspectError`] when the name is bad or the store, or a majority, does not reply.
    pub async fn inspect(&self, name: &str) -> Result<Inspection, InspectError> {
        inspect(&self.state.engine, &Name::new(name)?).await
    }

    /// Takes a lock away from its holder, as an operator; on a quorum on every node that replies.
    ///
    /// The next waiter in the queue gets it in the same step. On a quorum no waiter is woken, and waiters poll after
    /// five seconds at most. The holder learns of the break at its next renewal and may act until then: only fencing
    /// protects against that.
    ///
    /// # Cancel safety
    /// When dropped, it may have happened, on a quorum possibly on some nodes only.
    ///
    /// # Errors
    /// [`BreakError`] says why nothing was broken.
    pub async fn break_lease(
        &self,
        name: &str,
        terms: BreakOptions,
    ) -> Result<BreakOutcome, BreakError> {
        break_lease(&self.state.engine, &Name::new(name)?, terms).await
    }
}

impl Client {
    /// Lists every held lock of leaselock that matches a glob pattern, in no order.
    ///
    /// The pattern knows `*`, `?` and `[…]`. Locks of other libraries cannot be told from other keys; ask
    /// [`inspect`](Client::inspect) for them by name.
    ///
    /// Uses `SCAN`: a lock that is acquired or released meanwhile may or may not be in the list.
    ///
    /// # Cancel safety
    /// Safe: the call only reads.
    ///
    /// # Errors
    /// [`InspectError`] when the store does not reply.
    pub async fn list(&self, pattern: &str) -> Result<Vec<Inspection>, InspectError> {
        list(self.engine(), pattern).await
    }
}

pub(crate) async fn inspect(engine: &Arc<Engine>, name: &Name) -> Result<Inspection, InspectError> {
    look(engine, name, &mut People::of(engine)).await
}

async fn look(
    engine: &Engine,
    name: &Name,
    people: &mut People<'_>,
) -> Result<Inspection, InspectError> {
    let keys = LockKeys::new(&engine.prefix, name)?;
    let seen = engine.ask(&Inspect { keys: &keys }, WITHIN).await?;
    let state = match seen.state {
        InspectedState::Free => Holding::Free,
        InspectedState::Other { kind } => Holding::NotALock {
            kind: tame(&kind, 40),
        },
        InspectedState::Held {
            value,
            pttl_ms,
            fence,
            why,
        } => {
            let client = token::client_of(&value).map(str::to_owned);
            let process = match &client {
                Some(client) => people.find(client).await?,
                None => None,
            };
            Holding::Held(Holder {
                foreign: client.is_none(),
                client,
                process,
                why: Some(tame(&String::from_utf8_lossy(&why), WHY_MAX))
                    .filter(|why| !why.is_empty()),
                fence,
                since_unix_ms: fence.map(|fence| fence.get() / 1000),
                remaining: pttl_ms.map(Duration::from_millis),
                digest: token::digest(&value),
            })
        }
    };
    let mut line = Vec::with_capacity(seen.line.len());
    for (index, (client, priority)) in seen.line.into_iter().enumerate() {
        let process = people.find(&client).await?;
        line.push(Waiter {
            place: index + 1,
            client,
            process,
            priority,
        });
    }
    Ok(Inspection {
        name: name.as_str().to_owned(),
        state,
        line,
        damaged: seen.damaged,
    })
}

pub(crate) async fn list(
    engine: &Arc<Engine>,
    pattern: &str,
) -> Result<Vec<Inspection>, InspectError> {
    let whole = format!("{}{pattern}", escaped(&engine.prefix));
    if pattern.is_empty() || whole.len() > 1024 || whole.chars().any(char::is_control) {
        let message =
            "a pattern has 1 to 1024 bytes and no control characters; `*` is every lock".to_owned();
        return Err(crate::base::error::InvalidInput::new(message).into());
    }
    let mut people = People::of(engine);
    let mut found = HashMap::new();
    let mut cursor = 0;
    loop {
        let (next, candidates) = engine.store.scan(cursor, &whole, WITHIN).await?;
        for key in locks_among(engine, &candidates).await? {
            let name = key
                .strip_prefix(&engine.prefix)
                .and_then(|name| Name::new(name).ok());
            let Some(name) = name.filter(|name| !found.contains_key(name.as_str())) else {
                continue;
            };
            let inspection = look(engine, &name, &mut people).await?;
            if inspection.state != Holding::Free {
                found.insert(inspection.name.clone(), inspection);
            }
        }
        cursor = next;
        if cursor == 0 {
            return Ok(found.into_values().collect());
        }
    }
}

/// Leaves out keys that cannot be names, before any request about them.
async fn locks_among(engine: &Engine, candidates: &[String]) -> Result<Vec<String>, StoreError> {
    let possible: Vec<String> = candidates
        .iter()
        .filter(|key| name::check_key(key).is_ok())
        .cloned()
        .collect();
    let mut locks = Vec::new();
    for page in possible.chunks(engine.store.capabilities().keys_per_call.max(1)) {
        let places = engine.ask(&Survey { candidates: page }, WITHIN).await?;
        locks.extend(
            places
                .into_iter()
                .filter_map(|place| page.get(place).cloned()),
        );
    }
    Ok(locks)
}

/// Escapes the prefix, which is text and not a pattern.
fn escaped(prefix: &str) -> String {
    prefix
        .chars()
        .flat_map(|c| {
            matches!(c, '*' | '?' | '[' | ']' | '\\' | '^')
                .then_some('\\')
                .into_iter()
                .chain([c])
        })
        .collect()
}

pub(crate) async fn break_lease(
    engine: &Arc<Engine>,
    name: &Name,
    terms: BreakOptions,
) -> Result<BreakOutcome, BreakError> {
    let keys = LockKeys::new(&engine.prefix, name)?.behind(engine.gate());
    let step = Break {
        keys: &keys,
        only: terms.only_fence,
        foreign: terms.foreign,
    };
    let name = || name.clone();
    match engine.ask(&step, WITHIN).await? {
        Broke::Broken { holder, fence } => {
            let process = match &holder {
                Some(client) => People::of(engine).find(client).await.unwrap_or_default(),
                None => None,
            };
            Ok(BreakOutcome {
                client: holder,
                process,
                fence,
            })
        }
        Broke::Free => Err(BreakError::NotHeld { name: name() }),
        Broke::Foreign => Err(BreakError::Foreign { name: name() }),
        Broke::Changed { fence } => Err(BreakError::Changed {
            name: name(),
            fence,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_never_a_pattern() {
        assert_eq!(escaped("a*b?[c]^\\:"), "a\\*b\\?\\[c\\]\\^\\\\:");
    }
}
