//! What is measured and printed: how long something took, each time it was done. Never asserted, because a machine may
//! be busy.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use testkit::clock;

/// How long it took, each time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures(Vec<Duration>);

impl Figures {
    pub(crate) fn add(&mut self, one: Duration) {
        self.0.push(one);
    }

    pub(crate) fn add_all(&mut self, others: &Figures) {
        self.0.extend(&others.0);
    }

    /// Does it, and notes how long that took.
    pub(crate) async fn time<T>(&mut self, what: impl Future<Output = T>) -> T {
        let begin = clock::now();
        let outcome = what.await;
        self.add(clock::now() - begin);
        outcome
    }

    /// Of an even number the later one of the two in the middle; zero of none.
    pub(crate) fn median(&self) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }

    pub(crate) fn least(&self) -> Duration {
        self.0.iter().min().copied().unwrap_or_default()
    }

    pub(crate) fn worst(&self) -> Duration {
        self.0.iter().max().copied().unwrap_or_default()
    }
}

/// The median, and from where to where they go.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spread = format!("{:.1?}..{:.1?}", self.least(), self.worst());
        let text = format!("{:.1?} ({spread})", self.median());
        f.pad(&text)
    }
}

#[test]
fn the_median_lies_in_the_middle_and_the_spread_around_it() {
    let mut figures = Figures::default();
    assert_eq!(figures.median(), Duration::ZERO);
    for milliseconds in [5, 1, 3] {
        figures.add(Duration::from_millis(milliseconds));
    }
    assert_eq!(figures.to_string(), "3.0ms (1.0ms..5.0ms)");
}
