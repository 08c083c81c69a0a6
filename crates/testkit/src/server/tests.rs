//! The servers of the tests, tested.

use std::time::Duration;

use super::launch::PATIENCE;
use super::*;
use crate::process;
use crate::resp::{Connection, Value};

fn one() -> Value {
    Value::from("1")
}

#[test]
fn server_answers_and_ends_with_its_value() {
    let server = Server::start();
    assert_eq!(server.cli(&["SET", "k", "1"]), Value::Status("OK".into()));
    assert_eq!(server.cli(&["GET", "k"]), one());
    assert!(server.cli(&["NONSENSE"]).is_error());
    assert_eq!(
        server.url(),
        format!("redis://127.0.0.1:{}/", server.port())
    );
    let pid = server.pid();
    drop(server);
    assert!(!process::is_alive(pid));
}

#[test]
fn many_servers_start_at_once() {
    let threads: Vec<_> = (0..6).map(|_| std::thread::spawn(Server::start)).collect();
    let servers: Vec<_> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    for server in &servers {
        server.cli(&["INCR", "k"]);
    }
    assert!(
        servers
            .iter()
            .all(|server| server.cli(&["GET", "k"]) == one())
    );
}

#[test]
fn paused_server_answers_only_when_the_guard_is_gone() {
    let server = Server::start();
    let mut connection = server.connect().unwrap();
    let paused = server.pause();
    connection.send(&["PING"]).unwrap();
    assert_eq!(process::state(server.pid()), Some('T'));
    drop(paused);
    assert_eq!(connection.receive().unwrap(), Value::Status("PONG".into()));
}

#[test]
fn restarted_server_is_another_process_on_the_same_port_and_has_forgotten() {
    let server = Server::start();
    server.cli(&["SET", "k", "1"]);
    let (pid, port) = (server.pid(), server.port());
    server.kill();
    assert!(server.try_cli(&["PING"]).is_err());
    server.restart();
    assert_ne!(server.pid(), pid);
    assert_eq!(server.port(), port);
    assert_eq!(server.cli(&["GET", "k"]), Value::Nil);
}

#[test]
fn append_only_file_survives_a_kill() {
    let server = Server::builder().append_only().start();
    server.cli(&["SET", "k", "1"]);
    server.restart();
    assert_eq!(server.cli(&["GET", "k"]), one());
}

#[test]
fn password_socket_and_directives_are_given_to_the_server() {
    let builder = Server::builder().password("s3cret").unix_socket();
    let server = builder.config("maxmemory", "7mb").start();
    assert!(server.url().starts_with("redis://:s3cret@"));
    let memory = server.cli(&["CONFIG", "GET", "maxmemory"]);
    assert_eq!(memory.list().unwrap()[1], Value::from("7340032"));
    let stranger = Connection::open(server.port(), PATIENCE)
        .unwrap()
        .call(&["PING"])
        .unwrap();
    assert!(stranger.text().unwrap().starts_with("NOAUTH"));
    std::os::unix::net::UnixStream::connect(server.socket().unwrap()).unwrap();
}

#[test]
#[should_panic(expected = "does not start")]
fn server_that_cannot_start_says_so() {
    Server::builder().config("no-such-directive", "1").start();
}

/// The server's time less the true one, in milliseconds.
fn offset_ms(server: &Server) -> i64 {
    let before = crate::clock::wall_us();
    let time = server.cli(&["TIME"]);
    let parts = time.list().unwrap();
    let number = |at: usize| parts[at].text().unwrap().parse::<i64>().unwrap();
    (number(0) * 1_000_000 + number(1)).saturating_sub_unsigned(before) / 1_000
}

#[test]
fn clock_of_a_running_server_can_be_moved_either_way_and_keys_end_by_it() {
    let server = Server::builder().shifted_clock().start();
    // Between two readings on a busy machine.
    let near = |wanted: i64| (wanted..wanted + 30_000).contains(&offset_ms(&server));
    assert!(near(0));
    server.cli(&["SET", "k", "1", "PX", "100000"]);
    server.set_clock_offset_ms(-3_600_250);
    assert!(near(-3_600_250));
    assert_eq!(server.cli(&["GET", "k"]), one());
    server.set_clock_offset_ms(7_200_999);
    assert!(near(7_200_999));
    assert_eq!(server.cli(&["GET", "k"]), Value::Nil);
    server.restart();
    assert!(near(7_200_999), "a new process sees the same clock");
}

#[test]
fn a_disk_can_be_made_slow_and_fast_again_under_a_running_server() {
    let server = Server::builder().append_only().slow_disk().start();
    let flushed = |server: &Server| {
        let start = crate::clock::now();
        server.cli(&["SET", "k", "1"]);
        crate::clock::now() - start
    };
    let slow = Duration::from_millis(700);
    server.set_disk_delay(slow);
    assert!(flushed(&server) >= slow);
    server.set_disk_delay(Duration::ZERO);
    flushed(&server);
    server.restart();
    assert_eq!(server.cli(&["GET", "k"]), one());
}
