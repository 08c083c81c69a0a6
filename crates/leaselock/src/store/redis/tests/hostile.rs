//! Fake servers, and servers that lie.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::*;
use crate::base::error::ErrorKind;

const WITHIN: Duration = Duration::from_millis(500);

/// Starts a server that greets each connection with `greeting`, and then runs `answer`.
fn fake(greeting: &'static [u8], answer: impl Fn(&mut TcpStream) + Send + 'static) -> RedisStore {
    serve(move |stream| {
        let mut bytes = [0; 4096];
        if stream.write_all(greeting).is_ok() && stream.read(&mut bytes).is_ok() {
            answer(stream);
        }
    })
}

/// Starts a server that runs `answer` on each connection once a request has come, and then closes it.
fn serve(answer: impl Fn(&mut TcpStream) + Send + 'static) -> RedisStore {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = store(&format!("redis://{}", listener.local_addr().unwrap()));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if stream.read(&mut [0; 4096]).is_ok() {
                answer(&mut stream);
            }
        }
    });
    store
}

fn say(stream: &mut TcpStream, bytes: &[u8]) {
    // The client may close the connection at any point.
    drop(stream.write_all(bytes));
}

async fn error_of(store: &RedisStore) -> (ErrorKind, bool) {
    let error = store.run(&acquire("job"), WITHIN).await.unwrap_err();
    (error.kind(), error.maybe_applied())
}

#[tokio::test]
async fn what_is_no_redis_server_is_told_at_once() {
    let store = fake(
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        |_| {},
    );
    let error = run(&store, &acquire("job")).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.maybe_applied()),
        (ErrorKind::Malformed, false),
        "{error}"
    );
    assert!(error.to_string().contains("does not speak"), "{error}");
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up_on_time() {
    let silent = fake(b"", |_| {});
    assert_eq!(error_of(&silent).await, (ErrorKind::NoReply, false));
}

#[tokio::test]
async fn a_server_that_is_loading_is_tried_until_the_time_is_up() {
    let loading = fake(
        b"-LOADING Redis is loading the dataset in memory\r\n",
        |_| {},
    );
    assert_eq!(error_of(&loading).await, (ErrorKind::Loading, false));
}

#[tokio::test]
async fn a_server_that_repeats_the_password_does_not_get_it_into_a_message() {
    let store = fake(
        b"-ERR unknown command 'AUTH', with args beginning with: 'hunter2'\r\n",
        |_| {},
    );
    let url = store.describe().replace("redis://", "redis://:hunter2@");
    let error = run(&super::store(&url), &acquire("job")).await.unwrap_err();
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    let store = fake(b"-ERR hunter2 is wrong\r\n", |_| {});
    let url = store.describe().replace("redis://", "redis://:hunter2@");
    let error = super::store(&url)
        .run(&acquire("job"), WITHIN)
        .await
        .unwrap_err();
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
}

#[tokio::test]
async fn an_answer_that_was_cut_at_any_byte_is_a_broken_connection_and_unknown() {
    const REPLY: &[u8] = b"*6\r\n$7\r\ngranted\r\n+1\r\n:123\r\n$-1\r\n*1\r\n$0\r\n\r\n-ERR a\r\n";
    for length in 0..REPLY.len() {
        let cut = fake(b"+PONG\r\n", move |stream| say(stream, &REPLY[..length]));
        let error = error_of(&cut).await;
        assert_eq!(error, (ErrorKind::Unreachable, true), "{length} bytes");
    }
}

#[tokio::test]
async fn a_greeting_that_was_cut_at_any_byte_is_a_broken_connection() {
    const GREETING: &[u8] = b"+PONG\r\n";
    for length in 0..GREETING.len() {
        let cut = serve(move |stream| say(stream, &GREETING[..length]));
        let error = error_of(&cut).await;
        assert_eq!(error, (ErrorKind::Unreachable, false), "{length} bytes");
    }
}

#[tokio::test]
async fn an_answer_that_is_no_protocol_is_malformed_and_unknown() {
    let garbage = fake(b"+PONG\r\n", |stream| say(stream, b"?!\r\n"));
    assert_eq!(error_of(&garbage).await, (ErrorKind::Malformed, true));
    let deep = fake(b"+PONG\r\n", |stream| {
        say(stream, &b"*1\r\n".repeat(100_000))
    });
    assert_eq!(error_of(&deep).await, (ErrorKind::Malformed, true));
}

