//! What errors are, and what neither they nor anything else shows.

use std::error::Error;

use leaselock::LeaseError;
use leaselock::detached::*;
use leaselock::error::*;
use leaselock::inspect::*;
use leaselock::lease::Upgradable;
use leaselock::limiter::Rate;
use leaselock::rwlock::ChangeError;
use leaselock::*;
use testkit::Server;

use crate::support::{LONG, millis, soon};

fn is_an_error<E: Error + Send + Sync + 'static>() {}

#[test]
fn every_public_error_is_an_error_that_can_be_carried_anywhere() {
    is_an_error::<InvalidInput>();
    is_an_error::<StoreError>();
    is_an_error::<AcquireError>();
    is_an_error::<LeaseError>();
    is_an_error::<ReleaseError>();
    is_an_error::<RequestError>();
    is_an_error::<BreakError>();
    is_an_error::<RunError<String>>();
    is_an_error::<ChangeError<Upgradable>>();
    is_an_error::<Lost>();
    fn carried<T: From<Lost> + From<InvalidInput>>() {}
    carried::<Box<dyn Error + Send + Sync>>();
}

/// Answers of an error: busy, timeout, transient, unsupported.
fn answers(error: &dyn OperationError) -> [bool; 4] {
    [
        error.is_busy(),
        error.is_timeout(),
        error.is_transient(),
        error.is_unsupported(),
    ]
}

#[tokio::test]
async fn every_operation_says_whether_to_try_again_and_what_it_may_have_left() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let mutex = || client.mutex("job").ttl(LONG);
    let lease = mutex().acquire().await.unwrap();
    let busy = mutex().wait(Wait::Never).acquire().await.unwrap_err();
    assert_eq!(answers(&busy), [true, true, true, false]);
    assert_eq!(busy.lock_name().map(Name::as_str), Some("job"));
    assert!(busy.remains().is_none() && busy.store_error().is_none());
    let late = mutex().acquire_within(millis(5)).await.unwrap_err();
    assert_eq!(answers(&late), [true, true, true, false]);
    let latch = client.latch("ready", 2);
    let closed = latch.wait_within(millis(5)).await.unwrap_err();
    assert_eq!(answers(&closed), [true, true, true, false]);
    let limiter = client.limiter("api", Rate::new(1, LONG));
    limiter.acquire().await.unwrap();
    let limited = limiter.acquire_within(millis(1)).await.unwrap_err();
    assert_eq!(answers(&limited), [true, true, true, false]);
    let counter = client.counter("visits");
    let differs = counter.compare_and_set(7, 8).await.unwrap_err();
    assert_eq!(answers(&differs), [false; 4], "others must be asked first");
    let refused = client.mutex("").acquire().await.unwrap_err();
    assert_eq!(answers(&refused), [false; 4]);
    assert_eq!(refused.lock_name(), None, "the name itself was refused");
    let memory = Client::open("mem:").unwrap();
    let copies = memory.mutex("job").min_replicas(1, millis(10));
    let copies = copies.acquire().await.unwrap_err();
    assert_eq!(answers(&copies), [false, false, false, true]);
    let functions = memory.load_functions().await.unwrap_err();
    assert!(RequestError::from(functions).is_unsupported());

    let held = client.mutex("held").ttl(LONG).acquire().await.unwrap();
    let short = Client::builder().url(&server.url());
    let short = short.request_timeout(millis(100)).open().unwrap();
    let warm = short.mutex("warm").ttl(LONG).acquire().await.unwrap();
    let paused = server.pause();
    let free = short.mutex("free").ttl(LONG);
    let unknown = free.acquire_within(millis(300)).await.unwrap_err();
    assert_eq!(answers(&unknown), [false, false, true, false]);
    let remains = unknown.remains();
    assert!(
        matches!(remains, Some(Remains::Lease { at_most: Some(at_most), .. }) if at_most >= LONG),
        "{remains:?}"
    );
    let released = warm.release().await.unwrap_err();
    assert!(matches!(released.remains(), Some(Remains::Lease { .. })));
    let party = short.latch("ready", 2).arrive("a").await.unwrap_err();
    assert_eq!(party.remains(), Some(Remains::Party));
    assert!(party.is_transient() && party.store_error().is_some());
    drop(paused);
    held.release().await.unwrap();
    lease.release().await.unwrap();
}

/// An error and its causes, in both ways of showing them.
fn all_of(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        text += &format!("{error} {error:?} {error:#?}\n");
        next = error.source();
    }
    text
}

