//! The scripts of the barrier under random operations, against a plain model.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::HashMap;
use std::time::Duration;

use fastrand::Rng;

use super::calls::{Arrive, Arrived, BarrierPass, Leave, Left};
use crate::base::clock::Clock;
use crate::base::token::Token;
use crate::base::ttl::Ttl;
use crate::client::Client;
use crate::engine::core::OPERATOR_WITHIN;
use crate::script::keys::LockKeys;

const PARTIES: u32 = 3;
const LEASE_MS: u64 = 1_000;
const STEPS: usize = 20_000;

/// What is promised, in plain Rust. A token is its place in the list of all.
#[derive(Default)]
struct Model {
    now_ms: u64,
    generation: u64,
    /// Until when each counts that waits.
    waiting: HashMap<usize, u64>,
    passed: HashMap<usize, u64>,
}

#[derive(Debug, PartialEq, Eq)]
enum Said {
    Passed(u64),
    Waiting(u32),
    Missed(u64),
    Left,
}

impl Model {
    fn arrive(&mut self, token: usize, generation: u64) -> Said {
        if let Some(generation) = self.passed.get(&token) {
            return Said::Passed(*generation);
        }
        if generation != self.generation {
            return Said::Missed(self.generation);
        }
        self.waiting.retain(|_, ends| *ends >= self.now_ms);
        self.waiting.insert(token, self.now_ms + LEASE_MS);
        let arrived = u32::try_from(self.waiting.len()).unwrap();
        if arrived < PARTIES {
            return Said::Waiting(arrived);
        }
        // A request of the generation before last finds nothing of its own.
        self.passed.retain(|_, passed| *passed + 1 >= generation);
        self.passed
            .extend(self.waiting.drain().map(|(token, _)| (token, generation)));
        self.generation += 1;
        Said::Passed(generation)
    }

    fn leave(&mut self, token: usize) -> Said {
        if let Some(generation) = self.passed.get(&token) {
            return Said::Passed(*generation);
        }
        self.waiting.remove(&token);
        Said::Left
    }
}

/// The scripts, in memory.
struct Subject {
    client: Client,
    clock: Clock,
    keys: LockKeys,
    tokens: Vec<Token>,
    /// Who has passed each generation, with which index.
    passes: HashMap<u64, HashMap<u32, usize>>,
}

impl Subject {
    fn new() -> Self {
        let clock = Clock::manual();
        let builder = Client::builder().url("mem:").clock(clock.clone());
        Subject {
            client: builder.build().unwrap(),
            clock,
            keys: LockKeys::at("phase".into()),
            tokens: Vec::new(),
            passes: HashMap::new(),
        }
    }

    fn new_token(&mut self) -> usize {
        let id = &self.client.state.engine.id;
        self.tokens.push(Token::random(id, false).unwrap());
        self.tokens.len() - 1
    }

    /// No two have the same index, and no one passes twice.
    fn note(&mut self, token: usize, pass: BarrierPass) -> Said {
        let generation = self.passes.entry(pass.generation).or_default();
        assert_eq!(*generation.entry(pass.index).or_insert(token), token);
        assert!(pass.index < PARTIES);
        let times = self.passes.values().flat_map(HashMap::values);
        assert_eq!(times.filter(|other| **other == token).count(), 1);
        Said::Passed(pass.generation)
    }

    async fn arrive(&mut self, token: usize, generation: u64) -> Said {
        let arrive = Arrive {
            keys: &self.keys,
            token: &self.tokens[token],
            parties: PARTIES,
            lease: Ttl::whole_ms(LEASE_MS).unwrap(),
            generation,
            channel: "",
        };
        match self
            .client
            .state
            .engine
            .ask(&arrive, OPERATOR_WITHIN)
            .await
            .unwrap()
        {
            Arrived::Passed(pass) => self.note(token, pass),
            Arrived::Waiting { arrived } => Said::Waiting(arrived),
            Arrived::Missed { generation } => Said::Missed(generation),
            Arrived::Disagrees { parties } => panic!("{parties}"),
        }
    }

    async fn leave(&mut self, token: usize) -> Said {
        let leave = Leave {
            keys: &self.keys,
            token: &self.tokens[token],
        };
        match self
            .client
            .state
            .engine
            .ask(&leave, OPERATOR_WITHIN)
            .await
            .unwrap()
        {
            Left::Passed(pass) => self.note(token, pass),
            Left::Left => Said::Left,
        }
    }
}

/// Arrivals, late copies of earlier requests, parties that give up and leases that end.
#[tokio::test]
async fn the_barrier_does_what_a_plain_model_does() {
    let (mut model, mut subject, mut rng) = (Model::default(), Subject::new(), Rng::with_seed(7));
    // Every arrival that was ever sent: the token and its generation.
    let mut sent: Vec<(usize, u64)> = Vec::new();
    for step in 0..STEPS {
        let recent = sent.len().saturating_sub(12);
        let (said, wanted) = match rng.usize(..10) {
            0..=3 => {
                let (token, generation) = (subject.new_token(), model.generation);
                sent.push((token, generation));
                (
                    subject.arrive(token, generation).await,
                    model.arrive(token, generation),
                )
            }
            4..=6 if !sent.is_empty() => {
                // A poll, or a copy of a request of long ago.
                let oldest = [recent, recent.saturating_sub(60)][rng.usize(..2)];
                let (token, generation) = sent[oldest + rng.usize(..sent.len() - oldest)];
                (
                    subject.arrive(token, generation).await,
                    model.arrive(token, generation),
                )
            }
            7 if !sent.is_empty() => {
                let (token, _) = sent[recent + rng.usize(..sent.len() - recent)];
                (subject.leave(token).await, model.leave(token))
            }
            _ => {
                let ms = rng.u64(..500);
                subject.clock.advance(Duration::from_millis(ms));
                model.now_ms += ms;
                continue;
            }
        };
        assert_eq!(said, wanted, "step {step}");
    }
    assert!(model.generation > 1_000, "{}", model.generation);
}
