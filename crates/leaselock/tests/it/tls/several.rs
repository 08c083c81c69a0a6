//! Set-ups with several servers over TLS: all of them, and what tells of them.

use leaselock::options::TlsOptions;
use leaselock::{AcquireError, Client, ClientBuilder, ErrorKind, StoreError};
use testkit::server::{find_binary, has_tls};
use testkit::tls::Authority;
use testkit::{Cluster, Watched};

use crate::support::{LONG, goes_from_hand_to_hand, soon};
use crate::tls_front::Secured;

/// What such set-ups announce are addresses.
const ADDRESS: &str = "127.0.0.1";

/// Sentinels and nodes of a cluster announce ports of their own, so no front can stand before them.
fn own_tls() -> bool {
    let has = has_tls(&find_binary());
    if !has {
        println!("this server has no TLS of its own: see the tests of single servers");
    }
    has
}

fn trusting(authority: &Authority) -> TlsOptions {
    TlsOptions::new().ca_pem(authority.pem())
}

fn client(url: &str, tls: TlsOptions) -> Client {
    Client::builder().url(url).tls(tls).open().unwrap()
}

async fn refusal(client: &Client) -> StoreError {
    match soon(client.mutex("job").acquire()).await.unwrap_err() {
        AcquireError::Store { source, .. } => source,
        other => panic!("{other:?}"),
    }
}

/// A client that trusts others, and one that expects another name, is refused with the reason.
async fn strangers_are_refused(url: &str, authority: &Authority) {
    let misnamed = trusting(authority).server_name("elsewhere.example");
    for (tls, words) in [
        (
            trusting(&Authority::new()),
            "an authority that is not known here",
        ),
        (misnamed, "for another name"),
    ] {
        let error = refusal(&client(url, tls)).await;
        assert_eq!(error.kind(), ErrorKind::Tls, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_their_servers_are_reached_over_tls_before_and_after_a_switch() {
    if !own_tls() {
        return;
    }
    let authority = Authority::new();
    let group = Watched::over_tls(&authority, &authority.pair(ADDRESS));
    let [one, other] = [0, 1].map(|_| client(&group.url(), trusting(&authority)));
    goes_from_hand_to_hand(&one, &other, "job").await;
    strangers_are_refused(&group.url(), &authority).await;

    let old = group.primary().reached_at();
    group.on(old).kill();
    tokio::task::block_in_place(|| group.sentinels.wait_for_switch(old));
    goes_from_hand_to_hand(&one, &other, "next").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_of_a_cluster_is_reached_over_tls() {
    if !own_tls() {
        return;
    }
    let authority = Authority::new();
    let cluster = Cluster::builder().tls(&authority, authority.pair(ADDRESS));
    let cluster = cluster.start();
    let [one, other] = [0, 1].map(|_| client(&cluster.url(), trusting(&authority)));
    let mut owners = std::collections::BTreeSet::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        owners.insert(cluster.owner_of(name).port());
        goes_from_hand_to_hand(&one, &other, name).await;
    }
    assert_eq!(owners.len(), 3, "the names lie on all nodes");
    strangers_are_refused(&cluster.url(), &authority).await;
}

fn quorum(nodes: &[Secured], tls: TlsOptions) -> ClientBuilder {
    let urls = nodes
        .iter()
        .map(|node| format!("rediss://{ADDRESS}:{}", node.port));
    Client::builder().urls(urls).durable_nodes().tls(tls)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_of_a_quorum_is_reached_over_tls() {
    let authority = Authority::new();
    let pair = authority.pair(ADDRESS);
    let nodes = [0, 1, 2].map(|_| Secured::start(&authority, &pair, false));
    let quorum_of = |tls| quorum(&nodes, tls).open().unwrap();
    let right = quorum_of(trusting(&authority));
    let lease = soon(right.mutex("job").ttl(LONG).acquire()).await.unwrap();
    let held = soon(right.mutex("job").try_acquire()).await.unwrap();
    assert!(held.is_none(), "it is held");
    lease.extend(LONG).await.unwrap();
    lease.release().await.unwrap();
    let again = soon(right.mutex("job").acquire()).await.unwrap();
    again.release().await.unwrap();

    let wrong = quorum_of(trusting(&Authority::new()));
    let refused = soon(wrong.mutex("job").try_acquire()).await.unwrap_err();
    let shown = refused.to_string();
    for node in &nodes {
        assert!(shown.contains(&node.port.to_string()), "{shown}");
    }
    assert!(
        shown.contains("an authority that is not known here"),
        "{shown}"
    );
}
