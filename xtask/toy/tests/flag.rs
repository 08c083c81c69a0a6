//! What the flag promises, on every store that has it.

use std::time::Duration;

use leaselock::Client;
use testkit::Server;

use crate::support::{LONG, by_message, eventually};

async fn is_seen_by_who_waits(url: &str) {
    let [one, other] = [url, url].map(|url| Client::open(url).unwrap());
    let flag = other.flag("go");
    assert!(!flag.wait_within(Duration::from_millis(5)).await.unwrap());
    let waits = tokio::spawn(async move { flag.wait_within(LONG).await });
    eventually("it waits", async || !waits.is_finished()).await;
    one.flag("go").raise().await.unwrap();
    assert!(by_message(waits).await.unwrap().unwrap());
    assert!(one.flag("go").wait_within(Duration::ZERO).await.unwrap());
}

#[tokio::test]
async fn a_flag_that_is_raised_wakes_who_waits_on_a_server() {
    let server = Server::start();
    is_seen_by_who_waits(&server.url()).await;
}

#[tokio::test]
async fn a_flag_that_is_raised_wakes_who_waits_in_memory_and_in_a_folder() {
    is_seen_by_who_waits("mem:flag").await;
    let folder = testkit::tempdir().unwrap();
    is_seen_by_who_waits(&format!("file://{}", folder.path().display())).await;
}
