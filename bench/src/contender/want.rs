//! What a turn wants of its name: a mutex, or what stands on the same engine.

use serde::{Deserialize, Serialize};

use crate::clock::now_ns;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    Mutex,
    Read,
    Write,
    /// So many of all permits.
    Permits {
        take: u32,
        of: u32,
    },
    /// So many names at once, the same ones in each turn.
    Several {
        names: usize,
    },
    /// Two of so many names, others in each turn.
    Transfer {
        of: usize,
    },
    /// To be the leader.
    Lead,
    /// One permit of a rate limiter, now or not at all.
    Rate(Rate),
    /// One more of a counter.
    Count,
    /// Work that is done once for a key, another one in each turn.
    Run,
    /// The result of work that was done before the first turn.
    Told,
}

/// So many permits in a second, or in an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    pub permits: u32,
    pub seconds: u32,
    /// How many at once after a pause, for a contender that can say that.
    pub burst: u32,
}

impl Rate {
    /// How many permits are let through in so many seconds, if all is well.
    pub fn most_in(self, seconds: f64) -> f64 {
        f64::from(self.burst) + f64::from(self.permits) / f64::from(self.seconds) * seconds
    }
}

impl Want {
    /// As it stands in a table.
    pub fn name(self) -> String {
        match self {
            Want::Mutex => "mutex".to_owned(),
            Want::Read => "read".to_owned(),
            Want::Write => "write".to_owned(),
            Want::Permits { take: 1, .. } => "permit".to_owned(),
            Want::Permits { take, of } => format!("{take} of {of} permits"),
            Want::Several { names } => format!("{names} names"),
            Want::Transfer { of } => format!("2 of {of} names"),
            Want::Lead => "leader".to_owned(),
            Want::Rate(_) => "rate".to_owned(),
            Want::Count => "count".to_owned(),
            Want::Run => "run".to_owned(),
            Want::Told => "told".to_owned(),
        }
    }

    /// Whether all tasks want it of one name: what is measured is that one thing.
    pub fn has_one_name(self) -> bool {
        matches!(self, Want::Rate(_) | Want::Count)
    }

    /// Why a contender without it fails.
    pub fn missing(self) -> String {
        format!("it has no {}", self.name())
    }

    /// How many permits it takes; 0 of what is no permit.
    pub fn take(self) -> u32 {
        match self {
            Want::Permits { take, .. } => take,
            _ => 0,
        }
    }
}

/// The names of a [`Want::Several`] or a [`Want::Transfer`].
pub fn names(name: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{name}/{number}"))
        .collect()
}

/// A key that no turn had before: the clock of all processes is in it.
pub fn fresh(name: &str) -> String {
    format!("{name}/{}", now_ns())
}

/// Draws two different numbers each time.
pub struct Draw(u64);

impl Draw {
    pub fn new() -> Draw {
        Draw(now_ns() | 1)
    }

    pub fn two_of(&mut self, count: usize) -> (usize, usize) {
        let first = self.below(count);
        let second = self.below(count - 1);
        (first, if second < first { second } else { second + 1 })
    }

    /// By a xorshift generator (Marsaglia, 2003), which is even enough for this.
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_different_numbers_are_drawn_and_every_number_is_in_time() {
        let (mut draw, mut seen) = (Draw(1), [false; 8]);
        for _ in 0..1000 {
            let (one, other) = draw.two_of(8);
            assert_ne!(one, other);
            (seen[one], seen[other]) = (true, true);
        }
        assert_eq!(seen, [true; 8]);
    }
}
