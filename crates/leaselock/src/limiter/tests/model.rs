//! The limiter in plain Rust: everything is computed anew from what has happened.

use std::cmp::Reverse;

use super::super::calls::Taken;

/// Permits in a period in milliseconds, and a burst.
pub(super) type Rates = &'static [(u32, u64, u32)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Used, or never to be used any more.
    Over,
    Reserved,
    Returned,
}

/// Permits that count from `asked_us` on, and act at `moment_us`; both are times of the limiter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) id: usize,
    pub(super) cost: u32,
    pub(super) asked_us: u64,
    pub(super) moment_us: u64,
    /// The same moment by a clock that never steps.
    pub(super) acts_us: u64,
    pub(super) state: State,
}

/// What is promised.
pub(super) struct Model {
    pub(super) rates: Rates,
    pub(super) now_us: u64,
    /// How far the limiter's clock is ahead of `now_us`.
    pub(super) ahead_us: i64,
    /// The limiter's time at its latest change.
    pub(super) saved_us: u64,
    /// When the store forgets the state.
    pub(super) ends_us: u64,
    pub(super) events: Vec<Event>,
    /// When which permits act, by a clock that never steps.
    pub(super) acts: Vec<(u64, u32)>,
}

impl Model {
    pub(super) fn clock_us(&self) -> u64 {
        self.now_us.checked_add_signed(self.ahead_us).unwrap()
    }

    /// The level of each band, in parts of which a permit adds `period_us` and a microsecond takes off `limit`.
    pub(super) fn levels(&self) -> Vec<u128> {
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
    pub(super) fn wait_us(&self, cost: u32) -> (u64, usize) {
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
    pub(super) fn left(&self) -> (u32, usize) {
        let bands = self.rates.iter().zip(self.levels());
        let left = |((_, period_ms, burst), level): (&(u32, u64, u32), u128)| {
            let used = level.div_ceil(u128::from(period_ms * 1000));
            burst.saturating_sub(u32::try_from(used).unwrap())
        };
        bands.map(left).zip(0..).min().unwrap()
    }

    /// Brings the clock up to date. True if it was set back.
    pub(super) fn open(&mut self) -> bool {
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

    pub(super) fn is_set_back(&self) -> bool {
        self.clock_us() < self.saved_us && self.now_us <= self.ends_us
    }

    pub(super) fn save(&mut self) {
        let bands = self.rates.iter().zip(self.levels());
        let paid_us = bands.map(|((limit, ..), level)| level.div_ceil(u128::from(*limit)));
        let kept_ms = paid_us.max().unwrap().div_ceil(1000) + 1000;
        self.ends_us = self.now_us + u64::try_from(kept_ms).unwrap() * 1000;
        self.saved_us = self.clock_us();
    }

    pub(super) fn standing(&self) -> usize {
        let stands = |event: &&Event| event.state != State::Over;
        self.events.iter().filter(stands).count()
    }

    pub(super) fn take(&mut self, id: usize, cost: u32, longest_us: u64) -> Taken {
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
            return Taken::Allowed { left, rate: band };
        }
        let mine = |event: &&Event| event.id == id && event.state == State::Reserved;
        if let Some(event) = self.events.iter().find(mine)
            && longest_us > 0
        {
            let wait_us = event.moment_us - now_us;
            return Taken::Reserved {
                wait_us,
                rate: band,
            };
        }
        let latest_us = now_us + longest_us;
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
            return Taken::Reserved {
                wait_us,
                rate: band,
            };
        }
        if wait_us > longest_us {
            if is_set_back {
                self.save();
            }
            return Taken::Limited {
                wait_us,
                rate: band,
            };
        }
        let reserved = event(now_us + wait_us, State::Reserved);
        self.events.push(reserved);
        self.acts.push((reserved.acts_us, cost));
        self.save();
        Taken::Reserved {
            wait_us,
            rate: band,
        }
    }

    pub(super) fn give_back(&mut self, id: usize) -> bool {
        if self.is_set_back() {
            return false; // the next request brings the clock up to date
        }
        self.open();
        let mine = |event: &&mut Event| event.id == id && event.state == State::Reserved;
        let Some(event) = self.events.iter_mut().find(mine) else {
            return false;
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
        true
    }

    /// What is done fits every band at every moment. A moment is a whole microsecond, which may be late by a part of one;
    /// so the time between two of them may be a part of one too short.
    pub(super) fn conforms(&mut self) {
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
