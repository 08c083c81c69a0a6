//! Locks on a majority of independent servers.

mod dead;
mod fences;
mod frozen;
mod log;
mod refusals;
mod regained;
mod restarts;
mod splits;
mod together;
mod votes;

use leaselock::{Client, ClientBuilder};
use testkit::Server;

use crate::support::{LONG, calls, eventually, leftovers, millis};

/// The servers of one test.
pub(crate) struct Nodes(pub(crate) Vec<Server>);

impl Nodes {
    pub(crate) fn start(count: usize) -> Nodes {
        Nodes((0..count).map(|_| Server::start()).collect())
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.0.iter().map(Server::url).collect()
    }

    /// Votes at once, because these servers are young.
    pub(crate) fn builder(&self) -> ClientBuilder {
        self.delayed_builder().durable_nodes()
    }

    /// Waits for a node that does not answer for longer than any test has patience: what is had was had without it.
    pub(crate) fn delayed_builder(&self) -> ClientBuilder {
        let builder = Client::builder().urls(self.urls());
        builder.node_timeout(LONG).request_timeout(LONG)
    }

    pub(crate) fn quorum(&self) -> Client {
        self.builder().open().unwrap()
    }

    /// How many of them hold something under the name.
    pub(crate) fn holding(&self, name: &str) -> usize {
        let holds = |server: &&Server| server.cli(&["EXISTS", name]).integer() == Some(1);
        self.0.iter().filter(holds).count()
    }

    /// A script that a server does not know takes two trips the first time, so what is sent behind it may overtake it.
    pub(crate) async fn know_the_scripts(&self, quorum: &Client) {
        for _ in 0..2 {
            let warm = quorum.mutex("warm").acquire().await.unwrap();
            warm.release().await.unwrap();
            self.nothing_is_left().await;
        }
    }

    /// For the lock `job`, and for its holder.
    pub(crate) async fn all_have_voted(&self) {
        eventually("all have voted", async || {
            self.holding("job") == self.0.len()
        })
        .await;
    }

    /// Until nothing was asked of any node for a while, in which a process that has something to ask comes round even on
    /// a busy machine. A waiter that has nothing else to do polls after five seconds.
    pub(crate) async fn stand_still(&self) {
        const QUIET: usize = 25;
        let asked = |server: &Server| calls(server, "evalsha") + calls(server, "eval");
        let (mut before, mut quiet) = (usize::MAX, 0);
        eventually("nobody asks anything", async || {
            let now = self.0.iter().map(asked).sum();
            quiet = if now == before { quiet + 1 } else { 0 };
            before = now;
            tokio::time::sleep(millis(20)).await; // between two checks of the counters
            quiet >= QUIET
        })
        .await;
    }

    pub(crate) async fn nothing_is_left(&self) {
        eventually("no node has anything left", async || {
            self.0.iter().all(|server| leftovers(server).is_empty())
        })
        .await;
    }
}
