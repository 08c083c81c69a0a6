//! This test program as a process of its own: so that locks are tried between processes, and a process can be killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};

const ORDERS: &str = "LEASELOCK_TEST_CHILD";

/// A child that does what `order` says, with `words`. It ends with its value.
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

    pub(crate) fn signal(&self, signal: testkit::process::Signal) {
        assert!(testkit::process::signal(self.0.id(), signal));
    }

    pub(crate) fn stop(&self) {
        assert!(testkit::process::stop(self.0.id()));
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

/// What a child runs. Without orders there is nothing to do: then it is one of the tests, and this is not a child.
#[test]
fn obeys_its_parent() {
    let Ok(orders) = std::env::var(ORDERS) else {
        return;
    };
    let words: Vec<&str> = orders.split('\n').collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    match words[..] {
        ["count", url, folder, rounds] => {
            runtime.block_on(crate::history::counter::count(
                url,
                Path::new(folder),
                rounds.parse().unwrap(),
            ));
        }
        ["turns", url, folder, rounds, who] => {
            runtime.block_on(crate::history::rotation::take_turns(
                url,
                Path::new(folder),
                rounds.parse().unwrap(),
                who,
            ));
        }
        ["take once", url, folder] => {
            runtime.block_on(crate::waiting::hand_over::take_once(url, Path::new(folder)));
        }
        ["turns until one stays", url, folder] => {
            runtime.block_on(crate::moves::crash::take_turns_until_one_stays(
                url,
                Path::new(folder),
            ));
        }
        ["once", order, url, folder] => {
            runtime.block_on(crate::once::obeys(order, url, Path::new(folder)));
        }
        ["waits", ref urls @ ..] => runtime.block_on(crate::waiting::heads::waits(urls)),
        ["hammer", url, history] => {
            runtime.block_on(crate::history::nemesis::hammer(url, Path::new(history)));
        }
        _ => panic!("an order that nobody gives: {words:?}"),
    }
}
