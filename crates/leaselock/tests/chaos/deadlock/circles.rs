//! Circles of one to ten processes through mutexes, readers and permits, again and again.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leaselock::{AcquireError, Client, Wait};
use testkit::{Child, clock};

use super::{LONG, Mode, PERMITS, Request};
use crate::figures::Figures;
use crate::place::Place;
use crate::rounds;

const SIZES: [usize; 4] = [1, 2, 3, 10];

/// What each holds of the lock with its number, and wants of the next one; the two do not fit beside each other.
fn modes(size: usize, number: usize) -> (Mode, Mode) {
    let held = |number| match number % 3 {
        _ if size == 1 => Mode::Permits(1),
        0 => Mode::Alone,
        1 => Mode::Read,
        _ => Mode::Permits(1),
    };
    let wanted = match held((number + 1) % size) {
        Mode::Permits(_) => Mode::Permits(PERMITS),
        Mode::Alone | Mode::Read => Mode::Alone,
    };
    (held(number), wanted)
}

/// One process, which is in each circle that is large enough for its number.
pub(crate) async fn plays(url: &str, path: &Path, number: usize, rounds: usize) {
    let client = Client::open(url).unwrap();
    for round in 0..rounds {
        for size in SIZES {
            if number < size {
                let line = plays_once(&client, number, size).await;
                let mut outcomes = OpenOptions::new().append(true).open(path).unwrap();
                let line = format!("{size} {round} {line}\n");
                outcomes.write_all(line.as_bytes()).unwrap();
            }
        }
    }
    client.close().await;
}

async fn plays_once(client: &Client, number: usize, size: usize) -> String {
    let owner = &client.owner(format!("owner {number}"));
    let (held, wanted) = modes(size, number);
    let [mine, next] = [number, number + 1].map(|number| format!("{size}-{}", number % size));
    let request = |name, mode| Request {
        client,
        owner,
        name,
        mode,
        ttl: LONG,
        wait: Wait::Forever,
        on_wait: Arc::new(|| {}),
    };
    let lease = request(&mine, held).acquire().await.unwrap();
    let all_hold = client.barrier(format!("all hold {size}"), u32::try_from(size).unwrap());
    all_hold.party_lease(LONG).wait().await.unwrap();
    let began = clock::now();
    let outcome = request(&next, wanted).acquire().await;
    let ended = clock::now();
    assert!(lease.is_held(), "whatever it was told, it holds that");
    let told = match outcome {
        Ok(lease) => {
            lease.release().await.unwrap();
            "granted"
        }
        Err(AcquireError::Deadlock { circle, .. }) => {
            assert_eq!(circle.len(), size, "{circle:?}");
            "deadlock"
        }
        Err(error) => panic!("{error}"),
    };
    lease.release().await.unwrap();
    format!("{} {} {told}", began.as_micros(), ended.as_micros())
}

/// One circle: when the last of its processes began to wait, and when each victim was told.
#[derive(Default)]
struct Circle {
    closed: Duration,
    victims: Vec<Duration>,
    granted: usize,
}

fn circles(text: &str) -> BTreeMap<(usize, usize), Circle> {
    let mut circles = BTreeMap::<_, Circle>::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [size, round, began, ended, told] = words[..] else {
            panic!("{line}")
        };
        let micros = |text: &str| Duration::from_micros(text.parse().unwrap());
        let key = (size.parse().unwrap(), round.parse().unwrap());
        let circle = circles.entry(key).or_default();
        circle.closed = circle.closed.max(micros(began));
        match told {
            "deadlock" => circle.victims.push(micros(ended)),
            _ => circle.granted += 1,
        }
    }
    circles
}

fn each_circle_is_found(place: &Place, rounds: usize) {
    let folder = testkit::tempdir().unwrap();
    let path = folder.path().join("outcomes");
    std::fs::write(&path, "").unwrap();
    let (url, at, count) = (place.urls(), path.display().to_string(), rounds.to_string());
    let largest = SIZES[SIZES.len() - 1];
    let start = |number: usize| {
        let number = number.to_string();
        Child::start("is in circles", &[&url, &at, &number, &count])
    };
    let processes: Vec<Child> = (0..largest).map(start).collect();
    processes.into_iter().for_each(Child::ends_well);
    let circles = circles(&std::fs::read_to_string(&path).unwrap());
    for size in SIZES {
        let of_size = || circles.iter().filter(|((of, _), _)| *of == size);
        assert_eq!(of_size().count(), rounds, "{place}: circles of {size}");
        for ((_, round), circle) in of_size() {
            let (told, granted) = (circle.victims.len(), circle.granted);
            assert!(told > 0, "{place}: {round}: nobody was told");
            assert_eq!(told + granted, size, "{place}: {round}");
        }
        let first = |circle: &Circle| circle.victims.iter().min().copied().unwrap_or_default();
        let told: Figures = of_size()
            .map(|(_, circle)| first(circle).saturating_sub(circle.closed))
            .collect();
        let several = of_size().filter(|(_, circle)| circle.victims.len() > 1);
        println!(
            "{place:8} circles of {size:2}: {rounds} found, the victim was told after {told}, p99 {:.1?}; several victims \
             in {}",
            told.percentile(99),
            several.count()
        );
    }
}

#[test]
fn in_each_circle_of_processes_an_owner_is_told_and_the_others_go_on() {
    for place in [Place::server(), Place::cluster(), Place::folder()] {
        each_circle_is_found(&place, rounds(2, 100));
    }
}