#[tokio::test]
async fn errors_about_a_lock_name_it() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let mutex = client.mutex("nightly/report").ttl(LONG);
    let free = client
        .break_lease("nightly/report", BreakOptions::default())
        .await;
    let held = mutex.acquire().await.unwrap();
    let busy = mutex.acquire_within(millis(1)).await;
    let terms = BreakOptions::default().only(Fence::new(1));
    let changed = client.break_lease("nightly/report", terms).await;
    server.cli(&["SET", "nightly/report", "theirs"]);
    let foreign = client
        .break_lease("nightly/report", BreakOptions::default())
        .await;
    let extended = held.extend(LONG).await;
    let lost = soon(held.lost()).await;
    let released = held.release().await;
    server.kill();
    let down = mutex.try_acquire().await;
    for text in [
        free.unwrap_err().to_string(),
        busy.unwrap_err().to_string(),
        changed.unwrap_err().to_string(),
        foreign.unwrap_err().to_string(),
        extended.unwrap_err().to_string(),
        lost.to_string(),
        released.unwrap_err().to_string(),
        down.unwrap_err().to_string(),
    ] {
        assert!(text.contains("`nightly/report`"), "{text}");
    }
}

const PASSWORD: &str = "hunter2hunter2";

/// Everything that can be shown of a client that has a password in its URL, and of the lease that it holds.
#[tokio::test]
async fn neither_password_nor_token_is_ever_shown() {
    let server = Server::builder().password(PASSWORD).start();
    let builder = Client::builder().url(&server.url());
    let mut shown = format!("{builder:?} {builder:#?}");
    let client = builder.open().unwrap();
    let mutex = client.mutex("job").ttl(LONG).note("a note");
    shown += &format!("{client:?} {client:#?} {mutex:?} {mutex:#?}");
    let lease = mutex.acquire().await.unwrap();
    let token = server.cli(&["GET", "job"]).text().unwrap().to_owned();
    shown += &format!("{lease:?} {lease:#?} {:?} {:?}", lease.view(), lease.lost());
    shown += &format!("{:?}", client.held());
    shown += &format!(
        "{:?} {:?}",
        client.inspect("job").await,
        client.list("*").await
    );
    shown += &format!("{:?}", client.doctor().await);
    let busy = client
        .mutex("job")
        .acquire_within(millis(1))
        .await
        .unwrap_err();
    shown += &all_of(&busy);
    server.cli(&["SET", "job", "theirs", "PX", "60000"]);
    shown += &all_of(&lease.extend(LONG).await.unwrap_err());
    shown += &all_of(&soon(lease.lost()).await);
    shown += &all_of(&lease.release().await.unwrap_err());
    let lease = client.mutex("other").ttl(LONG).acquire().await.unwrap();
    let handle = lease.detach().await.unwrap();
    let detached = server.cli(&["GET", "other"]).text().unwrap().to_owned();
    shown += &format!("{handle:?} {handle:#?} {:?}", client.attach(handle.clone()));
    let broken_handle = handle.to_secret_string() + ".";
    shown += &all_of(&broken_handle.parse::<Handle>().unwrap_err());
    server.kill();
    shown += &all_of(&client.mutex("job").try_acquire().await.unwrap_err());
    shown += &all_of(&client.attach(handle).release().await.unwrap_err());
    shown += &all_of(&client.inspect("job").await.unwrap_err());
    for secret in [PASSWORD, &token[..22], &detached[..22]] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    assert!(
        shown.contains(&server.port().to_string()),
        "the server itself is named"
    );
}

#[tokio::test]
async fn a_wrong_password_is_not_repeated() {
    let server = Server::builder().password("right").start();
    for url in [
        format!("redis://:{PASSWORD}@127.0.0.1:{}/", server.port()),
        format!("redis://somebody:{PASSWORD}@127.0.0.1:{}/", server.port()),
    ] {
        let refused = Client::open(&url)
            .unwrap()
            .mutex("job")
            .try_acquire()
            .await
            .unwrap_err();
        let shown = all_of(&refused);
        assert!(
            shown.contains("job") && !shown.contains(PASSWORD),
            "{shown}"
        );
    }
    for bad in [
        format!("redis://:{PASSWORD}@127.0.0.1:99999/"),
        format!("redis://:{PASSWORD}@[::1/0"),
        format!("redis://:{PASSWORD}@host:1/x"),
        format!("rediss://:{PASSWORD}@host:1/0#insecure"),
        format!("http://:{PASSWORD}@host/"),
        format!("redis+cluster://:{PASSWORD}@host:1,host:x"),
        format!(":{PASSWORD}@host:1"),
    ] {
        let shown = all_of(&Client::open(&bad).unwrap_err());
        assert!(!shown.contains(PASSWORD), "{shown}");
    }
}
