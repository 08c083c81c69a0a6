//! What a cluster cannot do is said in words.

use leaselock::interop::Protocol;
use leaselock::{AcquireError, Client, ErrorKind};
use testkit::Server;

use crate::engine::shared_cluster;
use crate::support::{LONG, soon};

#[tokio::test]
async fn protocols_whose_keys_lie_apart_are_refused_and_the_others_work() {
    let cluster = shared_cluster();
    let client = Client::open(&cluster.url()).unwrap();
    for protocol in Protocol::ALL {
        let name = format!("by-{protocol}");
        let mutex = client.mutex(&name).protocol(protocol).renewal(false);
        match protocol {
            Protocol::SetexRenamenx { .. } | Protocol::WatchMulti | Protocol::PythonRedisLock => {
                let refused = mutex.try_acquire().await.unwrap_err();
                assert!(
                    matches!(&refused, AcquireError::Invalid(why) if why.to_string().contains("cluster")),
                    "{refused:?}"
                );
            }
            _ => {
                let lease = mutex.try_acquire().await.unwrap().unwrap();
                assert!(mutex.try_acquire().await.unwrap().is_none(), "{protocol}");
                lease.release().await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_node_named_as_a_server_and_a_server_named_as_a_node_say_which_url_is_right() {
    let (cluster, server) = (shared_cluster(), Server::start());
    let node = format!("redis://127.0.0.1:{}", cluster.nodes()[0].port());
    let client = Client::open(&node).unwrap();
    let mut said = Vec::new();
    for number in 0..20 {
        if let Err(error) = client.mutex(format!("url{number}")).try_acquire().await {
            said.push(error.to_string());
        }
    }
    assert!(!said.is_empty() && said.iter().all(|text| text.contains("redis+cluster://")));
    let url = format!("redis+cluster://127.0.0.1:{}", server.port());
    let client = Client::open(&url).unwrap();
    let refused = soon(client.mutex("url").acquire()).await.unwrap_err();
    let AcquireError::Store { source, .. } = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(source.kind(), ErrorKind::Unsupported);
    assert!(source.to_string().contains("redis://"), "{source}");
}

/// Its locks share a slot.
#[tokio::test]
async fn a_prefix_that_keeps_its_locks_together_has_one_gate_in_strict_mode() {
    let cluster = shared_cluster();
    let builder = Client::builder().url(&cluster.url());
    let client = builder.prefix("{together}:").strict(LONG).open().unwrap();
    client.init_strict().await.unwrap();
    let lease = client.mutex("job").try_acquire().await.unwrap().unwrap();
    lease.release().await.unwrap();
    let gate = "{together}:ll:gate";
    let there = cluster.owner_of(gate).cli(&["EXISTS", gate]);
    assert_eq!(there.integer(), Some(1));
}

#[tokio::test]
async fn the_doctor_examines_every_primary() {
    let cluster = shared_cluster();
    let client = Client::open(&cluster.url()).unwrap();
    let report = client.doctor().await.unwrap();
    assert_eq!(report.nodes.len(), 3);
    for node in &report.nodes {
        let mut checks = node.findings.iter();
        assert!(checks.any(|check| check.topic == "cluster" && check.advice.is_none()));
    }
    assert!(
        report.store.starts_with("redis+cluster://"),
        "{}",
        report.store
    );
}
