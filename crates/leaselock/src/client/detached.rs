//! A lease of any kind without a process: one process acquires it, another extends or releases it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{
    ErrorKind, ExtendError, InvalidInput, Lost, LostReason, ReleaseError, StoreError,
};
use crate::base::fence::Fence;
use crate::base::name::Name;
use crate::base::token;
use crate::base::token::{ClientId, Token};
use crate::base::ttl::{DEFAULT_TTL, Ttl};
use crate::engine::calls::Extend;
use crate::engine::cleanup::PendingCleanup;
use crate::engine::cleanup::guard::CleanupGuard;
use crate::engine::core::Engine;
use crate::engine::detach::{Detach, Detached};
use crate::engine::grant::ExtendAnswer;
use crate::engine::identity::{Announce, Who};
use crate::engine::kind::Kind;
use crate::engine::lease::record::LeaseRecord;
use crate::engine::lease::{Lease, release};
use crate::engine::note::Note;
use crate::engine::resource::Resource;
use crate::script::Script;
use crate::script::keys;
use crate::script::keys::LockKeys;

const VERSION: &str = "ll1";
/// The kind that a handle leaves out, as version 0.1.0 did, which knew no other.
const USUAL_KIND: &str = "mutex";

/// Everything that another process needs to extend or release a detached lease of any kind.
///
/// **A secret**: every process that has it can release the lease. So pass it by file, pipe or environment, and not on a
/// command line.
#[derive(Clone, PartialEq, Eq)]
pub struct Handle {
    name: Name,
    token: Token,
    fence: Option<Fence>,
    /// The name of the kind of lock.
    kind: String,
    /// How it is held, for kinds with several ways.
    mode: Option<Arc<str>>,
}

impl Handle {
    /// Creates the handle of a lease of this resource.
    pub(crate) fn new(name: Name, token: Token, fence: Option<Fence>, resource: &Resource) -> Self {
        Handle {
            name,
            token,
            fence,
            kind: resource.kind.name.to_owned(),
            mode: resource.mode.clone(),
        }
    }

    pub(crate) fn token(&self) -> &Token {
        &self.token
    }

    /// Returns what is locked, as one of these kinds.
    pub(crate) fn resource(
        &self,
        engine: &Engine,
        kinds: &[&'static Kind],
    ) -> Result<Resource, InvalidInput> {
        let refused = |why: &str| InvalidInput::new(format!("a lease of a {}: {why}", self.kind));
        let kind = kinds.iter().find(|kind| kind.name == self.kind);
        let kind = kind.ok_or_else(|| refused("this version does not know that kind of lock"))?;
        if !engine.store.has_queue() && !kind.votes {
            return Err(refused("a quorum has none; use the client of one store"));
        }
        let keys = LockKeys::new(&engine.prefix, &self.name)?.behind(engine.gate());
        Ok(Resource::new(kind, keys).with_mode(self.mode.clone()))
    }

    /// Returns the lock's name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the fencing token of the lease.
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// Returns what is locked: `mutex`, `read-write lock` (the lease is that of a reader) or `semaphore`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns one line of text, `ll1.…`, that [`FromStr`] reads back. That of a mutex is the one that version 0.1.0
    /// writes and reads.
    pub fn to_secret_string(&self) -> String {
        if self.kind == USUAL_KIND && self.mode.is_none() {
            self.without_kind()
        } else {
            self.with_kind()
        }
    }

    fn without_kind(&self) -> String {
        let fence = self.fence.map_or(0, Fence::get);
        let (name, token) = (
            token::base64url(self.name.as_str().as_bytes()),
            token::base64url(self.token.secret().as_bytes()),
        );
        format!("{VERSION}.{name}.{token}.{fence}")
    }

    /// Returns the line with the kind of lock in any case.
    pub(crate) fn with_kind(&self) -> String {
        let mode = self.mode.as_deref().unwrap_or_default();
        let [kind, mode] = [&self.kind, mode].map(|text| token::base64url(text.as_bytes()));
        format!("{}.{kind}.{mode}", self.without_kind())
    }
}

impl FromStr for Handle {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        let text = text.trim();
        parse(text).ok_or_else(|| {
            let says = match text.starts_with("lent.") {
                true => "this is the handle of a lent lease, which only its lender releases; a handle that releases begins with `ll1.`",
                false => "this is not a handle; a handle is the line that begins with `ll1.`, as `acquire` printed it",
            };
            InvalidInput::new(says)
        })
    }
}

