//! A primary that Sentinels chose.

use std::time::Duration;

use leaselock::{AcquireError, Client};

use super::{LONGEST, ends_us, granted_after, lock, taken};
use crate::support::millis;

/// Servers are found to be down, and another is chosen, within seconds.
const SWITCH: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_the_primary_that_sentinels_chose_a_client_goes_on_when_the_quarantine_is_over() {
    let group = std::sync::Arc::new(testkit::Watched::start());
    let builder = Client::builder().url(&group.url()).strict(LONGEST);
    let client = builder.request_timeout(LONGEST).open().unwrap();
    client.init_strict().await.unwrap();
    taken(&client).await.release().await.unwrap();
    let old = group.primary();
    old.kill();
    let (port, watched) = (old.port(), group.clone());
    let new = tokio::task::spawn_blocking(move || watched.sentinels.wait_for_switch(port));
    let new = group.on(new.await.unwrap());
    let mut end_us = 0;
    let goes_on = async {
        loop {
            match lock(&client).acquire_within(millis(200)).await {
                Ok(lease) => return lease,
                // The one that is told when it is over finds the gate open.
                Err(AcquireError::Quarantined { .. }) => end_us = end_us.max(ends_us(new)),
                Err(error) => println!("{error}"), // the switch
            }
        }
    };
    let lease = tokio::time::timeout(SWITCH, goes_on).await.unwrap();
    granted_after(&lease, end_us);
}
