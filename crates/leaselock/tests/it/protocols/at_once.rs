//! Several names at once: all or none.

use leaselock::error::NotHeld;
use leaselock::interop::Protocol;
use leaselock::{Client, LostReason, Mutex, ReleaseError};
use testkit::Server;

use crate::support::{LONG, eventually, leftovers, pttl, soon};

fn both(client: &Client, first: &str, second: &str) -> Mutex {
    let lock = client.mutex(first).protocol(Protocol::AllOrNone).ttl(LONG);
    lock.and_names([second])
}

fn value(server: &Server, key: &str) -> String {
    server.cli(&["GET", key]).text().unwrap().to_owned()
}

#[tokio::test]
async fn all_names_are_taken_and_given_back_together_or_none_is() {
    let server = Server::start();
    let [ours, theirs] = [0, 1].map(|_| Client::connect(&server.url()).unwrap());
    let lease = both(&ours, "a", "b").acquire().await.unwrap();
    assert_eq!(value(&server, "a"), value(&server, "b"));
    assert!(
        both(&theirs, "b", "c")
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(
        server.cli(&["EXISTS", "c"]).integer(),
        Some(0),
        "none was taken"
    );
    let single = theirs.mutex("b").try_acquire().await.unwrap();
    assert!(single.is_none(), "whoever wants one of them is refused too");
    lease.release().await.unwrap();
    assert_eq!(leftovers(&server), Vec::<String>::new());
}

/// In opposite order, which locks taken one after the other would not survive.
#[tokio::test]
async fn two_that_want_the_same_names_in_another_order_do_not_block_each_other() {
    let server = Server::start();
    let [ours, theirs] = [0, 1].map(|_| Client::connect(&server.url()).unwrap());
    let tasks = [both(&ours, "a", "b"), both(&theirs, "b", "a")].map(|lock| {
        tokio::spawn(async move {
            for _ in 0..5 {
                lock.acquire().await.unwrap().release().await.unwrap();
            }
        })
    });
    for task in tasks {
        soon(task).await.unwrap();
    }
}

#[tokio::test]
async fn the_value_is_a_token_of_22_characters_and_the_note() {
    let server = Server::start();
    let client = Client::connect(&server.url()).unwrap();
    let lock = both(&client, "a", "b").note("nightly report");
    let lease = lock.acquire().await.unwrap();
    let text = value(&server, "a");
    assert_eq!(text.get(22..), Some("nightly report"));
    assert!(
        text[..22]
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    );
    // As bsm/redislock writes it, and reads it.
    let seen = lock.holder().await.unwrap().unwrap();
    assert_eq!(seen.why.as_deref(), Some("nightly report"));
    lease.release().await.unwrap();
}

#[tokio::test]
async fn when_one_name_is_lost_the_lease_is_and_the_others_are_given_back() {
    let server = Server::start();
    let client = Client::connect(&server.url()).unwrap();
    let lease = both(&client, "a", "b").acquire().await.unwrap();
    server.cli(&["SET", "b", "theirs"]);
    assert!(lease.extend(2 * LONG).await.is_err());
    assert_eq!(soon(lease.lost()).await.reason, LostReason::TakenOver);
    assert!(pttl(&server, "a") <= 60_000, "none was extended");
    drop(lease);
    let free = async || server.cli(&["EXISTS", "a"]).integer() == Some(0);
    eventually("what was ours is given back", free).await;
    assert_eq!(value(&server, "b"), "theirs");
    server.cli(&["DEL", "b"]);
    let lease = both(&client, "a", "b").acquire().await.unwrap();
    server.cli(&["SET", "b", "theirs"]);
    let taken = lease.release().await.unwrap_err();
    assert!(matches!(
        taken,
        ReleaseError::NotHeld {
            why: NotHeld::Taken,
            ..
        }
    ));
    assert_eq!(leftovers(&server), ["b"]);
}

#[test]
fn names_at_once_are_checked_before_anything_is_sent() {
    let client = Client::connect("redis://127.0.0.1:1").unwrap();
    let lock = || client.mutex("a").protocol(Protocol::AllOrNone);
    assert!(lock().and_names(["b", "c"]).validate().is_ok());
    assert!(lock().and_names(["b\n"]).validate().is_err());
    let many = (0..100).map(|number| number.to_string());
    let refusal = lock().and_names(many).validate().unwrap_err().to_string();
    assert!(refusal.contains("at most 100"), "{refusal}");
}
