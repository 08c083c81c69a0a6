//! What strict mode does not go along with.

use leaselock::interop::Protocol;
use leaselock::{AcquireError, Client, ErrorKind, LeaseError};
use testkit::Server;

use super::{LONGEST, lock, opened, quarantined, strict_for, taken};
use crate::support::{eventually, millis};

#[tokio::test]
async fn a_lease_that_could_outlive_a_quarantine_is_refused_before_anything_is_sent() {
    let server = Server::start();
    let client = opened(&server).await;
    let too_long = LONGEST + millis(1);
    let error = lock(&client).ttl(too_long).try_acquire().await.unwrap_err();
    let said = error.to_string();
    assert!(
        matches!(error, AcquireError::Invalid(_)) && said.contains("longest"),
        "{said}"
    );
    assert!(lock(&client).ttl(too_long).validate().is_err());
    let lease = taken(&client).await;
    let error = lease.extend(too_long).await.unwrap_err();
    assert!(matches!(error, LeaseError::Invalid(_)), "{error:?}");
    let handle = lease.detach().await.unwrap();
    let error = client.attach(handle).extend(too_long).await.unwrap_err();
    assert!(matches!(error, LeaseError::Invalid(_)), "{error:?}");
}

#[tokio::test]
async fn a_ttl_that_nobody_asked_for_is_the_longest_that_strict_mode_allows() {
    let server = Server::start();
    let client = opened(&server).await;
    let mutex = client.mutex("job").validate().unwrap();
    let lease = mutex.try_acquire().await.unwrap().unwrap();
    assert_eq!(lease.ttl(), LONGEST);
}

#[tokio::test]
async fn a_client_that_disagrees_about_the_longest_ttl_is_refused_and_told_both() {
    let server = Server::start();
    let client = opened(&server).await;
    let other = strict_for(&server, LONGEST * 2);
    let error = lock(&other).acquire().await.unwrap_err();
    let AcquireError::Store { source, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(source.kind(), ErrorKind::Mismatch);
    let said = error.to_string();
    assert!(said.contains("3 s") && said.contains("6 s"), "{said}");
    // Until an operator says so; then it is the other way round.
    other.init_strict().await.unwrap();
    drop(lock(&other).acquire().await.unwrap());
    let error = lock(&client).acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Store { .. }), "{error:?}");
}

#[tokio::test]
async fn other_protocols_have_no_gate_and_are_refused() {
    let server = Server::start();
    let client = opened(&server).await;
    let mutex = lock(&client).protocol(Protocol::SetnxPexpire);
    let error = mutex.try_acquire().await.unwrap_err();
    let said = error.to_string();
    assert!(
        matches!(error, AcquireError::Invalid(_)) && said.contains("strict"),
        "{said}"
    );
}

#[test]
fn a_folder_and_memory_need_none_and_a_length_out_of_range_is_no_longest_ttl() {
    for url in ["mem:", "file:///tmp/nowhere"] {
        let error = Client::builder()
            .url(url)
            .strict(LONGEST)
            .open()
            .unwrap_err();
        assert!(
            error.to_string().contains("strict mode is for servers"),
            "{error}"
        );
    }
    let builder = Client::builder().url("redis://localhost");
    let error = builder.strict(millis(1)).open().unwrap_err();
    assert!(error.to_string().contains("10 ms to 30 days"), "{error}");
}

#[tokio::test]
async fn without_strict_mode_it_can_be_inspected_and_not_set_up() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let error = client.init_strict().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    client.strict_status().await.unwrap();
    let error = Client::open("mem:").unwrap().strict_status().await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn a_user_who_may_not_ask_who_the_server_is_is_refused_and_nothing_is_written() {
    let server = Server::start();
    server.cli(&["ACL", "SETUSER", "default", "-info"]);
    let client = super::strict(&server);
    let error = lock(&client).try_acquire().await.unwrap_err();
    // Which a server does not tell from one whose script had written something.
    let AcquireError::Unknown { source, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(source.kind(), ErrorKind::Forbidden, "{source}");
    assert_eq!(server.cli(&["DBSIZE"]).integer(), Some(0));
}

#[tokio::test]
async fn a_connection_that_was_handed_in_asks_the_gate_too() {
    let server = Server::start();
    let opened = opened(&server).await;
    let theirs = leaselock::interop::redis::Client::open(server.url()).unwrap();
    let connection = theirs.get_multiplexed_async_connection().await.unwrap();
    let builder = Client::builder().redis_connection(connection);
    let client = builder.strict(LONGEST).open().unwrap();
    taken(&client).await.release().await.unwrap();
    super::moved(&server);
    quarantined(&client).await;
    drop(opened);
    eventually("nothing is held", async || {
        server.cli(&["EXISTS", "job"]).integer() == Some(0)
    })
    .await;
}
