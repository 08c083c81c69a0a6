//! Real lock libraries of others on the same key: what peers/README.md says of each, library by library.
//!
//! `cargo xtask test` installs them. Without it, or where one of their languages is missing, their tests do nothing,
//! and `what_is_left_out_is_named` says so.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and so have its helpers"
)]

mod driver;
mod page;
mod peer;
mod promises;
mod wake_ups;

use crate::peer::{Peer, Value};

/// The tests of one library in a module of its name.
macro_rules! peers {
    ($($module:ident = $peer:expr;)*) => {
        $(mod $module {
            use super::*;

            pub(crate) const PEER: Peer = $peer;

            #[tokio::test]
            async fn writes_what_the_page_says() {
                promises::writes_what_the_page_says(&PEER).await;
            }

            #[tokio::test]
            async fn holds_and_we_are_refused() {
                promises::holds_and_we_are_refused(&PEER).await;
            }

            #[tokio::test]
            async fn releases_and_our_waiter_has_the_lock_soon() {
                promises::releases_and_our_waiter_has_the_lock_soon(&PEER).await;
            }

            #[tokio::test]
            async fn is_refused_while_we_hold() {
                promises::is_refused_while_we_hold(&PEER).await;
            }

            #[tokio::test]
            async fn waits_and_has_the_lock_after_our_release() {
                promises::waits_and_has_the_lock_after_our_release(&PEER).await;
            }

            #[tokio::test]
            async fn and_we_keep_each_other_out_after_extensions() {
                promises::and_we_keep_each_other_out_after_extensions(&PEER).await;
            }

            #[tokio::test]
            async fn leaves_our_lock_when_it_is_late() {
                promises::leaves_our_lock_when_it_is_late(&PEER).await;
            }

            #[tokio::test]
            async fn keeps_its_lock_when_we_are_late() {
                promises::keeps_its_lock_when_we_are_late(&PEER).await;
            }
        })*

        /// All of them.
        const PEERS: &[Peer] = &[$($module::PEER),*];
    };
}

peers! {
    redislock = Peer::npm("redislock", "1.3.0", Value::Uuid);
    redis_exp_lock = Peer::npm("redis-exp-lock", "0.0.2", Value::Uuid).without_extension();
    redlock_4 = Peer::npm("redlock-4", "4.2.0", Value::Hex(32));
    redlock_5 = Peer::npm("redlock-5", "5.0.0-beta.2", Value::Hex(32));
    redlock_universal = Peer::npm("redlock-universal", "0.8.5", Value::Hex(32));
    redis_semaphore = Peer::npm("redis-semaphore", "5.8.0", Value::Uuid).prefix("mutex:").without_extension().silent();
    node_redis_warlock = Peer::npm("node-redis-warlock", "1.0.2", Value::Base64(24)).suffix(":lock");
    ioredis_lock = Peer::npm("ioredis-lock", "4.0.0", Value::Uuid);
    redis_py = Peer::pypi("redis", "8.1.0", Value::Hex(32));
    python_redis_lock = Peer::pypi("python-redis-lock", "4.0.1", Value::Base64(24)).prefix("lock:");
    pottery = Peer::pypi("pottery", "3.0.1", Value::Uuid).prefix("redlock:");
    rslock = Peer::crates_io("rslock", "0.10.0", Value::Bytes(20)).silent();
}

/// A run that tried fewer libraries than it seems is worse than one that fails.
#[test]
fn what_is_left_out_is_named() {
    let missing: Vec<String> = PEERS
        .iter()
        .filter(|peer| peer.folder().is_none())
        .map(|peer| format!("{} {}", peer.library, peer.version))
        .collect();
    if !missing.is_empty() {
        driver::tell(&format!("not tried: {}", missing.join(", ")));
    }
    let must = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(!must || missing.is_empty(), "not installed: {missing:?}");
}
