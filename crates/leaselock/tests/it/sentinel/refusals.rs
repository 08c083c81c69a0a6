//! What is wrong with a service or its Sentinels is said, by whom and without secrets.

use leaselock::{AcquireError, Client, ErrorKind, StoreError};
use testkit::sentinels::SERVICE;
use testkit::{Sentinels, Server};

use crate::support::{LONG, eventually, soon};

async fn refusal(url: &str) -> StoreError {
    let client = Client::open(url).unwrap();
    match client.mutex("job").try_acquire().await.unwrap_err() {
        AcquireError::Store { source, .. } => source,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_and_sentinels_have_logins_of_their_own() {
    let primary = Server::builder().password("s3rver").start();
    let sentinels = Sentinels::builder(&primary).password("s3ntinel").start();
    let at = sentinels.addresses();
    let url =
        |server: &str, sentinel: &str| format!("redis+sentinel://{server}{at}/{SERVICE}{sentinel}");
    let client = Client::open(&url(":s3rver@", "?sentinel_pass=s3ntinel")).unwrap();
    let lease = soon(client.mutex("job").ttl(LONG).acquire()).await.unwrap();
    lease.release().await.unwrap();
    assert!(!format!("{client:?}").contains("s3"), "{client:?}");

    for (server, sentinel, says) in [
        (":s3rver@", "", "sentinel_pass=…"),
        (":s3rver@", "?sentinel_pass=wr0ng", "sentinel_pass=…"),
        ("", "?sentinel_pass=s3ntinel", "put it into the URL"),
        (
            ":wr0ng@",
            "?sentinel_pass=s3ntinel",
            "password in the URL is wrong",
        ),
    ] {
        let error = refusal(&url(server, sentinel)).await;
        assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
        let shown = format!("{error} {error:?}");
        assert!(
            shown.contains(says) && !shown.contains("s3") && !shown.contains("wr0ng"),
            "{shown}"
        );
    }
}

/// The rights that docs/sentinel.md names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_with_few_rights_are_enough() {
    let primary = Server::start();
    let sentinels = Sentinels::builder(&primary).count(1).start();
    let at = &sentinels.each()[0];
    let rights = "+sentinel|get-master-addr-by-name +sentinel|master +sentinel|sentinels +subscribe +ping +hello";
    let mut user = vec![
        "ACL",
        "SETUSER",
        "asker",
        "on",
        ">s3cret",
        "resetchannels",
        "&+switch-master",
        "-@all",
    ];
    user.extend(rights.split(' '));
    assert!(!at.cli(&user).is_error());
    let login = "sentinel_user=asker&sentinel_pass=s3cret";
    let client = Client::open(&format!(
        "redis+sentinel://{}/{SERVICE}?{login}",
        sentinels.addresses()
    ));
    let client = client.unwrap();
    for role in ["+role", "-role"] {
        assert!(!primary.cli(&["ACL", "SETUSER", "default", role]).is_error());
        primary.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        let lease = soon(client.mutex(role).ttl(LONG).acquire()).await.unwrap();
        lease.release().await.unwrap();
    }
    eventually("it hears of switches", async || {
        let clients = at.cli(&["CLIENT", "LIST"]);
        let hears = |line: &str| line.contains("user=asker") && line.contains(" sub=1");
        clients.text().unwrap().lines().any(hears)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_no_sentinel_knows_a_server_that_is_none_and_silence_are_told_apart() {
    let primary = Server::start();
    let sentinels = Sentinels::watching(&primary);
    let at = sentinels.addresses();

    let error = refusal(&format!("redis+sentinel://{at}/nobody")).await;
    assert_eq!(error.kind(), ErrorKind::UnknownService);
    assert!(
        error.to_string().contains("do not know `nobody`"),
        "{error}"
    );
    // It needs a person, so no client waits for it to pass.
    let client = Client::open(&format!("redis+sentinel://{at}/nobody")).unwrap();
    soon(client.mutex("job").acquire()).await.unwrap_err();

    let error = refusal(&format!(
        "redis+sentinel://127.0.0.1:{}/{SERVICE}",
        primary.port()
    ))
    .await;
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("is no Sentinel"), "{error}");

    for sentinel in sentinels.each() {
        sentinel.kill();
    }
    let error = refusal(&format!("redis+sentinel://{at}/{SERVICE}")).await;
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("Sentinel"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_the_sentinels_still_name_is_not_written_to() {
    let primary = Server::start();
    let other = Server::start();
    let sentinels = Sentinels::builder(&primary).count(1).start();
    let url = format!("redis+sentinel://{}/{SERVICE}", sentinels.addresses());
    primary.replica_of(other.port());
    let error = refusal(&url).await;
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    assert!(
        error.to_string().contains("says that it is a replica"),
        "{error}"
    );
}
