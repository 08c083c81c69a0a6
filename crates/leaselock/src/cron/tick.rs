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

    /// Reads it from a reply; `None` for 0, which stands for none.
    pub(super) fn from_answer(answer: &Answer, at: usize) -> Result<Option<Self>, Malformed> {
        let us = answer.number(at)?;
        if us > TICK_MAX_US {
            return Err(Malformed);
        }
        Ok((us > 0).then_some(Tick(us)))
    }
}
