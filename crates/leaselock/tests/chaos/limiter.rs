//! Four processes that want more of a limiter than its rates: what they get, in every span of time.
//!
//! A permit was granted between its request and its use. So a permit of which both lie within a span is surely one of that
//! span, whatever delays messages.

use std::fs;
use std::path::Path;
use std::time::Duration;

use leaselock::{Client, Limiter};
use testkit::{Child, Server, clock};
use tokio::task::JoinSet;

use crate::child::from_now;
use crate::rounds;

const PROCESSES: usize = 4;
const TASKS: usize = 4;
const SECOND: Duration = Duration::from_secs(1);
/// Permits, their period, and the burst. The second one is the lower rate, and binds after the first five seconds.
const BANDS: [(u32, Duration, u32); 2] = [(1000, SECOND, 50), (4000, Duration::from_secs(5), 1000)];

fn limiter(url: &str) -> Limiter {
    let [(limit, period, burst), (limit_2, period_2, burst_2)] = BANDS;
    let limiter = Client::connect(url).unwrap().limiter("api");
    let limiter = limiter.rate(limit, period).burst(burst);
    limiter.and(limit_2, period_2).burst(burst_2)
}

/// What a child does: half of its tasks try, the others wait.
pub(crate) async fn saturates(url: &str, path: &Path, until: Duration) {
    let limiter = limiter(url);
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let limiter = limiter.clone();
        tasks.spawn(async move {
            let (mut lines, mut refused) = (String::new(), 0_u64);
            while clock::now() < until {
                let asked = clock::now();
                if task % 2 == 0 {
                    limiter.acquire(1).await.unwrap();
                } else if !limiter.try_acquire(1).await.unwrap().is_allowed() {
                    refused += 1;
                    continue;
                }
                let had = clock::now();
                lines += &format!("{} {}\n", asked.as_nanos(), had.as_nanos());
            }
            assert!(
                task % 2 == 0 || refused > 0,
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
fn most_above(granted: &[Span], (limit, period, burst): (u32, Duration, u32)) -> i128 {
    let mut by_use = granted.to_vec();
    by_use.sort_unstable_by_key(|span| span.1);
    let mut most = i128::MIN;
    for (begin, _) in granted {
        let mut count = 0;
        let first = by_use.partition_point(|span| span.1 < *begin);
        for (_, had) in by_use[first..].iter().filter(|span| span.0 >= *begin) {
            count += BILLION;
            let period = i128::try_from(period.as_nanos()).unwrap();
            let regained = i128::from(had - begin) * i128::from(limit) * BILLION / period;
            most = most.max(count - i128::from(burst) * BILLION - regained);
        }
    }
    most
}

#[test]
fn four_processes_that_want_more_never_get_more_than_any_band_in_any_span() {
    let time = SECOND * u32::try_from(rounds(2, 60)).unwrap();
    let server = Server::start();
    let folder = testkit::tempdir().unwrap();
    let path = |number: usize| folder.path().join(number.to_string());
    let until = from_now(time + SECOND / 2); // their start takes a moment
    let start = |number| {
        let path = path(number).display().to_string();
        Child::start("saturates a limiter", &[&server.url(), &path, &until])
    };
    let children: Vec<_> = (0..PROCESSES).map(start).collect();
    children.into_iter().for_each(Child::ends_well);
    let granted: Vec<Span> = (0..PROCESSES)
        .flat_map(|number| spans(&path(number)))
        .collect();
    for band in BANDS {
        let above = most_above(&granted, band);
        assert!(
            above <= 0,
            "{band:?}: {above} billionths of a permit too many"
        );
        let left = -above / BILLION;
        let permits = granted.len();
        println!("{permits} permits; of {band:?} at least {left} were left in each span");
    }
    assert!(granted.len() > usize::try_from(BANDS[0].2).unwrap());
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
