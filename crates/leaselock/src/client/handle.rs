//! The client: one store, one identity, one background thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::state::{ClientState, CloseReport};
use crate::base::error::{InvalidInput, StoreError};
use crate::engine::guard::lease::LeaseView;
use crate::engine::guard::owner::Owner;
use crate::engine::services::core::Engine;
use crate::store::report::Report;

/// A connection to a store, under one identity. Cheap to clone; clones share everything.
///
/// Building a client sends nothing, so it does not fail because a server is down; the first operation does.
/// The async methods need a tokio runtime with I/O and time; `leaselock::blocking` needs none.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) state: Arc<ClientState>,
}

/// A [`Client`] or a [`Quorum`](crate::Quorum), with the methods that both have: a mutex, and no read-write lock or semaphore.
///
/// For programs whose configuration names one store or several.
///
/// ```
/// use leaselock::error::InvalidInput;
/// use leaselock::{AnyClient, Client, Quorum};
///
/// fn connect(urls: &[String]) -> Result<AnyClient, InvalidInput> {
///     match urls {
///         [url] => Client::connect(url).map(AnyClient::from),
///         several => Quorum::connect(several).map(AnyClient::from),
///     }
/// }
/// # assert!(connect(&["mem:".to_owned()]).is_ok());
/// ```
#[derive(Debug, Clone)]
pub struct AnyClient {
    pub(crate) state: Arc<ClientState>,
}

/// Counters of what a client has observed; see [`Client::stats`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// How often the store's clock was seen to jump against ours.
    ///
    /// Leases that were held then ended early or late on the store. Each time, the client verified all its leases at
    /// once.
    pub clock_jumps: u64,
    /// Milliseconds of the last jump: forward, or back when below zero. `None` when there was none.
    pub last_clock_jump_ms: Option<i64>,
}

/// Writes methods that all clients have, once for each type of client.
macro_rules! on_every_client {
    ($($methods:tt)*) => {
        impl $crate::client::Client { $($methods)* }
        #[cfg(feature = "redis")]
        impl $crate::client::quorum::Quorum { $($methods)* }
        impl $crate::client::AnyClient { $($methods)* }
    };
}
pub(crate) use on_every_client;

on_every_client! {
    /// Returns this client's id, as others see it. Not a secret.
    pub fn id(&self) -> &str {
        self.state.engine.ids.client.as_str()
    }

    /// Names the store, for messages and logs: the URLs without user and password, or the folder.
    pub fn store(&self) -> String {
        self.state.engine.store.describe()
    }

    /// Creates an owner, which may acquire again what it holds. See [`Owner`].
    ///
    /// The label is for people: at most 200 characters, no secret. The first acquisition reports a bad one.
    pub fn owner(&self, label: impl Into<String>) -> Owner {
        let engine = &self.state.engine;
        let number = engine.ids.owners.fetch_add(1, Ordering::Relaxed);
        Owner::new(&engine.ids.client, number, label.into())
    }

    /// Returns the owner of the process that has started this one, by what its [`to_inherit`](Owner::to_inherit) says.
    ///
    /// Only when that process waits for this one: it then cannot let go of what it holds while this one waits.
    ///
    /// # Errors
    /// [`InvalidInput`] when the text is not such a line.
    pub fn inherit_owner(&self, text: &str) -> Result<Owner, InvalidInput> {
        let says = "this is not the line of an owner; one is what `to_inherit` returns";
        let owner = Owner::inherit(&self.state.engine.ids.client, text);
        owner.ok_or_else(|| InvalidInput::new(says))
    }

    /// Lists the leases that this client holds, oldest first.
    pub fn held(&self) -> Vec<LeaseView> {
        self.state.held()
    }

    /// Examines the store, and states what the set-up can promise and what it cannot.
    ///
    /// Version, persistence, eviction, role, clock, file system, and whether each is fit for locks. For Sentinels:
    /// whether they can choose another primary, and whether leases of the default ttl would outlive that. For a quorum:
    /// all of it for every node, and whether each votes and is a server of its own. Jumps of the store's clock that this
    /// client has seen are reported too.
    ///
    /// # Errors
    /// [`StoreError`] when the store does not reply. A node of a quorum that does not reply is a finding; it is an
    /// error when none does.
    pub async fn doctor(&self) -> Result<Report, StoreError> {
        self.state.doctor().await
    }

    /// Finishes the cleanup of dropped leases and cancelled acquisitions, in a few seconds at most.
    ///
    /// New acquisitions are refused from here on; leases that are held stay held. What nodes of a quorum that are down
    /// have not confirmed ends there by itself at its ttl.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::connect("mem:")?;
    /// # drop(client.mutex("invoices").acquire().await?);
    /// let report = client.close().await; // before the process exits
    /// if report.unconfirmed > 0 {
    ///     println!("{} leases end at their ttl", report.unconfirmed);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn close(&self) -> CloseReport {
        self.state.close().await
    }
}

impl Client {
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.state.engine
    }

    /// Returns what this client has come across since it was built.
    pub fn stats(&self) -> Stats {
        Stats {
            clock_jumps: self.engine().clock_watch.jumps(),
            last_clock_jump_ms: self.engine().clock_watch.last_ms(),
        }
    }

    /// Returns a descriptor that a child process can inherit to keep this client's leases.
    ///
    /// As long as it is open anywhere, a lease of this client in a folder store stays held, even when this process is
    /// gone, as with flock(1). `None` on other stores.
    pub fn session_descriptor(&self) -> Option<std::os::fd::OwnedFd> {
        self.engine().store.session_descriptor()
    }
}

impl AnyClient {
    /// As [`Client::session_descriptor`]; `None` for a quorum.
    pub fn session_descriptor(&self) -> Option<std::os::fd::OwnedFd> {
        self.state.engine.store.session_descriptor()
    }
}

impl From<Client> for AnyClient {
    fn from(client: Client) -> Self {
        AnyClient {
            state: client.state,
        }
    }
}

#[cfg(feature = "redis")]
impl From<super::quorum::Quorum> for AnyClient {
    fn from(quorum: super::quorum::Quorum) -> Self {
        AnyClient {
            state: quorum.state,
        }
    }
}
