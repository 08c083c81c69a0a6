//! Servers that stop, stall and come back.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;
use crate::base::clock::Clock;
use crate::base::error::ErrorKind;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_down_is_unreachable_and_is_found_again() {
    let server = Server::start();
    let store = store(&server.url());
    assert_eq!(tag(&store, &acquire("job")).await, "fenced");
    server.kill();
    // The first may still go to the old connection, and its outcome remains unknown.
    drop(store.run(&acquire("job"), Duration::from_millis(200)).await);
    for _ in 0..3 {
        let error = store
            .run(&acquire("job"), Duration::from_millis(200))
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.maybe_applied()),
            (ErrorKind::Unreachable, false),
            "{error}"
        );
        assert!(error.to_string().contains("refused"), "{error}");
    }
    server.restart();
    assert_eq!(tag(&store, &acquire("job")).await, "fenced");
}

/// The first timeout breaks the connection for other requests, which must not blame the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_silent_is_silent_to_all_who_wait_for_it() {
    let server = Server::start();
    let store = store(&server.url());
    assert_eq!(tag(&store, &acquire("job")).await, "fenced");
    let _frozen = server.pause();
    let (hasty, patient) = (acquire("hasty"), acquire("patient"));
    let (hasty, patient) = tokio::join!(
        store.run(&hasty, Duration::from_millis(200)),
        run(&store, &patient),
    );
    for error in [hasty.unwrap_err(), patient.unwrap_err()] {
        let what = (error.kind(), error.maybe_applied());
        assert_eq!(what, (ErrorKind::NoReply, true), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_with_time_left_waits_until_the_server_is_there() {
    let server = Server::start();
    let store = store(&server.url());
    server.kill();
    let waiting = tokio::spawn(async move { tag(&store, &acquire("job")).await });
    tokio::time::sleep(Duration::from_millis(100)).await; // some tries fail meanwhile
    assert!(!waiting.is_finished());
    server.restart();
    assert_eq!(waiting.await.unwrap(), "fenced");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_down_is_not_hammered() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = store(&format!("redis://{}", listener.local_addr().unwrap()));
    let tries = std::thread::spawn(move || {
        listener
            .incoming()
            .map(|stream| drop(stream.unwrap()))
            .take(30)
            .count();
    });
    let callers: Vec<_> = (0..50)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(
                async move { store.run(&acquire("job"), Duration::from_millis(700)).await },
            )
        })
        .collect();
    for caller in callers {
        let error = caller.await.unwrap().unwrap_err();
        assert!(!error.maybe_applied(), "{error:?}");
    }
    assert!(
        !tries.is_finished(),
        "fifty callers made thirty connections in 700 ms"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_killed_in_the_middle_of_a_call_leaves_it_unknown() {
    let server = Server::start();
    let store = store(&server.url());
    assert_eq!(tag(&store, &release("job")).await, "expired");
    server.cli(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    let call = tokio::spawn({
        let store = store.clone();
        async move { run(&store, &acquire("job")).await }
    });
    wait_until(PATIENCE, "the call waits", || {
        server
            .cli(&["CLIENT", "LIST"])
            .text()
            .unwrap()
            .contains("cmd=evalsha")
            && server
                .cli(&["INFO", "clients"])
                .text()
                .unwrap()
                .contains("blocked_clients:1")
    });
    server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.maybe_applied()),
        (ErrorKind::Unreachable, true),
        "{error}"
    );
    server.cli(&["CLIENT", "UNPAUSE"]);
    assert_eq!(tag(&store, &acquire("job")).await, "fenced");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_to_a_stalled_server_ends_on_time_and_its_clean_up_comes_after_it() {
    let server = Server::start();
    let store = store(&server.url());
    assert_eq!(tag(&store, &release("job")).await, "expired");
    let paused = server.pause();
    let (began, within) = (Clock::boot().now(), Duration::from_millis(200));
    let error = store.run(&acquire("job"), within).await.unwrap_err();
    let took = Clock::boot().now().saturating_since(began);
    assert_eq!(
        (error.kind(), error.maybe_applied()),
        (ErrorKind::NoReply, true),
        "{error}"
    );
    assert!(took >= within && took < within * 5, "{took:?}");
    drop(paused);
    let answer = tag(&store, &release("job")).await;
    assert!(
        ["released", "expired"].contains(&answer.as_str()),
        "{answer}"
    );
    assert_eq!(server.cli(&["EXISTS", "job"]).integer(), Some(0));
}

/// The end of a socket shows whether it discarded its unsent bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_without_an_answer_is_reset_so_that_nothing_arrives_late() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = store(&format!("redis://{}", listener.local_addr().unwrap()));
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = [0; 4096];
        assert!(stream.read(&mut bytes).unwrap() > 0);
        stream.write_all(b"+PONG\r\n").unwrap();
        loop {
            match stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => return Some(error.kind()),
            }
        }
    });
    let error = store
        .run(&acquire("job"), Duration::from_millis(100))
        .await
        .unwrap_err();
    assert!(error.maybe_applied());
    let end = tokio::task::spawn_blocking(|| server.join().unwrap())
        .await
        .unwrap();
    assert_eq!(end, Some(std::io::ErrorKind::ConnectionReset));
}
