//! The one place where keys and channels are built.
//!
//! The lock is a plain string at exactly prefix + name, so that it excludes and is excluded by every `SET NX PX` lock.
//! All other keys are in the same hash slot, told apart by `:ll:`, which names cannot contain. A name with a hash tag
//! of its own gets `:ll:t:`, so that `foo` and `{foo}` share nothing.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::Name;

use super::call::{Arg, Call};
use crate::base::{ClientId, Drift, InvalidInput, Ttl, slots, span};

/// The keys of one lock.
///
/// Every lease stores this value, so it stores the lock's key only, and the others follow from it. The gate is shared
/// with other locks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LockKeys {
    pub(crate) lock: Arc<str>,
    /// Set in strict mode.
    pub(crate) gate: Option<Arc<QuarantineKey>>,
}

macro_rules! side_keys {
    ($($(#[$about:meta])* $name:ident: $what:expr,)+) => {
        $($(#[$about])*
        pub(crate) fn $name(&self) -> SideKey<'_> {
            self.beside($what)
        })+
    };
}

impl LockKeys {
    pub(crate) fn new(prefix: &str, name: &Name) -> Result<Self, InvalidInput> {
        if prefix.is_empty() {
            let lock = name.into(); // was checked as a name
            return Ok(Self::at(lock));
        }
        let lock = format!("{prefix}{name}");
        check(&lock)?;
        Ok(Self::at(lock.into()))
    }

    /// Creates the key of a lock in another protocol, which may have rules of its own and has no side keys.
    pub(crate) fn alone(lock: String) -> Result<Self, InvalidInput> {
        check(&lock)?;
        Ok(Self::at(lock.into()))
    }

    pub(crate) fn at(lock: Arc<str>) -> Self {
        LockKeys { lock, gate: None }
    }

    /// Returns the same lock in strict mode.
    pub(crate) fn behind(mut self, gate: Option<&Arc<QuarantineKey>>) -> Self {
        self.gate = gate.cloned();
        self
    }

    side_keys! {
        /// Returns the key of the queue, in order.
        queue: "queue",
        /// Returns the key of each waiter's entry: what its grant needs.
        waiters: "waiters",
        /// Returns the key of the latest grant's fencing tokens.
        fence: FENCE,
        /// Returns the key of the holder's note.
        note: "why",
        /// Returns the key of how many permits there are and are used.
        usage: USAGE,
        /// Returns the key of the clients that a node of a quorum notifies of a release.
        callers: "callers",
    }

    /// Returns the lock's key beside which this key of a record of ticks lies.
    pub(crate) fn of_cron(key: &str) -> Option<&str> {
        let tagged = key
            .strip_prefix('{')
            .and_then(|key| key.strip_suffix("}:ll:cron"));
        tagged.or_else(|| key.strip_suffix(":ll:t:cron"))
    }

    /// Writes the quarantine key, in strict mode.
    pub(crate) fn write_gate_key(&self, call: &mut Call) {
        if let Some(gate) = &self.gate {
            call.key(&*gate.key_for(&self.lock));
        }
    }

    pub(crate) fn beside(&self, what: &'static str) -> SideKey<'_> {
        SideKey {
            lock: &self.lock,
            what,
        }
    }
}

/// Checks prefix and name together, since they become one key.
pub(crate) fn check(key: &str) -> Result<(), InvalidInput> {
    Name::check("key (prefix and name)", key)
}

/// A key beside a lock, to be written into a call.
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
/// The key of a semaphore's numbers: its permits, how many are used, the fencing token of each.
const USAGE: &str = "usage";
const EVENTS: &str = "ll:events";

pub(crate) fn client_record(prefix: &str, client: &str) -> String {
    format!("{prefix}ll:client:{client}")
}

pub(crate) fn events(prefix: &str) -> String {
    format!("{prefix}{EVENTS}")
}

/// Returns the key of what the owners of a client's holds wait for.
pub(crate) fn client_owners(prefix: &str, client: &str) -> String {
    format!("{prefix}ll:owners:{client}")
}

/// What the name of each channel of a client begins with, before the client's id.
pub(crate) fn wake_channels(prefix: &str) -> String {
    format!("{prefix}ll:wake:")
}

/// Returns the channel on which a client's own thread receives grants.
pub(crate) fn wake_channel(prefix: &str, client: &ClientId) -> String {
    wake_channels(prefix) + client.as_str()
}

/// Returns the channel on which the connection of a client's requests receives grants.
///
/// Another channel, so that each message arrives once.
pub(crate) fn wake_channel_along(prefix: &str, client: &ClientId) -> String {
    wake_channel(prefix, client) + ALONG
}

/// Returns how the names of a client's channels end on which it may hear of this lock, behind its id.
///
/// `sharded`: in a cluster, whether the channels of a slot are.
pub(crate) fn wake_channel_ends(lock: &str, sharded: Option<bool>) -> Vec<String> {
    let at_node = sharded.map(|sharded| wake_channel_at("", lock, sharded));
    [String::new(), ALONG.to_owned()]
        .into_iter()
        .chain(at_node)
        .collect()
}

/// Returns the channel on which a cluster's waiters for this lock receive messages.
///
/// It is in the lock's slot, because only the node that has the slot counts the channel's subscribers. The end of its
/// name tells the scripts that it is a sharded one.
pub(crate) fn wake_channel_at(channel: &str, lock: &str, sharded: bool) -> String {
    let end = if sharded { SHARDED } else { "" };
    format!("{channel}:{{{}}}{end}", slots::tag(lock))
}

/// Returns the channel on which changes under a lock's name are broadcast, one for each noun.
///
/// It is in the lock's slot, as [`wake_channel_at`] is, and ends with a tag in braces, which no other channel does.
pub(crate) fn broadcast_channel(prefix: &str, noun: &str, lock: &str, sharded: bool) -> String {
    let (tag, end) = (slots::tag(lock), if sharded { SHARDED } else { "" });
    let whole = match tag == lock {
        true => String::new(),
        false => format!("{lock}:"), // names of one slot have channels of their own
    };
    format!("{prefix}ll:broadcast:{noun}:{whole}{{{tag}}}{end}")
}

/// True if the channel may have several listeners, in a store where no channel is sharded.
pub(crate) fn is_broadcast(channel: &[u8]) -> bool {
    channel.ends_with(b"}")
}

/// Follows the id of a client in the name of the channel of its requests' connection.
const ALONG: &str = ":r";

/// Follows the braces of a channel's tag, and so ends no other channel's name.
const SHARDED: &str = ":s";

/// True if the channel belongs to its slot: the node that has the slot keeps its messages.
pub(crate) fn is_sharded(channel: &str) -> bool {
    channel.ends_with(SHARDED)
}

/// True if the key survives a reboot of the machine of the embedded store.
///
/// Fences, the numbers of semaphores, latches, limiters, counters, results, ticks and the event log do; leases, holds and
/// queues do not. A lock may end like the log of a prefix without a colon, so that one does not.
pub(crate) fn outlives_reboot(key: &str) -> bool {
    const OUTLIVING: [&str; 7] = [FENCE, USAGE, "latch", "limiter", "counter", "once", "cron"];
    let before_log = key.strip_suffix(EVENTS);
    before_log.is_some_and(|prefix| prefix.is_empty() || prefix.ends_with(':'))
        || key
            .rsplit_once(':')
            .is_some_and(|(base, last)| OUTLIVING.contains(&last) && base.contains(":ll"))
}

/// Added to the longest lease: the time of a grant on its way, and the rounding of the server.
const MARGIN: Duration = Duration::from_secs(2);

/// What all clients of one gate must agree on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct QuarantineKey {
    prefix: String,
    /// The gate's key, when one gate serves all locks; otherwise each slot has its own.
    key: Option<String>,
    pub(crate) longest: Ttl,
    quarantine: Duration,
}

/// Lists all the gates of a prefix.
///
/// Neighbouring slots are usually on one node, so they do not follow each other. A client that reads several gates at
/// once then reads from all nodes.
pub(crate) fn gates(prefix: &str, by_slot: bool) -> impl Iterator<Item = String> {
    const STRIDE: u16 = 10_127; // odd, so that each slot occurs once
    let one_is_enough = !by_slot || prefix.contains('{');
    let count = if one_is_enough { 1 } else { slots::SLOTS };
    let slot = |turn: u16| turn.wrapping_mul(STRIDE) % slots::SLOTS;
    (0..count).map(move |turn| gate(prefix, by_slot.then_some(slot(turn))))
}

impl QuarantineKey {
    pub(crate) fn new(prefix: &str, by_slot: bool, longest: Ttl, drift: Drift) -> Arc<Self> {
        Arc::new(QuarantineKey {
            prefix: prefix.to_owned(),
            key: (!by_slot).then(|| gate(prefix, None)),
            longest,
            quarantine: longest.as_duration() + drift.of(longest) + MARGIN,
        })
    }

    pub(crate) fn key_for(&self, lock: &str) -> Cow<'_, str> {
        match &self.key {
            Some(key) => Cow::Borrowed(key),
            None => Cow::Owned(gate(&self.prefix, Some(slots::of(lock)))),
        }
    }

    pub(crate) fn quarantine_ms(&self) -> u64 {
        u64::try_from(self.quarantine.as_millis()).unwrap_or(u64::MAX)
    }

    /// Refuses a ttl that could outlive a quarantine.
    pub(crate) fn fits(&self, ttl: Ttl) -> Result<(), InvalidInput> {
        if ttl <= self.longest {
            return Ok(());
        }
        let (ttl, longest) = (ttl.as_duration(), self.longest.as_duration());
        Err(InvalidInput::new(format!(
            "ttl {} is longer than the longest of strict mode, {}: ask for less, or let all who use this server agree on \
             a longer one",
            span(ttl),
            span(longest)
        )))
    }
}

/// Returns the key of the gate of strict mode, one for all locks of a prefix.
///
/// On a cluster, whose scripts have keys of one slot only, each slot has its own. A prefix with a hash tag has all its
/// locks in one slot, and its gate too.
pub(crate) fn gate(prefix: &str, slot: Option<u16>) -> String {
    match slot.filter(|_| !prefix.contains('{')) {
        Some(slot) => format!("{prefix}ll:gate:{{{}}}", slots::tag_in(slot)),
        None => format!("{prefix}ll:gate"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(name: &str) -> LockKeys {
        LockKeys::new("", &Name::new(name).unwrap()).unwrap()
    }

    #[test]
    fn the_lock_is_exactly_the_users_key() {
        assert_eq!(&*keys("job").lock, "job");
        assert_eq!(
            &*LockKeys::new("app:", &Name::new("job").unwrap())
                .unwrap()
                .lock,
            "app:job"
        );
    }

    #[test]
    fn a_name_and_the_same_name_in_braces_share_no_key() {
        let (plain, tagged) = (keys("foo"), keys("{foo}"));
        let all = |k: &LockKeys| {
            [
                k.lock.to_string(),
                k.queue().to_string(),
                k.waiters().to_string(),
                k.fence().to_string(),
                k.note().to_string(),
            ]
        };
        for key in all(&plain) {
            assert!(!all(&tagged).contains(&key), "{key}");
        }
    }

    #[test]
    fn a_broadcast_channel_is_of_one_name_in_its_slot_and_no_channel_of_a_client() {
        let mut channels = std::collections::BTreeSet::new();
        for (prefix, lock) in [
            ("", "job"),
            ("", "{job}"),
            ("", "{job}:s"),
            ("", "a{job}"),
            ("app:", "app:job"),
            ("{app}:", "{app}:job"),
            ("{app}:", "{app}:s"),
        ] {
            let [plain, sharded] =
                [false, true].map(|sharded| broadcast_channel(prefix, "election", lock, sharded));
            for channel in [&plain, &sharded] {
                assert_eq!(slots::tag(channel), slots::tag(lock), "{channel}");
            }
            assert!(is_broadcast(plain.as_bytes()) && !plain.ends_with(SHARDED));
            assert_eq!(sharded, format!("{plain}{SHARDED}"));
            assert!(channels.insert(plain));
        }
        let client = ClientId::random().unwrap();
        for channel in [wake_channel("", &client), wake_channel_along("", &client)] {
            assert!(!is_broadcast(channel.as_bytes()), "{channel}");
        }
    }

    #[test]
    fn all_keys_of_one_lock_share_a_slot() {
        for name in ["foo", "{foo}", "a{foo}b"] {
            let keys = keys(name);
            for key in [
                keys.lock.to_string(),
                keys.queue().to_string(),
                keys.waiters().to_string(),
                keys.fence().to_string(),
                keys.note().to_string(),
            ] {
                assert_eq!(slots::tag(&key), "foo".trim_start_matches(' '), "{key}");
            }
        }
    }

    #[test]
    fn only_what_outlasts_its_holders_outlives_a_reboot() {
        for (key, outlives) in [
            ("{a}:ll:fence", true),
            ("{a}x:ll:t:fence", true),
            ("{a}:ll:usage", true),
            ("{a}x:ll:t:usage", true),
            ("{a}:ll:latch", true),
            ("{a}:ll:limiter", true),
            ("{a}:ll:reserved", false),
            ("{a}:ll:counter", true),
            ("{a}:ll:counter:CLIENTID", false),
            ("{a}:ll:once", true),
            ("{a}:ll:barrier", false),
            ("ll:events", true),
            ("app:ll:events", true),
            ("ball:events", false),
            ("{a}:ll:leader", false),
            ("a:fence", false),
            ("a:usage", false),
            ("a", false),
            ("{a}:ll:queue", false),
            ("{a}:ll:waiters", false),
            ("{a}:ll:why", false),
        ] {
            assert_eq!(outlives_reboot(key), outlives, "{key}");
        }
    }
}

#[cfg(test)]
mod quarantine_key_tests {
    use super::*;

    #[test]
    fn a_quarantine_is_the_longest_ttl_and_its_drift_and_two_seconds() {
        let longest = Ttl::whole_ms(60_000).unwrap();
        let key = QuarantineKey::new("", false, longest, Drift { ppm: 10_000 });
        assert_eq!(key.quarantine_ms(), 60_000 + 602 + 2_000);
    }

    #[test]
    fn gates_of_a_cluster_are_one_in_each_slot_whatever_their_order() {
        let slots: std::collections::BTreeSet<u16> =
            gates("app:", true).map(|gate| slots::of(&gate)).collect();
        assert_eq!(slots.len(), usize::from(slots::SLOTS));
        assert_eq!(gates("app:", true).count(), slots.len());
        assert_eq!(
            (gates("{app}:", true).count(), gates("", false).count()),
            (1, 1)
        );
    }
}
