//! The scripts of a run under random operations, against a plain model.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod model;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use self::model::{Asks, Kind, Model, State};
use fastrand::Rng;
use leaselock_fence::Fence;

use super::calls::{
    Acquire, AskedWork, Finish, Forget, InspectRun, NoRun, ONCE, OnceReply, OnceTerms,
};
use super::run::OnceStart;
use super::state::OnceState;
use crate::base::clock::Clock;
use crate::base::clock::Ttl;
use crate::base::error::{ErrorKind, StoreError};
use crate::base::fence;
use crate::base::token::Token;
use crate::client::Client;
use crate::engine::services::core::OPERATOR_WITHIN;
use crate::engine::shared_state::recorded_run::{Ended, OnCrash};
use crate::engine::values::calls;
use crate::engine::values::calls::AcquireTerms;
use crate::engine::values::grant::{Acquired, CancelAnswer, ReleaseAnswer};
use crate::engine::values::kind::{Held, Resource};
use crate::engine::ways::begin_run::CallNumber;
use crate::mutex::MUTEX;
use crate::quorum::tally::Votable;

const STEPS: usize = 20_000;
const TTL_MS: u64 = 1_000;
const KEPT_MS: u64 = 5_000;
const PAUSE_MS: u64 = 300;
const ATTEMPTS: u32 = 3;
/// Time moves in steps of so many milliseconds, which none of the times above is a multiple of: nothing ends just now.
const STEP_MS: u64 = 7;

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
            client: builder.open().unwrap(),
            clock,
            resource: Resource::at(&ONCE, "job".into(), None),
            mutex: Resource::at(&MUTEX, "job".into(), None),
            tokens: Vec::new(),
            runs: Vec::new(),
            highest: 0,
        }
    }

    fn new_token(&mut self) -> usize {
        let id = &self.client.state.engine.ids.client;
        self.tokens.push(Token::random(id, true).unwrap());
        self.runs.push(None);
        self.tokens.len() - 1
    }

    async fn ask<O: Votable>(&self, operation: &O) -> O::Reply {
        let engine = &self.client.state.engine;
        engine.ask(operation, OPERATOR_WITHIN).await.unwrap()
    }

    fn terms(asks: Asks) -> Arc<OnceTerms> {
        Arc::new(OnceTerms {
            fingerprint: format!("request{}", asks.request),
            kept: Duration::from_millis(KEPT_MS),
            pause: Duration::from_millis(PAUSE_MS),
            attempts: asks.limited.then_some(ATTEMPTS),
            on_crash: match asks.refuses {
                true => OnCrash::Refuse,
                false => OnCrash::Again,
            },
            keeps_failures: false,
            copies: None,
            channel: String::new(),
        })
    }

    /// What it was told, and the fencing token of a grant.
    async fn acquire(&mut self, asks: Asks) -> (OnceReply, Option<u64>) {
        let acquire = Acquire {
            held: Held::of(&self.resource, &self.tokens[asks.token]),
            terms: AcquireTerms::plain(Ttl::whole_ms(TTL_MS).unwrap()),
            asked: AskedWork {
                terms: Self::terms(asks),
                after: fence::of_reply(asks.after),
            },
            number: CallNumber {
                call: self.tokens[asks.call].clone(),
                request: asks.number,
            },
        };
        let (acquired, told) = self.ask(&acquire).await;
        let OnceReply::Run(attempt) = told else {
            return (told, None);
        };
        let Some(Acquired::Granted { fence, .. }) = acquired else {
            panic!("{acquired:?}")
        };
        let fence = fence.unwrap();
        self.runs[asks.token] = Some((fence, attempt));
        (told, Some(fence.get()))
    }

    async fn finish(&self, asks: Asks, kind: Kind, text: &str) -> Ended<Fence> {
        let (fence, attempt) = self.runs[asks.token].unwrap();
        let terms = Self::terms(asks);
        self.ask(&Finish {
            held: &Held::of(&self.resource, &self.tokens[asks.token]),
            kind: kind.word(),
            result: text.as_bytes(),
            fence,
            attempt,
            terms: &terms,
        })
        .await
    }

    async fn release(&self, token: usize, resource: &Resource) -> ReleaseAnswer {
        self.ask(&calls::Release {
            held: &Held::of(resource, &self.tokens[token]),
            was_queued: false,
        })
        .await
    }

    async fn cancel(&self, token: usize) -> CancelAnswer {
        let held = &Held::of(&self.resource, &self.tokens[token]);
        self.ask(&calls::Cancel { held }).await
    }

    /// True if a mutex of the name was granted.
    async fn lock(&self, token: usize) -> bool {
        let ttl = Ttl::whole_ms(TTL_MS).unwrap();
        let acquire = calls::Acquire {
            held: &Held::of(&self.mutex, &self.tokens[token]),
            terms: AcquireTerms::plain(ttl),
            waits: false,
            channel: "",
            range: 1,
        };
        matches!(self.ask(&acquire).await, Acquired::Granted { .. })
    }
}

