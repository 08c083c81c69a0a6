//! What a wait has come to so far.

use std::time::Duration;

use super::far::Far;
use super::grant_deadline::ClockSample;
use super::key_watch::Foreign;
use super::schedule;
use crate::base::error::StoreError;
use crate::engine::grant::Seen;

/// What the requests of one wait have come to.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The latest answer.
    pub(super) seen: Option<Seen>,
    /// When it was given, if it said that we stand in line.
    pub(super) reading: Option<ClockSample>,
    pub(super) in_line: bool,
    /// Where in line, by the latest answer that said so.
    pub(super) position: u64,
    /// Failures since the latest answer.
    pub(super) failures: u32,
    /// A request had no usable answer: it may have put us in line, or granted.
    pub(super) ambiguous: bool,
    /// A request had no turn, because others used the lock all the while.
    contended: bool,
    /// What the latest request failed with.
    pub(super) trouble: Option<StoreError>,
    /// What to do about a holder of another library.
    pub(super) foreign: Foreign,
    /// It is far from the head, in a folder.
    pub(super) far: Option<Far>,
}

impl Progress {
    /// A wait that goes on in another place.
    pub(super) fn after(seen: Option<Seen>) -> Self {
        Progress {
            seen,
            ..Progress::default()
        }
    }

    pub(super) fn answered(&mut self, seen: Seen) {
        self.seen = Some(seen);
        self.failures = 0;
        self.trouble = None;
    }

    /// The answer said that we are in line.
    pub(super) fn stands(&mut self, seen: Seen, position: u64, reading: ClockSample) {
        self.answered(seen);
        self.in_line = true;
        self.position = position;
        self.reading = Some(reading);
    }

    /// How long to pause before the next try.
    pub(super) fn failed(&mut self, source: &StoreError) -> Duration {
        self.ambiguous |= source.maybe_applied();
        self.contended |= source.is_contention();
        self.trouble = Some(source.clone());
        self.failures += 1;
        schedule::after_error(self.failures)
    }

    /// What the latest answer said, and where in line that was.
    pub(super) fn last(&self) -> Option<(&Seen, u64)> {
        self.seen.as_ref().map(|seen| (seen, self.position))
    }

    /// The store was there at least once, so failures from now on do not end the wait.
    pub(super) fn has_met_the_store(&self) -> bool {
        self.seen.is_some() || self.contended
    }

    /// Something of ours may be on the server, whatever the latest request came to.
    pub(super) fn owes(&self) -> bool {
        self.in_line || self.ambiguous
    }
}
