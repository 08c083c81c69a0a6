//! Waiters that are frozen when their turn comes.

use testkit::Child;

use crate::quorum::Nodes;
use crate::support::{calls, channels, eventually, waiter};
use crate::waiting::heads::{BEFORE_A_RARE_POLL, HOUR};

/// Every node tells the frozen one and no other. The other one polls by its own timer.
#[tokio::test]
async fn a_release_that_is_told_to_a_frozen_waiter_is_found_by_the_next_one() {
    let nodes = Nodes::start(3);
    let quorum = || nodes.builder().longest_ttl(HOUR).open().unwrap();
    let (holder, next) = (quorum(), quorum());
    let lease = holder.mutex("job").ttl(HOUR).acquire().await.unwrap();
    nodes.all_have_voted().await;
    let ask = async |count: usize| {
        eventually("so many ask to be told and listen", async || {
            nodes.0.iter().all(|server| {
                let asked = server.cli(&["ZCARD", "{job}:ll:callers"]).integer();
                asked == i64::try_from(count).ok() && channels(server).len() == count
            })
        })
        .await;
        nodes.stand_still().await;
    };
    let urls = nodes.urls();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let frozen = Child::start("waits", &urls);
    ask(1).await;
    let next = waiter(&next, "job", HOUR);
    ask(2).await;
    frozen.stop();
    for server in &nodes.0 {
        server.cli(&["CONFIG", "RESETSTAT"]);
    }
    lease.release().await.unwrap();
    let lease = tokio::time::timeout(BEFORE_A_RARE_POLL, next).await;
    let lease = lease.expect("it polls by its own timer").unwrap().unwrap();
    let told = nodes.0.iter().map(|server| calls(server, "publish")).max();
    assert!(
        told <= Some(1),
        "{told:?}: nobody but the frozen one was told"
    );
    lease.release().await.unwrap();
}
