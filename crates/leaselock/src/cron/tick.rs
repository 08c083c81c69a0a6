//! A tick: the instant at which a run is due.

use std::time::{Duration, SystemTime};

use crate::base::error::InvalidInput;
use crate::script::{Answer, Malformed};

/// Above it a script's numbers would skip microseconds: in the year 2255.
const TICK_MAX_US: u64 = 1 << 53;

/// A tick in microseconds since 1970, rounded down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tick(pub(super) u64);

impl Tick {
    pub(super) fn new(time: SystemTime) -> Result<Self, InvalidInput> {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).ok();
        let us = since.and_then(|since| u64::try_from(since.as_micros()).ok());
        match us.filter(|us| (1..=TICK_MAX_US).contains(us)) {
            Some(us) => Ok(Tick(us)),
            None => Err(InvalidInput::new(
                "a tick is a time from 1970 to 2255, after the first microsecond".to_owned(),
            )),
        }
    }

    pub(super) fn time(self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_micros(self.0)
    }

    /// In UTC, to the second.
    pub(super) fn in_words(self) -> String {
        let seconds = self.0 / 1_000_000;
        // Days are counted from 0000-03-01 on, in eras of 400 years, so that a leap day ends its year.
        let days = seconds / 86_400 + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let (day, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
        let year = year + 400 * era + u64::from(month <= 2);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }

    /// Reads it from a reply; `None` for 0, which stands for none.
    pub(super) fn from_answer(answer: &Answer, at: usize) -> Result<Option<Self>, Malformed> {
        let us = answer.number(at)?;
        if us > TICK_MAX_US {
            return Err(Malformed);
        }
        Ok((us > 0).then_some(Tick(us)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_in_words_has_the_day_of_the_calendar_also_around_leap_days() {
        for (seconds, words) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951868799, "2000-02-29 23:59:59 UTC"),
            (1795746600, "2026-11-27 02:30:00 UTC"),
            (1798761599, "2026-12-31 23:59:59 UTC"),
            (1798761600, "2027-01-01 00:00:00 UTC"),
            (4107499200, "2100-02-28 12:00:00 UTC"),
            (4107542400, "2100-03-01 00:00:00 UTC"),
            (13574563201, "2400-02-29 00:00:01 UTC"),
        ] {
            assert_eq!(Tick(seconds * 1_000_000).in_words(), words);
        }
    }
}
