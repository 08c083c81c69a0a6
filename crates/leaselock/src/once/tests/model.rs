//! What is promised of a run, in plain Rust. A token is its place in the list of all.

use std::time::Duration;

use leaselock_fence::Fence;

use super::super::calls::{NoRun, OnceReply};
use super::super::state::{OnceResult, OnceState};
use super::{ATTEMPTS, KEPT_MS, PAUSE_MS, TTL_MS};
use crate::engine::shared_state::recorded_run::Ended;
use crate::engine::values::grant::{CancelAnswer, ReleaseAnswer};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Run,
    Done,
    Fail,
    Kept,
}

impl Kind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::Run => panic!("a run does not end as one"),
            Kind::Done => "done",
            Kind::Fail => "fail",
            Kind::Kept => "kept",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    pub(super) kind: Kind,
    pub(super) token: usize,
    pub(super) fence: u64,
    pub(super) attempt: u32,
    /// Of the request that began it.
    pub(super) call: usize,
    pub(super) number: u64,
    /// From when on another run may begin.
    pub(super) at_ms: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) state: State,
    /// What was known when the run began, and until when.
    pub(super) before: Option<(State, u64)>,
    pub(super) request: usize,
    pub(super) text: String,
    pub(super) ends_ms: u64,
}

#[derive(Default)]
pub(super) struct Model {
    pub(super) now_ms: u64,
    /// Who holds the name, and until when.
    pub(super) held: Option<(usize, u64)>,
    pub(super) record: Option<Record>,
    pub(super) runs: usize,
}

/// A request of a caller.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asks {
    pub(super) token: usize,
    /// The first token of its call, and its number in the call.
    pub(super) call: usize,
    pub(super) number: u64,
    pub(super) request: usize,
    pub(super) limited: bool,
    pub(super) refuses: bool,
    pub(super) after: u64,
}

impl Model {
    pub(super) fn forget_what_is_over(&mut self) {
        let now = self.now_ms;
        self.held = self.held.filter(|(_, ends)| *ends > now);
        if self
            .record
            .as_ref()
            .is_some_and(|record| record.ends_ms <= now)
        {
            self.record = None;
        }
    }

    pub(super) fn rest(&self, state: State) -> Duration {
        Duration::from_millis(state.at_ms.saturating_sub(self.now_ms))
    }

    pub(super) fn holder(&self) -> Option<usize> {
        self.held.map(|(token, _)| token)
    }

    pub(super) fn failed(&self, record: &Record) -> OnceState {
        let state = record.state;
        OnceState::Failed {
            fence: Fence::new(state.fence),
            attempt: state.attempt,
            message: record.text.clone(),
            retry_in: (state.kind == Kind::Fail).then(|| self.rest(state)),
        }
    }

    /// `fence`: the one that the script has given, if it has granted. Each new run has a larger one.
    pub(super) fn acquire(&mut self, asks: Asks, fence: Option<u64>) -> OnceReply {
        self.forget_what_is_over();
        let is_own = self.begun_by(asks);
        if let Some(record) = &self.record {
            let state = record.state;
            let (fence, attempt) = (Fence::new(state.fence), state.attempt);
            if record.request != asks.request {
                return OnceReply::NoRun(NoRun::Differs);
            }
            match state.kind {
                Kind::Done => {
                    return OnceReply::NoRun(NoRun::Ended(OnceState::Done(self.done(record))));
                }
                Kind::Kept => return OnceReply::NoRun(NoRun::Ended(self.failed(record))),
                Kind::Run | Kind::Fail => {}
            }
            let is_run = state.kind == Kind::Run;
            if self.is_running(state) && !is_own {
                return OnceReply::Behind(Some(fence));
            }
            if self.held.is_none() && !is_own {
                if !is_run && state.fence == asks.after {
                    return OnceReply::NoRun(NoRun::Ended(self.failed(record)));
                }
                if is_run && asks.refuses {
                    return OnceReply::NoRun(NoRun::Ended(OnceState::Crashed { fence, attempt }));
                }
                if asks.limited && attempt >= ATTEMPTS {
                    let message = record.text.clone();
                    return OnceReply::NoRun(NoRun::GivenUp {
                        attempts: attempt,
                        message,
                    });
                }
                if !is_run && !self.rest(state).is_zero() {
                    return OnceReply::NoRun(NoRun::Ended(self.failed(record)));
                }
            }
        }
        let running = self.record.as_ref().map(|record| record.state);
        let is_replay = is_own && running.is_some_and(|state| self.is_running(state));
        if self.held.is_some() && !is_replay {
            return OnceReply::Busy;
        }
        self.held = Some((asks.token, self.now_ms + TTL_MS));
        if is_own {
            let state = &mut self.record.as_mut().unwrap().state;
            (state.token, state.number) = (asks.token, asks.number);
            if is_replay {
                assert_eq!(fence, Some(state.fence));
            } else {
                state.fence = fence.expect("it is granted");
                self.runs += 1;
            }
            return OnceReply::Run(state.attempt);
        }
        let known = self.record.as_ref();
        let before = known.map(|record| (record.state, record.ends_ms));
        let text = self
            .record
            .take()
            .map_or_else(String::new, |record| record.text);
        let attempt = before.map_or(0, |(state, _)| state.attempt) + 1;
        self.record = Some(Record {
            state: State {
                kind: Kind::Run,
                token: asks.token,
                fence: fence.expect("it is granted"),
                attempt,
                call: asks.call,
                number: asks.number,
                at_ms: self.now_ms,
            },
            before,
            request: asks.request,
            text,
            ends_ms: u64::MAX,
        });
        self.runs += 1;
        OnceReply::Run(attempt)
    }

