//! Who has which slots, as the nodes themselves tell.

use crate::resp::Value;
use crate::server::Server;

/// How many slots a cluster has.
pub const SLOTS: u16 = 16384;

/// One range of slots as a node describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    /// The ports of its primary and of its replicas.
    pub(super) ports: Vec<u16>,
}

/// The node says that the cluster works and that all slots have an owner.
pub(super) fn serves(node: &Server) -> bool {
    node.try_cli(&["CLUSTER", "INFO"]).is_ok_and(|info| {
        info.text()
            .is_some_and(|text| text.contains("cluster_state:ok"))
    })
}

pub(super) fn owner(node: &Server, slot: u16) -> Option<u16> {
    let ranges = ranges(node);
    let its = ranges
        .iter()
        .find(|range| (range.first..=range.last).contains(&slot))?;
    its.ports.first().copied()
}

/// The one that occurs most often.
pub(super) fn most(mut ports: Vec<u16>) -> Option<u16> {
    ports.sort_unstable();
    let groups = ports.chunk_by(PartialEq::eq);
    groups.max_by_key(|group| group.len()).map(|group| group[0])
}

/// Who has which slots, in the eyes of one node; neighbouring ranges of one primary are one.
pub(super) fn primaries(node: &Server) -> Vec<(u16, u16, u16)> {
    let mut joined: Vec<(u16, u16, u16)> = Vec::new();
    let mut all = ranges(node);
    all.sort_by_key(|range| range.first);
    for range in all {
        let port = range.ports.first().copied().unwrap_or_default();
        match joined.last_mut() {
            Some((_, last, owner)) if *owner == port && *last + 1 == range.first => {
                *last = range.last
            }
            _ => joined.push((range.first, range.last, port)),
        }
    }
    joined
}

/// What `CLUSTER SLOTS` says; nothing when the node does not answer.
pub(super) fn ranges(node: &Server) -> Vec<Range> {
    let answer = node.try_cli(&["CLUSTER", "SLOTS"]).ok();
    let rows = answer.as_ref().and_then(Value::list).unwrap_or_default();
    let number =
        |value: &Value| -> Option<u16> { value.integer().and_then(|n| u16::try_from(n).ok()) };
    let read = |row: &Value| {
        let [first, last, nodes @ ..] = row.list()? else {
            return None;
        };
        Some(Range {
            first: number(first)?,
            last: number(last)?,
            ports: nodes
                .iter()
                .filter_map(|node| number(node.list()?.get(1)?))
                .collect(),
        })
    };
    rows.iter().filter_map(read).collect()
}
