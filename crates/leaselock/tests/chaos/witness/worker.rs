//! A process whose tasks take locks of all kinds until it is killed.

use fastrand::Rng;
use leaselock::Client;
use testkit::Child;

use super::work::{LONGEST, Work};

const CLIENTS: u64 = 2;
const TASKS: u64 = 4;

pub(super) fn start(url: &str, strict: bool, names: u64, seed: u64) -> Child {
    let words = [strict.to_string(), names.to_string(), seed.to_string()];
    let [strict, names, seed] = words.each_ref().map(String::as_str);
    Child::start("takes locks of all kinds", &[url, strict, names, seed])
}

/// What the process does.
pub(crate) async fn works(url: &str, strict: bool, names: u64, seed: u64) {
    for client in 0..CLIENTS {
        let builder = Client::builder().url(url);
        let builder = match strict {
            true => builder.strict(LONGEST),
            false => builder,
        };
        let client_of_tasks = { builder }.open().unwrap();
        for task in 0..TASKS {
            let rng = Rng::with_seed(seed * 1_000 + client * 100 + task);
            let work = Work::new(client_of_tasks.clone(), names, rng);
            tokio::spawn(work.goes_on());
        }
    }
    std::future::pending().await
}
