//! How does one of several programs lead, and how do all others know which one?
//!
//! Three programs campaign; a follower prints each change. A leader resigns when its turn is over, and the next one
//! leads in the same step.
//!
//! `cargo run -p leaselock --example election [URL]`

use std::error::Error;
use std::time::Duration;

use leaselock::{Client, Fence};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:election")).await
}

const NAME: &str = "scheduler";
const PROGRAMS: usize = 3;

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let mut observer = Client::open(url)?.election(NAME).observe();
    observer.changed().await?; // from here on each change is told
    let mut programs = JoinSet::new();
    for program in 1..=PROGRAMS {
        let election = Client::open(url)?.election(NAME);
        programs.spawn(lead(election.value(format!("10.0.0.{program}:8080"))));
    }
    let mut last: Option<Fence> = None;
    while !programs.is_empty() {
        tokio::select! {
            changed = observer.changed() => changed?,
            Some(led) = programs.join_next() => {
                led??;
                continue;
            }
        }
        match observer.current() {
            Some(leader) => {
                println!("{} leads, term {}", leader.value, leader.term);
                assert!(Some(leader.term) > last, "terms grow");
                last = Some(leader.term);
            }
            None => println!("no client leads"),
        }
    }
    assert!(last.is_some(), "the follower has seen a leader");
    Ok(())
}

/// Leads once, and stops when the leadership is lost.
async fn lead(election: leaselock::election::Election) -> Result<(), String> {
    let leading = election
        .campaign()
        .await
        .map_err(|error| error.to_string())?;
    tokio::select! {
        lost = leading.lost() => return Err(lost.to_string()), // stop: another client may lead
        () = tokio::time::sleep(Duration::from_millis(200)) => {} // the work of a leader
    }
    leading.release().await.map_err(|error| error.to_string())
}
