//! Followers of an election: when each of them learns who leads.

use std::time::Duration;

use leaselock::Client;
use leaselock::election::Election;
use serde::{Deserialize, Serialize};

use crate::clock::now_ns;
use crate::contender::{Setup, text};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Follow {
    pub name: String,
    pub followers: usize,
    /// After this no task follows any more.
    pub end_ns: u64,
}

/// A leader, and when a follower knew.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct SeenLeader {
    pub term: u64,
    pub at_ns: u64,
}

pub async fn run(setup: &Setup, job: &Follow) -> Result<Vec<SeenLeader>, String> {
    let client = Client::open(setup.url()).map_err(text)?;
    let followers: Vec<_> = (0..job.followers)
        .map(|_| tokio::spawn(follow(client.election(&job.name), job.end_ns)))
        .collect();
    let mut seen = Vec::new();
    for follower in followers {
        seen.extend(follower.await.map_err(text)??);
    }
    Ok(seen)
}

async fn follow(election: Election, end_ns: u64) -> Result<Vec<SeenLeader>, String> {
    let (mut observer, mut seen) = (election.observe(), Vec::new());
    loop {
        let left = Duration::from_nanos(end_ns.saturating_sub(now_ns()));
        match tokio::time::timeout(left, observer.changed()).await {
            Err(_) => return Ok(seen),
            Ok(changed) => changed.map_err(text)?,
        }
        if let Some(leader) = observer.current() {
            let term = leader.term.get();
            let at_ns = now_ns();
            seen.push(SeenLeader { term, at_ns });
        }
    }
}
