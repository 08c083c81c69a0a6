//! A library whose locks are meant: how it names their keys, and what it does when nothing else is said.

mod libraries;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::protocol::Protocol;
use crate::base::error::InvalidInput;
use crate::base::name::Name;
use crate::engine::request::Wait;

/// Another lock library, or a recipe that many follow. [`Mutex::like`](crate::Mutex::like) shares its locks.
///
/// A plain value: it says how the library names the key of a lock and what it does when its user says nothing.
/// Nearly all of them keep one string under one key with `SET NX` and compare the whole of it (or its first 22
/// characters, which are the random ones of a token of ours) before they extend or delete it. So a lock of leaselock at
/// that key excludes theirs, and theirs excludes it. For the others the preset brings their [`Protocol`].
///
/// ```
/// use leaselock::Preset;
///
/// let preset: Preset = "redsync".parse()?;
/// assert_eq!(preset, Preset::REDSYNC);
/// assert_eq!(Preset::GUIDE.name_for("job")?.as_str(), "lock:job");
/// # Ok::<_, leaselock::InvalidInput>(())
/// ```
#[derive(Clone, Copy)]
pub struct Preset(&'static Library);

/// What is known of one library.
struct Library {
    name: &'static str,
    /// Its key is the user's name between these two.
    before: &'static str,
    after: &'static str,
    /// How long its locks last when its user does not say; `None` when its user must.
    ttl: Option<Duration>,
    /// How long it waits when its user does not say.
    wait: Wait,
    /// Its locks last whole seconds.
    whole_seconds: bool,
    /// How it takes a lock. What the protocol itself does to a name is not in `before` and `after`.
    protocol: Protocol,
    note: &'static str,
}

impl Preset {
    /// Every preset there is, by name.
    pub fn all() -> &'static [Preset] {
        &libraries::ALL
    }

    /// What the library is called here, such as `redis-py`.
    pub fn library(self) -> &'static str {
        self.0.name
    }

    /// The name under which leaselock knows the lock that the library calls `name`. It is the library's key, as
    /// [`inspect`](crate::Client::inspect), [`break_lease`](crate::Client::break_lease) and handles have it.
    ///
    /// # Errors
    /// [`InvalidInput`] when either of the two is no name; the message says what would be right.
    pub fn name_for(self, name: &str) -> Result<Name, InvalidInput> {
        let name = self.mutex_for(name)?;
        Name::new(self.0.protocol.key(name.as_str()))
    }

    /// The name that a mutex has, from which its protocol makes the key.
    pub(crate) fn mutex_for(self, name: &str) -> Result<Name, InvalidInput> {
        let name = Name::new(name)?;
        Name::new(format!("{}{name}{}", self.0.before, self.0.after))
    }

    /// How long its locks last when nothing is said; `None` when the library has no default worth keeping.
    pub fn ttl(self) -> Option<Duration> {
        self.0.ttl
    }

    /// How it waits when nothing is said.
    pub fn wait(self) -> Wait {
        self.0.wait
    }

    /// Whether its locks last whole seconds, so that another ttl is refused.
    pub fn whole_seconds(self) -> bool {
        self.0.whole_seconds
    }

    /// How it takes a lock on the server.
    pub fn protocol(self) -> Protocol {
        self.0.protocol
    }

    /// What whoever shares its locks must know: where it differs from leaselock.
    pub fn note(self) -> &'static str {
        self.0.note
    }

    /// Refuses what its locks cannot have.
    pub(crate) fn check(self, ttl: Duration, protocol: Protocol) -> Result<(), InvalidInput> {
        if protocol != self.0.protocol && !self.looks_alike(protocol) {
            return Err(InvalidInput::new(format!(
                "locks like those of {self} are taken by the protocol {}; leave {protocol} out",
                self.0.protocol
            )));
        }
        if self.0.whole_seconds && ttl.subsec_nanos() != 0 {
            return Err(InvalidInput::new(format!(
                "locks like those of {self} last whole seconds, and a ttl of {ttl:?} is none; {:?} would be right",
                Duration::from_secs(ttl.as_secs().saturating_add(1))
            )));
        }
        Ok(())
    }
}

impl Preset {
    /// Whether a lock of this protocol cannot be told from one of the library. The names that are taken along with the
    /// first are keys as they are, so the first must be one too.
    fn looks_alike(self, protocol: Protocol) -> bool {
        let as_it_is = self.0.before.is_empty() && self.0.after.is_empty();
        self.0.protocol == Protocol::Native
            && match protocol {
                Protocol::SetnxPexpire => true,
                Protocol::AllOrNone => as_it_is,
                _ => false,
            }
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

impl fmt::Debug for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Preset({})", self.0.name)
    }
}

impl FromStr for Preset {
    type Err = InvalidInput;

    /// By the name that [`library`](Preset::library) gives.
    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        let found = Preset::all().iter().find(|preset| preset.0.name == text);
        found.copied().ok_or_else(|| {
            let short: String = text.chars().take(40).collect();
            let names: Vec<_> = Preset::all().iter().map(|preset| preset.0.name).collect();
            InvalidInput::new(format!(
                "`{}` is no library that is known here; there are {}",
                short.escape_debug(),
                names.join(", ")
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_found_by_its_name_and_by_no_other() {
        for preset in Preset::all() {
            assert_eq!(preset.to_string().parse::<Preset>().unwrap(), *preset);
            assert!(!preset.note().is_empty(), "{preset}");
        }
        let refusal = "redis_py\u{1b}".parse::<Preset>().unwrap_err().to_string();
        assert!(refusal.contains("there are bsm-redislock, "), "{refusal}");
        assert!(!refusal.contains('\u{1b}'), "{refusal}");
    }

    #[test]
    fn presets_stand_in_the_order_of_their_names_and_each_once() {
        let names: Vec<_> = Preset::all().iter().map(|preset| preset.0.name).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    }

    #[test]
    fn a_bad_name_is_refused_before_and_after_it_becomes_a_key() {
        for bad in ["", "a\nb", "ll:x"] {
            assert!(Preset::GUIDE.name_for(bad).is_err(), "{bad:?}");
        }
        let longest = "x".repeat(512);
        assert!(Preset::REDSYNC.name_for(&longest).is_ok());
        assert!(Preset::GUIDE.name_for(&longest).is_err());
    }
}
