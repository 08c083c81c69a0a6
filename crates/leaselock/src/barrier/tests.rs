//! The scripts of the barrier under random operations, against a plain model.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::HashMap;
use std::time::Duration;

use fastrand::Rng;

use super::calls::{ArrivalAtBarrier, ArriveAtBarrier, BarrierPass, Leave, Party};
use crate::base::clock::Clock;
use crate::base::clock::Ttl;
use crate::base::token::Token;
use crate::client::Client;
use crate::engine::services::core::OPERATOR_WITHIN;
use crate::quorum::tally::Votable;
use crate::script::keys::LockKeys;
use crate::script::{Answer, Call, Malformed, Operation, Script};

const PARTIES: u32 = 3;
const LEASE_MS: u64 = 1_000;
const STEPS: usize = 20_000;

static REMEMBERED: Script =
    Script::new("test", "return { 'members', redis.call('ZCARD', KEYS[1]) }");

/// How many members the set of those that passed has.
struct Remembered<'a>(&'a LockKeys);

impl Operation for Remembered<'_> {
    type Reply = u64;

    fn script(&self) -> &'static Script {
        &REMEMBERED
    }

    fn encode(&self, call: &mut Call) {
        call.key(self.0.beside("passed"));
    }

    fn decode(answer: &Answer) -> Result<u64, Malformed> {
        answer.number(0)
    }
}

impl Votable for Remembered<'_> {}

/// What is promised, in plain Rust. A token is its place in the list of all.
#[derive(Default)]
struct Model {
    now_ms: u64,
    generation: u64,
    /// Until when each counts that waits.
    waiting: HashMap<usize, u64>,
    /// In which generation each has passed, and until when that is known.
    passed: HashMap<usize, (u64, u64)>,
}

#[derive(Debug, PartialEq, Eq)]
enum Said {
    Passed(u64),
    Waiting(u32),
    Missed(u64),
    Left,
}

impl Model {
    fn arrive(&mut self, token: usize, generation: u64, told: Option<usize>) -> Said {
        if let Some((generation, _)) = self.passed.get(&token) {
            return Said::Passed(*generation);
        }
        if generation != self.generation {
            return Said::Missed(self.generation);
        }
        told.map(|told| self.passed.remove(&told));
        self.waiting.retain(|_, ends| *ends >= self.now_ms);
        self.waiting.insert(token, self.now_ms + LEASE_MS);
        let arrived = u32::try_from(self.waiting.len()).unwrap();
        if arrived < PARTIES {
            return Said::Waiting(arrived);
        }
        let known = (generation, self.now_ms + LEASE_MS);
        self.passed
            .extend(self.waiting.drain().map(|(token, _)| (token, known)));
        self.generation += 1;
        Said::Passed(generation)
    }

    fn leave(&mut self, token: usize) -> Said {
        if let Some((generation, _)) = self.passed.get(&token) {
            return Said::Passed(*generation);
        }
        self.waiting.remove(&token);
        Said::Left
    }

    /// True if it has passed, and its lease could not have lasted until now. The scripts may have forgotten it.
    fn is_over(&self, token: usize) -> bool {
        let passed = self.passed.get(&token);
        passed.is_some_and(|(_, until)| *until < self.now_ms)
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
            client: builder.open().unwrap(),
            clock,
            keys: LockKeys::at("phase".into()),
            tokens: Vec::new(),
            passes: HashMap::new(),
        }
    }

    fn new_token(&mut self) -> usize {
        let id = &self.client.state.engine.ids.client;
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

    fn party(&self, token: usize) -> Party {
        let (keys, token) = (self.keys.clone(), self.tokens[token].clone());
        Party { keys, token }
    }

    async fn arrive(&mut self, token: usize, generation: u64, told: Option<usize>) -> Said {
        let arrive = ArriveAtBarrier {
            party: &self.party(token),
            parties: PARTIES,
            lease: Ttl::whole_ms(LEASE_MS).unwrap(),
            generation,
            channel: "",
            told: told.map(|told| &self.tokens[told]),
        };
        match self
            .client
            .state
            .engine
            .ask(&arrive, OPERATOR_WITHIN)
            .await
            .unwrap()
        {
            ArrivalAtBarrier::Passed { index } => {
                self.note(token, BarrierPass { generation, index })
            }
            ArrivalAtBarrier::Waiting { arrived } => Said::Waiting(arrived),
            ArrivalAtBarrier::Missed { generation } => Said::Missed(generation),
            ArrivalAtBarrier::Disagrees { parties } => panic!("{parties}"),
        }
    }

    async fn remembered(&self) -> u64 {
        let engine = &self.client.state.engine;
        let remembered = Remembered(&self.keys);
        engine.ask(&remembered, OPERATOR_WITHIN).await.unwrap()
    }

    async fn leave(&mut self, token: usize, generation: u64) -> Said {
        let party = self.party(token);
        let leave = Leave { party };
        match self
            .client
            .state
            .engine
            .ask(&leave, OPERATOR_WITHIN)
            .await
            .unwrap()
        {
            Some(index) => self.note(token, BarrierPass { generation, index }),
            None => Said::Left,
        }
    }
}

