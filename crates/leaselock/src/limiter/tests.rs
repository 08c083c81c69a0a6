//! The scripts of the limiter under random operations, against a plain model.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod model;

use std::time::Duration;

use fastrand::Rng;

use self::model::{Event, Model, Rates, State};
use super::calls::{GiveBackPermits, PermitRequest, Take, Taken};
use super::rate::{CheckedRates, Rate};
use crate::base::clock::Clock;
use crate::base::token::Token;
use crate::client::Client;
use crate::engine::services::core::OPERATOR_WITHIN;
use crate::quorum::tally::Votable;
use crate::script::keys::LockKeys;
use crate::script::{Answer, Call, Malformed, Operation, Script};

const STEPS: usize = 2_500;
/// The scripts read so many moments that were given back, so a model with more would differ.
const STANDING_MAX: usize = 60;

/// Sets the server's clock back: for the limiter that is the same as a state of a later time.
static SET_BACK: Script = Script::new(
    "test",
    "local state = redis.call('GET', KEYS[1])
if not state then return { 'none' } end
local clock_us, rest = string.match(state, '^(%d+)(.*)$')
redis.call('SET', KEYS[1], string.format('%.0f', clock_us + ARGV[1]) .. rest, 'PX', redis.call('PTTL', KEYS[1]))
for i = 2, 3 do
  for _, member in ipairs(redis.call('ZRANGE', KEYS[i], '0', '-1')) do
    local moment = redis.call('ZSCORE', KEYS[i], member) + ARGV[1]
    redis.call('ZADD', KEYS[i], string.format('%.0f', moment), member)
  end
end
return { 'set' }",
);

struct SetBack<'a>(&'a LockKeys, u64);

impl Operation for SetBack<'_> {
    type Reply = bool;

    fn script(&self) -> &'static Script {
        &SET_BACK
    }

    fn encode(&self, call: &mut Call) {
        for key in ["limiter", "reserved", "returned"] {
            call.key(self.0.beside(key));
        }
        call.arg(self.1);
    }

    fn decode(answer: &Answer) -> Result<bool, Malformed> {
        Ok(answer.tag() == "set")
    }
}

impl Votable for SetBack<'_> {}

/// The id of the caller of this number.
fn token(id: usize) -> Token {
    Token::parse(&format!("{id:022}~--------")).unwrap()
}

/// The scripts, in memory.
struct Subject {
    client: Client,
    clock: Clock,
    rate: CheckedRates,
    keys: LockKeys,
}

impl Subject {
    fn new(rates: Rates) -> Self {
        let clock = Clock::manual();
        let builder = Client::builder().url("mem:").clock(clock.clone());
        let rate = |(limit, period_ms, burst): &(u32, u64, u32)| {
            Rate::new(*limit, Duration::from_millis(*period_ms)).burst(*burst)
        };
        let rates: Vec<Rate> = rates.iter().map(rate).collect();
        Subject {
            client: builder.open().unwrap(),
            clock,
            rate: CheckedRates::new(&rates).unwrap(),
            keys: LockKeys::at("api".into()),
        }
    }

    async fn ask<O: Votable>(&self, operation: &O) -> O::Reply {
        let engine = &self.client.state.engine;
        engine.ask(operation, OPERATOR_WITHIN).await.unwrap()
    }

    fn request(&self, cost: u32) -> PermitRequest {
        PermitRequest {
            keys: self.keys.clone(),
            rate: self.rate.clone(),
            cost,
        }
    }

    async fn take(&self, id: usize, cost: u32, longest_us: u64) -> Taken {
        let id = token(id);
        let take = Take {
            request: &self.request(cost),
            id: id.secret(),
            longest_us,
        };
        self.ask(&take).await
    }

    async fn give_back(&self, id: usize, cost: u32) -> bool {
        let give_back = GiveBackPermits {
            request: self.request(cost),
            id: token(id),
        };
        self.ask(&give_back).await
    }
}

