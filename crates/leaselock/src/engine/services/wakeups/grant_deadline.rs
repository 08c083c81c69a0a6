//! Until when a waiter may use a lease that a message brings. Pure arithmetic.
//!
//! The message says at which time of the server the lease began; an earlier answer ties that clock to ours. The answer
//! was read off the server's clock after its request was sent, so a lease that began so much later on that clock began
//! at `sent` and so much later on ours, or after that. Whatever could make this untrue is a doubt, and then the waiter
//! asks the server instead, which costs it a round trip and nothing else.

use std::time::Duration;

use leaselock_fence::Fence;

use crate::base::{Drift, Moment, Ttl, fence};

/// A message that is surely late by more than this share of the lease was held up on its way, or the server's clock
/// went back: either way something is wrong.
const LATE_SHARE: u32 = 10;
/// At least this share of the lease must be left. The first renewal comes at a third of what is left, and with less
/// than half of the lease one that is slow could be its end.
const LEFT_SHARE: u32 = 2;

/// What must be as it was when the request of an answer was sent, or the times of answer and message may come from
/// different clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockContext {
    /// Which connection carries the requests; `None` when that cannot be told.
    pub(crate) connection: Option<u64>,
    /// Which connection brings the messages.
    pub(crate) subscription: u64,
    /// How often the server's clock was seen to jump.
    pub(crate) jumps: u64,
}

impl ClockContext {
    /// When there had never been a connection before the request and there has been one since, the answer came over
    /// that one. Otherwise it is not known, and another one is a doubt.
    pub(crate) fn answered_over(self, latest: Option<u64>) -> Self {
        match (self.connection, latest) {
            (Some(0), Some(1)) => ClockContext {
                connection: latest,
                ..self
            },
            _ => self,
        }
    }
}

/// The server's clock as an answer showed it: `server_us` at some moment between `sent` and `received`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockSample {
    pub(crate) sent: Moment,
    pub(crate) received: Moment,
    pub(crate) server_us: u64,
    /// Before the request was sent.
    pub(crate) era: ClockContext,
}

/// A grant, and when its message came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceivedGrant {
    pub(crate) grant: Grant,
    pub(crate) at: Moment,
}

/// A lease in our own time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaseWindow {
    /// It began then at the earliest.
    pub(crate) began: Moment,
    /// It may be used until then.
    pub(crate) deadline: Moment,
}

/// Why the server is to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Uncertain {
    /// The connections are not those of the answer, or the server's clock has jumped since.
    OtherEra,
    /// It was made before the answer, which said that we wait: that lease is over, or the clock went back.
    BeforeAnswer,
    /// More time has passed on the server than here: its clock went forward.
    Ahead,
    /// The message was held up on its way, or the server's clock went back.
    Late,
    /// In strict mode the gate is asked.
    Strict,
    /// Too little of the lease is left, or nothing: we were frozen, perhaps.
    TooLittleLeft,
}

/// Until when the lease may be used, if the message alone can tell.
pub(crate) fn reckon(
    reading: &ClockSample,
    heard: &ReceivedGrant,
    era: ClockContext,
    now: Moment,
    drift: Drift,
) -> Result<LeaseWindow, Uncertain> {
    let ReceivedGrant { grant, at } = heard;
    if reading.era != era || era.connection.is_none() {
        return Err(Uncertain::OtherEra);
    }
    let Some(since_us) = grant.time_us.checked_sub(reading.server_us) else {
        return Err(Uncertain::BeforeAnswer);
    };
    let since = std::time::Duration::from_micros(since_us);
    // The sooner the better: a step of the clock hides in the time that the message took.
    let elapsed = at.saturating_since(reading.sent);
    if since > elapsed + drift.over(elapsed) {
        return Err(Uncertain::Ahead);
    }
    let ttl = grant.ttl.as_duration();
    // The lease began no later than this, so what is late against it is surely late: a slow answer is no doubt.
    let began_at_latest = reading.received.plus(since);
    if now.saturating_since(began_at_latest) > ttl / LATE_SHARE {
        return Err(Uncertain::Late);
    }
    let deadline = drift.deadline_after(reading.sent, since, grant.ttl);
    if deadline.saturating_since(now) < ttl / LEFT_SHARE {
        return Err(Uncertain::TooLittleLeft);
    }
    let began = reading.sent.plus(since).min(*at);
    Ok(LeaseWindow { began, deadline })
}

/// A message as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// A lease of this client was broken, as `lua/mutex/break.lua` says it.
    Broken,
    /// For the waiter of this token. `None` for words of another version: a reason to poll, as any message is.
    To(&'a str, Option<Grant>),
}

/// A lease that the store has written for a waiter already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The first number that is reserved for it; `None` without fencing.
    pub(crate) fence: Option<Fence>,
    /// How many numbers are.
    pub(crate) range: u32,
    /// The store's time when it was made.
    pub(crate) time_us: u64,
    /// How long it lasts from then.
    pub(crate) ttl: Ttl,
    /// True if others were left in the queue behind it.
    pub(crate) others: bool,
}

