//! Options of a lock, as plain values. Defaults are constants, each with its reason.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::DEFAULT_TTL;
use crate::base::{InvalidInput, Ttl, debug_as, span};
use crate::engine::guard::owner::Owner;
use crate::engine::values::{Copies, OnWait, Wait};
use crate::interop::preset::Preset;
use crate::interop::protocol::Protocol;

/// The default drift: 1 %.
///
/// A clock that runs one part in a hundred fast or slow is broken; quartz is a thousand times better.
pub const DEFAULT_DRIFT_PPM: u32 = 10_000;
/// A note is for human readers; longer text belongs in a log.
const WHY_MAX: usize = 200;

/// Options of a lock, by value. [`Default`] has the defaults; every setter returns the changed options.
#[derive(Clone, Default)]
#[must_use = "options do nothing until a lock is taken with them"]
pub struct Options {
    /// As the caller set it; [`Options::length`] is the effective one.
    pub(crate) ttl: Option<Duration>,
    /// As the caller set it; [`Options::wait_policy`] is the effective one.
    pub(crate) wait: Option<Wait>,
    /// The library whose locks are shared, and whose defaults apply.
    pub(crate) like: Option<Preset>,
    pub(crate) priority: i32,
    /// `None` when the caller did not set it: then as the protocol can.
    pub(crate) renewal: Option<bool>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) why: Option<String>,
    pub(crate) fencing: Option<bool>,
    /// As what its acquisitions are counted.
    pub(crate) class: Option<Arc<str>>,
    pub(crate) on_wait: Option<OnWait>,
    /// For whom it is acquired.
    pub(crate) owner: Option<Owner>,
    /// The replicas that confirm a grant.
    pub(crate) copies: Option<Copies>,
    pub(crate) protocol: Protocol,
    /// The longest ttl that the store allows, set by the client. A default ttl is shortened to it.
    pub(crate) longest: Option<Duration>,
}

