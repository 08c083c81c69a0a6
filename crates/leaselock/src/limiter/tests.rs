//! The scripts of the limiter under random operations, against a plain model.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::cmp::Reverse;
use std::time::Duration;

use fastrand::Rng;

use super::band::{Band, Rate};
use super::calls::{GiveBack, GivenBack, Request, Take, Taken};
use crate::base::clock::Clock;
use crate::client::Client;
use crate::engine::core::OPERATOR_WITHIN;
use crate::quorum::votable::Votable;
use crate::script::keys::LockKeys;
use crate::script::{Answer, Call, Malformed, Operation, Script};

const STEPS: usize = 2_500;
/// The scripts read so many moments that were given back, so a model with more would differ.
const STANDING_MAX: usize = 60;

/// Permits in a period in milliseconds, and a burst.
type Rates = &'static [(u32, u64, u32)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Used, or never to be used any more.
    Over,
    Reserved,
    Returned,
}

/// Permits that count from `asked_us` on, and act at `moment_us`; both are times of the limiter.
#[derive(Debug, Clone, Copy)]
struct Event {
    id: usize,
    cost: u32,
    asked_us: u64,
    moment_us: u64,
    /// The same moment by a clock that never steps.
    acts_us: u64,
    state: State,
}

/// What is promised, in plain Rust: everything is computed anew from what has happened.
struct Model {
    rates: Rates,
    now_us: u64,
    /// How far the limiter's clock is ahead of `now_us`.
    ahead_us: i64,
    /// The limiter's time at its latest change.
    saved_us: u64,
    /// When the store forgets the state.
    ends_us: u64,
    events: Vec<Event>,
    /// When which permits act, by a clock that never steps.
    acts: Vec<(u64, u32)>,
}

impl Model {
    fn clock_us(&self) -> u64 {
        self.now_us.checked_add_signed(self.ahead_us).unwrap()
    }

    /// The level of each band, in parts of which a permit adds `period_us` and a microsecond takes off `limit`.
    fn levels(&self) -> Vec<u128> {
        let level_of = |(limit, period_ms, _): &(u32, u64, u32)| {
            let (mut level, mut at) = (0u128, 0);
            let drained =
                |level: u128, us: u64| level.saturating_sub(u128::from(us) * u128::from(*limit));
            for event in &self.events {
                let per_permit = u128::from(period_ms * 1000);
                level = drained(level, event.asked_us - at) + u128::from(event.cost) * per_permit;
                at = event.asked_us;
            }
            drained(level, self.clock_us() - at)
        };
        self.rates.iter().map(level_of).collect()
    }

    /// How long it takes until all bands allow the cost, and the first of those that allow it last.
    fn wait_us(&self, cost: u32) -> (u64, usize) {
        let waits = self.rates.iter().zip(self.levels());
        let wait = |((limit, period_ms, burst), level): (&(u32, u64, u32), u128)| {
            let per_permit = u128::from(period_ms * 1000);
            let excess = (level + u128::from(cost) * per_permit)
                .saturating_sub(u128::from(*burst) * per_permit);
            u64::try_from(excess.div_ceil(u128::from(*limit))).unwrap()
        };
        let longest = waits.map(wait).zip((0..).map(Reverse)).max();
        let (wait_us, Reverse(band)) = longest.unwrap();
        (wait_us, band)
    }

    /// How many permits all bands allow, and the first of those that allow no more.
    fn left(&self) -> (u32, usize) {
        let bands = self.rates.iter().zip(self.levels());
        let left = |((_, period_ms, burst), level): (&(u32, u64, u32), u128)| {
            let used = level.div_ceil(u128::from(period_ms * 1000));
            burst.saturating_sub(u32::try_from(used).unwrap())
        };
        bands.map(left).zip(0..).min().unwrap()
    }

