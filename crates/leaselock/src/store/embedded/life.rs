//! What the session of a holder says about its lease.

/// A lease that only a job's session keeps alive has no known end; a second makes waiters poll again soon.
const SESSION_HELD_US: u64 = 1_000_000;

/// The state of the holder's session, read anew by every call and never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Life {
    /// The ttl decides.
    #[default]
    Ttl,
    /// The process is dead and its job still runs: held until this point of the store's clock, whatever the ttl.
    Session { until_us: Option<u64> },
    /// Process and job have ended.
    Over,
}

impl Life {
    /// True if the lease is over; `ends_us` is where its ttl ends.
    pub(super) fn is_over(self, ends_us: Option<u64>, now_us: u64) -> bool {
        match self {
            Life::Ttl => ends_us.is_some_and(|ends_us| now_us > ends_us),
            Life::Session { until_us } => until_us.is_some_and(|until_us| now_us > until_us),
            Life::Over => true,
        }
    }
}

/// Returns the end that others see of a lease that only a job's session keeps alive.
pub(super) fn shown_end_us(until_us: Option<u64>, now_us: u64) -> u64 {
    let soon_us = now_us.saturating_add(SESSION_HELD_US);
    until_us.map_or(soon_us, |until_us| until_us.min(soon_us))
}
