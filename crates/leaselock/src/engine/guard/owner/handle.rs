//! The owner: a value that acquisitions name, so that they may share what it holds.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard};

use super::holds::{Hold, Holds};
use crate::base::keyed_mutex::KeyedMutex;
use crate::base::{ClientId, InvalidInput, Ttl, debug_as, hold};
use crate::engine::guard::lease::PassOn;
use crate::engine::services::{Engine, Id, LeaseRecord};

/// A label is for people; longer text belongs in a log.
const LABEL_MAX: usize = 200;
/// No id of a client, of an owner or of a token is longer.
const PART_MAX: usize = 40;

/// A line of work that may acquire again what it holds: re-entrance, for those who ask for it.
///
/// An acquisition names its owner by `.owner(&me)`. When the owner holds that name already, the acquisition returns
/// another guard of the same lease, without a request. The lease is released when its last guard is released or
/// dropped, in any order and in any task.
///
/// | the owner holds | and acquires the mutex or `write()` | `read()` | permits |
/// |---|---|---|---|
/// | the mutex, or writes | another guard | another guard | [`Deadlock`](crate::AcquireError::Deadlock) |
/// | a read, also an [upgradable](crate::lease::Upgradable) one | [`Deadlock`](crate::AcquireError::Deadlock) | another guard, also while a writer waits | [`Deadlock`](crate::AcquireError::Deadlock) |
/// | permits | [`Deadlock`](crate::AcquireError::Deadlock) | [`Deadlock`](crate::AcquireError::Deadlock) | more permits, as for any other client |
///
/// An upgrade or a downgrade needs the only guard of its lease; the owner holds the name as before, in the new way.
///
/// Clones are the same owner; two owners with the same label are not. An owner is never a thread or a task: hand a clone
/// to each piece of code that may enter where another one is inside.
///
/// All guards of a lease have its fence, its deadline and its loss. The client renews it for the longest ttl that any
/// living guard asked for; the shortest `max_hold` of them ends it. A loss is the loss of all guards: until the last one
/// is dropped, the owner gets [`LostBefore`](crate::AcquireError::LostBefore) for that name.
///
/// An owner that waits while it holds something is searched for deadlocks: when owners wait for each other in a circle, one
/// of them gets [`Deadlock`](crate::AcquireError::Deadlock), or [`Unknown`](crate::AcquireError::Unknown) if the store did
/// not confirm that it has left the queue. Not on a majority of servers, which has no queue to read.
/// An owner is one line of execution for that: while it waits, no other task lets go of what it holds.
///
/// # Examples
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leaselock::Client::open("mem:")?;
/// let me = client.owner("import 42");
/// let mutex = client.mutex("accounts").owner(&me);
/// let outer = mutex.acquire().await?;
/// let inner = mutex.acquire().await?; // no request
/// assert_eq!(inner.fence(), outer.fence());
/// outer.release().await?; // the lock stays held
/// assert!(inner.is_held());
/// inner.release().await?; // now it is free
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Owner {
    pub(crate) state: Arc<OwnerState>,
}

/// The client and the digest of a token that is held.
pub(crate) type HeldToken = (String, String);

/// What the clones of an owner share.
pub(crate) struct OwnerState {
    pub(crate) client: ClientId,
    /// Its name among the owners of all clients.
    pub(crate) id: String,
    pub(crate) label: String,
    holds: Mutex<Holds>,
    /// What the owner holds in the process that has started this one.
    pub(crate) inherited: Vec<HeldToken>,
    /// One acquisition of a name at a time, so that no second one waits in the queue behind the first one's lease.
    pub(crate) turns: KeyedMutex,
    /// How many of its acquisitions wait while it holds something.
    pub(crate) waits: AtomicUsize,
}

impl OwnerState {
    pub(crate) fn holds(&self) -> MutexGuard<'_, Holds> {
        hold(&self.holds)
    }

    /// The client and the digest of each token that it holds until it lets go by itself.
    pub(crate) fn held(&self) -> Vec<HeldToken> {
        let mut held = self.holds().lasting();
        held.extend(self.inherited.iter().cloned());
        held
    }
}

impl Owner {
    /// `number`: another one for each owner of the client.
    pub(crate) fn new(client: &ClientId, number: u64, label: String) -> Self {
        let id = format!("{}/{number}", client.as_str());
        Owner::with(client, id, label, Vec::new())
    }