    /// Brings the clock up to date. True if it was set back.
    fn open(&mut self) -> bool {
        if self.now_us > self.ends_us {
            (self.ahead_us, self.saved_us) = (0, 0);
            self.events.clear();
        }
        let is_set_back = self.is_set_back();
        if is_set_back {
            let [saved_us, now_us] =
                [self.saved_us, self.now_us].map(|us| i64::try_from(us).unwrap());
            self.ahead_us = saved_us - now_us;
        }
        let now_us = self.clock_us();
        for event in &mut self.events {
            if is_set_back || event.moment_us <= now_us {
                event.state = State::Over;
            }
        }
        is_set_back
    }

    fn is_set_back(&self) -> bool {
        self.clock_us() < self.saved_us && self.now_us <= self.ends_us
    }

    fn save(&mut self) {
        let bands = self.rates.iter().zip(self.levels());
        let paid_us = bands.map(|((limit, ..), level)| level.div_ceil(u128::from(*limit)));
        let kept_ms = paid_us.max().unwrap().div_ceil(1000) + 1000;
        self.ends_us = self.now_us + u64::try_from(kept_ms).unwrap() * 1000;
        self.saved_us = self.clock_us();
    }

    fn standing(&self) -> usize {
        let stands = |event: &&Event| event.state != State::Over;
        self.events.iter().filter(stands).count()
    }

    fn take(&mut self, id: usize, cost: u32, patience_us: u64) -> Taken {
        let is_set_back = self.open();
        let now_us = self.clock_us();
        if self.standing() == 0 && self.levels().iter().all(|level| *level == 0) {
            self.events.clear(); // nothing of it counts any more
        }
        let (wait_us, band) = self.wait_us(cost);
        let event = |moment_us, state| Event {
            id,
            cost,
            asked_us: now_us,
            moment_us,
            acts_us: self.now_us + (moment_us - now_us),
            state,
        };
        if wait_us == 0 {
            self.events.push(event(now_us, State::Over));
            self.acts.push((self.now_us, cost));
            self.save();
            let (left, band) = self.left();
            return Taken::Allowed { left, band };
        }
        let mine = |event: &&Event| event.id == id && event.state == State::Reserved;
        if let Some(event) = self.events.iter().find(mine)
            && patience_us > 0
        {
            let wait_us = event.moment_us - now_us;
            return Taken::Reserved { wait_us, band };
        }
        let latest_us = now_us + patience_us;
        let fits = |(_, other): &(usize, &Event)| {
            let is_returned = other.state == State::Returned;
            is_returned && other.cost >= cost && other.moment_us <= latest_us
        };
        let returned = self.events.iter().enumerate().filter(fits);
        let first = returned.min_by_key(|(_, other)| other.moment_us);
        if let Some((at, _)) = first {
            let other = &mut self.events[at];
            let mut mine = *other;
            (mine.id, mine.cost, mine.state) = (id, cost, State::Reserved);
            other.cost -= cost;
            mine.acts_us = self.now_us + (mine.moment_us - now_us);
            if other.cost == 0 {
                self.events.remove(at);
            }
            self.events.insert(at, mine);
            self.acts.push((mine.acts_us, cost));
            self.save();
            let wait_us = mine.moment_us - now_us;
            return Taken::Reserved { wait_us, band };
        }
        if wait_us > patience_us {
            if is_set_back {
                self.save();
            }
            return Taken::Limited { wait_us, band };
        }
        let reserved = event(now_us + wait_us, State::Reserved);
        self.events.push(reserved);
        self.acts.push((reserved.acts_us, cost));
        self.save();
        Taken::Reserved { wait_us, band }
    }

    fn give_back(&mut self, id: usize) -> GivenBack {
        if self.is_set_back() {
            return GivenBack::Gone; // the next request brings the clock up to date
        }
        self.open();
        let mine = |event: &&mut Event| event.id == id && event.state == State::Reserved;
        let Some(event) = self.events.iter_mut().find(mine) else {
            return GivenBack::Gone;
        };
        event.state = State::Returned;
        let act = (event.acts_us, event.cost);
        let at = self.acts.iter().position(|one| *one == act).unwrap();
        self.acts.remove(at);
        let reserved = self
            .events
            .iter()
            .filter(|event| event.state == State::Reserved);
        let last_us = reserved.map(|event| event.moment_us).max().unwrap_or(0);
        self.events
            .retain(|event| event.state != State::Returned || event.moment_us <= last_us);
        self.save();
        GivenBack::GivenBack
    }

