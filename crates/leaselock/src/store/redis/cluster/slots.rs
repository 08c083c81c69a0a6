//! The table of slots: which node has which keys. Pure.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use redis::Value;

use crate::base::shorthand::debug_as;
use crate::base::slots::SLOTS;
pub(super) use crate::base::slots::of as slot_of;
use crate::store::redis::answer;

/// The mark of a slot without a node.
const NOBODY: u16 = u16::MAX;

const COUNT: usize = SLOTS as usize;

/// The address of a node. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SlotNode {
    pub(super) host: Arc<str>,
    pub(super) port: u16,
}

impl SlotNode {
    pub(super) fn new(host: &str, port: u16) -> Self {
        SlotNode {
            host: host.into(),
            port,
        }
    }
}

impl fmt::Display for SlotNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

debug_as!(SlotNode, it => "{it}");

/// The owner of each slot, as far as is known.
#[derive(Clone)]
pub(super) struct SlotTable {
    /// Indexes into `nodes`.
    owners: Vec<u16>,
    /// Every node that was named, replicas too: any of them can be asked for a newer table.
    nodes: Vec<SlotNode>,
}

impl Default for SlotTable {
    fn default() -> Self {
        SlotTable {
            owners: vec![NOBODY; COUNT],
            nodes: Vec::new(),
        }
    }
}

impl SlotTable {
    /// Parses the reply to `CLUSTER SLOTS`; `None` for anything else.
    ///
    /// `asked` is the node that replied: one that does not know its own address leaves it out.
    pub(super) fn read(answer: &Value, asked: &SlotNode) -> Option<SlotTable> {
        let mut table = SlotTable::default();
        for row in answer::items(answer)? {
            let [first, last, primary, replicas @ ..] = answer::items(row)? else {
                return None;
            };
            let (first, last) = (slot(first)?, slot(last)?);
            let owner = table.place_of(node(primary, asked)?);
            table.owners.get_mut(first..=last)?.fill(owner);
            for replica in replicas {
                table.place_of(node(replica, asked)?);
            }
        }
        Some(table)
    }

    fn place_of(&mut self, node: SlotNode) -> u16 {
        let known = self.nodes.iter().position(|other| *other == node);
        let place = known.unwrap_or_else(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        });
        u16::try_from(place).unwrap_or(NOBODY)
    }

    pub(super) fn owner(&self, slot: u16) -> Option<&SlotNode> {
        let place = self.owners.get(usize::from(slot))?;
        self.nodes.get(usize::from(*place))
    }

    /// Records another owner of one slot; true when that is news.
    pub(super) fn moved(&mut self, slot: u16, to: &SlotNode) -> bool {
        if self.owner(slot) == Some(to) {
            return false;
        }
        let place = self.place_of(to.clone());
        match self.owners.get_mut(usize::from(slot)) {
            Some(owner) => *owner = place,
            None => return false,
        }
        true
    }

    /// Lists the nodes with slots, in a fixed order.
    pub(super) fn primaries(&self) -> Vec<SlotNode> {
        let places: BTreeSet<u16> = self.owners.iter().copied().collect();
        let owner = |place: &u16| self.nodes.get(usize::from(*place)).cloned();
        let mut primaries: Vec<SlotNode> = places.iter().filter_map(owner).collect();
        primaries.sort();
        primaries
    }

    pub(super) fn nodes(&self) -> &[SlotNode] {
        &self.nodes
    }

    pub(super) fn agrees(&self, other: &SlotTable) -> bool {
        (0..SLOTS).all(|slot| self.owner(slot) == other.owner(slot))
    }
}

/// Parses a slot's number, from 0 to the last slot.
fn slot(value: &Value) -> Option<usize> {
    let Value::Int(number) = value else {
        return None;
    };
    usize::try_from(*number).ok().filter(|slot| *slot < COUNT)
}

/// Parses a node: an address, a port, and fields that do not matter here.
fn node(value: &Value, asked: &SlotNode) -> Option<SlotNode> {
    let [host, Value::Int(port), ..] = answer::items(value)? else {
        return None;
    };
    let port = u16::try_from(*port).ok()?;
    let host = answer::text(host).unwrap_or_default();
    Some(place(&host, port, asked))
}

/// Returns the address; an empty host, or `?`, means the node that was asked.
fn place(host: &str, port: u16, asked: &SlotNode) -> SlotNode {
    if host.is_empty() || host == "?" {
        return SlotNode {
            host: Arc::clone(&asked.host),
            port,
        };
    }
    SlotNode::new(host, port)
}

/// An error of a node that concerns the cluster. In all of these nothing was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Redirect {
    /// That node has the slot.
    Moved(u16, SlotNode),
    /// The slot is on its way to that node, which serves this request already.
    Ask(SlotNode),
    /// Some keys of the request have moved and others have not.
    TryAgain,
    /// The node is a replica, and was the primary before, or it cannot be reached: another may have the slot.
    Elsewhere,
}

