//! The one place where keys and channels are built.
//!
//! The lock is a plain string at exactly prefix + name, so that it excludes and is excluded by every `SET NX PX` lock.
//! Everything else lies beside it in the same hash slot, told apart by `:ll:`, which names cannot contain. A name with
//! a hash tag of its own gets `:ll:t:`, so that `foo` and `{foo}` share nothing.

use crate::error::InvalidInput;
use crate::name::{self, Name};
use crate::token::ClientId;

/// The keys of one mutex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MutexKeys {
    pub(crate) lock: String,
    pub(crate) line: String,
    pub(crate) waiters: String,
    pub(crate) fence: String,
    pub(crate) why: String,
}

impl MutexKeys {
    pub(crate) fn new(prefix: &str, name: &Name) -> Result<Self, InvalidInput> {
        let lock = format!("{prefix}{name}");
        name::check_key(&lock)?;
        let base = if lock.contains('{') {
            format!("{lock}:ll:t:")
        } else {
            format!("{{{lock}}}:ll:")
        };
        Ok(MutexKeys {
            line: format!("{base}line"),
            waiters: format!("{base}waiters"),
            fence: format!("{base}{FENCE}"),
            why: format!("{base}why"),
            lock,
        })
    }
}

const FENCE: &str = "fence";

/// Where a client says who it is.
pub(crate) fn client_record(prefix: &str, client: &str) -> String {
    format!("{prefix}ll:client:{client}")
}

/// Where a client listens for its grants.
pub(crate) fn wake_channel(prefix: &str, client: &ClientId) -> String {
    format!("{prefix}ll:wake:{}", client.as_str())
}

/// Fences outlive a reboot of the machine that the embedded store is on; leases and lines do not.
#[cfg(feature = "embedded")]
pub(crate) fn outlives_reboot(key: &str) -> bool {
    key.rsplit_once(':')
        .is_some_and(|(base, last)| last == FENCE && base.contains(":ll"))
}

/// What keys of one call have in common: the part in braces, or the whole key.
#[cfg(feature = "embedded")]
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
        assert_eq!(keys("job").lock, "job");
        assert_eq!(
            MutexKeys::new("app:", &Name::new("job").unwrap())
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
                k.lock.clone(),
                k.line.clone(),
                k.waiters.clone(),
                k.fence.clone(),
                k.why.clone(),
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
                &keys.lock,
                &keys.line,
                &keys.waiters,
                &keys.fence,
                &keys.why,
            ] {
                assert_eq!(slot_tag(key), "foo".trim_start_matches(' '), "{key}");
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
        assert!(!outlives_reboot("{a}:ll:line"));
    }
}