/// Tries, waits, repeated requests, waits that are given up, and steps back of the server's clock.
async fn does_what_the_model_does(rates: Rates, seed: u64, set_back: bool) {
    let (subject, mut rng) = (Subject::new(rates), Rng::with_seed(seed));
    let mut model = Model {
        rates,
        now_us: 1 << 40,
        ahead_us: 0,
        saved_us: 0,
        ends_us: 0,
        events: Vec::new(),
        acts: Vec::new(),
    };
    let burst = rates.iter().map(|(_, _, burst)| *burst).min().unwrap();
    // About the time that pays for one permit.
    let permit_us = rates
        .iter()
        .map(|(limit, period_ms, _)| period_ms * 1000 / u64::from(*limit));
    let permit_us = usize::try_from(permit_us.min().unwrap()).unwrap();
    let mut costs: Vec<u32> = Vec::new();
    let [mut reserved, mut given_back] = [0; 2];
    for step in 0..STEPS {
        match rng.usize(..20) {
            kind @ 0..=7 => {
                let cost = 1 + rng.u32(..4);
                let cost = cost.min(burst);
                let most = permit_us * [1, 20, 200][rng.usize(..3)];
                let longest = u64::try_from(rng.usize(..most)).unwrap() + 1;
                let longest = if kind < 3 { 0 } else { longest };
                if model.standing() >= STANDING_MAX {
                    continue;
                }
                costs.push(cost);
                let id = costs.len();
                let (said, wanted) = (
                    subject.take(id, cost, longest).await,
                    model.take(id, cost, longest),
                );
                assert_eq!(said, wanted, "step {step}");
                reserved += usize::from(matches!(said, Taken::Reserved { .. }));
            }
            8 if !costs.is_empty() => {
                // A reply was lost: the same request again, of a reservation that stands.
                if model.is_set_back() {
                    continue;
                }
                let id = costs.len() - rng.usize(..costs.len().min(8));
                model.open();
                let stands = |event: &Event| event.id == id && event.state == State::Reserved;
                if model.events.iter().any(stands) {
                    let (cost, longest) = (costs[id - 1], u64::from(u32::MAX));
                    let said = subject.take(id, cost, longest).await;
                    assert_eq!(said, model.take(id, cost, longest), "step {step}");
                }
            }
            9..=12 if !costs.is_empty() => {
                let events = model.events.iter();
                let stand = events.filter(|event| event.state == State::Reserved);
                let stand: Vec<usize> = stand.map(|event| event.id).collect();
                let id = match stand.len() {
                    many @ 1.. if rng.usize(..4) > 0 => stand[rng.usize(..many)],
                    _ => costs.len() - rng.usize(..costs.len().min(30)),
                };
                let acted = |event: &Event| event.id == id && event.acts_us <= model.now_us;
                if model.events.iter().any(acted) {
                    continue;
                }
                let said = subject.give_back(id, costs[id - 1]).await;
                assert_eq!(said, model.give_back(id), "step {step}");
                given_back += usize::from(said);
            }
            13 if set_back && rng.usize(..10) == 0 => {
                let by_us = [1, 1_000_000, 3_600_000_000][rng.usize(..3)];
                // A step by less than what has passed since the latest change has no effect.
                let by_us = by_us + model.clock_us().saturating_sub(model.saved_us);
                if subject.ask(&SetBack(&subject.keys, by_us)).await {
                    model.ahead_us -= i64::try_from(by_us).unwrap();
                }
            }
            _ => {
                // Mostly less than is used, and sometimes all of it is drained.
                let most = permit_us * [1, 2, 5, [5, 200][rng.usize(..30) / 29]][rng.usize(..4)];
                let us = u64::try_from(rng.usize(..most)).unwrap();
                subject.clock.advance(Duration::from_micros(us));
                model.now_us += us;
            }
        }
    }
    model.conforms();
    assert!(reserved > STEPS / 50, "{rates:?} {reserved}");
    assert!(given_back > STEPS / 100, "{rates:?} {given_back}");
    println!("{rates:?}: {reserved} reserved, {given_back} given back");
}

/// Whole and fractional times of a permit, one rate and several, a burst of one.
const ALL: [Rates; 5] = [
    &[(100, 1000, 20)],
    &[(7, 3000, 3)],
    &[(30_000, 1000, 40)],
    &[(10, 1000, 5), (100, 60_000, 30)],
    &[(1, 100, 1), (3, 1000, 3), (1000, 3_600_000, 1000)],
];

#[tokio::test]
async fn the_limiter_does_what_a_plain_model_does() {
    for (seed, rates) in (7..).zip(ALL) {
        does_what_the_model_does(rates, seed, false).await;
    }
}

