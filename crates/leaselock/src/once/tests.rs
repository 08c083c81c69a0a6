//! The scripts of a run under random operations, against a plain model.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;
use std::time::Duration;

use super::calls::{Acquire, Finish, Finished, Forget, Forgotten, Inspect, Terms, Told};
use super::kind::ONCE;
use super::state::{Ended, OnCrash, OnceResult, OnceState};
use crate::base::clock::Clock;
use crate::base::fence::Fence;
use crate::base::token::Token;
use crate::base::ttl::Ttl;
use crate::client::Client;
use crate::engine::calls;
use crate::engine::core::OPERATOR_WITHIN;
use crate::engine::grant::{Acquired, CancelAnswer, ReleaseAnswer};
use crate::engine::resource::Resource;
use crate::mutex::MUTEX;
use crate::quorum::votable::Votable;

const STEPS: usize = 20_000;
const TTL_MS: u64 = 1_000;
const KEPT_MS: u64 = 5_000;
const PAUSE_MS: u64 = 300;
const ATTEMPTS: u32 = 3;
/// Time moves in steps of so many milliseconds, which none of the times above is a multiple of: nothing ends just now.
const STEP_MS: u64 = 7;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Run,
    Done,
    Fail,
    Kept,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Run => panic!("a run does not end as one"),
            Kind::Done => "done",
            Kind::Fail => "fail",
            Kind::Kept => "kept",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    kind: Kind,
    token: usize,
    fence: u64,
    attempt: u32,
    /// From when on another run may begin.
    at_ms: u64,
}

#[derive(Debug, Clone)]
struct Record {
    state: State,
    before: Option<State>,
    request: usize,
    text: String,
    ends_ms: u64,
}

/// What is promised, in plain Rust. A token is its place in the list of all.
#[derive(Default)]
struct Model {
    now_ms: u64,
    /// Who holds the name, and until when.
    held: Option<(usize, u64)>,
    record: Option<Record>,
    runs: usize,
}

/// A request of a caller.
#[derive(Debug, Clone, Copy)]
struct Asks {
    token: usize,
    request: usize,
    limited: bool,
    refuses: bool,
    after: u64,
}

