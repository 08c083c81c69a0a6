//! Tests of which Sentinels' reports are believed.

use std::future::poll_fn;
use std::sync::mpsc;
use std::task::Poll;

use testkit::sentinels::{SERVICE, Sentinels};
use tokio::runtime::Handle;

use super::locator::*;
use crate::store::redis::tests::{PATIENCE, Server, acquire, release, store, tag, wait_until};
use crate::store::url::{self, Target};
use crate::store::{Event, RedisStore, Store};

fn watch() -> PrimaryLocator {
    let Ok(Target::Redis(url)) = url::parse("redis+sentinel://a:1,b:2/locks") else {
        panic!("a URL of Sentinels")
    };
    PrimaryLocator::of(&url).unwrap()
}

fn seen(port: u16, epoch: u64) -> SentinelAnswer {
    SentinelAnswer {
        primary: ("h".to_owned(), port),
        epoch,
        others: Vec::new(),
    }
}

fn is_left(post: &Located) -> bool {
    use std::task::{Context, Poll, Waker};
    let mut left = std::pin::pin!(post.is_left());
    left.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
}

#[test]
fn connections_are_given_up_when_another_primary_is_named_and_not_when_the_same_is() {
    let watch = watch();
    assert!(watch.located().is_none(), "nobody was asked");
    assert!(watch.told(&seen(1, 0)));
    let first = watch.located().unwrap();
    assert_eq!(first.address(), ("h", 1));
    assert!(watch.told(&seen(1, 3)) && !is_left(&first));
    assert!(
        watch.told(&seen(2, 3)) && is_left(&first),
        "a switch under way"
    );
    assert_eq!(watch.located().unwrap().address(), ("h", 2));
}

#[test]
fn a_sentinel_with_an_older_configuration_is_not_believed() {
    let watch = watch();
    watch.told(&seen(2, 5));
    let post = watch.located().unwrap();
    assert!(!watch.told(&seen(1, 4)) && !is_left(&post));
    assert_eq!(watch.located().unwrap().address(), ("h", 2));
}

#[test]
fn a_server_that_refuses_writes_as_a_replica_is_left_wherever_the_primary_is() {
    let watch = watch();
    watch.told(&seen(1, 0));
    let post = watch.located().unwrap();
    watch.note_error("OOM command not allowed");
    assert!(!is_left(&post));
    watch.note_error("READONLY You can't write against a read only replica.");
    assert!(is_left(&post) && !is_left(&watch.located().unwrap()));
}

#[test]
fn a_sentinel_that_answered_is_asked_first_and_those_that_it_names_last() {
    let place = |host: &str| (host.to_owned(), 1);
    let watch = watch();
    watch.answered(&("b".to_owned(), 2), &[place("c"), ("a".to_owned(), 1)]);
    assert_eq!(
        watch.in_turn(),
        [("b".to_owned(), 2), place("a"), place("c")]
    );
    let many: Vec<Address> = (0..100).map(|n| place(&format!("x{n}"))).collect();
    watch.answered(&place("c"), &many);
    assert_eq!(watch.in_turn().len(), LEARNED_MOST);
    assert_eq!(watch.in_turn()[0], place("c"));
}

/// Starts a service of one server, which the Sentinel continues to name.
fn service() -> (Server, Sentinels, RedisStore) {
    let server = Server::start();
    let sentinels = Sentinels::builder(&server).count(1).start();
    let url = format!("redis+sentinel://{}/{SERVICE}", sentinels.addresses());
    let store = store(&url);
    (server, sentinels, store)
}

/// Names another primary, as at a switch.
fn switch(store: &RedisStore) {
    let RedisStore::Own(own) = &store else {
        panic!("connections of our own")
    };
    assert!(own.endpoint.watch().unwrap().told(&seen(1, 1_000)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_a_switch_connections_end_although_the_old_primary_answers_and_nobody_asks_it() {
    let (server, _sentinels, store) = service();
    assert_eq!(tag(&store, &acquire("job")).await, "fenced");
    let private = store.private(&Handle::current(), PATIENCE).await.unwrap();
    let (told, events) = mpsc::channel();
    let listening = store.unshared();
    let sink = Box::new(move |event| told.send(event).unwrap());
    let listens = tokio::spawn(async move { listening.listen("ch", sink).await });
    assert_eq!(events.recv_timeout(PATIENCE).unwrap(), Event::Ready);
    let connected = || connections_of_clients(&server);
    wait_until(PATIENCE, "three connections of ours", || connected() == 3);

    switch(&store);
    assert_eq!(events.recv_timeout(PATIENCE).unwrap(), Event::Gap);
    wait_until(PATIENCE, "no connection of ours", || connected() == 0);
    listens.abort();
    drop(private);
}

/// Counts connections, without those of the Sentinel and of the test itself.
fn connections_of_clients(server: &Server) -> usize {
    let clients = server.cli(&["CLIENT", "LIST"]);
    let ours = |line: &&str| !line.contains("name=sentinel-") && !line.contains("cmd=client");
    clients.text().unwrap().lines().filter(ours).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_a_switch_a_request_under_way_is_unknown_at_once() {
    let (server, _sentinels, store) = service();
    assert_eq!(tag(&store, &acquire("job")).await, "fenced");
    let frozen = server.pause();
    let call = release("job");
    let mut asked = std::pin::pin!(store.run(&call, PATIENCE));
    let sent = poll_fn(|cx| Poll::Ready(asked.as_mut().poll(cx).is_pending())).await;
    assert!(sent);
    switch(&store);
    let begin = testkit::clock::now();
    let error = asked.await.unwrap_err();
    assert!(error.maybe_applied(), "{error}");
    assert!(
        testkit::clock::now() - begin < PATIENCE / 2,
        "not by its own deadline"
    );
    drop(frozen);
}
