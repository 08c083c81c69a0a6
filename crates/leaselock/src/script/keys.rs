//! The one place where keys and channels are built.
//!
//! The lock is a plain string at exactly prefix + name, so that it excludes and is excluded by every `SET NX PX` lock.
//! Everything else lies beside it in the same hash slot, told apart by `:ll:`, which names cannot contain. A name with
//! a hash tag of its own gets `:ll:t:`, so that `foo` and `{foo}` share nothing.

use std::fmt;
use std::sync::Arc;

use super::arg::Arg;
use super::quarantine_key::QuarantineKey;
use crate::base::error::InvalidInput;
use crate::base::name;
use crate::base::name::Name;
use crate::base::token::ClientId;

/// The keys of one mutex. Only the lock is kept: what holds a lease keeps this, and the others follow from it; but for
/// the gate, which it has in common with other locks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct MutexKeys {
    pub(crate) lock: Arc<str>,
    /// In strict mode.
    pub(crate) gate: Option<Arc<QuarantineKey>>,
}

impl MutexKeys {
    pub(crate) fn new(prefix: &str, name: &Name) -> Result<Self, InvalidInput> {
        if prefix.is_empty() {
            let lock = name.shared(); // which was checked
            return Ok(Self::at(lock));
        }
        let lock = format!("{prefix}{name}");
        name::check_key(&lock)?;
        Ok(Self::at(lock.into()))
    }

    /// The key of a lock that is taken in another way, which may have a rule of its own. Nothing lies beside it.
    pub(crate) fn alone(lock: String) -> Result<Self, InvalidInput> {
        name::check_key(&lock)?;
        Ok(Self::at(lock.into()))
    }

    /// The keys of the lock at this key.
    pub(crate) fn at(lock: Arc<str>) -> Self {
        MutexKeys { lock, gate: None }
    }

    /// The same lock, as those take it who are in strict mode.
    pub(crate) fn behind(mut self, gate: Option<&Arc<QuarantineKey>>) -> Self {
        self.gate = gate.cloned();
        self
    }

    /// Who waits, in order.
    pub(crate) fn queue(&self) -> SideKey<'_> {
        self.beside("queue")
    }

    /// What the grant of each waiter needs.
    pub(crate) fn waiters(&self) -> SideKey<'_> {
        self.beside("waiters")
    }

    /// The fencing tokens of the latest grant.
    pub(crate) fn fence(&self) -> SideKey<'_> {
        self.beside(FENCE)
    }

    /// The holder's note.
    pub(crate) fn why(&self) -> SideKey<'_> {
        self.beside("why")
    }

    /// Who asks a node of a quorum to be told of a release.
    #[cfg(feature = "redis")]
    pub(crate) fn callers(&self) -> SideKey<'_> {
        self.beside("callers")
    }

    fn beside(&self, what: &'static str) -> SideKey<'_> {
        SideKey {
            lock: &self.lock,
            what,
        }
    }
}

/// The keys of locks that are taken along with another.
pub(crate) fn others(prefix: &str, names: &[String]) -> Result<Vec<Arc<str>>, InvalidInput> {
    let key = |name: &String| {
        let lock = format!("{prefix}{}", Name::new(name.clone())?);
        name::check_key(&lock)?;
        Ok(lock.into())
    };
    names.iter().map(key).collect()
}

/// A key beside a lock, to be written out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SideKey<'a> {
    lock: &'a str,
    what: &'static str,
}

impl SideKey<'_> {
    fn parts(&self) -> [&str; 4] {
        if self.lock.contains('{') {
            ["", self.lock, ":ll:t:", self.what]
        } else {
            ["{", self.lock, "}:ll:", self.what]
        }
    }
}

impl Arg for SideKey<'_> {
    fn write_to(&self, text: &mut Vec<u8>) {
        for part in self.parts() {
            text.extend_from_slice(part.as_bytes());
        }
    }
}

impl fmt::Display for SideKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts()
            .into_iter()
            .try_for_each(|part| f.write_str(part))
    }
}

const FENCE: &str = "fence";

/// Where a client says who it is.
pub(crate) fn client_record(prefix: &str, client: &str) -> String {
    format!("{prefix}ll:client:{client}")
}

/// Where a client's own thread listens for grants.
pub(crate) fn wake_channel(prefix: &str, client: &ClientId) -> String {
    format!("{prefix}ll:wake:{}", client.as_str())
}

/// Where the connection of a client's requests listens for grants. Another channel, so that each message arrives once.
pub(crate) fn wake_channel_along(prefix: &str, client: &ClientId) -> String {
    wake_channel(prefix, client) + ":r"
}

/// Where whoever waits for this lock listens in a cluster: in the lock's slot, because only the node that has it counts
/// its listeners. How the channel ends tells the scripts that it is a sharded one.
pub(crate) fn wake_channel_at(channel: &str, lock: &str, sharded: bool) -> String {
    let end = if sharded { SHARDED } else { "" };
    format!("{channel}:{{{}}}{end}", slot_tag(lock))
}

/// Behind the braces of a channel's tag, and so at the end of no other channel.
const SHARDED: &str = ":s";

/// The channel belongs to its slot, and messages to it stay with the node that has that.
#[cfg(feature = "redis")]
pub(crate) fn is_sharded(channel: &str) -> bool {
    channel.ends_with(SHARDED)
}

/// Fences outlive a reboot of the machine that the embedded store is on; leases and queues do not.
#[cfg(feature = "embedded")]
pub(crate) fn outlives_reboot(key: &str) -> bool {
    key.rsplit_once(':')
        .is_some_and(|(base, last)| last == FENCE && base.contains(":ll"))
}

/// What keys of one call have in common: the part in braces, or the whole key.
pub(crate) fn slot_tag(key: &str) -> &str {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(tag, _)| tag);
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(name: &str) -> MutexKeys {
        MutexKeys::new("", &Name::new(name).unwrap()).unwrap()
    }

    #[test]
    fn the_lock_is_exactly_the_users_key() {
        assert_eq!(&*keys("job").lock, "job");
        assert_eq!(
            &*MutexKeys::new("app:", &Name::new("job").unwrap())
                .unwrap()
                .lock,
            "app:job"
        );
    }

    #[test]
    fn a_name_and_the_same_name_in_braces_share_no_key() {
        let (plain, tagged) = (keys("foo"), keys("{foo}"));
        let all = |k: &MutexKeys| {
            [
                k.lock.to_string(),
                k.queue().to_string(),
                k.waiters().to_string(),
                k.fence().to_string(),
                k.why().to_string(),
            ]
        };
        for key in all(&plain) {
            assert!(!all(&tagged).contains(&key), "{key}");
        }
    }

    #[cfg(feature = "embedded")]
    #[test]
    fn all_keys_of_one_lock_share_a_slot() {
        for name in ["foo", "{foo}", "a{foo}b"] {
            let keys = keys(name);
            for key in [
                keys.lock.to_string(),
                keys.queue().to_string(),
                keys.waiters().to_string(),
                keys.fence().to_string(),
                keys.why().to_string(),
            ] {
                assert_eq!(slot_tag(&key), "foo".trim_start_matches(' '), "{key}");
            }
        }
    }

    #[cfg(feature = "embedded")]
    #[test]
    fn only_fences_outlive_a_reboot() {
        for (key, outlives) in [
            ("{a}:ll:fence", true),
            ("{a}x:ll:t:fence", true),
            ("a:fence", false),
            ("a", false),
        ] {
            assert_eq!(outlives_reboot(key), outlives, "{key}");
        }
        assert!(!outlives_reboot("{a}:ll:queue"));
    }
}