impl Model {
    fn forget_what_is_over(&mut self) {
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

    fn rest(&self, state: State) -> Duration {
        Duration::from_millis(state.at_ms.saturating_sub(self.now_ms))
    }

    fn holder(&self) -> Option<usize> {
        self.held.map(|(token, _)| token)
    }

    fn failed(&self, record: &Record) -> Ended {
        let state = record.state;
        Ended::Failed {
            fence: Fence::new(state.fence),
            attempt: state.attempt,
            message: record.text.clone(),
            retry_in: (state.kind == Kind::Fail).then(|| self.rest(state)),
        }
    }

    /// `fence`: the one that the script has given, if it has granted. Each new run has a larger one.
    fn acquire(&mut self, asks: Asks, fence: Option<u64>) -> Told {
        self.forget_what_is_over();
        if let Some(record) = &self.record {
            let state = record.state;
            let (fence, attempt) = (Fence::new(state.fence), state.attempt);
            if record.request != asks.request {
                return Told::Differs;
            }
            match state.kind {
                Kind::Done => return Told::Done(self.done(record)),
                Kind::Kept => return Told::Ended(self.failed(record)),
                Kind::Run | Kind::Fail => {}
            }
            let is_run = state.kind == Kind::Run;
            if is_run && self.holder() == Some(state.token) && state.token != asks.token {
                return Told::Running { fence };
            }
            if self.held.is_none() {
                if !is_run && state.fence == asks.after {
                    return Told::Ended(self.failed(record));
                }
                if is_run && asks.refuses {
                    return Told::Ended(Ended::Crashed { fence, attempt });
                }
                if asks.limited && attempt >= ATTEMPTS {
                    let message = record.text.clone();
                    return Told::GivenUp {
                        attempts: attempt,
                        message,
                    };
                }
                if !is_run && !self.rest(state).is_zero() {
                    return Told::Ended(self.failed(record));
                }
            }
        }
        if self.held.is_some_and(|(token, _)| token != asks.token) {
            return Told::Busy;
        }
        let is_replay = self.held.is_some();
        self.held = Some((asks.token, self.now_ms + TTL_MS));
        if is_replay {
            let state = self.record.as_ref().unwrap().state;
            assert_eq!(fence, Some(state.fence));
            return Told::Run {
                attempt: state.attempt,
            };
        }
        let before = self.record.as_ref().map(|record| record.state);
        let text = self
            .record
            .take()
            .map_or_else(String::new, |record| record.text);
        let attempt = before.map_or(0, |state| state.attempt) + 1;
        self.record = Some(Record {
            state: State {
                kind: Kind::Run,
                token: asks.token,
                fence: fence.expect("it is granted"),
                attempt,
                at_ms: self.now_ms,
            },
            before,
            request: asks.request,
            text,
            ends_ms: u64::MAX,
        });
        self.runs += 1;
        Told::Run { attempt }
    }

    fn done(&self, record: &Record) -> OnceResult {
        OnceResult {
            value: record.text.clone().into_bytes(),
            ran_here: false,
            fence: Fence::new(record.state.fence),
            attempt: record.state.attempt,
        }
    }

    fn finish(&mut self, token: usize, kind: Kind, text: &str) -> Finished {
        self.forget_what_is_over();
        let holds = self.holder() == Some(token);
        let (now_ms, is_free) = (self.now_ms, self.held.is_none());
        let Some(record) = &mut self.record else {
            assert!(!holds, "a run that holds has a record");
            return Finished::Stale { fence: None };
        };
        if record.state.token != token {
            return Finished::Stale {
                fence: Some(Fence::new(record.state.fence)),
            };
        }
        if record.state.kind != Kind::Run {
            return Finished::Stored;
        }
        if !holds && !is_free {
            return Finished::Stale { fence: None };
        }
        record.state.kind = kind;
        record.state.at_ms = now_ms + PAUSE_MS;
        record.text = text.to_owned();
        record.ends_ms = now_ms + KEPT_MS;
        self.held = None;
        Finished::Stored
    }

    fn release(&mut self, token: usize) -> ReleaseAnswer {
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
    fn cancel(&mut self, token: usize) -> CancelAnswer {
        self.forget_what_is_over();
        if let Some(record) = &mut self.record
            && record.state.kind == Kind::Run
            && record.state.token == token
        {
            match record.before {
                Some(before) => record.state = before,
                None => self.record = None,
            }
        }
        match self.release(token) {
            ReleaseAnswer::Released => CancelAnswer::Released,
            ReleaseAnswer::Expired | ReleaseAnswer::Taken => CancelAnswer::Absent,
        }
    }

    fn forget(&mut self) -> Forgotten {
        self.forget_what_is_over();
        match &self.record {
            None => Forgotten::Absent,
            Some(record) if self.is_running(record.state) => Forgotten::Running {
                fence: Fence::new(record.state.fence),
            },
            Some(_) => {
                self.record = None;
                Forgotten::Forgotten
            }
        }
    }

    fn is_running(&self, state: State) -> bool {
        state.kind == Kind::Run && self.holder() == Some(state.token)
    }

    fn inspect(&mut self) -> OnceState {
        self.forget_what_is_over();
        let Some(record) = &self.record else {
            return OnceState::Absent;
        };
        let state = record.state;
        let (fence, attempt) = (Fence::new(state.fence), state.attempt);
        match state.kind {
            Kind::Run if self.is_running(state) => OnceState::Running { fence, attempt },
            Kind::Run => Ended::Crashed { fence, attempt }.into(),
            Kind::Done => OnceState::Done(self.done(record)),
            Kind::Fail | Kind::Kept => self.failed(record).into(),
        }
    }
}

/// The scripts, in memory.
struct Subject {
    client: Client,
    clock: Clock,
    resource: Resource,
    mutex: Resource,
    tokens: Vec<Token>,
    /// What each token was granted last.
    runs: Vec<Option<(Fence, u32)>>,
    highest: u64,
}

impl Subject {
    fn new() -> Self {
        let clock = Clock::manual();
        let builder = Client::builder().url("mem:").clock(clock.clone());
        Subject {
            client: builder.build().unwrap(),
            clock,
            resource: Resource::at(&ONCE, "job".into(), None),
            mutex: Resource::at(&MUTEX, "job".into(), None),
            tokens: Vec::new(),
            runs: Vec::new(),
            highest: 0,
        }
    }

    fn new_token(&mut self) -> usize {
        let id = &self.client.state.engine.id;
        self.tokens.push(Token::random(id, true).unwrap());
        self.runs.push(None);
        self.tokens.len() - 1
    }

    async fn ask<O: Votable>(&self, operation: &O) -> O::Reply {
        let engine = &self.client.state.engine;
        engine.ask(operation, OPERATOR_WITHIN).await.unwrap()
    }

    fn terms(asks: Asks) -> Arc<Terms> {
        Arc::new(Terms {
            fingerprint: format!("request{}", asks.request),
            kept_ms: KEPT_MS,
            pause_ms: PAUSE_MS,
            attempts: if asks.limited { ATTEMPTS } else { 0 },
            on_crash: match asks.refuses {
                true => OnCrash::Refuse,
                false => OnCrash::Again,
            },
            keeps_failures: false,
            channel: String::new(),
        })
    }

    /// What it was told, and the fencing token of a grant.
    async fn acquire(&mut self, asks: Asks) -> (Told, Option<u64>) {
        let acquire = Acquire {
            resource: self.resource.clone(),
            token: self.tokens[asks.token].clone(),
            ttl: Ttl::whole_ms(TTL_MS).unwrap(),
            terms: Self::terms(asks),
            after: Fence::from_answer(asks.after),
        };
        let (acquired, told) = self.ask(&acquire).await;
        let Told::Run { attempt } = told else {
            return (told, None);
        };
        let Some(Acquired::Granted { fence, .. }) = acquired else {
            panic!("{acquired:?}")
        };
        let fence = fence.unwrap();
        self.runs[asks.token] = Some((fence, attempt));
        (told, Some(fence.get()))
    }

    async fn finish(&self, asks: Asks, kind: Kind, text: &str) -> Finished {
        let (fence, attempt) = self.runs[asks.token].unwrap();
        let terms = Self::terms(asks);
        self.ask(&Finish {
            resource: &self.resource,
            token: &self.tokens[asks.token],
            kind: kind.word(),
            result: text.as_bytes(),
            fence,
            attempt,
            terms: &terms,
        })
        .await
    }

    async fn release(&self, token: usize, resource: &Resource) -> ReleaseAnswer {
        let token = &self.tokens[token];
        self.ask(&calls::Release {
            resource,
            token,
            used: None,
        })
        .await
    }

    async fn cancel(&self, token: usize) -> CancelAnswer {
        let (resource, token) = (&self.resource, &self.tokens[token]);
        self.ask(&calls::Cancel {
            resource,
            token,
            used: None,
        })
        .await
    }

    /// True if a mutex of the name was granted.
    async fn lock(&self, token: usize) -> bool {
        let ttl = Ttl::whole_ms(TTL_MS).unwrap();
        let acquire = calls::Acquire {
            resource: &self.mutex,
            token: &self.tokens[token],
            ttl,
            passed: ttl,
            waits: false,
            priority: 0,
            channel: "",
            fencing: true,
            range: 1,
        };
        matches!(self.ask(&acquire).await, Acquired::Granted { .. })
    }
}

/// Small numbers of one seed, so that a failure can be had again.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// Callers, runs that end in every way, late copies of earlier requests, plain locks of the same name, and time.
#[tokio::test]
async fn a_run_does_what_a_plain_model_does() {
    let (mut model, mut subject, mut dice) = (Model::default(), Subject::new(), Dice(11));
    let mut sent: Vec<Asks> = Vec::new();
    let mut locks: Vec<usize> = Vec::new();
    let (mut told_done, mut crashed, mut stale) = (0, 0, 0);
    for step in 0..STEPS {
        let recent = sent.len().saturating_sub(6);
        let pick = |dice: &mut Dice| sent[recent + dice.below(sent.len() - recent)];
        let is_asked = !sent.is_empty();
        match dice.below(16) {
            choice @ 0..=5 => {
                let asks = match is_asked && choice == 0 {
                    true => pick(&mut dice),
                    false => Asks {
                        token: subject.new_token(),
                        request: usize::from(dice.below(12) == 0),
                        limited: dice.below(4) == 0,
                        refuses: dice.below(3) == 0,
                        after: match dice.below(3) {
                            0 => subject.highest,
                            _ => 0,
                        },
                    },
                };
                sent.push(asks);
                let (said, fence) = subject.acquire(asks).await;
                let runs = model.runs;
                let wanted = model.acquire(asks, fence);
                assert_eq!(said, wanted, "step {step}: {asks:?}");
                if model.runs > runs {
                    assert!(fence.unwrap() > subject.highest, "step {step}");
                    subject.highest = fence.unwrap();
                }
                told_done += usize::from(matches!(said, Told::Done(_)));
                crashed += usize::from(matches!(said, Told::Ended(Ended::Crashed { .. })));
            }
            6..=8 if is_asked => {
                let asks = pick(&mut dice);
                if subject.runs[asks.token].is_none() {
                    continue; // it never ran
                }
                let kind = [Kind::Done, Kind::Fail, Kind::Fail, Kind::Kept][dice.below(4)];
                let text = format!("of {}", asks.token);
                let said = subject.finish(asks, kind, &text).await;
                let wanted = model.finish(asks.token, kind, &text);
                assert_eq!(said, wanted, "step {step}: {asks:?}");
                stale += usize::from(said != Finished::Stored);
            }
            9 if is_asked => {
                let token = pick(&mut dice).token;
                let said = subject.release(token, &subject.resource).await;
                assert_eq!(said, model.release(token), "step {step}");
            }
            10 if is_asked => {
                let token = pick(&mut dice).token;
                let said = subject.cancel(token).await;
                assert_eq!(said, model.cancel(token), "step {step}");
            }
            11 => {
                let token = subject.new_token();
                locks.push(token);
                model.forget_what_is_over();
                let is_free = model.held.is_none();
                assert_eq!(subject.lock(token).await, is_free, "step {step}");
                if is_free {
                    model.held = Some((token, model.now_ms + TTL_MS));
                }
            }
            12 if !locks.is_empty() => {
                let token = locks[locks.len() - 1];
                let said = subject.release(token, &subject.mutex).await;
                assert_eq!(said, model.release(token), "step {step}");
            }
            13 if dice.below(3) == 0 => {
                let forget = Forget {
                    resource: &subject.resource,
                };
                assert_eq!(subject.ask(&forget).await, model.forget(), "step {step}");
            }
            14 => {
                let inspect = Inspect {
                    resource: &subject.resource,
                };
                assert_eq!(subject.ask(&inspect).await, model.inspect(), "step {step}");
            }
            _ => {
                let most = [20, 100, 800][dice.below(3)];
                let ms = STEP_MS * u64::try_from(dice.below(most)).unwrap();
                subject.clock.advance(Duration::from_millis(ms));
                model.now_ms += ms;
            }
        }
    }
    // Each way was taken often, so that the comparison means something.
    let seen = [model.runs, told_done, crashed, stale];
    assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
}
