//! The scripts of a schedule under random operations, against a plain model, in every store.
//!
//! No clock is moved: ticks lie long before or long after the time of the test, so that each store agrees on which are due.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod model;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use self::model::{Again, Asks, Model, Said};
use super::calls::{Acquire, AskedTick, CRON, CronTerms, FinishTick, InspectTicks};
use super::state::{CronState, Overlap, Tick, TickState};
use crate::base::clock::Ttl;
use crate::base::token::Token;
use crate::client::Client;
use crate::engine::services::core::OPERATOR_WITHIN;
use crate::engine::shared_state::recorded_run::{Ended, OnCrash};
use crate::engine::values::calls;
use crate::engine::values::calls::AcquireTerms;
use crate::engine::values::grant::{Acquired, CancelAnswer, ReleaseAnswer};
use crate::engine::values::kind::{Held, Resource};
use crate::engine::ways::begin_run::CallNumber;
use crate::inspect::BreakOptions;
use crate::mutex::MUTEX;
use crate::quorum::tally::Votable;

const TTL: Ttl = match Ttl::whole_ms(600_000) {
    Some(ttl) => ttl,
    None => panic!("ten minutes are in range"),
};
const SECOND_US: u64 = 1_000_000;
const HOUR: u64 = 3_600;
/// Of so many ticks, all are due except the last ones.
const TICKS: u64 = 4_000;
/// Ticks that are not due for an hour, at the end.
const EARLY: u64 = TICKS - 100;
/// How far the clocks of two hosts are apart, in ticks of a second: they are off by five minutes.
const OFF: u64 = 600;

/// The scripts, in one store.
struct Subject {
    client: Client,
    resource: Resource,
    mutex: Resource,
    /// When tick 0 was due.
    origin_us: u64,
    tokens: Vec<Token>,
    fences: Vec<u64>,
}

impl Subject {
    async fn at(url: &str) -> Self {
        let client = Client::open(url).unwrap();
        let mut subject = Subject {
            client,
            resource: Resource::at(&CRON, "job".into(), None),
            mutex: Resource::at(&MUTEX, "job".into(), None),
            origin_us: 0,
            tokens: Vec::new(),
            fences: Vec::new(),
        };
        let now = Tick::new(subject.inspect().await.now).unwrap();
        subject.origin_us = now.0 - (EARLY + HOUR) * SECOND_US;
        subject
    }

    /// Ticks before `EARLY` were due an hour ago at the latest, and the others are due in an hour.
    fn tick(&self, number: u64) -> Tick {
        let gap = if number < EARLY { 0 } else { 2 * HOUR };
        Tick(self.origin_us + (number + gap) * SECOND_US)
    }

    fn new_token(&mut self) -> usize {
        let id = &self.client.state.engine.ids.client;
        self.tokens.push(Token::random(id, true).unwrap());
        self.fences.push(0);
        self.tokens.len() - 1
    }

    async fn ask<O: Votable>(&self, operation: &O) -> O::Reply {
        let engine = &self.client.state.engine;
        engine.ask(operation, OPERATOR_WITHIN).await.unwrap()
    }

    /// What it was told, and the fencing token of a grant.
    async fn acquire(&mut self, asks: Asks) -> (Said, u64) {
        let acquire = Acquire {
            held: Held::of(&self.resource, &self.tokens[asks.token]),
            terms: AcquireTerms::plain(TTL),
            asked: AskedTick {
                tick: self.tick(asks.tick),
                terms: Arc::new(CronTerms {
                    late: match asks.is_strict {
                        true => Duration::ZERO,
                        false => Duration::from_micros((TICKS + 2 * HOUR) * SECOND_US),
                    },
                    on_crash: match asks.again {
                        Again::Never => OnCrash::Refuse,
                        Again::Claimed | Again::First => OnCrash::Again,
                    },
                    in_order: asks.again == Again::First,
                    overlap: match asks.waits {
                        true => Overlap::Wait,
                        false => Overlap::Skip,
                    },
                    schedule: None,
                    channel: String::new(),
                }),
            },
            number: CallNumber {
                call: self.tokens[asks.call].clone(),
                request: asks.request,
            },
        };
        let (acquired, told) = self.ask(&acquire).await;
        let fence = match acquired {
            Some(Acquired::Granted { fence, .. }) => fence.unwrap().get(),
            _ => 0,
        };
        let number = |tick: Tick| (tick.0 - self.origin_us) / SECOND_US;
        (Said::of(&told, number), fence)
    }

