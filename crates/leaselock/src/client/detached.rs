//! A lease of any kind without a process: one process acquires it, another extends or releases it.

use std::sync::Arc;
use std::time::Duration;

use super::lease_handle::Handle;
use crate::base::error::{LeaseError, Lost, ReleaseError};
use crate::base::process::Process;
use crate::base::{ClientId, InvalidInput, StoreError, Token, Ttl, token};
use crate::engine::guard::lease::handle::{Detachable, SingleName, Typed};
use crate::engine::guard::lease::{Lease, release};
use crate::engine::services::ids::{Announce, Who};
use crate::engine::services::{CleanupGuard, Engine, LeaseRecord, PendingCleanup};
use crate::engine::values::calls_optional::{Detach, Keep};
use crate::engine::values::{Extend, ExtendAnswer, Held, Kind, Note, Release};
use crate::script::{Script, keys};

impl<M: Detachable> Lease<M> {
    /// Turns the lease into a handle with which another process can extend or release it.
    ///
    /// The lease gets its full ttl once more. From then on the client does not renew it, and it does not end with this
    /// process.
    ///
    /// # Cancel safety
    /// When dropped, the lease is released in the background.
    ///
    /// # Errors
    /// [`LeaseError`]; the client then releases the lease in the background.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # let other_client = client.clone();
    /// use leaselock::detached::Handle;
    ///
    /// let lease = client.mutex("deploy").ttl(std::time::Duration::from_secs(600)).acquire().await?;
    /// let line = lease.detach().await?.to_secret_string(); // a secret: to a file, a pipe or the environment
    ///
    /// let handle: Handle = line.parse()?; // in another process
    /// other_client.attach(handle).release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn detach(mut self) -> Result<Handle, LeaseError> {
        let why = "its handle would not say how to give it back";
        self.can_be("detached", |_| Some(why))?;
        let (engine, kept, _) = self.parts();
        let (engine, kept) = (Arc::clone(engine), Arc::clone(kept));
        let stays = || InvalidInput::new("a lease of this kind stays in its process");
        let script = kept.held.resource.kind.detach.as_ref().ok_or_else(stays)?;
        if let Some(lost) = kept.lost_by_now() {
            return Err(lost.into());
        }
        if self.is_shared() {
            return Err(InvalidInput::new(format!(
                "the owner has other guards of `{}`: release them before it is detached",
                kept.name
            ))
            .into());
        }
        self.end_passing();
        let debt = self.give_up();
        let handle = detach(&engine, &kept, script).await?;
        debt.settle();
        Ok(handle)
    }
}

#[expect(private_bounds, reason = "no other crate adds a way of holding")]
impl<M: Typed + SingleName> Lease<M> {
    /// Lends the lease: another process can extend it by the handle, but not release it.
    ///
    /// Nothing is sent. This client goes on to renew the lease. **It must outlive the borrower**: after the release
    /// another client may be granted, and the borrower learns that by its next extension. What the borrower does is
    /// fenced as this client's work: both have one [`sequencer`](Lease::sequencer).
    ///
    /// # Errors
    /// [`LeaseError::Lost`] when the lease is gone; [`LeaseError::Invalid`] for a lease of another library's protocol.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (client, other) = (leaselock::Client::open("mem:lent")?, leaselock::Client::open("mem:lent")?);
    /// let lease = client.mutex("invoices").acquire().await?;
    /// let lent = other.attach(lease.lend()?); // in the other process
    /// assert_eq!(lent.handle().fence(), lease.fence());
    /// lent.extend(std::time::Duration::from_secs(30)).await?; // before a step that takes long
    /// assert!(lent.release().await.is_err()); // only its holder gives it back
    /// lease.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn lend(&self) -> Result<Handle, LeaseError> {
        let why = "its handle would not say how to extend it";
        self.can_be("lent", |_| Some(why))?;
        let (_, record, _) = self.parts();
        if let Some(lost) = record.lost_by_now() {
            return Err(lost.into());
        }
        Ok(Handle::new(record, record.held.token.clone()).lent())
    }
}

/// Passes a lease on to a new token of a client without a session.
///
/// Then neither the end of this process nor its other leases affect it.
async fn detach(
    engine: &Arc<Engine>,
    kept: &LeaseRecord,
    script: &'static Script,
) -> Result<Handle, LeaseError> {
    let ttl = kept.ttl();
    let within = engine.request_timeout(ttl);
    let store = |source| LeaseError::from_store(&kept.name, source);
    let client = ClientId::random().map_err(|error| store(StoreError::no_random(error)))?;
    let successor = Token::random(&client, kept.fence.is_some())
        .map_err(|error| store(StoreError::no_random(error)))?;
    let step = Detach {
        script,
        held_for: kept.held.for_ttl(ttl),
        successor: &successor,
    };
    // From here on the successor may hold; until the caller has the handle, no other process knows the token.
    let until = engine.clock.now().plus(ttl.as_duration());
    let held = Held::of(&kept.held.resource, &successor);
    let owed = PendingCleanup::acquisition(held.clone(), until);
    let debt = CleanupGuard::new(engine.cleanup(), owed);
    // A second try after a lost reply finds the successor there and answers the same.
    let answer = match engine.ask(&step, within).await {
        Err(error) if error.maybe_applied() => engine.ask(&step, within).await,
        answer => answer,
    };
    let lost = |reason| LeaseError::from(Lost::new(kept.name.clone(), kept.fence, reason));
    answer.map_err(store)?.map_err(lost)?;
    let record = keys::client_record(&engine.ids.prefix, client.as_str());
    // The lease goes on without this client, and its schedules do not.
    let about = Process {
        serves: Vec::new(),
        ..engine.ids.record.about()
    };
    let about = about.encode();
    announce(engine, &record, &about, ttl, within).await;
    let note = |text| Note::of(held.for_ttl(ttl), text);
    if let Some(note) = kept.why.as_deref().and_then(note) {
        drop(engine.ask(&note, within).await);
    }
    debt.settle();
    Ok(Handle::new(kept, successor))
}

