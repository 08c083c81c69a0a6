//! The client: one store, one identity, one background thread.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::state::ClientState;
use crate::base::error::StoreError;
use crate::engine::core::{Engine, OPERATOR_WITHIN, RECORD_TTL};
use crate::engine::identity::Announce;
use crate::engine::lease::Held;
use crate::store::report;
use crate::store::report::Report;

/// A connection to a store, under one identity. Cheap to clone; clones share everything.
///
/// Building one touches no network, so it does not fail because a server is down; the first operation says so.
/// The async methods need a tokio runtime with I/O and time; `leaselock::blocking` needs none.
#[derive(Clone)]
pub struct Client {
    pub(crate) state: Arc<ClientState>,
}

/// What a client has come across; see [`Client::stats`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// How often the store's clock was seen to jump against ours: leases that were held then ended early or late on the
    /// store. Each time all leases of this client were verified at once.
    pub clock_jumps: u64,
    /// By how many milliseconds it jumped last, forward or, below zero, back; `None` when it never did.
    pub last_clock_jump_ms: Option<i64>,
}

/// What was left to clean up when a client was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// Leases and places that were given back in the background, and confirmed.
    pub released: usize,
    /// Those that were not confirmed; they end by themselves at their ttl.
    pub unconfirmed: usize,
}

impl Client {
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.state.engine
    }

    /// This client's id, as others see it. Not a secret.
    pub fn id(&self) -> &str {
        self.engine().id.as_str()
    }

    /// Where the locks are, for messages and logs: the URL without user and password, or the folder.
    pub fn store(&self) -> String {
        self.engine().store.describe()
    }

    /// The leases that this client holds, oldest first.
    pub fn held(&self) -> Vec<Held> {
        let kept = self
            .engine()
            .started()
            .map(|background| background.keeper.held())
            .unwrap_or_default();
        kept.into_iter()
            .map(Held::new)
            .filter(Held::is_held)
            .collect()
    }

    /// Examines the store: version, persistence, eviction, role, clock, file system, and whether each is fit for locks;
    /// and says in words what the set-up can promise and what it cannot. Of Sentinels it says whether they can choose
    /// another primary, and whether leases of the default ttl would outlive that. Jumps of its clock that this client
    /// has seen are among what was looked at.
    ///
    /// # Errors
    /// [`StoreError`] when the store does not answer.
    pub async fn doctor(&self) -> Result<Report, StoreError> {
        let mut report = self.engine().store.examine(OPERATOR_WITHIN).await?;
        let ttl = self.state.defaults.length();
        self.engine()
            .store
            .examine_sentinels(&mut report, ttl)
            .await;
        report.checks.extend(report::clock_jumps(
            self.engine().skew.jumps(),
            self.engine().skew.last_ms(),
        ));
        Ok(report)
    }

    /// What this client has come across since it was built.
    pub fn stats(&self) -> Stats {
        Stats {
            clock_jumps: self.engine().skew.jumps(),
            last_clock_jump_ms: self.engine().skew.last_ms(),
        }
    }

    /// Finishes the clean-up of dropped leases and cancelled acquisitions, waiting a few seconds at most. New
    /// acquisitions are refused from here on; leases that are held stay held.
    pub async fn close(&self) -> Closed {
        self.engine().closed.store(true, Ordering::SeqCst);
        let Some(background) = self.engine().started() else {
            return Closed {
                released: 0,
                unconfirmed: 0,
            };
        };
        let (released, unconfirmed) = background
            .cleanup
            .drained(&self.engine().clock, OPERATOR_WITHIN)
            .await;
        self.engine().store.is_clean(OPERATOR_WITHIN).await;
        if self.engine().introduced.load(Ordering::SeqCst) && self.held().is_empty() {
            let gone = Announce {
                record: &self.engine().record,
                about: "",
                ttl: RECORD_TTL,
            };
            drop(self.engine().ask(&gone, OPERATOR_WITHIN).await); // for onlookers only
        }
        Closed {
            released,
            unconfirmed,
        }
    }

    /// A descriptor that a child process can inherit: as long as it is open anywhere, a lease of this client in a
    /// folder store stays held, even when this process is gone, as with flock(1). `None` on other stores.
    pub fn session_descriptor(&self) -> Option<std::os::fd::OwnedFd> {
        self.engine().store.session_descriptor()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("id", &self.engine().id.as_str())
            .field("store", &self.engine().store.describe())
            .finish_non_exhaustive()
    }
}
