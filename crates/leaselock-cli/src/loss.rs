//! The messages about a lost lease and a failed release: the store, its last error and the times.

use std::time::Duration;

use leaselock::satellite::rounded;
use serde_json::{Value, json};

use leaselock::{ErrorKind, LeaseView, Lost, LostReason, Name, ReleaseError, StoreError};

use crate::guardian::Plan;
use crate::progress::{cause, is_silence};
use crate::{show, signal_name};

/// What is known of a lease that is lost, or about to be.
pub(crate) struct Loss<'a> {
    name: Name,
    pub(crate) store: &'a str,
    /// `None`: no renewal came in time, and the deadline is near.
    reason: Option<LostReason>,
    last_error: Option<StoreError>,
    unconfirmed_for: Duration,
}

impl<'a> Loss<'a> {
    pub(crate) fn of(store: &'a str, lost: &Lost) -> Self {
        Loss {
            name: lost.name.clone(),
            store,
            reason: Some(lost.reason),
            last_error: lost.last_error().cloned(),
            unconfirmed_for: lost.unconfirmed_for().unwrap_or_default(),
        }
    }

    /// The job must end before the lease expires.
    pub(crate) fn near(store: &'a str, lease: &LeaseView) -> Self {
        Loss {
            name: lease.name().clone(),
            store,
            reason: None,
            last_error: lease.last_error(),
            unconfirmed_for: lease.unconfirmed_for(),
        }
    }

    /// The end of the longest hold has come, which is why there is no renewal.
    pub(crate) fn by_longest_hold(mut self, is_over: bool) -> Self {
        if is_over && self.reason.is_none() && self.last_error.is_none() {
            self.reason = Some(LostReason::MaxHoldReached);
        }
        self
    }

    /// The lease is not renewed at all.
    pub(crate) fn without_renewal(mut self, is_so: bool) -> Self {
        if is_so && self.reason.is_none() {
            self.reason = Some(LostReason::Expired);
        }
        self
    }

    /// The reason as one word: the library's in snake case, or that no renewal has moved the deadline.
    pub(crate) fn reason(&self) -> &'static str {
        match self.reason {
            Some(LostReason::Expired) => "expired",
            Some(LostReason::TakenOver) => "taken_over",
            Some(LostReason::Broken) => "broken",
            Some(LostReason::KeyMissing) => "key_missing",
            Some(LostReason::StoreUnreachable) => "store_unreachable",
            Some(LostReason::MaxHoldReached) => "max_hold_reached",
            Some(LostReason::Released) => "released",
            None if self.last_error.is_some() => "store_unreachable",
            _ => "not_renewed",
        }
    }

    /// Of the event `lost`. By the latest deadline the lease ends in `ends_in`, which is nothing when it has ended.
    pub(crate) fn facts(&self, fence: Option<u64>, ends_in: Duration) -> Value {
        json!({ "reason": self.reason(), "fence": fence, "deadline_in_ms": show::ms(ends_in) })
    }

    pub(crate) fn in_words(&self) -> String {
        format!("lost `{}`: {}", self.name, self.why())
    }

    fn why(&self) -> String {
        let (store, time) = (self.store, rounded(self.unconfirmed_for));
        match (self.reason, &self.last_error) {
            (None | Some(LostReason::StoreUnreachable), Some(error)) => {
                let cause = cause(error, store);
                if is_silence(error) {
                    format!("no reply from {store} for {time} ({cause})")
                } else {
                    format!("no renewal confirmed by {store} for {time} ({cause})")
                }
            }
            (Some(LostReason::StoreUnreachable), None) => {
                format!("no reply from {store} for {time}")
            }
            (None, None) => {
                format!("not renewed at {store} for {time}: no reply, or this process did not run")
            }
            (Some(LostReason::Expired), _) => {
                format!("it expired at {store}, {time} after it was last confirmed")
            }
            (Some(reason @ (LostReason::MaxHoldReached | LostReason::Released)), _) => {
                reason.to_string()
            }
            (Some(reason), None) => format!("{reason} ({store}, last confirmed {time} ago)"),
            (Some(reason), Some(error)) => {
                let cause = cause(error, store);
                format!("{reason} ({store}, last confirmed {time} ago; before that: {cause})")
            }
        }
    }
}

/// What the command does about it, to the job or to the process: by the latest deadline the lease expires in
/// `lease_ends_in`.
pub(crate) fn measure(plan: &Plan, to: &str, lease_ends_in: Duration) -> String {
    let signal = signal_name::name(plan.signal);
    if plan.signal == rustix::process::Signal::KILL {
        return format!("sent SIG{signal} to {to}");
    }
    let rest = plan.kill_in(lease_ends_in);
    let kill = if rest < Duration::from_millis(1) {
        "at once".to_owned()
    } else {
        format!("in {}", rounded(rest))
    };
    format!("sent SIG{signal} to {to}, SIGKILL follows {kill}")
}

/// The work is over (`job finished`), and the lock could not be released.
pub(crate) fn not_released(
    over: &str,
    store: &str,
    error: Option<&ReleaseError>,
    lease_ends_in: Duration,
    in_folder: bool,
) -> String {
    let source = match error {
        Some(ReleaseError::NotHeld(_)) => {
            let error = error.map(ToString::to_string).unwrap_or_default();
            return format!("{over}; {error}");
        }
        Some(ReleaseError::Unknown { source, .. } | ReleaseError::Store { source, .. }) => {
            Some(source)
        }
        _ => None,
    };
    let why = match source {
        Some(error) if error.kind() != ErrorKind::NoReply => error.to_string(),
        _ => format!("no reply from {store} in time"),
    };
    let end = if in_folder {
        "ends with the last process that has it".to_owned()
    } else {
        // Rounded up: after this time it is free.
        let seconds = u64::try_from(lease_ends_in.as_millis().div_ceil(1000));
        let end = Duration::from_secs(seconds.unwrap_or(u64::MAX));
        format!("expires in {}", rounded(end))
    };
    format!("{over}; the lock could not be released ({why}) and {end}")
}
