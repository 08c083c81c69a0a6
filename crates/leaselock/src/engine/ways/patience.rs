//! What the requests of one wait have come to, and how much longer the wait may go on. Pure: time is an argument.

use std::time::Duration;

use super::schedule;
use crate::base::{Moment, StoreError};
use crate::engine::values::Seen;

/// A wait that never had an answer is given up after this time, also one without a timeout: a wait for a holder is one
/// thing, a wait for a server that was never there another. A store that others keep busy is there.
pub(super) const NEVER_ANSWERED: Duration = Duration::from_secs(2);
/// With less time a request would time out, and its error would hide the error of the request before it.
pub(super) const SHORTEST_REQUEST: Duration = Duration::from_millis(100);

/// What the requests of one wait have come to.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// The latest answer.
    pub(super) seen: Option<Seen>,
    /// The position in the queue, by the latest answer that named one.
    pub(super) position: u64,
    /// Failures since the latest answer.
    failures: u32,
    /// True if the store is known to be there, although it gave no answer.
    is_there: bool,
    /// The error of the latest request.
    pub(super) error: Option<StoreError>,
}

impl Patience {
    /// A wait that begins with an answer to an earlier one.
    pub(super) fn after(seen: Option<Seen>) -> Self {
        Patience {
            seen,
            ..Patience::default()
        }
    }

    pub(super) fn answered(&mut self, seen: Seen, position: u64) {
        self.seen = Some(seen);
        self.position = position;
        self.failures = 0;
        self.error = None;
    }

    /// Returns the pause before the next request.
    pub(super) fn failed(&mut self, source: StoreError) -> Duration {
        self.is_there |= source.is_contention();
        self.error = Some(source);
        self.failures += 1;
        schedule::jittered(schedule::after_error(self.failures), 50)
    }

    /// The store gave no answer that counts, but it is there.
    pub(super) fn found_the_store(&mut self) {
        self.is_there = true;
    }

    /// The latest answer and the position that it named.
    pub(super) fn last(&self) -> Option<(&Seen, u64)> {
        self.seen.as_ref().map(|seen| (seen, self.position))
    }

    /// True if the store was there at least once: failures from now on do not end the wait.
    pub(super) fn has_met_the_store(&self) -> bool {
        self.seen.is_some() || self.is_there
    }

    /// The error of the latest request, if the store was never there.
    pub(super) fn never_answered(&self) -> Option<&StoreError> {
        self.error.as_ref().filter(|_| !self.has_met_the_store())
    }

    /// How long the next request may take. The first one has all its time, because it may need a connection first. A
    /// wait that ends at `end` overshoots by one request, however many are made then. While no request was answered,
    /// those after the first end when the store is given up.
    pub(super) fn time_for_request(
        &self,
        longest: Duration,
        end: Option<Moment>,
        give_up_at: Option<Moment>,
        now: impl FnOnce() -> Moment,
    ) -> Duration {
        let (last, least) = if self.never_answered().is_some() {
            (give_up_at, SHORTEST_REQUEST)
        } else {
            (end.map(|end| end.plus(longest)), Duration::ZERO)
        };
        last.map_or(longest, |last| {
            longest.min(last.saturating_since(now()).max(least))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::ErrorKind;

    const LONGEST: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    fn silent() -> Patience {
        let mut patience = Patience::default();
        patience.failed(StoreError::unknown(ErrorKind::NoReply, "no reply"));
        patience
    }

    #[test]
    fn the_first_request_has_all_its_time_and_later_ones_end_when_the_store_is_given_up() {
        let time = |patience: &Patience, now| {
            let (end, give_up_at) = (None, Some(at(2_000)));
            let time = patience.time_for_request(LONGEST, end, give_up_at, || at(now));
            time.as_millis()
        };
        assert_eq!(time(&Patience::default(), 1_900), 1_000);
        let silent = silent();
        assert_eq!((time(&silent, 500), time(&silent, 1_700)), (1_000, 300));
        assert_eq!(time(&silent, 1_999), 100, "the shortest request");
    }

    #[test]
    fn a_wait_with_an_end_overshoots_by_one_request_at_most() {
        let mut patience = silent();
        patience.answered(Seen::held_by("AAAAAAAA").unwrap(), 1);
        let time = |now| patience.time_for_request(LONGEST, Some(at(5_000)), None, || at(now));
        assert_eq!((time(1_000), time(5_400)), (LONGEST, LONGEST * 3 / 5));
        assert_eq!(time(6_000), Duration::ZERO);
    }

    #[test]
    fn a_store_that_answered_once_or_is_kept_busy_is_not_given_up() {
        let mut patience = silent();
        assert!(patience.never_answered().is_some());
        patience.answered(Seen::held_by("AAAAAAAA").unwrap(), 3);
        patience.failed(StoreError::unknown(ErrorKind::NoReply, "no reply"));
        assert!(patience.never_answered().is_none() && patience.error.is_some());
        assert_eq!(patience.last().map(|(_, position)| position), Some(3));
        #[cfg(feature = "embedded")]
        {
            let mut busy = Patience::default();
            busy.failed(StoreError::contended("busy".to_owned()));
            assert!(busy.never_answered().is_none());
        }
    }
}