    async fn finish(&self, token: usize) -> Ended<Tick> {
        let held = &Held::of(&self.resource, &self.tokens[token]);
        self.ask(&FinishTick { held }).await
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
        let acquire = calls::Acquire {
            held: &Held::of(&self.mutex, &self.tokens[token]),
            terms: AcquireTerms::plain(TTL),
            waits: false,
            channel: "",
            range: 1,
        };
        matches!(self.ask(&acquire).await, Acquired::Granted { .. })
    }

    async fn inspect(&self) -> CronState {
        let resource = &self.resource;
        self.ask(&InspectTicks { resource }).await
    }

    /// The lease is over, as at its end.
    async fn expire(&self) {
        let broken = self
            .client
            .break_lease("job", BreakOptions::default().now())
            .await;
        broken.unwrap();
    }
}

/// Hosts whose clocks differ, runs that end in every way, replies that were lost, late copies of earlier requests, and
/// plain locks of the same name. With `is_ordered` every tick runs again, and most claims run it before a later one.
async fn agrees_with_the_model(mut subject: Subject, is_ordered: bool, steps: usize, seed: u64) {
    let (mut model, mut rng) = (Model::default(), Rng::with_seed(seed));
    let (mut sent, mut locks): (Vec<Asks>, Vec<usize>) = (Vec::new(), Vec::new());
    let (mut seen, mut highest, mut time) = (BTreeMap::<Said, usize>::new(), 0, OFF);
    // The calls that were granted each tick, and not taken back.
    let mut granted = BTreeMap::<u64, BTreeSet<usize>>::new();
    for step in 0..steps {
        let recent = sent.len().saturating_sub(5);
        let pick = |rng: &mut Rng| sent[recent + rng.usize(..sent.len() - recent)];
        let is_asked = !sent.is_empty();
        match rng.usize(..16) {
            choice @ 0..=7 => {
                let asks = match choice {
                    0 if is_asked => pick(&mut rng), // a late copy
                    1 if is_asked => {
                        // The reply was lost, and the same call asks once more.
                        let last = pick(&mut rng);
                        let request = last.request + 1 + rng.u64(..2);
                        let token = subject.new_token();
                        Asks {
                            token,
                            request,
                            ..last
                        }
                    }
                    _ => {
                        time = (time + rng.u64(..2)).min(EARLY - OFF);
                        let tick = match rng.usize(..8) {
                            0 => time - rng.u64(..OFF),  // a host whose clock is behind
                            1 => EARLY + rng.u64(..100), // one whose clock is ahead
                            2 => model.latest_tick().unwrap_or(time),
                            _ => time,
                        };
                        let token = subject.new_token();
                        Asks {
                            token,
                            tick,
                            // All hosts of a schedule have the same rule.
                            again: match is_ordered {
                                true if rng.usize(..4) > 0 => Again::First,
                                false if tick % 3 != 0 => Again::Never,
                                _ => Again::Claimed,
                            },
                            is_strict: rng.usize(..10) == 0,
                            waits: rng.bool(),
                            call: token,
                            request: 1,
                        }
                    }
                };
                sent.push(asks);
                let (said, fence) = subject.acquire(asks).await;
                let before = model.latest_token();
                assert_eq!(said, model.acquire(asks), "step {step}: {asks:?}");
                *seen.entry(said).or_default() += 1;
                if let Said::Run { tick, .. } = said {
                    assert!(tick < EARLY, "step {step}: before its time");
                    granted.entry(tick).or_default().insert(asks.call);
                    let is_same = model.took_over && before.is_some();
                    match before.filter(|_| is_same) {
                        Some(before) => assert_eq!(fence, subject.fences[before], "step {step}"),
                        None => assert!(fence > highest, "step {step}: {fence}"),
                    }
                    highest = highest.max(fence);
                    subject.fences[asks.token] = fence;
                }
            }
            8 | 9 if is_asked => {
                let asks = pick(&mut rng);
                let said = subject.finish(asks.token).await;
                let latest = model.latest_tick().map(|tick| subject.tick(tick));
                match model.finish(asks.token) {
                    true => assert_eq!(said, Ok(()), "step {step}"),
                    false => assert_eq!(said, Err(latest), "step {step}"),
                }
            }
            10 if is_asked => {
                let token = pick(&mut rng).token;
                let said = subject.release(token, &subject.resource).await;
                assert_eq!(said, model.release(token), "step {step}");
            }
            11 if is_asked => {
                let asks = pick(&mut rng);
                let said = subject.cancel(asks.token).await;
                let (wanted, is_undone) = model.cancel(asks.token);
                assert_eq!(said, wanted, "step {step}");
                if is_undone {
                    granted.entry(asks.tick).or_default().remove(&asks.call);
                }
            }
            12 => {
                let token = subject.new_token();
                locks.push(token);
                let is_free = model.held.is_none();
                assert_eq!(subject.lock(token).await, is_free, "step {step}");
                if is_free {
                    model.held = Some(token);
                }
            }
            13 if !locks.is_empty() => {
                let token = locks[locks.len() - 1];
                let said = subject.release(token, &subject.mutex).await;
                assert_eq!(said, model.release(token), "step {step}");
            }
            14 => {
                let shown = subject.inspect().await;
                let latest = shown
                    .latest
                    .zip(shown.state)
                    .map(|(tick, state)| (Tick::new(tick).unwrap(), state, shown.attempt));
                let wanted = model.latest_shown();
                let wanted =
                    wanted.map(|(tick, state, attempt)| (subject.tick(tick), state, attempt));
                assert_eq!(latest, wanted, "step {step}");
                let skipped = shown.skipped.map(|tick| Tick::new(tick).unwrap());
                let wanted = model.skipped.map(|tick| subject.tick(tick));
                assert_eq!(skipped, wanted, "step {step}");
            }
            15 if model.held.is_some() && rng.usize(..3) == 0 => {
                subject.expire().await;
                model.held = None;
            }
            _ => {}
        }
    }
    let is_once = |tick: u64| !is_ordered && !tick.is_multiple_of(3);
    let twice = |(tick, calls): (&u64, &BTreeSet<usize>)| is_once(*tick) && calls.len() > 1;
    assert!(!granted.iter().any(twice), "at most once: {granted:?}");
    // Each way was taken, so that the comparison means something.
    let ways = seen.keys().map(std::mem::discriminant);
    let ways = ways.collect::<std::collections::HashSet<_>>().len();
    assert_eq!(ways, Said::WAYS, "{seen:?}");
}