/// Writes the same setters for `Options` and for every type that carries options.
macro_rules! setters {
    ($($field:ident).*) => {
        /// Sets how long the lease lasts without renewal: 10 ms to 30 days, 10 s by default.
        ///
        /// A longer ttl survives longer pauses; a shorter one frees the lock sooner after a crash. Where strict mode or
        /// a quorum allows less than the default, the default is the longest that they allow; a ttl that the caller set
        /// is refused instead.
        ///
        /// # Examples
        /// ```
        /// # let client = leaselock::Client::open("mem:")?;
        /// let mutex = client.mutex("invoices").ttl(std::time::Duration::from_secs(30));
        /// # Ok::<_, leaselock::error::InvalidInput>(())
        /// ```
        pub fn ttl(mut self, ttl: std::time::Duration) -> Self {
            self$(.$field)*.ttl = Some(ttl);
            self
        }

        /// Sets how long to wait while another client holds the lock; for ever by default.
        ///
        /// # Examples
        /// ```
        /// # let client = leaselock::Client::open("mem:")?;
        /// use leaselock::Wait;
        ///
        /// let retrying = client.mutex("invoices").wait(Wait::retries(3)); // without a queue entry
        /// let queueing = client.mutex("invoices").wait(Wait::Timeout(std::time::Duration::from_secs(5)));
        /// # Ok::<_, leaselock::error::InvalidInput>(())
        /// ```
        pub fn wait(mut self, wait: $crate::engine::values::request::Wait) -> Self {
            self$(.$field)*.wait = Some(wait);
            self
        }

        /// Sets the priority in the queue: larger goes first; 0 by default.
        ///
        /// A stream of high priorities starves low ones.
        ///
        /// # Examples
        /// ```
        /// # let client = leaselock::Client::open("mem:")?;
        /// let urgent = client.mutex("invoices").priority(10);
        /// # Ok::<_, leaselock::error::InvalidInput>(())
        /// ```
        pub fn priority(mut self, priority: i32) -> Self {
            self$(.$field)*.priority = priority;
            self
        }

        /// Sets whether the lease is renewed in the background.
        ///
        /// `true` by default, because work takes longer than expected; `false` with a protocol that cannot renew.
        ///
        /// # Examples
        /// ```
        /// # let client = leaselock::Client::open("mem:")?;
        /// let mutex = client.mutex("invoices").ttl(std::time::Duration::from_secs(60)).renewal(false); // 60 s at most
        /// # Ok::<_, leaselock::error::InvalidInput>(())
        /// ```
        pub fn renewal(mut self, on: bool) -> Self {
            self$(.$field)*.renewal = Some(on);
            self
        }

        /// Sets the longest time to hold it, renewals and extensions included; unlimited by default.
        ///
        /// At least the ttl. Then the lease is lost, with [`MaxHoldReached`]($crate::LostReason::MaxHoldReached).
        pub fn max_hold(mut self, longest: std::time::Duration) -> Self {
            self$(.$field)*.max_hold = Some(longest);
            self
        }

        /// Sets a note that other clients see while the lease is held: at most 200 characters, no secret.
        ///
        /// Only for a mutex, a writer and a leader, because it lies beside the name: a reader or a holder of permits with a
        /// note is refused.
        ///
        /// # Examples
        /// ```
        /// # let client = leaselock::Client::open("mem:")?;
        /// let mutex = client.mutex("invoices").note("the monthly run");
        /// # Ok::<_, leaselock::error::InvalidInput>(())
        /// ```
        pub fn note(mut self, note: impl Into<String>) -> Self {
            self$(.$field)*.why = Some(note.into());
            self
        }

        /// Sets whether a fencing token is issued.
        ///
        /// `true` by default, because a lock alone cannot stop a late write; `false` with a protocol that has none.
        pub fn fencing(mut self, on: bool) -> Self {
            self$(.$field)*.fencing = Some(on);
            self
        }

        /// Sets the class under which [`stats`]($crate::Client::stats) counts this lock's acquisitions, such as "invoice".
        ///
        /// Not the name: a client tells 64 classes apart, and counts further ones as `other`. At most 100 characters count.
        pub fn class(mut self, class: impl Into<String>) -> Self {
            self$(.$field)*.class = Some(std::sync::Arc::from(class.into()));
            self
        }

        /// Sets how the client takes the lock on the server; [`Native`]($crate::interop::Protocol::Native) by default.
        ///
        /// An option that the protocol does not support is refused, with the reason, by
        /// [`validate`]($crate::Mutex::validate) and by the first operation.
        pub fn protocol(mut self, protocol: $crate::interop::Protocol) -> Self {
            self$(.$field)*.protocol = protocol;
            self
        }

        /// Requires that `count` replicas confirm a grant within `timeout`.
        ///
        /// At least one replica; the timeout is from 1 ms to less than the ttl. When too few have confirmed by then, the
        /// client releases the lock to the next waiter, still within the timeout. The error is
        /// [`TooFewReplicas`]($crate::AcquireError::TooFewReplicas), and no wait policy tries again. Without this option a
        /// grant counts as soon as the server has it. Renewals and extensions are not confirmed.
        ///
        /// This narrows what a failover can lose and does not close it: a replica without the grant may be the one that
        /// is promoted. Only on a single server or behind Sentinels, in the native protocol. Refused for upgradable reads
        /// and downgrades, and over a connection that the program handed in. The user needs the command `WAIT`.
        pub fn min_replicas(mut self, count: u32, timeout: std::time::Duration) -> Self {
            self$(.$field)*.copies = Some($crate::engine::values::request::Copies::new(count, None, timeout));
            self
        }

        /// Requires that the server and `replicas` replicas have a grant on disk; replaces
        /// [`min_replicas`](Self::min_replicas).
        ///
        /// On disk means: in their append-only files. The server must be Redis 7.2 or later, or Valkey; an older one is an
        /// error.
        pub fn fsynced(mut self, replicas: u32, timeout: std::time::Duration) -> Self {
            self$(.$field)*.copies = Some($crate::engine::values::request::Copies::new(replicas, Some(true), timeout));
            self
        }

        /// Requires that `replicas` replicas have a grant on disk, as [`fsynced`](Self::fsynced), whether or not the
        /// server itself writes an append-only file.
        pub fn replicas_fsynced(mut self, replicas: u32, timeout: std::time::Duration) -> Self {
            self$(.$field)*.copies = Some($crate::engine::values::request::Copies::new(replicas, Some(false), timeout));
            self
        }

        /// Sets a callback for every poll while an acquisition waits.
        ///
        /// It waits in the queue, or for the end of a quarantine. When a poll fails and is retried, the callback gets
        /// the [`error`]($crate::options::Waiting::error). It must not block.
        ///
        /// # Examples
        /// ```
        /// # let client = leaselock::Client::open("mem:")?;
        /// let mutex = client.mutex("invoices").on_wait(|waiting| println!("position {}", waiting.position));
        /// # Ok::<_, leaselock::error::InvalidInput>(())
        /// ```
        pub fn on_wait(mut self, callback: impl Fn(&$crate::engine::values::request::Waiting) + Send + Sync + 'static) -> Self {
            self$(.$field)*.on_wait = Some(std::sync::Arc::new(callback));
            self
        }

        /// Acquires for this [owner]($crate::Owner), which may acquire again what it holds.
        ///
        /// The owner must be of the same client. The acquisition shares no queue entry with other tasks.
        pub fn owner(mut self, owner: &$crate::Owner) -> Self {
            self$(.$field)*.owner = Some(owner.clone());
            self
        }
    };
}
pub(crate) use setters;