    /// Whether it asks for its own run, of which the call has not learned.
    fn begun_by(&self, asks: Asks) -> bool {
        self.record.as_ref().is_some_and(|record| {
            let state = record.state;
            let is_earlier = state.number < asks.number;
            let is_same = state.token == asks.token && self.is_running(state);
            state.kind == Kind::Run && state.call == asks.call && (is_earlier || is_same)
        })
    }

    pub(super) fn done(&self, record: &Record) -> OnceResult {
        OnceResult {
            value: record.text.clone().into_bytes(),
            ran_here: false,
            fence: Fence::new(record.state.fence),
            attempt: record.state.attempt,
        }
    }

    pub(super) fn finish(&mut self, token: usize, kind: Kind, text: &str) -> Ended<Fence> {
        self.forget_what_is_over();
        let holds = self.holder() == Some(token);
        let (now_ms, is_free) = (self.now_ms, self.held.is_none());
        let Some(record) = &mut self.record else {
            assert!(!holds, "a run that holds has a record");
            return Err(None);
        };
        let before = record.before.filter(|(before, _)| before.token == token);
        if before.is_some_and(|(before, _)| before.kind == Kind::Fail) {
            return Ok(()); // before the latest run began
        }
        if record.state.token != token {
            return Err(Some(Fence::new(record.state.fence)));
        }
        if record.state.kind != Kind::Run {
            return Ok(());
        }
        if !holds && !is_free {
            return Err(None);
        }
        record.state.kind = kind;
        record.state.at_ms = now_ms + PAUSE_MS;
        record.text = text.to_owned();
        record.ends_ms = now_ms + KEPT_MS;
        self.held = None;
        Ok(())
    }

    pub(super) fn release(&mut self, token: usize) -> ReleaseAnswer {
        self.forget_what_is_over();
        match self.holder() {
            Some(holder) if holder == token => {
                self.held = None;
                ReleaseAnswer::Released
            }
            Some(_) => ReleaseAnswer::Taken,
            None => ReleaseAnswer::Expired,
        }
    }

    /// The run never began, so it is as if it had not been asked for.
    pub(super) fn cancel(&mut self, token: usize) -> CancelAnswer {
        self.forget_what_is_over();
        if let Some(record) = &mut self.record
            && record.state.kind == Kind::Run
            && record.state.token == token
        {
            match record.before {
                Some(before) => (record.state, record.ends_ms) = before,
                None => self.record = None,
            }
        }
        match self.release(token) {
            ReleaseAnswer::Released => CancelAnswer::Released,
            ReleaseAnswer::Expired | ReleaseAnswer::Taken => CancelAnswer::Absent,
        }
    }

    pub(super) fn forget(&mut self) -> Result<bool, Fence> {
        self.forget_what_is_over();
        match &self.record {
            None => Ok(false),
            Some(record) if self.is_running(record.state) => Err(Fence::new(record.state.fence)),
            Some(_) => {
                self.record = None;
                Ok(true)
            }
        }
    }

    pub(super) fn is_running(&self, state: State) -> bool {
        state.kind == Kind::Run && self.holder() == Some(state.token)
    }

    pub(super) fn inspect(&mut self) -> OnceState {
        self.forget_what_is_over();
        let Some(record) = &self.record else {
            return OnceState::Absent;
        };
        let state = record.state;
        let (fence, attempt) = (Fence::new(state.fence), state.attempt);
        match state.kind {
            Kind::Run if self.is_running(state) => OnceState::Running { fence, attempt },
            Kind::Run => OnceState::Crashed { fence, attempt },
            Kind::Done => OnceState::Done(self.done(record)),
            Kind::Fail | Kind::Kept => self.failed(record),
        }
    }
}
