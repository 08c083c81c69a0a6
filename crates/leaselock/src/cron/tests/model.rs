//! What is promised of ticks, in plain Rust. A token and a call are places in the list of all tokens.

use super::super::calls::CronReply;
use super::super::state::{Claim, Tick, TickState};
use super::EARLY;
use crate::engine::values::grant::{CancelAnswer, ReleaseAnswer};

/// What becomes of a tick whose run did not finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// It is over.
    Never,
    /// A claim of it runs it again.
    Claimed,
    /// A claim of a later tick does, too, instead of its own.
    First,
}

/// A request of a caller.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asks {
    pub(super) token: usize,
    pub(super) tick: u64,
    pub(super) again: Again,
    /// True if no tick of the past may begin.
    pub(super) is_strict: bool,
    pub(super) waits: bool,
    /// The token of the first request of the call.
    pub(super) call: usize,
    pub(super) request: u64,
}

/// What a caller is told, without times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Said {
    Run { tick: u64, attempt: u32 },
    Early,
    Over,
    Running,
    Overlap,
    Missed,
    Behind,
    Busy,
}

impl Said {
    /// How many kinds of replies there are.
    pub(super) const WAYS: usize = 8;

    pub(super) fn of(told: &CronReply, number: impl Fn(Tick) -> u64) -> Self {
        match told {
            CronReply::Run(run) => Said::Run {
                tick: number(run.tick),
                attempt: run.attempt,
            },
            CronReply::NoRun(why) => match why {
                Claim::Run(run) => unreachable!("{run:?}"),
                Claim::Early { .. } => Said::Early,
                Claim::Over => Said::Over,
                Claim::Running { .. } => Said::Running,
                Claim::Overlap { .. } => Said::Overlap,
                Claim::Missed { .. } => Said::Missed,
            },
            CronReply::Behind(_) => Said::Behind,
            CronReply::Busy => Said::Busy,
        }
    }
}

/// The latest tick that has begun.
#[derive(Debug, Clone, Copy)]
struct Latest {
    tick: u64,
    is_done: bool,
    token: usize,
    attempt: u32,
    /// The call that began it, and its request; `None` once the call was taken back.
    call: Option<(usize, u64)>,
}

#[derive(Default)]
pub(super) struct Model {
    /// The token that holds the name.
    pub(super) held: Option<usize>,
    latest: Option<Latest>,
    before: Option<Latest>,
    pub(super) skipped: Option<u64>,
    /// True if the latest grant was that of an earlier request of the same call.
    pub(super) took_over: bool,
}

impl Model {
    pub(super) fn latest_tick(&self) -> Option<u64> {
        self.latest.map(|latest| latest.tick)
    }

    pub(super) fn latest_token(&self) -> Option<usize> {
        self.latest.map(|latest| latest.token)
    }

    pub(super) fn latest_shown(&self) -> Option<(u64, TickState, u32)> {
        let latest = self.latest?;
        let state = match latest.is_done {
            true => TickState::Done,
            false if self.held == Some(latest.token) => TickState::Running,
            false => TickState::Crashed,
        };
        Some((latest.tick, state, latest.attempt))
    }

    pub(super) fn acquire(&mut self, asks: Asks) -> Said {
        self.took_over = false;
        let asks = self.in_order(asks);
        match self.latest.filter(|latest| latest.tick >= asks.tick) {
            Some(latest) if latest.tick > asks.tick || latest.is_done => Said::Over,
            Some(latest) => self.acquire_again(asks, latest),
            None => self.acquire_first(asks),
        }
    }

    /// The claim of the tick that comes first.
    fn in_order(&self, asks: Asks) -> Asks {
        let comes_first = |latest: &Latest| {
            let is_own = latest.call.is_some_and(|(call, _)| call == asks.call);
            let may_begin = is_own || self.held != Some(latest.token);
            latest.tick < asks.tick && !latest.is_done && !asks.is_strict && may_begin
        };
        match self.latest.filter(comes_first) {
            Some(Latest { tick, .. }) if asks.again == Again::First => Asks { tick, ..asks },
            _ => asks,
        }
    }

    fn acquire_first(&mut self, asks: Asks) -> Said {
        if self.skipped >= Some(asks.tick) {
            return Said::Over;
        }
        if let Some(why) = not_now(asks) {
            return why;
        }
        if self.held.is_some() {
            let running = self.latest.filter(|latest| !latest.is_done);
            let is_behind = running.is_some_and(|latest| self.held == Some(latest.token));
            return match asks.waits {
                true if is_behind => Said::Behind,
                true => Said::Busy,
                false => {
                    self.skipped = Some(asks.tick);
                    Said::Overlap
                }
            };
        }
        self.before = self.latest;
        self.begin(asks, 1)
    }

    /// A run of the tick has begun, and not finished.
    fn acquire_again(&mut self, asks: Asks, latest: Latest) -> Said {
        let runs = self.held == Some(latest.token);
        let is_replay = runs && latest.token == asks.token;
        let is_own = latest.call.is_some_and(|(call, request)| {
            call == asks.call && (request < asks.request || is_replay)
        });
        match (is_own, runs) {
            (true, true) => {
                self.took_over = true;
                return self.begin(asks, latest.attempt);
            }
            (false, true) => return Said::Running,
            (false, false) if asks.again == Again::Never => return Said::Over,
            _ => {}
        }
        if let Some(why) = not_now(asks) {
            return why;
        }
        if self.held.is_some() {
            return Said::Running;
        }
        if is_own {
            return self.begin(asks, latest.attempt);
        }
        self.before = self.latest;
        self.begin(asks, latest.attempt + 1)
    }

    fn begin(&mut self, asks: Asks, attempt: u32) -> Said {
        self.held = Some(asks.token);
        self.latest = Some(Latest {
            tick: asks.tick,
            is_done: false,
            token: asks.token,
            attempt,
            call: Some((asks.call, asks.request)),
        });
        Said::Run {
            tick: asks.tick,
            attempt,
        }
    }

    /// True if the run is recorded as finished.
    pub(super) fn finish(&mut self, token: usize) -> bool {
        match &mut self.latest {
            Some(latest) if latest.token == token => {
                latest.is_done = true;
                self.held = self.held.filter(|held| *held != token);
                true
            }
            // Recorded before the latest run began.
            _ => self
                .before
                .is_some_and(|before| before.token == token && before.is_done),
        }
    }

    pub(super) fn release(&mut self, token: usize) -> ReleaseAnswer {
        match self.held {
            Some(held) if held == token => {
                self.held = None;
                ReleaseAnswer::Released
            }
            Some(_) => ReleaseAnswer::Taken,
            None => ReleaseAnswer::Expired,
        }
    }

    /// The run never began, so it is as if it had not been asked for. True if there was one.
    pub(super) fn cancel(&mut self, token: usize) -> (CancelAnswer, bool) {
        let running = self.latest.filter(|latest| !latest.is_done);
        let is_undone = running.is_some_and(|latest| latest.token == token);
        if is_undone {
            let before = self.before;
            self.latest = before.map(|before| Latest {
                call: None,
                ..before
            });
        }
        let answer = match self.release(token) {
            ReleaseAnswer::Released => CancelAnswer::Released,
            ReleaseAnswer::Expired | ReleaseAnswer::Taken => CancelAnswer::Absent,
        };
        (answer, is_undone)
    }
}

fn not_now(asks: Asks) -> Option<Said> {
    match asks.tick >= EARLY {
        true => Some(Said::Early),
        false => asks.is_strict.then_some(Said::Missed),
    }
}