/// However many generations have passed meanwhile.
#[tokio::test]
async fn a_party_that_passed_learns_it_as_long_as_its_lease_could_have_lasted() {
    let mut subject = Subject::new();
    let first: Vec<usize> = (0..PARTIES).map(|_| subject.new_token()).collect();
    for token in &first {
        subject.arrive(*token, 0, None).await;
    }
    for generation in 1..=50 {
        for _ in 0..PARTIES {
            let token = subject.new_token();
            subject.arrive(token, generation, None).await;
        }
    }
    subject.clock.advance(Duration::from_millis(LEASE_MS));
    assert_eq!(subject.arrive(first[0], 0, None).await, Said::Passed(0));
    assert_eq!(subject.leave(first[1], 0).await, Said::Passed(0));
}

/// Each wait says that the one before is told. The others are forgotten once no lease can last any more.
#[tokio::test]
async fn what_a_party_was_told_is_forgotten_and_what_it_was_not_after_its_lease() {
    let mut subject = Subject::new();
    let (mut told, mut generation) = ([None; PARTIES as usize], 0);
    let mut pass = async |subject: &mut Subject, tells: bool| {
        for told in &mut told {
            let token = subject.new_token();
            let earlier = told.replace(token).filter(|_| tells);
            subject.arrive(token, generation, earlier).await;
        }
        generation += 1;
        // The empty member stands for the generations.
        subject.remembered().await - 1
    };
    for _ in 0..20 {
        assert!(pass(&mut subject, true).await <= u64::from(2 * PARTIES));
    }
    for _ in 0..20 {
        pass(&mut subject, false).await;
    }
    assert!(subject.remembered().await > u64::from(20 * PARTIES));
    subject
        .clock
        .advance(Duration::from_millis(LEASE_MS + 2_000));
    for _ in 0..30 {
        pass(&mut subject, true).await;
    }
    assert!(subject.remembered().await - 1 <= u64::from(2 * PARTIES));
}

/// Arrivals, of which some say that an earlier wait is told, late copies of earlier requests, parties that give up and leases that end.
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
                let told = recent + rng.usize(..=sent.len() - recent);
                let told = sent.get(told).map(|(told, _)| *told);
                let told = told.filter(|told| model.passed.contains_key(told));
                sent.push((token, generation));
                (
                    subject.arrive(token, generation, told).await,
                    model.arrive(token, generation, told),
                )
            }
            4..=6 if !sent.is_empty() => {
                // A poll, or a copy of a request of long ago.
                let oldest = [recent, recent.saturating_sub(60)][rng.usize(..2)];
                let (token, generation) = sent[oldest + rng.usize(..sent.len() - oldest)];
                if model.is_over(token) {
                    continue;
                }
                (
                    subject.arrive(token, generation, None).await,
                    model.arrive(token, generation, None),
                )
            }
            7 if !sent.is_empty() => {
                let (token, generation) = sent[recent + rng.usize(..sent.len() - recent)];
                if model.is_over(token) {
                    continue;
                }
                (subject.leave(token, generation).await, model.leave(token))
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