impl Options {
    setters!();

    /// Returns the effective ttl: the caller's, else the shared library's default, else ours.
    ///
    /// Defaults are shortened to the longest ttl that the store allows, because no caller asked for them.
    pub(crate) fn length(&self) -> Duration {
        self.ttl.unwrap_or_else(|| {
            let usual = self.like.and_then(Preset::ttl).unwrap_or(DEFAULT_TTL);
            self.longest
                .filter(|longest| *longest < usual)
                .map_or(usual, |longest| self.rounded(longest))
        })
    }

    /// Returns the protocol, when it is another library's.
    pub(crate) fn foreign(&self) -> Option<Protocol> {
        (self.protocol != Protocol::Native).then_some(self.protocol)
    }

    /// Rounds to whole seconds where the protocol has no finer ones.
    fn rounded(&self, ttl: Duration) -> Duration {
        let whole = self.like.is_some_and(Preset::whole_seconds) || self.protocol.whole_seconds();
        if whole && ttl >= Duration::from_secs(1) {
            Duration::from_secs(ttl.as_secs())
        } else {
            ttl
        }
    }

    /// Returns the effective wait policy, chosen in the same order.
    pub(crate) fn wait_policy(&self) -> Wait {
        let theirs = || self.like.map(Preset::wait);
        self.wait.or_else(theirs).unwrap_or(Wait::Forever)
    }

    /// Checks that all options are in range, and returns the ttl.
    pub(crate) fn check(&self) -> Result<Ttl, InvalidInput> {
        let ttl = self.length();
        let refused = |text| Err(InvalidInput::new(text));
        if let Some(Wait::Poll { jitter_percent, .. }) = self.wait
            && jitter_percent > 100
        {
            return refused(format!(
                "jitter of {jitter_percent} % is out of range: 0 to 100"
            ));
        }
        if let Some(hold) = self.max_hold.filter(|hold| *hold < ttl) {
            let (hold, ttl) = (span(hold), span(ttl));
            let right = "make it at least as long";
            return refused(format!(
                "max_hold {hold} is shorter than the ttl {ttl}; {right}"
            ));
        }
        if let Some(why) = &self.why
            && (why.chars().count() > WHY_MAX || why.chars().any(char::is_control))
        {
            let right = "characters and no control characters";
            return refused(format!("a note has at most {WHY_MAX} {right}"));
        }
        if let Some(copies) = self.copies {
            copies.check(ttl)?;
        }
        if let Some(preset) = self.like {
            preset.check(ttl, self.protocol)?;
        }
        self.check_protocol(ttl)?;
        Ttl::new(ttl)
    }

