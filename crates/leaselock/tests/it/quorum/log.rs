//! The event log on a majority: every node gets each entry, and a reader has what any of them has.

use std::time::Duration;

use leaselock::inspect::BreakOptions;

use super::Nodes;
use crate::support::{LONG, millis, soon};

#[tokio::test]
async fn readers_have_what_any_node_has_each_entry_once_also_while_one_is_dead() {
    let nodes = Nodes::start(3);
    let client = || nodes.builder().node_timeout(millis(2_000)).open().unwrap();
    let (one, two) = (client(), client());
    let broken_for = async |reason: &str| {
        let lease = soon(one.mutex("job").ttl(LONG).acquire()).await.unwrap();
        let terms = BreakOptions::default().now().because(reason);
        soon(two.break_lease("job", terms)).await.unwrap();
        drop(lease);
    };
    nodes.0[0].kill();
    broken_for("the first is dead").await;
    nodes.0[0].restart(); // it knows nothing any more
    broken_for("all are there").await;
    nodes.0[1].kill();
    let mut read = soon(one.log(Duration::MAX)).await.unwrap();
    read.retain(|entry| entry.kind == "broken");
    let texts: Vec<_> = read.iter().map(|entry| &*entry.text).collect();
    assert_eq!(texts, ["the first is dead", "all are there"]);
}