/// Callers, runs that end in every way, late copies of earlier requests, plain locks of the same name, and time.
#[tokio::test]
async fn a_run_does_what_a_plain_model_does() {
    let (mut model, mut subject, mut rng) = (Model::default(), Subject::new(), Rng::with_seed(11));
    let mut sent: Vec<Asks> = Vec::new();
    let mut locks: Vec<usize> = Vec::new();
    let (mut told_done, mut crashed, mut stale, mut repeated) = (0, 0, 0, 0);
    for step in 0..STEPS {
        let recent = sent.len().saturating_sub(6);
        let pick = |rng: &mut Rng| sent[recent + rng.usize(..sent.len() - recent)];
        let is_asked = !sent.is_empty();
        match rng.usize(..16) {
            choice @ 0..=5 => {
                let asks = match choice {
                    0 if is_asked => pick(&mut rng),
                    // The reply to an earlier request of the call was lost.
                    1 if is_asked => {
                        let before = pick(&mut rng);
                        Asks {
                            token: subject.new_token(),
                            number: before.number + 1,
                            ..before
                        }
                    }
                    _ => Asks {
                        token: subject.new_token(),
                        call: subject.tokens.len() - 1,
                        number: 1,
                        request: usize::from(rng.usize(..12) == 0),
                        limited: rng.usize(..4) == 0,
                        refuses: rng.usize(..3) == 0,
                        after: match rng.usize(..3) {
                            0 => subject.highest,
                            _ => 0,
                        },
                    },
                };
                sent.push(asks);
                let (said, fence) = subject.acquire(asks).await;
                let (runs, begun) = (model.runs, model.record.as_ref().map(|r| r.state));
                let wanted = model.acquire(asks, fence);
                assert_eq!(said, wanted, "step {step}: {asks:?}");
                if model.runs > runs {
                    assert!(fence.unwrap() > subject.highest, "step {step}");
                    subject.highest = fence.unwrap();
                }
                let is_again = |begun: State| begun.call == asks.call && begun.token != asks.token;
                let is_granted = matches!(said, OnceReply::Run(_));
                repeated += usize::from(is_granted && begun.is_some_and(is_again));
                told_done += usize::from(matches!(
                    said,
                    OnceReply::NoRun(NoRun::Ended(OnceState::Done(_)))
                ));
                let is_crashed = matches!(
                    said,
                    OnceReply::NoRun(NoRun::Ended(OnceState::Crashed { .. }))
                );
                crashed += usize::from(is_crashed);
            }
            6..=8 if is_asked => {
                let asks = pick(&mut rng);
                if subject.runs[asks.token].is_none() {
                    continue; // it never ran
                }
                let kind = [Kind::Done, Kind::Fail, Kind::Fail, Kind::Kept][rng.usize(..4)];
                let text = format!("of {}", asks.token);
                let said = subject.finish(asks, kind, &text).await;
                let wanted = model.finish(asks.token, kind, &text);
                assert_eq!(said, wanted, "step {step}: {asks:?}");
                stale += usize::from(said.is_err());
            }
            9 if is_asked => {
                let token = pick(&mut rng).token;
                let said = subject.release(token, &subject.resource).await;
                assert_eq!(said, model.release(token), "step {step}");
            }
            10 if is_asked => {
                let token = pick(&mut rng).token;
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
            13 if rng.usize(..3) == 0 => {
                let forget = Forget {
                    resource: &subject.resource,
                };
                assert_eq!(subject.ask(&forget).await, model.forget(), "step {step}");
            }
            14 => {
                let inspect = InspectRun {
                    resource: &subject.resource,
                };
                assert_eq!(subject.ask(&inspect).await, model.inspect(), "step {step}");
            }
            _ => {
                let most = [20, 100, 800][rng.usize(..3)];
                let ms = STEP_MS * u64::try_from(rng.usize(..most)).unwrap();
                subject.clock.advance(Duration::from_millis(ms));
                model.now_ms += ms;
            }
        }
    }
    // Each way was taken often, so that the comparison means something.
    let seen = [model.runs, told_done, crashed, stale, repeated];
    assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
}

/// The record of the failure before it has its own end again.
#[tokio::test]
async fn a_run_that_is_cancelled_keeps_no_earlier_failure_for_longer() {
    let mut subject = Subject::new();
    let mut asks = Asks {
        token: 0,
        call: 0,
        number: 1,
        request: 0,
        limited: false,
        refuses: false,
        after: 0,
    };
    for token in 0..2 {
        (asks.token, asks.call) = (subject.new_token(), token);
        let (told, _) = subject.acquire(asks).await;
        assert!(matches!(told, OnceReply::Run(_)), "{told:?}");
        if token == 0 {
            subject.finish(asks, Kind::Fail, "no paper").await.unwrap();
            subject.clock.advance(Duration::from_millis(KEPT_MS - 100));
        }
    }
    assert_eq!(subject.cancel(asks.token).await, CancelAnswer::Released);
    let inspect = InspectRun {
        resource: &subject.resource,
    };
    let known = subject.ask(&inspect).await;
    assert!(matches!(known, OnceState::Failed { .. }), "{known:?}");
    subject.clock.advance(Duration::from_millis(100 + STEP_MS));
    assert_eq!(subject.ask(&inspect).await, OnceState::Absent);
}

/// An end that was recorded is stale too, once later runs have begun.
#[tokio::test]
async fn an_end_that_is_stale_after_a_request_without_a_reply_is_not_confirmed() {
    let client = Client::open("mem:").unwrap();
    for is_lost in [false, true] {
        let begun = client.once("job").begin().await.unwrap();
        let OnceStart::Run(run) = begun else {
            panic!("{begun:?}")
        };
        let asked = &AtomicUsize::new(usize::from(!is_lost));
        let request = || async move {
            match asked.fetch_add(1, Ordering::Relaxed) {
                0 => Err(StoreError::unknown(ErrorKind::NoReply, "lost")),
                _ => Ok(Err::<(), _>("stale")),
            }
        };
        let ended = run.end_by(request, Result::is_ok).await;
        assert_eq!(ended.is_err(), is_lost, "{ended:?}");
        let forget = Forget {
            resource: &Resource::at(&ONCE, "job".into(), None),
        };
        let engine = &client.state.engine;
        while engine.ask(&forget, OPERATOR_WITHIN).await.unwrap().is_err() {
            tokio::task::yield_now().await; // the run is dropped
        }
    }
}
