//! What was measured: numbers by contender, case and round, and what they come to.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::figures::Spread;

/// What one round of one contender gave, by metric. The unit ends the metric's name.
pub type Sample = BTreeMap<&'static str, f64>;

/// One situation, in which all contenders were measured in turns.
#[derive(Debug, Serialize)]
pub struct Case {
    pub workload: &'static str,
    pub title: String,
    pub results: Vec<Measured>,
    pub columns: Vec<Column>,
    /// Who was left out, and why.
    pub notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Measured {
    pub contender: String,
    pub rounds: Vec<Sample>,
}

/// One column of the printed table.
#[derive(Debug, Clone, Serialize)]
pub struct Column {
    pub heading: &'static str,
    pub metric: &'static str,
    pub show: Show,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Show {
    /// The median with so many digits.
    Median(usize),
    /// The median ratio to this contender's value of the same round, with its quarters.
    RatioTo(&'static str),
    /// The same, to the contender that is this one by hand.
    RatioToByHand,
}

pub fn column(heading: &'static str, metric: &'static str, show: Show) -> Column {
    Column {
        heading,
        metric,
        show,
    }
}

impl Case {
    /// Measures every contender in every round, each round beginning with another one, and every other one backwards: of
    /// each two one comes first as often as the other.
    pub fn measure(
        workload: &'static str,
        title: String,
        columns: Vec<Column>,
        contenders: &[String],
        rounds: usize,
        mut round: impl FnMut(usize) -> Result<Sample, String>,
    ) -> Case {
        let mut case = Case {
            workload,
            title,
            results: Vec::new(),
            columns,
            notes: Vec::new(),
        };
        case.results = contenders
            .iter()
            .map(|name| Measured {
                contender: name.clone(),
                rounds: Vec::new(),
            })
            .collect();
        let mut out = vec![false; contenders.len()];
        for number in 0..rounds {
            for step in 0..contenders.len() {
                let place = (number / 2 + step) % contenders.len();
                let index = match number % 2 {
                    0 => place,
                    _ => contenders.len() - 1 - place,
                };
                if out[index] {
                    continue;
                }
                match round(index) {
                    Ok(sample) => case.results[index].rounds.push(sample),
                    Err(why) => {
                        out[index] = true;
                        case.notes.push(format!(
                            "{} failed in round {}: {why}",
                            contenders[index],
                            number + 1
                        ));
                    }
                }
            }
        }
        case
    }

    pub fn of(&self, contender: &str) -> Option<&Measured> {
        self.results
            .iter()
            .find(|measured| measured.contender == contender)
    }

    /// The median of a metric over the rounds.
    pub fn median(&self, contender: &str, metric: &str) -> Option<f64> {
        Some(self.of(contender)?.spread(metric)?.median)
    }

    /// The medians of all other libraries, in the rows that end like this.
    pub fn of_others(&self, row_end: &str, metric: &str) -> Vec<f64> {
        let ours = ["leaselock", "before", "by hand"];
        let others = self.results.iter().filter(|measured| {
            let row = &measured.contender;
            row.ends_with(row_end) && !ours.iter().any(|start| row.starts_with(start))
        });
        let medians = others.filter_map(|measured| Some(measured.spread(metric)?.median));
        medians.collect()
    }

    /// Ratios round by round: what disturbs the machine disturbs both of a pair alike.
    pub fn ratio(&self, contender: &str, to: &str, metric: &str) -> Option<Spread> {
        let (ours, theirs) = (self.of(contender)?, self.of(to)?);
        let pairs = ours.rounds.iter().zip(&theirs.rounds);
        Spread::of(pairs.filter_map(|(ours, theirs)| Some(ours.get(metric)? / theirs.get(metric)?)))
    }
}

impl Measured {
    pub fn spread(&self, metric: &str) -> Option<Spread> {
        Spread::of(
            self.rounds
                .iter()
                .filter_map(|sample| sample.get(metric).copied()),
        )
    }
}

/// A promise in numbers, and what came of it.
#[derive(Debug, Serialize)]
pub struct Target {
    pub what: String,
    pub measured: Option<f64>,
    pub limit: f64,
    pub at_most: bool,
}

impl Target {
    pub fn at_most(what: impl Into<String>, measured: Option<f64>, limit: f64) -> Target {
        Target {
            what: what.into(),
            measured,
            limit,
            at_most: true,
        }
    }

    pub fn at_least(what: impl Into<String>, measured: Option<f64>, limit: f64) -> Target {
        Target {
            what: what.into(),
            measured,
            limit,
            at_most: false,
        }
    }

    pub fn met(&self) -> bool {
        self.measured.is_some_and(|value| {
            if self.at_most {
                value <= self.limit
            } else {
                value >= self.limit
            }
        })
    }
}

/// A whole run.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub environment: BTreeMap<&'static str, String>,
    pub cases: Vec<Case>,
    pub targets: Vec<Target>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_libraries_are_those_that_are_neither_leaselock_nor_its_scripts() {
        let names = ["leaselock, read", "by hand, read", "a, read", "a, write"].map(str::to_owned);
        let round = |index| Ok(Sample::from([("us", index as f64)]));
        let case = Case::measure("W", String::new(), Vec::new(), &names, 1, round);
        assert_eq!(case.of_others("read", "us"), [2.0]);
        assert_eq!(case.of_others("", "us"), [2.0, 3.0]);
    }

    #[test]
    fn of_each_two_contenders_one_is_measured_first_as_often_as_the_other() {
        let names = ["a", "b", "c"].map(str::to_owned);
        let mut order = Vec::new();
        let sample = |_| Ok(Sample::new());
        Case::measure("W", String::new(), Vec::new(), &names, 6, |index| {
            order.push(index);
            sample(index)
        });
        let place = |round: &[usize], who| round.iter().position(|index| *index == who).unwrap();
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            let first = |round: &&[usize]| place(round, a) < place(round, b);
            assert_eq!(order.chunks(3).filter(first).count(), 3, "{a} and {b}");
        }
    }
}
