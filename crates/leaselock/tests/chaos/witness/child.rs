//! A process whose tasks take locks of all kinds until it is killed.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leaselock::Client;

use super::work::{Dice, LONGEST, Work};

const ORDER: &str = "LEASELOCK_TEST_WITNESS";
const CLIENTS: u64 = 2;
const TASKS: u64 = 4;

/// What a child does. Without an order this is one of the scenarios, and there is nothing to do.
#[test]
fn works_until_it_is_killed() {
    let Ok(order) = std::env::var(ORDER) else {
        return;
    };
    let [url, strict, names, seed] = order.split(' ').collect::<Vec<_>>()[..] else {
        panic!("an order that nobody gives: {order:?}");
    };
    let (names, seed): (u64, u64) = (names.parse().unwrap(), seed.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (gone, parent) = tokio::sync::oneshot::channel::<()>();
    // It ends with its parent too.
    std::thread::spawn(move || {
        drop(std::io::stdin().read_to_end(&mut Vec::new()));
        drop(gone);
    });
    for client in 0..CLIENTS {
        let builder = Client::builder().url(url);
        let builder = if strict == "true" {
            builder.strict(LONGEST)
        } else {
            builder
        };
        let client_of_tasks = { builder }.build().unwrap();
        for task in 0..TASKS {
            let dice = Dice::of(seed * 1_000 + client * 100 + task);
            let work = Work::new(client_of_tasks.clone(), names, dice);
            runtime.spawn(work.goes_on());
        }
    }
    drop(runtime.block_on(parent));
    runtime.shutdown_timeout(Duration::ZERO);
}

/// It is killed with its value.
pub(super) struct Worker(Child);

impl Worker {
    pub(super) fn start(url: &str, strict: bool, names: u64, seed: u64) -> Worker {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "witness::child::works_until_it_is_killed"])
            .env(ORDER, format!("{url} {strict} {names} {seed}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        Worker(child.unwrap())
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// A child that ended by itself has failed.
    pub(super) fn kill(&mut self) {
        assert_eq!(self.0.try_wait().unwrap(), None, "a child has ended");
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
