//! This test program as a process of its own: so that locks are tried between processes, and a process can be killed.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testkit::clock;

use crate::{barrier, deadlock, several};

const ORDERS: &str = "LEASELOCK_TEST_CHILD";

/// A child that does what `order` says, with `words`. It ends with its value.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(order: &str, words: &[&str]) -> Process {
        let orders = [&[order], words].concat().join("\n");
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child::obeys_its_parent", "--nocapture"])
            .env(ORDERS, orders)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Process(child)
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits for its end, which is to be a good one.
    pub(crate) fn ends_well(mut self) {
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Until when the children of a scenario work: as a word for them, and back.
pub(crate) fn moment(text: &str) -> Duration {
    Duration::from_millis(text.parse().unwrap())
}

/// So long from now on, as a word for a child. All processes of the machine have the same clock.
pub(crate) fn from_now(time: Duration) -> String {
    (clock::now() + time).as_millis().to_string()
}

/// What a child runs. Without orders there is nothing to do: then it is one of the tests, and this is not a child.
#[test]
fn obeys_its_parent() {
    let Ok(orders) = std::env::var(ORDERS) else {
        return;
    };
    let words: Vec<&str> = orders.split('\n').collect();
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
            ["waits at a barrier", url, path, seed] => {
                barrier::works(url, path.as_ref(), seed.parse().unwrap()).await;
            }
            _ => panic!("an order that nobody gives: {words:?}"),
        }
    });
}
