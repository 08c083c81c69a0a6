//! Tests of requests, with nodes whose replies a test chooses.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::base::error::ErrorKind;
use crate::store::redis::tests::{PATIENCE, acquire, release};
use crate::store::url::{Target, parse};
use crate::store::{RedisStore, Store};

const WITHIN: Duration = Duration::from_millis(500);
/// A reply to a script that closes the connection.
const HANG_UP: &str = "";

/// A node with one reply to every script, and another node's port in its reply about slots.
struct FakeNode {
    port: u16,
    scripts: AtomicUsize,
    tables: AtomicUsize,
}

impl FakeNode {
    /// Starts the node. `says`: the reply to scripts, given this node's port and the `other`'s.
    fn start(listener: TcpListener, other: u16, says: fn(u16, u16) -> String) -> Arc<Self> {
        let port = listener.local_addr().unwrap().port();
        let node = Arc::new(FakeNode {
            port,
            scripts: AtomicUsize::new(0),
            tables: AtomicUsize::new(0),
        });
        let serving = Arc::clone(&node);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (node, stream) = (Arc::clone(&serving), stream.unwrap());
                std::thread::spawn(move || node.serve(stream, &says(port, other)));
            }
        });
        node
    }

    fn serve(&self, mut stream: TcpStream, says: &str) {
        let (mut unread, mut bytes) = (Vec::new(), [0; 4096]);
        while let Ok(read @ 1..) = stream.read(&mut bytes) {
            unread.extend_from_slice(&bytes[..read]);
            while let Some(length) = testkit::resp::command_len(&unread) {
                let command: Vec<u8> = unread.drain(..length).collect();
                let answer = self.answer(&String::from_utf8_lossy(&command), says);
                if answer == HANG_UP || stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        }
    }

    fn answer(&self, command: &str, says: &str) -> String {
        if command.contains("EVAL") {
            self.scripts.fetch_add(1, Ordering::SeqCst);
            return says.to_owned();
        }
        if command.contains("SLOTS") {
            self.tables.fetch_add(1, Ordering::SeqCst);
            let node = format!("*2\r\n$9\r\n127.0.0.1\r\n:{}\r\n", self.port);
            return format!("*1\r\n*3\r\n:0\r\n:16383\r\n{node}");
        }
        "+PONG\r\n".to_owned()
    }

    fn scripts(&self) -> usize {
        self.scripts.load(Ordering::SeqCst)
    }
}

/// Starts two nodes, each of which claims every slot, and a store that knows the first.
fn pair(
    first: fn(u16, u16) -> String,
    second: fn(u16, u16) -> String,
) -> (RedisStore, [Arc<FakeNode>; 2]) {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [one, two] = [0, 1].map(|index: usize| listeners[index].local_addr().unwrap().port());
    let [listens, listens_too] = listeners;
    let nodes = [
        FakeNode::start(listens, two, first),
        FakeNode::start(listens_too, one, second),
    ];
    let url = format!("redis+cluster://127.0.0.1:{one}");
    let store = match parse(&url).unwrap() {
        Target::Cluster(seeds) => RedisStore::from_nodes(seeds),
        other => panic!("{other:?}"),
    };
    (store, nodes)
}

fn moved(_: u16, other: u16) -> String {
    format!("-MOVED 6373 127.0.0.1:{other}\r\n")
}

fn hangs_up(_: u16, _: u16) -> String {
    HANG_UP.to_owned()
}

fn released(_: u16, _: u16) -> String {
    "*1\r\n$8\r\nreleased\r\n".to_owned()
}

#[tokio::test]
async fn a_request_whose_connection_broke_is_in_doubt_and_never_sent_again() {
    let (store, [first, second]) = pair(hangs_up, hangs_up);
    let error = store.run(&acquire("job"), PATIENCE).await.unwrap_err();
    assert!(error.maybe_applied(), "{error}");
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert_eq!((first.scripts(), second.scripts()), (1, 0));
}

#[tokio::test]
async fn a_request_that_was_sent_on_and_then_broke_is_in_doubt_too() {
    let (store, [first, second]) = pair(moved, hangs_up);
    let error = store.run(&acquire("job"), PATIENCE).await.unwrap_err();
    assert!(error.maybe_applied(), "{error}");
    assert_eq!((first.scripts(), second.scripts()), (1, 1));
}

#[tokio::test]
async fn nodes_that_send_each_other_are_asked_seldom_and_given_up_in_time() {
    let (store, [first, second]) = pair(moved, moved);
    let error = store.run(&acquire("job"), WITHIN).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ClusterDown);
    assert!(!error.maybe_applied() && error.to_string().contains("do not agree"));
    let (asked, least) = (first.scripts() + second.scripts(), 3);
    assert!((least..60).contains(&asked), "{asked} requests");
}

#[tokio::test]
async fn however_many_find_the_table_old_it_is_asked_for_once_in_a_while() {
    let (store, [first, second]) = pair(moved, released);
    let requests: Vec<_> = (0..50)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.run(&release("job"), PATIENCE).await })
        })
        .collect();
    for request in requests {
        assert_eq!(request.await.unwrap().unwrap().tag(), "released");
    }
    assert_eq!(second.scripts(), 50, "each was sent on once");
    let tables = [first, second].map(|node| node.tables.load(Ordering::SeqCst));
    assert!(tables.iter().sum::<usize>() <= 8, "{tables:?}");
}

#[tokio::test]
async fn a_cluster_that_is_down_is_told_at_once_and_nothing_was_done() {
    let down = |_, _| "-CLUSTERDOWN The cluster is down\r\n".to_owned();
    let (store, [first, _]) = pair(down, down);
    let error = store.run(&acquire("job"), PATIENCE).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.maybe_applied()),
        (ErrorKind::ClusterDown, false)
    );
    assert_eq!(first.scripts(), 1);
}

#[tokio::test]
async fn a_request_whose_keys_are_apart_is_tried_again_until_its_time_is_over() {
    let apart = |_, _| "-TRYAGAIN Multiple keys request during rehashing of slot\r\n".to_owned();
    let (store, [first, _]) = pair(apart, apart);
    let error = store.run(&acquire("job"), WITHIN).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.maybe_applied()),
        (ErrorKind::ClusterDown, false)
    );
    assert!((4..60).contains(&first.scripts()), "{}", first.scripts());
}