/// Tells observers which client acquired the lease. The lease is detached whether or not they can read it.
async fn announce(engine: &Engine, record: &str, about: &str, ttl: Ttl, within: Duration) {
    let about = Some((about, ttl));
    drop(engine.ask(&Announce { record, about }, within).await);
}

/// A lease that was acquired elsewhere and is known by its [`Handle`]: detached, or lent.
///
/// This client does not renew it, and does not release it on drop.
#[derive(Debug)]
#[must_use = "this client does not renew it: extend it in time, or release it"]
pub struct DetachedLease {
    pub(crate) engine: Arc<Engine>,
    pub(crate) kinds: &'static [&'static Kind],
    pub(crate) handle: Handle,
}

impl DetachedLease {
    /// Returns its handle: what is locked, and under which fencing token.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    fn held(&self) -> Result<Held, InvalidInput> {
        self.handle.held(&self.engine, self.kinds)
    }

    /// Extends the lease to `ttl` from now; never shortens it, never revives a lost one.
    ///
    /// # Cancel safety
    /// When dropped, the extension may have happened.
    ///
    /// # Errors
    /// [`LeaseError::Lost`] when the lease is gone; after any other error it is as it was, or extended.
    /// [`LeaseError::Invalid`] for a kind of lock that this store or this version does not have.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let handle = client.mutex("invoices").acquire().await?.detach().await?;
    /// let lease = client.attach(handle);
    /// lease.extend(std::time::Duration::from_secs(60)).await?;
    /// lease.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn extend(&self, ttl: Duration) -> Result<(), LeaseError> {
        let (ttl, held, name) = (Ttl::new(ttl)?, self.held()?, self.handle.name());
        self.engine.check_strict(ttl)?;
        self.engine.store.check_limits(0, ttl.as_duration())?;
        let within = self.engine.request_timeout(ttl);
        let held_for = held.for_ttl(ttl);
        match self.engine.ask(&Extend { held_for }, within).await {
            Ok(ExtendAnswer::Extended { .. }) => {
                let resource = &held.resource;
                drop(self.engine.ask(&Keep { resource }, within).await); // it may be held for days
                // As long as the lease, so that observers see who acquired it. A lender keeps its own record.
                if self.handle.may_release()
                    && let Some((record, about)) = self.record(within).await
                {
                    announce(&self.engine, &record, &about, ttl, within).await;
                }
                Ok(())
            }
            Ok(ExtendAnswer::Gone(reason)) => {
                Err(Lost::new(name.clone(), self.handle.fence(), reason).into())
            }
            Err(source) => Err(LeaseError::from_store(name, source)),
        }
    }

    async fn record(&self, within: Duration) -> Option<(String, String)> {
        let client = token::client_of(self.handle.token().secret().as_bytes())?;
        let record = keys::client_record(&self.engine.ids.prefix, client);
        let who = Who { record: &record };
        let about = self.engine.ask(&who, within).await.ok()??;
        Some((record, about.encode()))
    }

    /// Releases the lease; the waiters in the queue that fit then are granted in the same step.
    ///
    /// # Cancel safety
    /// When dropped, the release may or may not have happened; repeat it, which is harmless.
    ///
    /// # Errors
    /// [`ReleaseError::NotHeld`] when it was not held any more; after `Unknown` and `Store` it ends at its ttl.
    /// [`ReleaseError::Invalid`] for a lent lease, which its holder releases, and for a kind of lock that this store or
    /// this version does not have: the lease is as it was.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let handle = client.mutex("invoices").acquire().await?.detach().await?;
    /// client.attach(handle).release().await?;
    /// assert!(client.mutex("invoices").try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<(), ReleaseError> {
        let (name, held) = (self.handle.name(), self.held()?);
        if !self.handle.may_release() {
            let text =
                format!("`{name}` is lent: this handle extends it, and its holder releases it");
            return Err(InvalidInput::new(text).into());
        }
        let within = self.engine.request_timeout(Ttl::DEFAULT);
        let request = Release {
            held: &held,
            was_queued: false,
        };
        let outcome = release(&self.engine, name, self.handle.fence(), &request, within).await;
        if let Some(client) = token::client_of(self.handle.token().secret().as_bytes()) {
            let record = keys::client_record(&self.engine.ids.prefix, client);
            announce(&self.engine, &record, "", Ttl::DEFAULT, within).await;
            if let Some(erase) = Note::of(held.for_ttl(Ttl::DEFAULT), "") {
                drop(self.engine.ask(&erase, within).await);
            }
        }
        outcome
    }
}