/// A claim that was taken back has not begun the tick: the next request of its call does.
async fn a_call_that_was_taken_back_has_an_attempt_of_its_own(mut subject: Subject) {
    let asks = |token, call, request| Asks {
        token,
        tick: OFF,
        again: Again::Claimed,
        is_strict: false,
        waits: false,
        call,
        request,
    };
    let run = |attempt| Said::Run { tick: OFF, attempt };
    let [crashed, cut_off, next] = [(); 3].map(|()| subject.new_token());
    let (said, _) = subject.acquire(asks(crashed, crashed, 1)).await;
    assert_eq!(said, run(1));
    subject.release(crashed, &subject.resource).await;
    let (said, _) = subject.acquire(asks(cut_off, cut_off, 1)).await;
    assert_eq!(said, run(2));
    let undone = subject.cancel(cut_off).await;
    assert_eq!(undone, CancelAnswer::Released);
    let (said, _) = subject.acquire(asks(next, cut_off, 2)).await;
    assert_eq!(said, run(2));
    let undone = subject.cancel(next).await;
    assert_eq!(undone, CancelAnswer::Released);
    let shown = subject.inspect().await;
    assert_eq!((shown.state, shown.attempt), (Some(TickState::Crashed), 1));
}

#[tokio::test]
async fn what_a_claim_left_when_it_was_taken_back_is_of_no_use_to_its_next_request() {
    a_call_that_was_taken_back_has_an_attempt_of_its_own(Subject::at("mem:").await).await;
}

#[tokio::test]
async fn in_memory_a_tick_does_what_a_plain_model_does() {
    for (is_ordered, seed) in [(false, 1), (false, 2), (true, 3), (true, 4)] {
        let subject = Subject::at(&format!("mem:ticks-{seed}")).await;
        agrees_with_the_model(subject, is_ordered, 2_000, seed).await;
    }
}

#[tokio::test]
async fn in_a_folder_a_tick_does_what_a_plain_model_does() {
    for is_ordered in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let subject = Subject::at(&format!("file://{}", folder.path().display())).await;
        agrees_with_the_model(subject, is_ordered, 2_000, 5).await;
    }
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn on_a_server_a_tick_does_what_a_plain_model_does() {
    for is_ordered in [false, true] {
        let server = testkit::Server::start();
        let subject = Subject::at(&server.url()).await;
        agrees_with_the_model(subject, is_ordered, 2_000, 6).await;
    }
}
