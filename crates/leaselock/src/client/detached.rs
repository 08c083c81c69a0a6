//! A lease of any kind without a process: one process acquires it, another extends or releases it.

use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::{Fence, Name};

use super::lease_handle::Handle;
use crate::base::error::{
    ErrorKind, ExtendError, InvalidInput, Lost, LostReason, ReleaseError, StoreError,
};
use crate::base::token;
use crate::base::token::{ClientId, Token};
use crate::base::ttl::{DEFAULT_TTL, Ttl};
use crate::engine::guard::lease::{Lease, release};
use crate::engine::services::cleanup::PendingCleanup;
use crate::engine::services::cleanup::guard::CleanupGuard;
use crate::engine::services::core::Engine;
use crate::engine::services::lease::record::LeaseRecord;
use crate::engine::values::calls::{Extend, Release};
use crate::engine::values::detach::{Detach, Detached};
use crate::engine::values::grant::ExtendAnswer;
use crate::engine::values::identity::{Announce, Who};
use crate::engine::values::kind::Kind;
use crate::engine::values::note::Note;
use crate::engine::values::resource::Resource;
use crate::script::Script;
use crate::script::keys;

impl Lease {
    /// Turns the lease into a handle with which another process can extend or release it.
    ///
    /// The lease gets its full ttl once more. From then on the client does not renew it, and it does not end with this
    /// process. So do the leases of readers and of holders of permits; that of a leader cannot be detached.
    ///
    /// # Cancel safety
    /// When dropped, the lease is released in the background.
    ///
    /// # Errors
    /// [`ExtendError`]; the client then releases the lease in the background.
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
    pub async fn detach(mut self) -> Result<Handle, ExtendError> {
        let why = "its handle would not say how to give it back";
        self.can_be("detached", |_| Some(why))?;
        let (engine, kept) = {
            let (engine, kept, _) = self.parts();
            (Arc::clone(engine), Arc::clone(kept))
        };
        let kind = kept.resource.kind;
        let stays = || {
            InvalidInput::new(format!(
                "a lease of a {} cannot be detached: it stays in its process",
                kind.name
            ))
        };
        let script = kind.detach.as_ref().ok_or_else(stays)?;
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

/// Passes a lease on to a new token of a client without a session.
///
/// Then neither the end of this process nor its other leases affect it.
async fn detach(
    engine: &Arc<Engine>,
    kept: &LeaseRecord,
    script: &'static Script,
) -> Result<Handle, ExtendError> {
    let name = || kept.name.clone();
    let ttl = kept.ttl();
    let within = engine.request_timeout(ttl);
    let store = |source| ExtendError::from_store(&kept.name, source);
    let client = ClientId::random().map_err(|error| store(StoreError::no_random(error)))?;
    let successor = Token::random(&client, kept.fence.is_some())
        .map_err(|error| store(StoreError::no_random(error)))?;
    let step = Detach {
        script,
        resource: &kept.resource,
        token: &kept.token,
        successor: &successor,
        ttl,
    };
    // From here on the successor may hold; until the caller has the handle, no other process knows the token.
    let until = engine.clock.now().plus(ttl.as_duration());
    let owed = PendingCleanup::acquisition(kept.resource.clone(), successor.clone(), until);
    let debt = CleanupGuard::new(engine.cleanup(), owed);
    // A second try after a lost reply finds the successor there and answers the same.
    let answer = match engine.ask(&step, within).await {
        Err(error) if error.maybe_applied() => engine.ask(&step, within).await,
        answer => answer,
    };
    let lost = |reason| ExtendError::from(Lost::new(name(), kept.fence, reason));
    match answer.map_err(store)? {
        Detached::Passed => {}
        Detached::Expired => return Err(lost(LostReason::KeyMissing)),
        Detached::Taken => return Err(lost(LostReason::TakenOver)),
    }
    let record = keys::client_record(&engine.ids.prefix, client.as_str());
    let about = engine.ids.about.encode();
    announce(engine, &record, &about, ttl, within).await;
    let note = |text| Note::of(&kept.resource, &successor, text, ttl);
    if let Some(note) = kept.why.as_deref().and_then(note) {
        drop(engine.ask(&note, within).await);
    }
    debt.settle();
    Ok(Handle::new(name(), successor, kept.fence, &kept.resource))
}

/// Tells observers which client acquired the lease. The lease is detached whether or not they can read it.
async fn announce(engine: &Engine, record: &str, about: &str, ttl: Ttl, within: Duration) {
    drop(engine.ask(&Announce { record, about, ttl }, within).await);
}

/// A lease that was acquired elsewhere and is known by its [`Handle`].
///
/// It is not renewed, and not released on drop.
#[derive(Debug)]
#[must_use = "it is not renewed: extend it in time, or release it"]
pub struct DetachedLease {
    engine: Arc<Engine>,
    kinds: &'static [&'static Kind],
    handle: Handle,
}

impl DetachedLease {
    pub(crate) fn new(
        engine: Arc<Engine>,
        kinds: &'static [&'static Kind],
        handle: Handle,
    ) -> Self {
        DetachedLease {
            engine,
            kinds,
            handle,
        }
    }

