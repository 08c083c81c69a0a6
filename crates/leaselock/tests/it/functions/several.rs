//! Servers on which users may not send scripts of their own, in set-ups with several of them.

use std::collections::BTreeSet;

use leaselock::{AcquireError, Client, ErrorKind, StoreError};
use testkit::{Cluster, Server, Value, Watched};

use crate::access::{self, PREFIX};
use crate::support::{LONG, goes_from_hand_to_hand, soon};

/// What docs/cluster.md names.
const IN_A_CLUSTER: &str =
    "+cluster|slots +asking +ssubscribe +sunsubscribe +spublish +pubsub|shardnumsub";

/// The users of the page, with more rights; false where there are no functions, which is said.
fn allowed(servers: &[Server], more: &str) -> bool {
    if servers[0].cli(&["FUNCTION", "LIST"]).is_error() {
        println!("this server has no functions: see the tests of single servers");
        return false;
    }
    for server in servers {
        for role in ["hardened", "loader"] {
            access::allow(server, role);
            let mut line = vec!["ACL", "SETUSER", role];
            line.extend(more.split_whitespace());
            assert!(!server.cli(&line).is_error(), "{line:?}");
        }
        server.cli(&["CONFIG", "RESETSTAT"]);
    }
    true
}

fn client(url: &str, role: &str) -> Client {
    let url = access::url_of(url, role);
    let builder = Client::builder().url(&url).prefix(PREFIX);
    builder.functions_only().open().unwrap()
}

/// No script was sent to any of them, and nothing was refused.
fn only_functions_were_called(servers: &[Server]) {
    for server in servers {
        let stats = server.cli(&["INFO", "commandstats"]);
        assert!(!stats.text().unwrap().contains("cmdstat_eval"), "{stats:?}");
        assert_eq!(server.cli(&["ACL", "LOG"]), Value::List(Vec::new()));
    }
}

fn has_library(server: &Server) -> bool {
    let listed = server.cli(&["FUNCTION", "LIST"]);
    listed.list().is_some_and(|libraries| !libraries.is_empty())
}

async fn refusal(client: &Client, name: &str) -> StoreError {
    match soon(client.mutex(name).acquire()).await.unwrap_err() {
        AcquireError::Store { source, .. } => source,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_every_primary_has_the_library_and_one_without_it_is_named() {
    let cluster = Cluster::start();
    if !allowed(cluster.nodes(), IN_A_CLUSTER) {
        return;
    }
    let loader = client(&cluster.url(), "loader");
    let loaded = soon(loader.load_functions()).await.unwrap();
    assert_eq!(loaded.len(), 3);
    assert!(loaded.iter().all(|node| !node.was_there), "{loaded:?}");

    let [one, other] = [0, 1].map(|_| client(&cluster.url(), "hardened"));
    let key = |name: &str| format!("{PREFIX}{name}");
    let names = ["a", "b", "c", "d", "e", "f"];
    for name in names {
        goes_from_hand_to_hand(&one, &other, name).await;
    }
    let owners: BTreeSet<u16> = names
        .iter()
        .map(|name| cluster.owner_of(&key(name)).port())
        .collect();
    assert_eq!(owners.len(), 3, "the names lie on all nodes");
    only_functions_were_called(cluster.nodes());

    let without = cluster.owner_of(&key("a"));
    without.cli(&["FUNCTION", "FLUSH"]);
    let error = refusal(&one, "a").await;
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let place = format!("the node 127.0.0.1:{} does not have", without.port());
    for words in [place.as_str(), "`leaselock functions load`"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    for name in names {
        if cluster.owner_of(&key(name)).port() != without.port() {
            let lease = soon(one.mutex(name).acquire()).await.unwrap();
            lease.release().await.unwrap();
        }
    }
    let again = soon(loader.load_functions()).await.unwrap();
    for node in &again {
        let lacked = node.node.contains(&format!(":{}/", without.port()));
        assert_eq!(node.was_there, !lacked, "{again:?}");
    }
    goes_from_hand_to_hand(&one, &other, "a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_quorum_every_node_has_the_library_and_those_without_it_do_not_vote() {
    let nodes: Vec<Server> = (0..3).map(|_| Server::start()).collect();
    if !allowed(&nodes, "+info") {
        return;
    }
    let quorum = |role| {
        let urls = nodes.iter().map(|node| access::url_of(&node.url(), role));
        let builder = Client::builder().urls(urls).durable_nodes().prefix(PREFIX);
        builder.functions_only().open().unwrap()
    };
    // What is down is named, and the others have it.
    nodes[1].kill();
    let error = soon(quorum("loader").load_functions()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    let down = format!("redis://127.0.0.1:{}/0: no connection", nodes[1].port());
    for words in [down.as_str(), "is on 2 of 3 nodes"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(has_library(&nodes[0]) && has_library(&nodes[2]));
    nodes[1].restart();
    allowed(&nodes[1..2], "+info");
    let loaded = soon(quorum("loader").load_functions()).await.unwrap();
    let had: Vec<bool> = loaded.iter().map(|node| node.was_there).collect();
    assert_eq!(had, [true, false, true]);

    let hardened = quorum("hardened");
    let mutex = hardened.mutex("job").ttl(LONG);
    let a_life = async || {
        let lease = soon(mutex.acquire()).await.unwrap();
        assert!(soon(mutex.try_acquire()).await.unwrap().is_none());
        lease.extend(LONG).await.unwrap();
        soon(lease.release()).await.unwrap();
    };
    a_life().await;
    only_functions_were_called(&nodes);
    nodes[0].cli(&["FUNCTION", "FLUSH"]);
    a_life().await;
    nodes[1].cli(&["FUNCTION", "FLUSH"]);
    let refused = soon(mutex.try_acquire()).await.unwrap_err();
    assert!(
        matches!(refused, AcquireError::NoQuorum { .. }),
        "{refused:?}"
    );
    let said = refused.to_string();
    for node in &nodes[..2] {
        let place = format!("redis://127.0.0.1:{}/0 does not have", node.port());
        assert!(said.contains(&place), "{said}");
    }
    assert!(said.contains("`leaselock functions load`"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_sentinels_the_next_primary_has_the_library_from_the_one_before() {
    let group = Watched::start();
    // What docs/sentinel.md names.
    if !allowed(&group.servers, "+role") {
        return;
    }
    let loader = client(&group.url(), "loader");
    let loaded = soon(loader.load_functions()).await.unwrap();
    assert_eq!(loaded.len(), 1);
    let [one, other] = [0, 1].map(|_| client(&group.url(), "hardened"));
    goes_from_hand_to_hand(&one, &other, "job").await;
    only_functions_were_called(&group.servers[..1]);
    let old = group.primary().port();
    crate::support::eventually("the replicas have the library", async || {
        group.servers.iter().all(has_library)
    })
    .await;

    group.on(old).kill();
    let new = tokio::task::block_in_place(|| group.sentinels.wait_for_switch(old));
    goes_from_hand_to_hand(&one, &other, "next").await;

    group.on(new).cli(&["FUNCTION", "FLUSH"]);
    let error = refusal(&one, "job").await;
    let place = format!("127.0.0.1:{new}, the primary of redis+sentinel://");
    assert!(error.to_string().starts_with(&place), "{error}");
}
