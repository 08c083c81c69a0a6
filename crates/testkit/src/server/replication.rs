//! Primaries and replicas.

use std::io;

use super::launch::{self, PATIENCE};
use super::running::Server;
use crate::process::wait_until;
use crate::resp::Connection;

impl Server {
    /// Follows the server on that port from now on; returns when it is in step with it.
    pub fn replica_of(&self, port: u16) {
        assert_ne!(port, self.reached_at(), "a server cannot follow itself");
        self.cli(&["REPLICAOF", "127.0.0.1", &port.to_string()]);
        wait_until(PATIENCE, "the replica is in step", || self.follows(port));
    }

    /// Follows no primary from now on.
    pub fn promote(&self) {
        self.cli(&["REPLICAOF", "NO", "ONE"]);
    }

    /// It has the data of the server on that port, and gets every write as it happens; both say so. Over TLS the
    /// other is not asked.
    pub fn follows(&self, port: u16) -> bool {
        let ours = self.replication();
        let says = |line: &str| ours.lines().any(|said| said == line);
        let linked = says("role:slave")
            && says(&format!("master_port:{port}"))
            && says("master_link_status:up");
        if self.launch.tls_among {
            return linked;
        }
        let theirs = launch::connect(port, self.launch.password.as_deref()).and_then(replication);
        let own = format!("port={},state=online", self.port);
        linked && theirs.is_ok_and(|theirs| theirs.contains(&own))
    }

    /// It follows no primary, by its own account; false when it does not answer.
    pub fn is_primary(&self) -> bool {
        let ours = self.replication();
        ours.lines().any(|line| line == "role:master")
    }

    /// How many replicas it feeds.
    pub fn replicas(&self) -> usize {
        let online = |line: &&str| line.starts_with("slave") && line.contains("state=online");
        self.replication().lines().filter(online).count()
    }

    /// Empty when it does not answer.
    fn replication(&self) -> String {
        self.connect().and_then(replication).unwrap_or_default()
    }
}

/// What a server says about it, with plain ends of lines.
fn replication(mut connection: Connection) -> io::Result<String> {
    let answer = connection.call(&["INFO", "replication"])?;
    Ok(answer.text().unwrap_or_default().replace('\r', ""))
}