    /// Returns the lock's name.
    pub fn name(&self) -> &Name {
        self.handle.name()
    }

    /// Returns the fencing token of the lease.
    pub fn fence(&self) -> Option<Fence> {
        self.handle.fence()
    }

    /// Returns what is locked, as [`Handle::kind`] does.
    pub fn kind(&self) -> &str {
        self.handle.kind()
    }

    fn resource(&self) -> Result<Resource, InvalidInput> {
        self.handle.resource(&self.engine, self.kinds)
    }

    /// Extends the lease to `ttl` from now; never shortens it, never revives a lost one.
    ///
    /// # Cancel safety
    /// When dropped, the extension may have happened.
    ///
    /// # Errors
    /// [`ExtendError::Lost`] when the lease is gone; after any other error it is as it was, or extended.
    /// [`ExtendError::Invalid`] for a kind of lock that this store or this version does not have.
    pub async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        let (ttl, resource, name) = (Ttl::new(ttl)?, self.resource()?, || {
            self.handle.name().clone()
        });
        self.engine.check_strict(ttl)?;
        let within = self.engine.request_timeout(ttl);
        let lost = |reason| Err(Lost::new(name(), self.handle.fence(), reason).into());
        let step = Extend {
            resource: &resource,
            token: self.handle.token(),
            ttl,
        };
        match self.engine.ask(&step, within).await {
            Ok(ExtendAnswer::Extended { .. }) => {
                self.keep_record(ttl, within).await;
                Ok(())
            }
            Ok(ExtendAnswer::Expired) => lost(LostReason::KeyMissing),
            Ok(ExtendAnswer::Taken) => lost(LostReason::TakenOver),
            Err(source) => Err(ExtendError::from_store(self.handle.name(), source)),
        }
    }

    /// Keeps the client's record as long as the lease, so that observers see who acquired it.
    async fn keep_record(&self, ttl: Ttl, within: Duration) {
        if let Some((record, about)) = self.record(within).await {
            announce(&self.engine, &record, &about, ttl, within).await;
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
    pub async fn release(self) -> Result<(), ReleaseError> {
        let name = self.handle.name();
        let resource = self.resource().map_err(|error| ReleaseError::Store {
            name: name.clone(),
            source: StoreError::refused(ErrorKind::Unsupported, error.to_string()),
        })?;
        let within = self.engine.request_timeout(DEFAULT_TTL);
        let request = Release {
            resource: &resource,
            token: self.handle.token(),
            was_queued: false,
        };
        let outcome = release(&self.engine, name, &request, within).await;
        if let Some(client) = token::client_of(self.handle.token().secret().as_bytes()) {
            let record = keys::client_record(&self.engine.ids.prefix, client);
            announce(&self.engine, &record, "", DEFAULT_TTL, within).await;
            if let Some(erase) = Note::of(&resource, self.handle.token(), "", DEFAULT_TTL) {
                drop(self.engine.ask(&erase, within).await);
            }
        }
        outcome
    }
}