impl<'a> Message<'a> {
    /// The token is the last word, whatever comes before it. `None` when it is no text.
    pub(crate) fn parse(message: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(message).ok()?;
        let (words, token) = text.rsplit_once(' ').unwrap_or(("", text));
        Some(match words {
            "broken" => Message::Broken,
            _ => Message::To(token, Grant::parse(words)),
        })
    }
}

impl Grant {
    /// `grant FENCE RANGE TIME_US TTL_MS OTHERS`, as `lua/grant.lua` writes it, and nothing else.
    fn parse(words: &str) -> Option<Self> {
        let mut words = words.strip_prefix("grant ")?.split(' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let (fence, range) = (number()?, number()?);
        let (time_us, ttl_ms) = (number()?, number()?);
        let others = match number()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let grant = Grant {
            fence: fence::of_reply(fence),
            range: u32::try_from(range).ok()?,
            time_us,
            ttl: Ttl::new(Duration::from_millis(ttl_ms)).ok()?,
            others,
        };
        words.next().is_none().then_some(grant)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::clock::Ttl;

    const DRIFT: Drift = Drift { ppm: 10_000 };
    const ERA: ClockContext = ClockContext {
        connection: Some(1),
        subscription: 1,
        jumps: 0,
    };
    /// The server's clock when ours shows nought.
    const SERVER_US: u64 = 1_700_000_000_000_000;

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    /// Sent at 1000 ms, received 10 ms later, read half-way.
    fn reading() -> ClockSample {
        ClockSample {
            sent: at(1000),
            received: at(1010),
            server_us: SERVER_US + 1_005_000,
            era: ERA,
        }
    }

    /// Granted for 5 s when the server's clock showed so many milliseconds more than at our nought; heard at `heard`.
    fn heard(granted_ms: u64, heard: Moment) -> ReceivedGrant {
        let grant = Grant {
            fence: None,
            range: 1,
            time_us: SERVER_US + granted_ms * 1000,
            ttl: Ttl::new(Duration::from_secs(5)).unwrap(),
            others: false,
        };
        ReceivedGrant { grant, at: heard }
    }

    fn reckoned(granted_ms: u64, heard_ms: u64, now: u64) -> Result<LeaseWindow, Uncertain> {
        let heard = heard(granted_ms, at(heard_ms));
        reckon(&reading(), &heard, ERA, at(now), DRIFT)
    }

    #[test]
    fn a_lease_ends_by_the_answers_request_and_the_time_that_the_server_counted_since() {
        // 3 s after the answer was read; drift over 3 s and the 5 s of the lease, and 2 ms.
        let lease = reckoned(4_005, 4_006, 4_006).unwrap();
        assert_eq!(lease.began, at(4000));
        assert_eq!(lease.deadline, at(4000 + 5000 - 80 - 2));
        // The server's key lives from 4005 to 9005.
        assert!(lease.deadline < at(9005));
    }

    #[test]
    fn whichever_moment_the_answer_was_read_at_the_lease_is_not_used_beyond_its_end() {
        for read_after_ms in 0..=10 {
            let reading = ClockSample {
                server_us: SERVER_US + 1_000_000 + read_after_ms * 1000,
                ..reading()
            };
            for granted_ms in [1_011, 1_500, 9_000, 16_000] {
                let heard = heard(granted_ms, at(granted_ms));
                let lease = reckon(&reading, &heard, ERA, at(granted_ms), DRIFT).unwrap();
                assert!(
                    lease.began <= at(granted_ms),
                    "{read_after_ms} {granted_ms}"
                );
                assert!(
                    lease.deadline < at(granted_ms + 5000),
                    "{read_after_ms} {granted_ms}"
                );
            }
        }
    }

    #[test]
    fn a_server_whose_clock_runs_fast_within_the_drift_stretches_no_lease() {
        // 10 s here are 10.1 s there, and the lease of 5 s there ends after 4.95 s here.
        let lease = reckoned(1_005 + 10_100, 11_005, 11_005).unwrap();
        assert!(lease.began <= at(11_005));
        assert!(lease.deadline <= at(11_005 + 4_950), "{lease:?}");
    }

    #[test]
    fn a_clock_that_went_forward_between_answer_and_grant_is_doubted() {
        assert_eq!(reckoned(4_005 + 200, 4_006, 4_006), Err(Uncertain::Ahead));
        assert_eq!(reckoned(3_600_000, 4_006, 4_006), Err(Uncertain::Ahead));
        let end_of_time = heard(u64::MAX / 1000 - SERVER_US, at(4_006));
        assert_eq!(
            reckon(&reading(), &end_of_time, ERA, at(4_006), DRIFT),
            Err(Uncertain::Ahead)
        );
    }

    #[test]
    fn a_clock_that_went_forward_is_judged_by_when_the_message_came_and_not_by_when_it_was_read() {
        assert_eq!(reckoned(4_005 + 200, 4_006, 4_300), Err(Uncertain::Ahead));
    }

    #[test]
    fn a_clock_that_went_back_between_answer_and_grant_is_doubted() {
        assert_eq!(reckoned(4_005 - 700, 4_006, 4_006), Err(Uncertain::Late));
        assert_eq!(
            reckoned(4_005 - 3_600, 4_006, 4_006),
            Err(Uncertain::BeforeAnswer)
        );
    }

    #[test]
    fn a_lease_that_was_granted_before_the_answer_said_that_we_wait_is_over() {
        assert_eq!(reckoned(1_004, 1_011, 1_011), Err(Uncertain::BeforeAnswer));
    }

    #[test]
    fn a_message_that_is_late_by_a_tenth_of_the_lease_is_doubted_and_a_slow_answer_is_not() {
        assert!(reckoned(4_005, 4_510, 4_510).is_ok());
        assert_eq!(reckoned(4_005, 4_511, 4_511), Err(Uncertain::Late));
        let slow = ClockSample {
            received: at(2_000),
            ..reading()
        };
        let heard = heard(4_005, at(4_900));
        assert!(reckon(&slow, &heard, ERA, at(4_900), DRIFT).is_ok());
    }

    #[test]
    fn a_waiter_that_was_frozen_after_the_message_came_does_not_use_a_lease_that_is_over() {
        assert_eq!(reckoned(4_005, 4_006, 60_000), Err(Uncertain::Late));
        // Nor when nothing tells that it is late.
        let slow = ClockSample {
            received: at(9_000),
            ..reading()
        };
        let heard = heard(4_005, at(4_006));
        for now in [6_500, 8_918, 60_000] {
            let verify_soon = reckon(&slow, &heard, ERA, at(now.min(12_000)), DRIFT);
            assert_eq!(verify_soon, Err(Uncertain::TooLittleLeft), "{now}");
        }
    }

    #[test]
    fn the_request_that_made_the_first_connection_was_answered_over_it_and_no_other_is_known() {
        let over = |before, latest| {
            let era = ClockContext {
                connection: before,
                ..ERA
            };
            era.answered_over(latest).connection
        };
        assert_eq!(over(Some(0), Some(1)), Some(1));
        for (before, latest) in [(0, 0), (0, 2), (1, 1), (1, 2)] {
            assert_eq!(over(Some(before), Some(latest)), Some(before));
        }
        assert_eq!((over(None, None), over(None, Some(1))), (None, None));
    }

    #[test]
    fn another_connection_or_a_jump_of_the_clock_since_the_answer_is_a_doubt() {
        let heard = heard(4_005, at(4_006));
        let doubted = |reading: &ClockSample, era| reckon(reading, &heard, era, at(4_006), DRIFT);
        let others = [
            ClockContext {
                connection: Some(2),
                ..ERA
            },
            ClockContext {
                connection: None,
                ..ERA
            },
            ClockContext {
                subscription: 2,
                ..ERA
            },
            ClockContext { jumps: 1, ..ERA },
        ];
        for era in others {
            assert_eq!(
                doubted(&reading(), era),
                Err(Uncertain::OtherEra),
                "{era:?}"
            );
        }
        let unknown = ClockSample {
            era: others[1],
            ..reading()
        };
        assert_eq!(doubted(&unknown, others[1]), Err(Uncertain::OtherEra));
    }
}

#[cfg(test)]
mod grant_message_tests {
    use super::*;

    fn grant(words: &str) -> Option<Grant> {
        let message = format!("{words} token");
        let Some(Message::To("token", grant)) = Message::parse(message.as_bytes()) else {
            panic!("{message}")
        };
        grant
    }

    #[test]
    fn a_grant_is_read_as_the_script_writes_it() {
        let expected = Grant {
            fence: Some(Fence::new(1_795_224_695_691_371)),
            range: 1,
            time_us: 1_795_224_695_691_370,
            ttl: Ttl::new(Duration::from_secs(5)).unwrap(),
            others: true,
        };
        let words = "grant 1795224695691371 1 1795224695691370 5000 1";
        assert_eq!(grant(words), Some(expected));
        let unfenced = grant("grant 0 1 1795224695691370 5000 0").unwrap();
        assert!(unfenced.fence.is_none() && !unfenced.others);
    }

    #[test]
    fn what_is_not_understood_says_no_more_than_whom_it_is_for() {
        for words in [
            "",
            "grant",
            "grant 7 1 99 5000",
            "grant 7 99 5000",
            "grant 7 1 99 5000 0 0",
            "grant 7 1 99 5000 2",
            "grant 7 1 99 5000 -0",
            "grant -7 1 99 5000 0",
            "grant 7 1 99 5 0",
            "grant 7 4294967296 99 5000 0",
            "grant 7 1 99.5 5000 0",
            "grant 7 1 99 99999999999999 0",
            "grant  7 1 99 5000 0",
            "granted 7 1 99 5000 0",
            "offer 7 1 99 5000 0",
        ] {
            assert_eq!(grant(words), None, "{words:?}");
        }
        assert_eq!(Message::parse(b"token"), Some(Message::To("token", None)));
        assert_eq!(Message::parse(&[0xff, b' ', b'x']), None);
    }
}
