//! What operators do to a cluster: slots move from node to node, and replicas take over.

use std::sync::{Mutex, PoisonError};

use super::builder::expect_ok;
use super::running::{Cluster, PATIENCE};
use super::slots::owner;
use crate::process::wait_until;
use crate::server::Server;

/// How many keys move in one step.
const BATCH: &str = "100";
const WITHIN_MS: &str = "5000";

impl Cluster {
    /// Moves a slot with all its keys, as an operator's tool does: both nodes are told, the keys move, all nodes are
    /// told.
    #[track_caller]
    pub fn move_slot(&self, slot: u16, to: &Server) {
        if self.owner(slot).port() == to.port() {
            return;
        }
        self.begin_move(slot, to);
        while self.move_keys(slot, to) > 0 {}
        self.end_move(slot, to);
    }

    /// From here on the slot is on its way: keys that are gone are asked for at `to`.
    #[track_caller]
    pub fn begin_move(&self, slot: u16, to: &Server) {
        let from = self.owner(slot);
        let (slot, from_id, to_id) = (slot.to_string(), id(from), id(to));
        expect_ok(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]);
        expect_ok(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]);
    }

    /// Moves some keys of a slot that is on its way; says how many there were.
    #[track_caller]
    pub fn move_keys(&self, slot: u16, to: &Server) -> usize {
        let from = self.owner(slot);
        let keys = from.cli(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), BATCH]);
        let keys = keys.list().unwrap_or_default();
        let keys: Vec<&str> = keys.iter().filter_map(|key| key.text()).collect();
        for key in &keys {
            self.move_key(key, from, to);
        }
        keys.len()
    }

    /// Moves one key; one that has ended meanwhile has nothing to move.
    #[track_caller]
    pub fn move_key(&self, key: &str, from: &Server, to: &Server) {
        let port = to.port().to_string();
        let migrate = [
            "MIGRATE",
            "127.0.0.1",
            &port,
            key,
            "0",
            WITHIN_MS,
            "REPLACE",
        ];
        wait_until(PATIENCE, "a key has moved", || {
            // Two nodes that move keys to each other at once would each wait for the other, and for both the rest takes
            // them for dead.
            static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
            let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
            let answer = from.cli(&migrate);
            drop(alone);
            let text = answer.text().unwrap_or_default();
            // Between the nodes a connection broke: the key stayed, or is on both and is replaced.
            let again = text.starts_with("IOERR");
            assert!(again || matches!(text, "OK" | "NOKEY"), "{key}: {text}");
            !again
        });
    }

    /// The slot is the other's from here on, in the eyes of every node. Keys that were made meanwhile move along.
    #[track_caller]
    pub fn end_move(&self, slot: u16, to: &Server) {
        let from = self.owner(slot);
        while self.move_keys(slot, to) > 0 {}
        let (text, to_id) = (slot.to_string(), id(to));
        let tell = ["CLUSTER", "SETSLOT", &text, "NODE", &to_id];
        // The new owner raises its epoch. Two that did so at the same time would have equal ones: gossip would convince
        // no third node then, and the old owner could get its slot back when it raises its own.
        let _one_at_a_time = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        // The new owner first: so no request is redirected to a node that does not know yet.
        for node in [to, from] {
            expect_ok(node, &tell);
        }
        wait_until(PATIENCE, "every node knows the slot's new owner", || {
            let mut alive = self.nodes.iter().filter(|node| is_alive(node));
            alive.all(|node| owner(node, slot) == Some(to.port()))
        });
        wait_until(PATIENCE, "every node knows the latest epoch", || {
            let mut alive = self.nodes.iter().filter(|node| is_alive(node));
            let latest = alive.clone().filter_map(epoch).max();
            latest.is_some() && alive.all(|node| epoch(node) == latest)
        });
    }

    /// Makes a replica the primary. `how` is empty for a hand-over that loses nothing, `FORCE` when the primary is
    /// dead, `TAKEOVER` when most nodes are.
    #[track_caller]
    pub fn fail_over(&self, replica: &Server, how: &str) {
        let words = ["CLUSTER", "FAILOVER", how];
        let words = if how.is_empty() {
            &words[..2]
        } else {
            &words[..]
        };
        expect_ok(replica, words);
        self.until_primary(replica);
    }

    /// Waits until the node is a primary with slots in its own eyes.
    #[track_caller]
    pub fn until_primary(&self, node: &Server) {
        wait_until(PATIENCE, "the replica has taken over", || is_primary(node));
    }
}

/// A primary with slots, in its own eyes.
fn is_primary(node: &Server) -> bool {
    let nodes = node.try_cli(&["CLUSTER", "NODES"]).ok();
    let text = nodes.as_ref().and_then(|nodes| nodes.text());
    text.is_some_and(|text| {
        text.lines().any(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            fields.len() > 8 && fields[2].contains("myself") && fields[2].contains("master")
        })
    })
}

/// The latest epoch that the node has heard of.
fn epoch(node: &Server) -> Option<u64> {
    let info = node.try_cli(&["CLUSTER", "INFO"]).ok()?;
    let value = |line: &str| {
        line.strip_prefix("cluster_current_epoch:")?
            .trim()
            .parse()
            .ok()
    };
    info.text()?.lines().find_map(value)
}

fn is_alive(node: &Server) -> bool {
    crate::process::is_alive(node.pid())
}

fn id(node: &Server) -> String {
    let id = node.cli(&["CLUSTER", "MYID"]);
    id.text().expect("a node has an id").to_owned()
}
