//! A server that never answers.

use std::net::TcpListener;

use leaselock::interop::Protocol;
use leaselock::{AcquireError, Client};

use super::job;
use crate::support::{millis, soon};

/// One after the other they would take a request's time each.
#[tokio::test]
async fn all_who_wait_are_told_together_that_nobody_answers() {
    const TASKS: usize = 40;
    let silent = TcpListener::bind("127.0.0.1:0").unwrap(); // no program accepts
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let builder = Client::builder().url(&url).request_timeout(millis(1000));
    let client = builder.open().unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let lock = job(&client, Protocol::SetnxPexpire);
            tokio::spawn(async move { lock.acquire().await })
        })
        .collect();
    let all = async {
        for task in tasks {
            let refusal = task.await.unwrap().unwrap_err();
            assert!(matches!(
                refusal,
                AcquireError::Store { .. } | AcquireError::Unknown { .. }
            ));
        }
    };
    soon(all).await;
}