    /// What is done fits every band at every moment. A moment is a whole microsecond, which may be late by a part of one;
    /// so the time between two of them may be a part of one too short.
    fn conforms(&mut self) {
        self.acts.sort_unstable();
        for (limit, period_ms, burst) in self.rates {
            let per_permit = u128::from(period_ms * 1000);
            let (mut level, mut at_us) = (0u128, 0);
            for (acts_us, cost) in &self.acts {
                level = level.saturating_sub(u128::from(acts_us - at_us) * u128::from(*limit));
                level += u128::from(*cost) * per_permit;
                at_us = *acts_us;
                let most = u128::from(*burst) * per_permit + u128::from(*limit);
                assert!(level < most, "{limit} {period_ms} at {acts_us}: {level}");
            }
        }
    }
}

/// Sets the server's clock back: for the limiter that is the same as a state of a later time.
static SET_BACK: Script = Script::new(
    "test",
    "local state = redis.call('GET', KEYS[1])
if not state then return { 'none' } end
local clock_us, rest = string.match(state, '^(%d+)(.*)$')
redis.call('SET', KEYS[1], string.format('%.0f', clock_us + ARGV[1]) .. rest, 'KEEPTTL')
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

#[cfg(feature = "redis")]
impl Votable for SetBack<'_> {}

/// The scripts, in memory.
struct Subject {
    client: Client,
    clock: Clock,
    rate: Rate,
    keys: LockKeys,
}

impl Subject {
    fn new(rates: Rates) -> Self {
        let clock = Clock::manual();
        let builder = Client::builder().url("mem:").clock(clock.clone());
        let band = |(limit, period_ms, burst): &(u32, u64, u32)| Band {
            limit: *limit,
            period: Duration::from_millis(*period_ms),
            burst: Some(*burst),
        };
        let bands: Vec<Band> = rates.iter().map(band).collect();
        Subject {
            client: builder.build().unwrap(),
            clock,
            rate: Rate::new(&bands).unwrap(),
            keys: LockKeys::at("api".into()),
        }
    }

    async fn ask<O: Votable>(&self, operation: &O) -> O::Reply {
        let engine = &self.client.state.engine;
        engine.ask(operation, OPERATOR_WITHIN).await.unwrap()
    }

    fn request(&self, cost: u32) -> Request {
        Request {
            keys: self.keys.clone(),
            rate: self.rate.clone(),
            cost,
        }
    }

    async fn take(&self, id: usize, cost: u32, patience_us: u64) -> Taken {
        let take = Take {
            request: &self.request(cost),
            id: &id.to_string(),
            patience_us,
        };
        self.ask(&take).await
    }

    async fn give_back(&self, id: usize, cost: u32) -> GivenBack {
        let give_back = GiveBack {
            request: &self.request(cost),
            id: &id.to_string(),
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
                let patience = u64::try_from(rng.usize(..most)).unwrap() + 1;
                let patience = if kind < 3 { 0 } else { patience };
                if model.standing() >= STANDING_MAX {
                    continue;
                }
                costs.push(cost);
                let id = costs.len();
                let (said, wanted) = (
                    subject.take(id, cost, patience).await,
                    model.take(id, cost, patience),
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
                    let (cost, patience) = (costs[id - 1], u64::from(u32::MAX));
                    let said = subject.take(id, cost, patience).await;
                    assert_eq!(said, model.take(id, cost, patience), "step {step}");
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
                given_back += usize::from(said == GivenBack::GivenBack);
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

/// Whole and fractional times of a permit, one band and several, a burst of one.
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

/// A request at another rate is measured by that one, and forgets nothing of the others.
#[tokio::test]
async fn a_request_at_another_rate_keeps_what_counts_at_the_first() {
    let first: Rates = &[(2, 1000, 2)];
    let (mut subject, cost) = (Subject::new(first), 2);
    let (allowed, limited) = (Taken::Allowed { left: 0, band: 0 }, |wait_us| {
        Taken::Limited { wait_us, band: 0 }
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
