//! What a child of this test program does.

use std::time::Duration;

use testkit::{Child, clock};

use crate::{
    barrier, cron, dead_waiters, deadlock, fences, heads, limiter, once, several, witness,
};

/// Until when the children of a scenario work: as a word for them, and back.
pub(crate) fn moment(text: &str) -> Duration {
    Duration::from_millis(text.parse().unwrap())
}

/// So long from now on, as a word for a child. All processes of the machine have the same clock.
pub(crate) fn from_now(time: Duration) -> String {
    (clock::now() + time).as_millis().to_string()
}

/// What a child runs. Without words this is one of the tests, and there is nothing to do.
#[test]
fn obeys_its_parent() {
    let Some(words) = Child::words() else {
        return;
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async {
        match words[..] {
            ["is in circles", url, path, number, rounds] => {
                let (number, rounds) = (number.parse().unwrap(), rounds.parse().unwrap());
                deadlock::circles::plays(url, path.as_ref(), number, rounds).await;
            }
            ["waits at random", place, path, seed, how, until] => {
                let seed = seed.parse().unwrap();
                let (how, until) = (how.parse().unwrap(), moment(until));
                deadlock::random::works(place, path.as_ref(), seed, how, until).await;
            }
            ["takes several names", urls, path, seed, ttl_ms, until] => {
                let (seed, ttl) = (seed.parse().unwrap(), moment(ttl_ms));
                several::works(urls, path.as_ref(), seed, ttl, moment(until)).await;
            }
            ["waits to be killed", url, folder, kind, count] => {
                let count = count.parse().unwrap();
                dead_waiters::wait_to_be_killed(url, folder.as_ref(), kind, count).await;
            }
            ["waits behind a holder", ttl_seconds, ref urls @ ..] => {
                heads::waits(ttl_seconds.parse().unwrap(), urls).await;
            }
            ["waits at a barrier", url, path, seed, crowd] => {
                let (crowd, seed) = (barrier::Crowd::named(crowd), seed.parse().unwrap());
                crowd.works(url, path.as_ref(), seed).await;
            }
            ["takes locks of all kinds", url, strict, names, seed] => {
                let (names, seed) = (names.parse().unwrap(), seed.parse().unwrap());
                witness::worker::works(url, strict == "true", names, seed).await;
            }
            ["takes numbers of all kinds", url, names, seed] => {
                fences::works(url, names.parse().unwrap(), seed.parse().unwrap()).await;
            }
            ["takes numbers of a bare counter", port, names, seed] => {
                fences::counts(
                    port.parse().unwrap(),
                    names.parse().unwrap(),
                    seed.parse().unwrap(),
                );
            }
            ["saturates a limiter", url, bands, path, until] => {
                let bands = bands.parse().unwrap();
                limiter::saturates(url, bands, path.as_ref(), moment(until)).await;
            }
            ["runs work once", folder, round, refuses, ref urls @ ..] => {
                once::works(folder.as_ref(), round, refuses == "true", urls).await;
            }
            ["runs ticks", folder, round, again, start_s, ref urls @ ..] => {
                let start_s = start_s.parse().unwrap();
                cron::works(folder.as_ref(), round, again == "true", start_s, urls).await;
            }
            _ => panic!("an order that nobody gives: {words:?}"),
        }
    });
}
