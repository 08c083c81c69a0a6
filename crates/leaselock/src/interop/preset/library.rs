//! What is known of a library whose locks are meant.

use std::fmt;
use std::time::Duration;

use leaselock_fence::Name;

use crate::base::{InvalidInput, debug_as, span};
use crate::engine::values::request::Wait;
use crate::interop::protocol::Protocol;

/// Another lock library, or a recipe that many follow. [`Mutex::preset`](crate::Mutex::preset) shares its locks.
///
/// A plain value: it knows how the library names the key of a lock, and the library's defaults.
/// Nearly all of them keep one string under one key with `SET NX` and compare the whole of it (or its first 22
/// characters, which are the random ones of a token of ours) before they extend or delete it. So a lock of leaselock at
/// that key excludes theirs, and theirs excludes it. For the others the preset brings their [`Protocol`].
///
/// ```
/// use leaselock::interop::Preset;
///
/// let preset: Preset = "redsync".parse()?;
/// assert_eq!(preset, Preset::REDSYNC);
/// assert_eq!(Preset::GUIDE.name_for("job")?.as_str(), "lock:job");
/// # Ok::<_, leaselock::error::InvalidInput>(())
/// ```
#[derive(Clone, Copy)]
pub struct Preset(pub(super) &'static OtherLibrary);

/// What is known of one library.
pub(super) struct OtherLibrary {
    pub(super) name: &'static str,
    /// Its key is the user's name between these two.
    pub(super) before: &'static str,
    pub(super) after: &'static str,
    /// How long its locks last when its user does not say; `None` when its user must.
    pub(super) ttl: Option<Duration>,
    /// How long it waits when its user does not say.
    pub(super) wait: Wait,
    /// Its locks last whole seconds.
    pub(super) whole_seconds: bool,
    /// How it takes a lock. What the protocol itself does to a name is not in `before` and `after`.
    pub(super) protocol: Protocol,
    pub(super) note: &'static str,
}

impl Preset {
    /// Returns the name of the library, as `leaselock --like` takes it, such as `redis-py`.
    pub fn library(self) -> &'static str {
        self.0.name
    }

    /// Returns the name under which leaselock knows the lock that the library calls `name`.
    ///
    /// It is the library's key, as [`inspect`](crate::Client::inspect), [`break_lease`](crate::Client::break_lease) and handles have it.
    ///
    /// # Errors
    /// [`InvalidInput`] when either of the two is not a valid name; the message says what would be right.
    pub fn name_for(self, name: &str) -> Result<Name, InvalidInput> {
        self.0.protocol.name_for(self.mutex_for(name)?.as_str())
    }

    /// The name that a mutex has, from which its protocol makes the key.
    pub(crate) fn mutex_for(self, name: &str) -> Result<Name, InvalidInput> {
        let name = Name::new(name)?;
        Name::new(format!("{}{name}{}", self.0.before, self.0.after))
    }

    /// Returns the library's default ttl; `None` when it has none, or one that is not kept here.
    pub fn ttl(self) -> Option<Duration> {
        self.0.ttl
    }

    /// Returns the library's default wait policy.
    pub fn wait(self) -> Wait {
        self.0.wait
    }

    /// Returns true if its locks last whole seconds, so that another ttl is refused.
    pub fn whole_seconds(self) -> bool {
        self.0.whole_seconds
    }

    /// Returns the protocol with which the library takes a lock on the server.
    pub fn protocol(self) -> Protocol {
        self.0.protocol
    }

    /// Returns a sentence about how the library's locks differ from those of leaselock.
    pub fn note(self) -> &'static str {
        self.0.note
    }

    /// Refuses what its locks cannot have.
    pub(crate) fn check(self, ttl: Duration, protocol: Protocol) -> Result<(), InvalidInput> {
        // A lock of this protocol cannot be told from one of the library.
        let looks_alike = (self.0.protocol, protocol) == (Protocol::Native, Protocol::SetnxPexpire);
        if protocol != self.0.protocol && !looks_alike {
            return Err(InvalidInput::new(format!(
                "locks like those of {self} are taken by the protocol {}; leave {protocol} out",
                self.0.protocol
            )));
        }
        if self.0.whole_seconds && ttl.subsec_nanos() != 0 {
            return Err(InvalidInput::new(format!(
                "locks like those of {self} last whole seconds, and a ttl of {} is none; {} would be right",
                span(ttl),
                span(Duration::from_secs(ttl.as_secs().saturating_add(1)))
            )));
        }
        Ok(())
    }
}

impl PartialEq for Preset {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Preset {}

impl std::hash::Hash for Preset {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.name)
    }
}

debug_as!(Preset, it => "Preset({})", it.0.name);