    fn with(client: &ClientId, id: String, label: String, inherited: Vec<HeldToken>) -> Self {
        Owner {
            state: Arc::new(OwnerState {
                client: client.clone(),
                id,
                label,
                holds: Mutex::default(),
                inherited,
                turns: KeyedMutex::default(),
                waits: AtomicUsize::new(0),
            }),
        }
    }

    /// Returns the label, which other programs may see.
    pub fn label(&self) -> &str {
        &self.state.label
    }

    /// Returns one line of text with which a process that this one starts, and waits for, is the same owner.
    ///
    /// For the search for deadlocks only: what this process holds is busy for the other one, but a wait for it is found
    /// to be in vain. The text has no secret in it. It names what is held now, as far as that is renewed. The other
    /// process reads it by `Client::inherit_owner`.
    pub fn to_inherit(&self) -> String {
        let held = self.state.held().into_iter();
        let held: Vec<String> = held
            .map(|(client, digest)| format!("{client}:{digest}"))
            .collect();
        format!("{} {} {}", self.state.id, held.join(","), self.label())
    }

    /// Reads what [`to_inherit`](Owner::to_inherit) wrote.
    pub(crate) fn inherit(client: &ClientId, text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ' ');
        let (id, held, label) = (parts.next()?, parts.next()?, parts.next()?);
        let is_plain = |text: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_-/".contains(c);
            !text.is_empty() && text.len() <= PART_MAX && text.chars().all(plain)
        };
        let token = |one: &str| {
            let (client, digest) = one.split_once(':')?;
            let whole = is_plain(client) && is_plain(digest);
            whole.then(|| (client.to_owned(), digest.to_owned()))
        };
        let held: Option<Vec<_>> = held
            .split(',')
            .filter(|one| !one.is_empty())
            .map(token)
            .collect();
        let owner = Owner::with(client, id.to_owned(), label.to_owned(), held?);
        (is_plain(id) && owner.check(client).is_ok()).then_some(owner)
    }

    /// Refuses an owner of another client, and a label that is no line of text.
    pub(crate) fn check(&self, client: &ClientId) -> Result<(), InvalidInput> {
        let label = self.label();
        if label.chars().count() > LABEL_MAX || label.chars().any(char::is_control) {
            return Err(InvalidInput::new(format!(
                "owner: at most {LABEL_MAX} characters and no control characters"
            )));
        }
        if self.state.client != *client {
            return Err(InvalidInput::new(format!(
                "the owner `{label}` is of another client: each client knows the holds of its own owners only"
            )));
        }
        Ok(())
    }
}

debug_as!(Owner, it => { label: it.label() });

pub(crate) struct Guard {
    owner: Arc<OwnerState>,
    key: Arc<str>,
    number: u64,
}

impl Guard {
    pub(crate) fn new(owner: &Arc<OwnerState>, key: &Arc<str>, number: u64) -> Self {
        Guard {
            owner: Arc::clone(owner),
            key: Arc::clone(key),
            number,
        }
    }

    /// Does something with its hold, if the owner still has it.
    fn with_hold<T>(&self, act: impl FnOnce(&mut Hold) -> T) -> Option<T> {
        self.owner.holds().of_guard(&self.key, self.number).map(act)
    }
}

impl PassOn for Guard {
    /// The other guards keep the lease, also one that is lost: the last of them gives back what the store still has.
    fn pass_on(self: Arc<Self>, engine: &Arc<Engine>, _: &Arc<LeaseRecord>, _: Id) -> bool {
        let mut holds = self.owner.holds();
        let Some(hold) = holds.remove(&self.key, self.number) else {
            return false;
        };
        hold.apply(engine);
        true
    }

    fn end_of(self: Arc<Self>, _: &Arc<LeaseRecord>) {
        self.owner.holds().remove(&self.key, self.number);
    }

    fn is_shared(&self) -> bool {
        self.with_hold(|hold| hold.is_shared()).unwrap_or_default()
    }

    fn set_changing(&self, changing: bool) -> bool {
        self.with_hold(|hold| hold.changing = changing);
        true
    }

    fn changed(&self, into: &Arc<LeaseRecord>, id: Id, late_requests: bool) {
        self.with_hold(|hold| hold.becomes(into, id, late_requests));
    }

    fn renewal_ttl(&self, asked: Ttl) -> Ttl {
        let renewed = self.with_hold(|hold| hold.extended(self.number, asked));
        renewed.unwrap_or(asked)
    }
}
