//! A server that is killed while its disk is slow: what each setting of its append-only file keeps.

use std::time::Duration;

use leaselock::{AcquireError, Client, LostReason, Mutex};
use testkit::Server;

use super::{TTL, forgets, remembers};

/// Longer than any test takes.
const FOR_EVER: Duration = Duration::from_secs(3_600);

fn each_second() -> Server {
    let builder = Server::builder().append_only().slow_disk();
    builder.config("appendfsync", "everysec").start()
}

/// A flush of what was written before is on its way. While it is, the server keeps what comes after it in its own memory
/// for two seconds, and acknowledges it.
fn flushes(server: &Server) {
    server.set_disk_delay(FOR_EVER);
    server.cli(&["SET", "before", "1"]);
    testkit::wait_until(Duration::from_secs(20), "a flush is on its way", || {
        server.info_number("persistence", "aof_pending_bio_fsync") > Some(0)
    });
}

/// Kills the server, which has not written its latest grant, and starts it with a disk as before.
fn killed_with_unwritten_grants(server: &Server) {
    let unwritten = server.info_number("persistence", "aof_buffer_length");
    server.kill();
    assert!(unwritten > Some(0), "{unwritten:?}: the grant was written");
    server.set_disk_delay(Duration::ZERO);
    server.restart();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_flushed_each_second_forgets_grants_when_the_server_is_killed_during_a_flush()
 {
    let server = each_second();
    flushes(&server);
    forgets(server, killed_with_unwritten_grants).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_flushed_each_second_keeps_what_had_left_the_servers_memory() {
    let server = each_second();
    let written = |server: &Server| {
        testkit::wait_until(Duration::from_secs(20), "all is written", || {
            server.info_number("persistence", "aof_buffer_length") == Some(0)
        });
        server.restart();
    };
    remembers(server, written).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_flushed_before_each_answer_keeps_leases_on_a_slow_disk() {
    let server = Server::builder().append_only().slow_disk().start();
    server.set_disk_delay(Duration::from_millis(200));
    remembers(server, Server::restart).await;
}

fn strict(server: &Server) -> Client {
    let builder = Client::builder().url(&server.url());
    builder.strict(TTL).open().unwrap()
}

fn lock(client: &Client) -> Mutex {
    client.mutex("report").ttl(TTL)
}

#[tokio::test(flavor = "multi_thread")]
async fn in_strict_mode_nobody_gets_in_beside_a_holder_whose_grant_was_not_written() {
    let server = each_second();
    let (first, second) = (strict(&server), strict(&server));
    first.init_strict().await.unwrap();
    flushes(&server);
    let first = lock(&first).acquire().await.unwrap();
    killed_with_unwritten_grants(&server);
    let refused = lock(&second).try_acquire().await;
    assert!(
        matches!(refused, Err(AcquireError::Quarantined { .. })),
        "{refused:?}"
    );
    let second = lock(&second).acquire().await.unwrap();
    assert!(!first.is_held() && second.fence() > first.fence());
    assert_ne!(first.lost().await.reason, LostReason::TakenOver);
    second.release().await.unwrap();
}
