//! What is measured and printed: how long something took, each time it was done. Never asserted, because a machine may
//! be busy.

use std::fmt;
use std::future::Future;
use std::sync::{Mutex, MutexGuard};
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

    /// The time that so many of a hundred do not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * percent).div_ceil(100).max(1) - 1;
        sorted.get(at).copied().unwrap_or_default()
    }

    pub(crate) fn least(&self) -> Duration {
        self.0.iter().min().copied().unwrap_or_default()
    }

    pub(crate) fn worst(&self) -> Duration {
        self.0.iter().max().copied().unwrap_or_default()
    }
}

impl FromIterator<Duration> for Figures {
    fn from_iter<I: IntoIterator<Item = Duration>>(each: I) -> Self {
        Figures(each.into_iter().collect())
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

/// When a client was granted a lock.
#[derive(Debug, Default)]
pub(crate) struct Grants(Mutex<Vec<Duration>>);

impl Grants {
    /// One just now.
    pub(crate) fn add(&self) {
        let mut grants = self.grants();
        grants.push(clock::now());
    }

    pub(crate) fn count(&self) -> usize {
        self.grants().len()
    }

    /// How long after that moment the next one came, if it has come.
    pub(crate) fn since(&self, moment: Duration) -> Option<Duration> {
        let grants = self.grants();
        let next = grants.partition_point(|grant| *grant < moment);
        grants.get(next).map(|grant| *grant - moment)
    }

    fn grants(&self) -> MutexGuard<'_, Vec<Duration>> {
        self.0.lock().unwrap()
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
    let percentile = |percent| figures.percentile(percent).as_millis();
    assert_eq!((percentile(33), percentile(34), percentile(99)), (1, 3, 5));
}

#[test]
fn the_next_grant_is_the_first_one_that_is_not_before() {
    let grants = Grants::default();
    grants.add();
    let first = grants.grants()[0];
    assert_eq!(grants.since(first), Some(Duration::ZERO));
    assert_eq!(grants.since(first + Duration::from_nanos(1)), None);
}