impl Redirect {
    /// Parses an error; `None` for every other one. `asked` is the node that sent it.
    pub(super) fn read(line: &str, asked: &SlotNode) -> Option<Redirect> {
        let mut words = line.split(' ');
        match words.next()? {
            "MOVED" => {
                let slot = words.next()?.parse().ok()?;
                let node = address(words.next()?, asked)?;
                (slot < SLOTS).then_some(Redirect::Moved(slot, node))
            }
            "ASK" => {
                words.next()?.parse::<u16>().ok()?;
                Some(Redirect::Ask(address(words.next()?, asked)?))
            }
            "TRYAGAIN" => Some(Redirect::TryAgain),
            "READONLY" => Some(Redirect::Elsewhere),
            _ => None,
        }
    }
}

/// Parses `host:port`; an IPv6 address has no brackets there, so the last colon counts.
fn address(text: &str, asked: &SlotNode) -> Option<SlotNode> {
    let (host, port) = text.rsplit_once(':')?;
    Some(place(host, port.parse().ok()?, asked))
}

debug_as!(SlotTable, it => { nodes: it.nodes });

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> SlotNode {
        SlotNode::new("here", 7000)
    }

    fn bytes(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn row(first: i64, last: i64, nodes: &[(&str, i64)]) -> Value {
        let mut row = vec![Value::Int(first), Value::Int(last)];
        row.extend(nodes.iter().map(|(host, port)| {
            Value::Array(vec![
                bytes(host),
                Value::Int(*port),
                bytes("an id"),
                Value::Array(Vec::new()),
            ])
        }));
        Value::Array(row)
    }

    #[test]
    fn a_table_knows_owners_and_whom_else_to_ask() {
        let answer = Value::Array(vec![
            row(0, 100, &[("a", 1), ("b", 2)]),
            row(101, 16383, &[("", 3)]),
        ]);
        let table = SlotTable::read(&answer, &asked()).unwrap();
        assert_eq!(table.owner(100), Some(&SlotNode::new("a", 1)));
        assert_eq!(table.owner(101), Some(&SlotNode::new("here", 3)));
        assert_eq!(
            table.primaries(),
            [SlotNode::new("a", 1), SlotNode::new("here", 3)]
        );
        assert_eq!(table.nodes().len(), 3);
    }

    #[test]
    fn a_slot_that_nobody_has_has_no_owner_and_what_is_no_table_is_none() {
        let table = SlotTable::read(&Value::Array(vec![row(5, 5, &[("a", 1)])]), &asked()).unwrap();
        assert!(table.owner(4).is_none() && table.owner(5).is_some() && table.owner(6).is_none());
        for odd in [
            Value::Nil,
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![row(0, 16384, &[("a", 1)])]),
            Value::Array(vec![row(7, 6, &[("a", 1)]), Value::Nil]),
            Value::Array(vec![row(0, 1, &[("a", 70_000)])]),
            Value::Array(vec![row(0, 1, &[])]),
        ] {
            assert!(SlotTable::read(&odd, &asked()).is_none(), "{odd:?}");
        }
    }

    #[test]
    fn a_move_is_news_once() {
        let mut table = SlotTable::default();
        let node = SlotNode::new("a", 1);
        assert!(table.moved(7, &node) && !table.moved(7, &node));
        assert_eq!(table.owner(7), Some(&node));
        let mut other = SlotTable::default();
        assert!(!table.agrees(&other));
        other.moved(7, &SlotNode::new("b", 2));
        assert!(!table.agrees(&other));
        other.moved(7, &node);
        assert!(table.agrees(&other), "whoever else is known does not count");
    }

    #[test]
    fn redirects_are_read_as_servers_write_them() {
        let read = |line: &str| Redirect::read(line, &asked());
        assert_eq!(
            read("MOVED 3999 127.0.0.1:6381"),
            Some(Redirect::Moved(3999, SlotNode::new("127.0.0.1", 6381)))
        );
        assert_eq!(
            read("MOVED 3999 :6381"),
            Some(Redirect::Moved(3999, SlotNode::new("here", 6381)))
        );
        assert_eq!(
            read("ASK 1 2001:db8::1:6381"),
            Some(Redirect::Ask(SlotNode::new("2001:db8::1", 6381)))
        );
        assert_eq!(
            read("TRYAGAIN Multiple keys request during rehashing of slot"),
            Some(Redirect::TryAgain)
        );
        assert_eq!(
            read("READONLY You can't write against a read only replica."),
            Some(Redirect::Elsewhere)
        );
        for other in [
            "",
            "MOVED",
            "MOVED 16384 a:1",
            "MOVED 1 a",
            "MOVED x a:1",
            "ASK 1 a:x",
            "CLUSTERDOWN Hash slot not served",
            "ERR MOVED 1 a:1",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
