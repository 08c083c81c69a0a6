//! What `hold` tells of its lease: events for the program that started it, lines for people.

use std::sync::atomic::Ordering;
use std::time::Duration;

use leaselock::{LeaseView, ReleaseError};
use serde_json::Value;

use super::hold::Hold;
use super::job_lock::hold_is_over;
use crate::boottime::ends_in;
use crate::event;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::held::Held;
use crate::loss::{self, Loss};
use crate::output;
use crate::supervise::StopReason;

/// How long the reader of the events may take for the last ones, and for the grant.
const READ_WITHIN: Duration = Duration::from_secs(1);

impl Hold<'_> {
    /// A caller that does not read of the grant would never release the lock.
    pub(super) fn tell_grant(&self, lease: &Held) -> Result<(), Failure> {
        self.progress.acquired(lease);
        if self.feed.is_none() {
            let until = match self.args.kill {
                Some(pid) => format!("held until process {pid} ends"),
                None => "held until Ctrl-C".to_owned(),
            };
            self.progress.tell("held", &until, Value::Null);
        }
        self.flush().map_err(|error| {
            let text = format!("standard output: {error}; the lock was released");
            Failure::new(text, Exit::OUTPUT)
        })
    }

    pub(super) fn flush(&self) -> std::io::Result<()> {
        match &self.feed {
            Some(feed) => feed.flush_within(READ_WITHIN),
            None => Ok(()),
        }
    }

    pub(super) fn tell_renewal(&self) {
        if self.feed.is_some() && !self.is_lost.get() {
            self.progress.renewed(self.end.load(Ordering::SeqCst));
        }
    }

    pub(super) fn tell_loss(&self, reason: StopReason, lease: &Held) {
        if self.is_lost.replace(true) {
            return;
        }
        let (store, left) = (&self.client.store(), ends_in(&self.end));
        let process = format!("process {}", self.args.kill.unwrap_or_default());
        let loss = match (reason, lease.loss()) {
            (StopReason::Unguarded, _) => {
                let text = format!("the guardian process was killed: {process} is ended, exit 70");
                return self.say("unguarded", &text, Value::Null);
            }
            (StopReason::Lost, Some(lost)) => Loss::of(store, &lost),
            (StopReason::Lost | StopReason::NotRenewed, _) => {
                Loss::near(store, &lease.first_to_end())
            }
        };
        let since = self.progress.held_since();
        let loss = loss.by_longest_hold(hold_is_over(self.args.max_hold, since, &self.end));
        let mut text = loss.in_words();
        if self.args.kill.is_some() {
            let measure = loss::measure(&self.plan.guardian, &process, left);
            text = format!("{text}; {measure}");
        }
        let left = match reason {
            StopReason::Lost if !self.is_kept(lease) => Duration::ZERO,
            _ => left,
        };
        self.say("lost", &text, loss.facts(lease.fence(), left));
    }

    /// After a loss: who broke the lease, and why.
    pub(super) async fn tell_breaker(&self, lease: &LeaseView) {
        if !self.is_lost.get() || self.asked_who.get() {
            return;
        }
        let found = event::breaker(lease).await;
        self.asked_who.set(true); // not before: a program that stops meanwhile is told at the end
        if let Some(entry) = found {
            self.say("broken", &entry.to_string(), event::broken(&entry));
        }
    }

    /// One event for each name, or one for all when no answer came.
    pub(super) fn tell_not_released(&self, errors: &[ReleaseError]) {
        let in_folder = self.client.session_descriptor().is_some();
        let none = errors.is_empty().then_some(None);
        for error in errors.iter().map(Some).chain(none) {
            let (store, left) = (self.client.store(), ends_in(&self.end));
            let text = loss::not_released("held no more", &store, error, left, in_folder);
            self.say("not-released", &text, Value::Null);
        }
    }

    /// Told even with `-q`: it is an error.
    fn say(&self, event: &'static str, text: &str, facts: Value) {
        match self.feed {
            Some(_) => self.progress.tell(event, text, facts),
            None => output::say(&format!("leaselock: {}\n", output::sanitized(text))),
        }
    }
}