    fn check_protocol(&self, ttl: Duration) -> Result<(), InvalidInput> {
        let Some(protocol) = self.foreign() else {
            return Ok(());
        };
        let no_renewal = protocol.why_no_renewal();
        let (what, why) = if self.fencing == Some(true) {
            let why = "the other programs that take the lock issue none";
            ("a fencing token", why)
        } else if let (Some(true), Some(why)) = (self.renewal, no_renewal) {
            ("renewal", why)
        } else if self.priority != 0 {
            ("a priority", "it has no queue to go ahead in")
        } else if self.copies.is_some() {
            let why = "others who take the lock do not wait for them";
            ("a count of replicas", why)
        } else if self.why.is_some() {
            ("a note", "there is no place for it beside the lock")
        } else if protocol.whole_seconds() && (ttl.subsec_nanos() != 0 || ttl.is_zero()) {
            return Err(InvalidInput::new(format!(
                "ttl {}: the protocol {protocol} counts whole seconds, from 1 s",
                span(ttl)
            )));
        } else {
            return Ok(());
        };
        Err(InvalidInput::new(format!(
            "the protocol {protocol} does not support {what}: {why}; leave it out, or use the native protocol"
        )))
    }

    pub(crate) fn check_run(&self) -> Result<(), InvalidInput> {
        let wrong = if self.fencing == Some(false) || !self.renews() {
            "a run has a fencing token and is renewed: leave `fencing(false)` and `renewal(false)` out"
        } else if self.owner.is_some() {
            "a run has no owner, because no other task may share it"
        } else {
            return Ok(());
        };
        Err(InvalidInput::new(wrong))
    }

    pub(crate) fn renews(&self) -> bool {
        let why_not = self.foreign().and_then(Protocol::why_no_renewal);
        self.renewal.unwrap_or(why_not.is_none())
    }

    pub(crate) fn fences(&self) -> bool {
        self.fencing.unwrap_or(self.foreign().is_none())
    }
}

debug_as!(Options, it => {
    ttl: it.length(), wait: it.wait_policy(), like: it.like, priority: it.priority, renewal: it.renewal,
    max_hold: it.max_hold, why: it.why, fencing: it.fencing, protocol: it.protocol, copies: it.copies, owner: it.owner
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_out_of_range_are_refused_with_what_would_be_right() {
        let second = Duration::from_secs(1);
        let shorter = || Options::default().ttl(second);
        let jitter = Wait::Poll {
            count: None,
            delay: second,
            jitter_percent: 101,
        };
        for (options, says) in [
            (Options::default().ttl(Duration::ZERO), "10 ms to 30 days"),
            (Options::default().max_hold(second), "at least as long"),
            (Options::default().note("x".repeat(201)), "at most 200"),
            (Options::default().note("a\nb"), "control"),
            (Options::default().wait(jitter), "0 to 100"),
            (shorter().min_replicas(0, second / 2), "at least one"),
            (shorter().replicas_fsynced(0, second / 2), "at least one"),
            (
                shorter().min_replicas(1, Duration::ZERO),
                "less than the ttl",
            ),
            (shorter().min_replicas(1, second), "less than the ttl"),
            (
                shorter()
                    .min_replicas(1, second / 2)
                    .protocol(Protocol::SetnxPexpire),
                "native protocol",
            ),
        ] {
            let refusal = options.check().unwrap_err().to_string();
            assert!(refusal.contains(says), "{refusal}");
        }
        assert!(Options::default().check().is_ok());
    }

    #[test]
    fn a_ttl_that_nobody_asked_for_fits_itself_to_the_longest_that_the_store_allows() {
        let of = |ms: u64, options: Options| {
            let longest = Some(Duration::from_millis(ms));
            let options = Options { longest, ..options };
            options.check().unwrap().as_ms()
        };
        assert_eq!(of(60_000, Options::default()), 10_000);
        assert_eq!(of(4_500, Options::default()), 4_500);
        let like = |preset| Options {
            like: Some(preset),
            ..Options::default()
        };
        assert_eq!(of(4_500, like(Preset::REDSYNC)), 4_500);
        let seconds = Preset::all().iter().find(|preset| preset.whole_seconds());
        assert_eq!(of(4_500, like(*seconds.unwrap())), 4_000);
        // A ttl that the caller set stays as it is, for the store to refuse.
        let asked = Options::default().ttl(Duration::from_secs(20));
        assert_eq!(of(4_500, asked), 20_000);
    }
}
