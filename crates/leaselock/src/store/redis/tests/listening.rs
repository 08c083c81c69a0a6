//! Messages, and reports of gaps.

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::store::Event;

/// Subscribes to `ch` until dropped.
struct Listener {
    events: UnboundedReceiver<Event>,
    task: JoinHandle<()>,
}

impl Listener {
    fn on(store: &RedisStore) -> Self {
        let (sender, events) = unbounded_channel();
        let store = store.clone();
        let sink = Box::new(move |event| drop(sender.send(event)));
        Listener {
            events,
            task: tokio::spawn(async move { store.listen("ch", sink).await }),
        }
    }

    async fn next(&mut self) -> Event {
        timeout(PATIENCE, self.events.recv())
            .await
            .expect("an event")
            .unwrap()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn message(text: &str) -> Event {
    Event::Message(text.as_bytes().to_vec())
}

fn listeners(server: &Server) -> Option<i64> {
    server.cli(&["PUBSUB", "NUMSUB", "ch"]).list().unwrap()[1].integer()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_is_ready_hears_its_channel_in_order_and_hangs_up_when_dropped() {
    let server = Server::builder().password("sekret").start();
    let mut listener = Listener::on(&store(&format!("{}5", server.url())));
    assert_eq!(listener.next().await, Event::Ready);
    for number in 0..50 {
        server.cli(&["PUBLISH", "other", "x"]);
        assert_eq!(
            server
                .cli(&["PUBLISH", "ch", &number.to_string()])
                .integer(),
            Some(1)
        );
    }
    for number in 0..50 {
        assert_eq!(listener.next().await, message(&number.to_string()));
    }
    drop(listener);
    wait_until(PATIENCE, "the listener hangs up", || {
        listeners(&server) == Some(0)
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_is_cut_off_says_so_and_comes_back() {
    let server = Server::start();
    let mut listener = Listener::on(&store(&server.url()));
    assert_eq!(listener.next().await, Event::Ready);
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert_eq!(listener.next().await, Event::Gap);
    assert_eq!(listener.next().await, Event::Ready);
    server.cli(&["PUBLISH", "ch", "again"]);
    assert_eq!(listener.next().await, message("again"));
    server.restart();
    assert_eq!(listener.next().await, Event::Gap);
    assert_eq!(listener.next().await, Event::Ready);
    server.cli(&["PUBLISH", "ch", "and again"]);
    assert_eq!(listener.next().await, message("and again"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_waits_for_a_server_that_is_not_there_yet() {
    let server = Server::start();
    server.kill();
    let mut listener = Listener::on(&store(&server.url()));
    assert!(
        timeout(Duration::from_millis(100), listener.events.recv())
            .await
            .is_err()
    );
    server.restart();
    assert_eq!(listener.next().await, Event::Ready);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_is_silently_dead_is_noticed() {
    let server = Server::start();
    let mut listener = Listener::on(&store(&server.url()));
    assert_eq!(listener.next().await, Event::Ready);
    let paused = server.pause();
    assert_eq!(listener.next().await, Event::Gap);
    drop(paused);
    assert_eq!(listener.next().await, Event::Ready);
}

/// The connection is not given up: a request may have more time than a connection that only receives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_of_requests_that_is_silent_stops_being_listened_on_and_goes_on_serving_requests() {
    let server = Server::start();
    let store = store(&server.url());
    let (sender, mut events) = unbounded_channel();
    store.deliver_along("ch", Box::new(move |event| drop(sender.send(event))));
    assert!(!store.hears() && store.listens(PATIENCE).await && store.hears());
    assert_eq!(events.recv().await, Some(Event::Ready));
    server.cli(&["PUBLISH", "ch", "here"]);
    assert_eq!(events.recv().await, Some(message("here")));
    let (lines, paused) = (store.epoch(), server.pause());
    let next = timeout(PATIENCE, events.recv()).await;
    assert_eq!(next.expect("an event"), Some(Event::Gap));
    drop(paused);
    assert!(!store.hears() && !store.listens(PATIENCE).await);
    assert!(run(&store, &acquire("job")).await.is_ok());
    assert_eq!(store.epoch(), lines, "over the same line");
}