fn parse(text: &str) -> Option<Handle> {
    let mut parts = text.split('.');
    let version = parts.next()?;
    let decoded = |part: Option<&str>| String::from_utf8(token::from_base64url(part?)?).ok();
    let (name, token) = (decoded(parts.next())?, decoded(parts.next())?);
    let fence = parts.next()?.parse().ok()?;
    let (kind, mode) = match parts.clone().next() {
        None => (USUAL_KIND.to_owned(), String::new()),
        Some(_) => (decoded(parts.next())?, decoded(parts.next())?),
    };
    let whole = version == VERSION && parts.next().is_none();
    let handle = Handle {
        name: Name::new(name).ok()?,
        token: Token::parse(&token)?,
        fence: Fence::from_answer(fence),
        kind,
        mode: (!mode.is_empty()).then(|| mode.into()),
    };
    whole.then_some(handle)
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("name", &self.name)
            .field("token", &self.token)
            .field("fence", &self.fence)
            .field("kind", &self.kind)
            .field("mode", &self.mode)
            .finish()
    }
}

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
    /// # let client = leaselock::Client::connect("mem:")?;
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
        let debt = self.give_up(kept.fence.filter(|_| kind.local_hand_over));
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
    let record = keys::client_record(&engine.prefix, client.as_str());
    let about = engine.about.encode();
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
        &self.handle.name
    }

    /// Returns the fencing token of the lease.
    pub fn fence(&self) -> Option<Fence> {
        self.handle.fence
    }

    /// Returns what is locked, as [`Handle::kind`] does.
    pub fn kind(&self) -> &str {
        &self.handle.kind
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
            self.handle.name.clone()
        });
        self.engine.check_strict(ttl)?;
        let within = self.engine.request_timeout(ttl);
        let lost = |reason| Err(Lost::new(name(), self.handle.fence, reason).into());
        let step = Extend {
            resource: &resource,
            token: &self.handle.token,
            ttl,
        };
        match self.engine.ask(&step, within).await {
            Ok(ExtendAnswer::Extended { .. }) => {
                self.keep_record(ttl, within).await;
                Ok(())
            }
            Ok(ExtendAnswer::Expired) => lost(LostReason::KeyMissing),
            Ok(ExtendAnswer::Taken) => lost(LostReason::TakenOver),
            Err(source) => Err(ExtendError::from_store(&self.handle.name, source)),
        }
    }

    /// Keeps the client's record as long as the lease, so that observers see who acquired it.
    async fn keep_record(&self, ttl: Ttl, within: Duration) {
        if let Some((record, about)) = self.record(within).await {
            announce(&self.engine, &record, &about, ttl, within).await;
        }
    }

    async fn record(&self, within: Duration) -> Option<(String, String)> {
        let client = token::client_of(self.handle.token.secret().as_bytes())?;
        let record = keys::client_record(&self.engine.prefix, client);
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
        let name = &self.handle.name;
        let resource = self.resource().map_err(|error| ReleaseError::Store {
            name: name.clone(),
            source: StoreError::refused(ErrorKind::Unsupported, error.to_string()),
        })?;
        let within = self.engine.request_timeout(DEFAULT_TTL);
        let reserves_fences = resource.kind.local_hand_over;
        let used = self.handle.fence.filter(|_| reserves_fences);
        let token = &self.handle.token;
        let outcome = release(&self.engine, name, &resource, token, used, within).await;
        if let Some(client) = token::client_of(self.handle.token.secret().as_bytes()) {
            let record = keys::client_record(&self.engine.prefix, client);
            announce(&self.engine, &record, "", DEFAULT_TTL, within).await;
            if let Some(erase) = Note::of(&resource, &self.handle.token, "", DEFAULT_TTL) {
                drop(self.engine.ask(&erase, within).await);
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle() -> Handle {
        let client = ClientId::random().unwrap();
        Handle {
            name: Name::new("jobs/α.1").unwrap(),
            token: Token::random(&client, true).unwrap(),
            fence: Some(Fence::new(7)),
            kind: USUAL_KIND.to_owned(),
            mode: None,
        }
    }

    fn of_permits() -> Handle {
        Handle {
            kind: "semaphore".to_owned(),
            mode: Some("w2 5".into()),
            ..handle()
        }
    }

    #[test]
    fn a_handle_survives_the_way_through_text() {
        for handle in [handle(), of_permits()] {
            let text = format!(" {}\n", handle.to_secret_string());
            assert_eq!(text.parse::<Handle>().unwrap(), handle);
        }
    }

    /// Version 0.1.0 knows mutexes only, so its line says no kind.
    #[test]
    fn the_line_of_a_mutex_is_that_of_version_0_1_0_and_that_of_another_kind_is_none_there() {
        assert_eq!(handle().to_secret_string().split('.').count(), 4);
        assert_eq!(of_permits().to_secret_string().split('.').count(), 6);
        assert_eq!(USUAL_KIND, crate::mutex::MUTEX.name);
    }

    #[test]
    fn a_handle_of_a_kind_of_a_later_version_is_refused_by_its_name() {
        let later = Handle {
            kind: "rate limiter".to_owned(),
            ..handle()
        };
        let later: Handle = later.to_secret_string().parse().unwrap();
        let client = crate::Client::connect("mem:").unwrap();
        let refusal = later.resource(client.engine(), &[&crate::mutex::MUTEX]);
        assert!(refusal.unwrap_err().to_string().contains("a rate limiter"));
    }

    #[test]
    fn what_is_no_handle_is_refused_without_being_repeated() {
        let good = handle().to_secret_string();
        let bad = [
            String::new(),
            "ll1".into(),
            good.replace("ll1", "ll2"),
            format!("{good}.x"),
            format!("{good}.bXV0ZXg"),
            format!("{good}.bXV0ZXg.."),
            good[..good.len() - 3].to_owned() + "..",
            "ll1.a.b.c".into(),
        ];
        for bad in bad {
            let refusal = bad.parse::<Handle>().unwrap_err().to_string();
            assert!(
                refusal.contains("ll1.") && (bad.len() < 10 || !refusal.contains(&bad)),
                "{bad}"
            );
        }
    }

    #[test]
    fn debug_does_not_show_the_secret() {
        for handle in [handle(), of_permits()] {
            assert!(!format!("{handle:?}").contains(handle.token.secret()));
        }
    }
}