#[tokio::test]
async fn an_answer_of_the_wrong_shape_is_malformed_and_unknown() {
    for answer in [
        (|stream| say(stream, b":1\r\n")) as fn(&mut TcpStream),
        |stream| say(stream, b"*0\r\n"),
        |stream| say(stream, b"*-1\r\n"),
        |stream| say(stream, b"$-1\r\n"),
        |stream| say(stream, b"%1\r\n+a\r\n+b\r\n"),
        |stream| say(stream, b"*2\r\n$1\r\nx\r\n,1.5\r\n"),
    ] {
        assert_eq!(
            error_of(&fake(b"+PONG\r\n", answer)).await,
            (ErrorKind::Malformed, true)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_without_end_is_cut_off_before_it_fills_the_memory() {
    let endless = |stream: &mut TcpStream| {
        say(stream, b"$99999999999\r\n");
        while stream.write_all(&[b'x'; 65536]).is_ok() {}
    };
    let store = fake(b"+PONG\r\n", endless);
    let error = run(&store, &acquire("job")).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.maybe_applied()),
        (ErrorKind::Unreachable, true),
        "{error}"
    );
    assert!(error.to_string().contains("no end"), "{error}");
}

#[tokio::test]
async fn huge_lengths_wait_for_their_bytes_and_reserve_nothing() {
    for answer in [
        (|stream| {
            say(stream, b"*2000000000\r\n");
            std::thread::sleep(WITHIN * 2); // the connection stays open
        }) as fn(&mut TcpStream),
        |stream| {
            say(stream, b"%9223372036854775807\r\n");
            // Longer than the caller waits: the rest never comes.
            std::thread::sleep(WITHIN * 2);
        },
    ] {
        let (kind, maybe) = error_of(&fake(b"+PONG\r\n", answer)).await;
        assert!(
            maybe && matches!(kind, ErrorKind::NoReply | ErrorKind::Malformed),
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn a_command_that_is_renamed_is_named_without_its_arguments() {
    let renamed = fake(b"+PONG\r\n", |stream| {
        let line = format!(
            "-ERR unknown command 'EVALSHA', with args beginning with: 'sha' '4' 'job' '{TOKEN}' \r\n"
        );
        say(stream, line.as_bytes());
    });
    let error = run(&renamed, &acquire("job")).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.maybe_applied()),
        (ErrorKind::Unsupported, false),
        "{error}"
    );
    let shown = format!("{error:?}");
    assert!(
        shown.contains("EVALSHA") && !shown.contains(&TOKEN[..8]),
        "{shown}"
    );
}

/// The greeting takes longer than a caller waits, so only a try that outlives its caller succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_with_little_time_get_a_slow_connection_in_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = store(&format!("redis://{}", listener.local_addr().unwrap()));
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = [0; 4096];
        let _ping = stream.read(&mut bytes).unwrap();
        std::thread::sleep(Duration::from_millis(300)); // a long way away
        say(&mut stream, b"+PONG\r\n");
        while stream.read(&mut bytes).is_ok_and(|read| read > 0) {
            say(&mut stream, b"*2\r\n$7\r\nexpired\r\n$1\r\n1\r\n");
        }
    });
    let mut failures = 0;
    loop {
        // The first request on the new connection may have too little time left: it was sent all the same.
        match store.run(&release("job"), Duration::from_millis(100)).await {
            Ok(_) => break,
            Err(error) if error.maybe_applied() => break,
            Err(error) => assert_eq!(error.kind(), ErrorKind::NoReply, "{error}"),
        }
        failures += 1;
    }
    assert!(failures >= 2, "{failures}");
    drop(store);
    tokio::task::spawn_blocking(|| server.join().unwrap())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_server_that_refuses_before_it_is_asked_is_heard() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = store(&format!("redis://{}", listener.local_addr().unwrap()));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            say(
                &mut stream.unwrap(),
                b"-DENIED Redis is running in protected mode\r\n",
            );
        }
    });
    for _ in 0..20 {
        let error = run(&store.unshared(), &acquire("job")).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.maybe_applied()),
            (ErrorKind::Forbidden, false),
            "{error}"
        );
    }
}
