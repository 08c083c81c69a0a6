//! The client: one store, one identity, one background thread.

use std::fmt;
use std::sync::Arc;

use super::state::ClientState;
use crate::base::error::StoreError;
use crate::engine::core::{Engine, OPERATOR_WITHIN};
use crate::engine::lease::LeaseView;
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

/// Counters of what a client has come across; see [`Client::stats`].
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

/// What remained to be cleaned up when a client was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReport {
    /// Leases and queue entries whose release in the background was confirmed.
    pub released: usize,
    /// Those whose release was not confirmed; they end by themselves at their ttl.
    pub unconfirmed: usize,
}

impl Client {
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.state.engine
    }

    /// Returns this client's id, as others see it. Not a secret.
    pub fn id(&self) -> &str {
        self.engine().id.as_str()
    }

    /// Names the store, for messages and logs: the URL without user and password, or the folder.
    pub fn store(&self) -> String {
        self.engine().store.describe()
    }

    /// Lists the leases that this client holds, oldest first.
    pub fn held(&self) -> Vec<LeaseView> {
        let kept = self
            .engine()
            .started()
            .map(|background| background.keeper.held())
            .unwrap_or_default();
        kept.into_iter()
            .map(LeaseView::new)
            .filter(LeaseView::is_held)
            .collect()
    }

    /// Examines the store, and states what the set-up can promise and what it cannot.
    ///
    /// Version, persistence, eviction, role, clock, file system, and whether each is fit for locks. For Sentinels:
    /// whether they can choose another primary, and whether leases of the default ttl would outlive that. Jumps of the
    /// store's clock that this client has seen are reported too.
    ///
    /// # Errors
    /// [`StoreError`] when the store does not reply.
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

    /// Returns what this client has come across since it was built.
    pub fn stats(&self) -> Stats {
        Stats {
            clock_jumps: self.engine().skew.jumps(),
            last_clock_jump_ms: self.engine().skew.last_ms(),
        }
    }

    /// Finishes the cleanup of dropped leases and cancelled acquisitions, in a few seconds at most.
    ///
    /// New acquisitions are refused from here on; leases that are held stay held.
    pub async fn close(&self) -> CloseReport {
        self.engine().close();
        let Some(background) = self.engine().started() else {
            return CloseReport {
                released: 0,
                unconfirmed: 0,
            };
        };
        let (released, unconfirmed) = background
            .cleanup
            .drained(&self.engine().clock, OPERATOR_WITHIN)
            .await;
        self.engine().store.is_clean(OPERATOR_WITHIN).await;
        if self.held().is_empty() {
            self.engine().take_record_back().await;
        }
        CloseReport {
            released,
            unconfirmed,
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

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("id", &self.engine().id.as_str())
            .field("store", &self.engine().store.describe())
            .finish_non_exhaustive()
    }
}
