//! Each way a lease can move between tasks and processes, when something breaks in the middle of it.

pub(crate) mod crash;
mod fences;
mod loss;
mod turns;

use testkit::Server;

/// The first and the last number of the latest grant.
fn reserved(server: &Server) -> (u64, u64) {
    let kept = server.cli(&["GET", "{job}:ll:fence"]);
    let (first, last) = kept.text().unwrap().split_once(':').unwrap();
    (first.parse().unwrap(), last.parse().unwrap())
}

/// The server's `TIME` in microseconds.
fn time_us(server: &Server) -> u64 {
    let time = server.cli(&["TIME"]);
    let part = |at: usize| -> u64 { time.list().unwrap()[at].text().unwrap().parse().unwrap() };
    part(0) * 1_000_000 + part(1)
}
