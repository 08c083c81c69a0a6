//! The client: one store or several servers, one identity, one background thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::named::{ClientState, CloseReport};
use super::stats::Stats;
use crate::base::{InvalidInput, StoreError};
use crate::engine::guard::lease::LeaseView;
use crate::engine::guard::owner::Owner;
use crate::engine::services::ids::Who;
use crate::engine::services::{Engine, OPERATOR_WITHIN};
use crate::store::{Report, report};

/// A store, or a majority of independent servers, under one identity. Cheap to clone; clones share everything.
///
/// [`open`](Client::open) sends nothing, so it does not fail because a server is down; the first operation does.
/// On a majority (the Redlock algorithm) a client holds a lease when a majority of all servers have granted it and time is
/// left on it; the others may be down, frozen or cut off, and no request waits for them. A majority has mutexes, several
/// names, owners and handles; whatever else it cannot have is refused before anything is sent, by the first operation and by
/// `validate`.
///
/// The async methods need a tokio runtime with I/O and time; [`block_on`](Client::block_on) needs none.
///
/// A client serves the process that opened it: a process that was forked later opens its own.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) state: Arc<ClientState>,
}

impl Client {
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
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let request = client.owner("request 42");
    /// let lease = client.mutex("invoices").owner(&request).acquire().await?;
    /// let again = client.mutex("invoices").owner(&request).acquire().await?; // its own, so it does not wait
    /// assert_eq!(lease.fence(), again.fence());
    /// # Ok(()) }
    /// ```
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
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let lease = client.mutex("invoices").acquire().await?;
    /// for held in client.held() {
    ///     println!("{:?} for {:?}", held.mode(), held.remaining());
    /// }
    /// # lease.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn held(&self) -> Vec<LeaseView> {
        let started = self.engine().started();
        let kept = started.map(|background| background.renewal.held());
        let views = kept.unwrap_or_default().into_iter().map(LeaseView::of);
        views.filter(LeaseView::is_held).collect()
    }

    /// Asks whether the store replies, and returns the round trip: a health probe. It writes nothing.
    ///
    /// On a majority it returns when a majority has replied. [`doctor`](Client::doctor) says whether the store is fit for
    /// locks.
    ///
    /// # Waiting
    /// For 2 s at most.
    ///
    /// # Errors
    /// [`StoreError`]: by its [`kind`](StoreError::kind) the store did not reply, or refuses the user.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// println!("the store replied within {:?}", client.ping().await?);
    /// # Ok(()) }
    /// ```
    pub async fn ping(&self) -> Result<Duration, StoreError> {
        let engine = self.engine();
        let sent = engine.clock.now();
        let record = &engine.ids.record.key;
        engine.ask(&Who { record }, OPERATOR_WITHIN).await?;
        Ok(engine.clock.now().saturating_since(sent))
    }

    /// Examines the store, and states what the set-up can promise and what it cannot.
    ///
    /// Version, persistence, eviction, role, clock, file system, and whether each is fit for locks. For Sentinels:
    /// whether they can choose another primary, and whether leases of the default ttl would outlive that. For a quorum:
    /// all of it for every node, and whether each votes and is a server of its own. Jumps of the store's clock that this
    /// client has seen are reported too, and a server in strict mode whose client is not.
    ///
    /// # Errors
    /// [`StoreError`] when the store does not reply. A node of a quorum that does not reply is a finding; it is an
    /// error when none does.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let report = client.doctor().await?;
    /// for guarantee in report.guarantees.iter().filter(|it| it.kept == Some(false)) {
    ///     println!("not kept here: {guarantee:?}"); // at the start of a service
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn doctor(&self) -> Result<Report, StoreError> {
        let (store, skew) = (&self.engine().store, &self.engine().clock_watch);
        let mut report = store.examine(OPERATOR_WITHIN).await?;
        let ttl = self.state.defaults.length();
        store.examine_sentinels(&mut report, ttl).await;
        let jumps = report::clock_jumps(skew.jumps(), skew.last_ms());
        report.findings.extend(jumps);
        report.findings.extend(self.examine_gate().await);
        Ok(report)
    }

    /// Blocks the calling thread until the future has ended: for programs without async.
    ///
    /// The future is polled on this thread, while the client's own thread does its I/O and its timers; the program needs
    /// no runtime. When the client's thread cannot start, the operations report that as
    /// [`ErrorKind::Internal`](crate::ErrorKind::Internal).
    ///
    /// # Panics
    /// Inside an async runtime, which the blocked thread would stop.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// # let invoices = 1..3;
    /// # fn settle(_: u32) {}
    /// let client = leaselock::Client::open("mem:")?;
    /// let lease = client.block_on(client.mutex("invoices").acquire())?;
    /// let stop = Arc::new(AtomicBool::new(false));
    /// let stopped = Arc::clone(&stop);
    /// lease.on_lost(move |_| stopped.store(true, Ordering::Relaxed)); // for one long call
    /// for invoice in invoices {
    ///     lease.check()?; // between two steps: stop when the lease is gone
    ///     settle(invoice);
    /// }
    /// client.block_on(lease.release())?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.state.engine.block_on(future)
    }

    /// Finishes the cleanup of dropped leases and cancelled acquisitions, in a few seconds at most.
    ///
    /// New acquisitions are refused from here on, by its clones too, and also when this future is dropped; leases that are held stay held. What
    /// nodes of a quorum that are down have not confirmed ends there by itself at its ttl.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # drop(client.mutex("invoices").acquire().await?);
    /// let report = client.close().await; // before the process exits
    /// if report.unconfirmed > 0 {
    ///     println!("{} leases end at their ttl", report.unconfirmed);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn close(&self) -> CloseReport {
        let engine = self.engine();
        engine.close();
        let (released, unconfirmed) = match engine.started() {
            Some(background) => {
                let (cleanup, groups) = (&background.cleanup, &self.state.groups);
                let ended = cleanup.drained(&engine.clock, OPERATOR_WITHIN, || groups.leaving());
                ended.await
            }
            None => (0, 0),
        };
        engine.store.is_clean(OPERATOR_WITHIN).await; // a detached lease is released without the thread
        if self.held().is_empty() {
            engine.ids.record.delete(&engine.store).await;
        }
        engine.log.finish(&engine.store).await;
        CloseReport {
            released,
            unconfirmed,
        }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.state.engine
    }

    /// Returns what this client has counted since it was built. Reads counters only: nothing is sent.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # client.mutex("invoices").acquire().await?.release().await?;
    /// for kind in client.stats().kinds {
    ///     println!("{}: {} granted, {} held", kind.kind, kind.acquires["granted"], kind.held);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn stats(&self) -> Stats {
        Stats::of(self.engine())
    }

    /// Returns a descriptor that a child process can inherit to keep this client's leases.
    ///
    /// As long as it is open anywhere, a lease of this client in a folder store stays held, even when this process is
    /// gone, as with flock(1). `None` on other stores.
    pub fn session_descriptor(&self) -> Option<std::os::fd::OwnedFd> {
        self.engine().store.session_descriptor()
    }
}