#[tokio::test]
async fn the_limiter_does_what_a_plain_model_does_when_the_servers_clock_goes_back() {
    for (seed, rates) in (70..).zip(ALL) {
        does_what_the_model_does(rates, seed, true).await;
    }
}

/// Newcomers get the rate and a whole burst, and those who were told their moment before act at it.
#[tokio::test]
async fn a_step_forward_or_a_loss_of_the_data_allows_a_burst_more_and_those_who_wait() {
    const WAIT: u64 = 20;
    const RATES: Rates = &[(10, 1000, 5)];
    const PERMIT_US: u64 = 100_000;
    for loses_data in [false, true] {
        let before = Subject::new(RATES);
        let mut ids = 0..;
        // When each acts, by a clock that does not step.
        let mut acts = Vec::new();
        for id in ids.by_ref().take(5 + usize::try_from(WAIT).unwrap()) {
            acts.push(match before.take(id, 1, u64::from(u32::MAX)).await {
                Taken::Reserved { wait_us, .. } => wait_us,
                said => {
                    assert!(matches!(said, Taken::Allowed { .. }), "{said:?}");
                    0
                }
            });
        }
        let after = if loses_data {
            Subject::new(RATES)
        } else {
            before.clock.advance(Duration::from_secs(3600));
            before
        };
        let mut now_us = 0;
        while now_us <= WAIT * PERMIT_US {
            match after.take(ids.next().unwrap(), 1, 0).await {
                Taken::Limited { wait_us, .. } => {
                    after.clock.advance(Duration::from_micros(wait_us));
                    now_us += wait_us;
                }
                _ => acts.push(now_us),
            }
        }
        acts.sort_unstable();
        for (at, first) in acts.iter().enumerate() {
            for (count, last) in (1..).zip(&acts[at..]) {
                let most = (last - first) / PERMIT_US + 2 * 5 + WAIT;
                assert!(count <= most, "{count} from {first} to {last}");
            }
        }
        let all = u64::try_from(acts.len()).unwrap();
        assert_eq!(all, WAIT + 2 * 5 + WAIT, "the bound is reached");
    }
}

/// A request at another rate is measured by that one, and forgets nothing of the others.
#[tokio::test]
async fn a_request_at_another_rate_keeps_what_counts_at_the_first() {
    let first: Rates = &[(2, 1000, 2)];
    let (mut subject, cost) = (Subject::new(first), 2);
    let (allowed, limited) = (Taken::Allowed { left: 0, rate: 0 }, |wait_us| {
        Taken::Limited { wait_us, rate: 0 }
    });
    assert_eq!(subject.take(1, cost, 0).await, allowed);
    let one = subject.rate.clone();
    subject.rate = Subject::new(&[(1, 60_000, 1)]).rate;
    assert_eq!(subject.take(2, 1, 0).await, allowed);
    subject.rate = one;
    assert_eq!(subject.take(3, 1, 0).await, limited(500_000));
    // The same period with twice as many permits: the bucket is empty at the same time.
    subject.rate = Subject::new(&[(4, 1000, 4)]).rate;
    assert_eq!(subject.take(4, 1, 0).await, limited(250_000));
}

/// Another type is under the key of what was given back.
#[cfg(feature = "redis")]
#[tokio::test]
async fn a_reservation_that_cannot_be_given_back_still_stands() {
    let server = testkit::Server::start();
    let mut subject = Subject::new(&[(1, 60_000, 1)]);
    subject.client = Client::open(&server.url()).unwrap();
    subject.take(1, 1, 0).await;
    let reserved = subject.take(2, 1, u64::from(u32::MAX)).await;
    assert!(matches!(reserved, Taken::Reserved { .. }), "{reserved:?}");
    let returned = subject.keys.beside("returned").to_string();
    server.cli(&["SET", &returned, "x"]);
    let give_back = GiveBackPermits {
        request: subject.request(1),
        id: token(2),
    };
    let engine = &subject.client.state.engine;
    engine.ask(&give_back, OPERATOR_WITHIN).await.unwrap_err();
    server.cli(&["DEL", &returned]);
    assert!(subject.give_back(2, 1).await, "the reservation is gone");
}
