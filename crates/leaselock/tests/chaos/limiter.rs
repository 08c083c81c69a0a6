//! Four processes that want more of a limiter than its rates: what they get, in every span of time. And a thousand callers
//! that wait.
//!
//! A permit was granted between its request and its use. So a permit of which both lie within a span is surely one of that
//! span, whatever delays messages.

mod waiters;

use std::fs;
use std::path::Path;
use std::time::Duration;

use leaselock::Client;
use leaselock::limiter::{Limiter, Rate};
use testkit::{Child, Server, clock};
use tokio::task::JoinSet;

use crate::child::from_now;
use crate::rounds;

const PROCESSES: usize = 4;
/// In each process. So many wait that the rate is used up on a slow machine too.
const WAIT: usize = 16;
const TRY: usize = 2;
const SECOND: Duration = Duration::from_secs(1);
/// Permits, their period, and the burst.
type Band = (u32, Duration, u32);
/// The second one is the lower rate, and binds after the first five seconds.
const BANDS: [Band; 2] = [(1000, SECOND, 50), (4000, Duration::from_secs(5), 1000)];

fn limiter(url: &str, bands: usize) -> Limiter {
    let rate = |(limit, period, burst): &Band| Rate::new(*limit, *period).burst(*burst);
    let limiter = Client::open(url).unwrap().limiter("api", rate(&BANDS[0]));
    let others = BANDS[..bands].iter().skip(1);
    others.fold(limiter, |limiter, band| limiter.and(rate(band)))
}

/// What a child does: some of its tasks try, the others wait.
pub(crate) async fn saturates(url: &str, bands: usize, path: &Path, until: Duration) {
    let limiter = limiter(url, bands);
    let mut tasks = JoinSet::new();
    for task in 0..WAIT + TRY {
        let limiter = limiter.clone();
        tasks.spawn(async move {
            let (mut lines, mut refused) = (String::new(), 0_u64);
            while clock::now() < until {
                let asked = clock::now();
                if task < WAIT {
                    limiter.acquire().await.unwrap();
                } else if !limiter.try_acquire().await.unwrap().is_allowed() {
                    refused += 1;
                    continue;
                }
                let had = clock::now();
                lines += &format!("{} {}\n", asked.as_nanos(), had.as_nanos());
            }
            assert!(
                task < WAIT || refused > 0,
                "nobody wanted more than the rate"
            );
            lines
        });
    }
    fs::write(path, tasks.join_all().await.concat()).unwrap();
}

const BILLION: i128 = 1_000_000_000;

/// When a permit was asked for and used, in nanoseconds.
type Span = (u64, u64);

fn spans(path: &Path) -> Vec<Span> {
    let text = fs::read_to_string(path).unwrap();
    let span = |line: &str| {
        let (asked, had) = line.split_once(' ').unwrap();
        (asked.parse().unwrap(), had.parse().unwrap())
    };
    text.lines().map(span).collect()
}

/// The largest number of permits above a band in any span, in billionths of a permit.
fn most_above(granted: &[Span], (limit, period, burst): Band) -> i128 {
    let mut by_use = granted.to_vec();
    by_use.sort_unstable_by_key(|span| span.1);
    let period = i64::try_from(period.as_nanos()).unwrap();
    let (limit, burst) = (i64::from(limit), i64::from(burst));
    let mut most = i64::MIN; // in permits, times the period
    for (begin, _) in granted {
        let mut count = 0;
        let first = by_use.partition_point(|span| span.1 < *begin);
        for (_, had) in by_use[first..].iter().filter(|span| span.0 >= *begin) {
            count += 1;
            let span = i64::try_from(had - begin).unwrap();
            most = most.max((count - burst) * period - span * limit);
        }
    }
    i128::from(most) * BILLION / i128::from(period)
}

/// What the processes got within so long.
fn granted(bands: usize, time: Duration) -> Vec<Span> {
    let server = Server::start();
    let folder = testkit::tempdir().unwrap();
    let path = |number: usize| folder.path().join(number.to_string());
    let until = from_now(time + SECOND / 2); // their start takes a moment
    let start = |number| {
        let (path, bands) = (path(number).display().to_string(), bands.to_string());
        Child::start(
            "saturates a limiter",
            &[&server.url(), &bands, &path, &until],
        )
    };
    let children: Vec<_> = (0..PROCESSES).map(start).collect();
    children.into_iter().for_each(Child::ends_well);
    let granted = (0..PROCESSES).flat_map(|number| spans(&path(number)));
    granted.collect()
}

fn four_processes_want_more_than(bands: usize) {
    let time = SECOND * u32::try_from(rounds(2, 60)).unwrap();
    let granted = granted(bands, time);
    let permits = granted.len();
    for band in &BANDS[..bands] {
        let above = most_above(&granted, *band);
        assert!(
            above <= 0,
            "{band:?}: {above} billionths of a permit too many"
        );
        let left = -above / BILLION;
        println!("{permits} permits; of {band:?} at least {left} were left in each span");
    }
    assert!(permits > usize::try_from(BANDS[0].2).unwrap());
    // All of it, from the first request to the last use.
    let begin = granted.iter().map(|span| span.0).min().unwrap();
    let end = granted.iter().map(|span| span.1).max().unwrap();
    let time = Duration::from_nanos(end - begin);
    for (limit, period, burst) in &BANDS[..bands] {
        let regained = u128::from(*limit) * time.as_nanos() / period.as_nanos();
        let most = regained + u128::from(*burst);
        println!("{permits} of {most} in {time:?}");
    }
}

#[test]
fn four_processes_that_want_more_never_get_more_than_the_rate_in_any_span() {
    four_processes_want_more_than(1);
}

#[test]
fn four_processes_that_want_more_never_get_more_than_any_band_in_any_span() {
    four_processes_want_more_than(2);
}

#[test]
fn a_permit_that_no_bucket_would_grant_is_above_its_band() {
    let band = (1000, SECOND, 2);
    let at = |ms: &[u64]| -> Vec<Span> {
        let span = |ms: &u64| (ms * 1_000_000, ms * 1_000_000);
        ms.iter().map(span).collect()
    };
    assert_eq!(most_above(&at(&[0, 0, 1, 2, 3]), band), 0);
    assert_eq!(most_above(&at(&[0, 0, 1, 1, 2]), band), BILLION);
}
