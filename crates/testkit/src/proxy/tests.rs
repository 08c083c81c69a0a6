//! Each fault against a real server. One server serves a test; the proxy is what is tested.

use std::io::ErrorKind;
use std::time::Duration;

use super::*;
use crate::resp::{Connection, Value};
use crate::{Server, clock, wait_until};

const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(10);

fn rig() -> (Server, Proxy) {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    (server, proxy)
}

fn connect(proxy: &Proxy, limit: Duration) -> Connection {
    Connection::open(proxy.port(), limit).unwrap()
}

fn ok() -> Value {
    Value::Status("OK".into())
}

#[test]
fn without_faults_bytes_pass_and_are_counted() {
    let (_server, proxy) = rig();
    let mut client = connect(&proxy, LONG);
    assert_eq!(client.call(&["SET", "k", "v"]).unwrap(), ok());
    assert_eq!(proxy.connections(), 1);
    assert_eq!(proxy.bytes(Way::ToServer), 27);
    assert_eq!(proxy.bytes(Way::Both), 27 + 5);
    assert_eq!(proxy.open(), 1);
    drop(client);
    wait_until(LONG, "the link ends with its client", || proxy.open() == 0);
}

#[test]
fn delay_makes_an_answer_late_but_not_the_next_ones_later() {
    let (_server, proxy) = rig();
    let mut client = connect(&proxy, LONG);
    proxy.set(Way::ToClient, Fault::Delay(SHORT));
    let start = clock::now();
    for _ in 0..8 {
        client.send(&["PING"]).unwrap();
    }
    for _ in 0..8 {
        client.receive().unwrap();
    }
    let took = clock::now() - start;
    assert!(took >= SHORT && took < 4 * SHORT, "{took:?}");
}

#[test]
fn swallowed_request_has_no_effect_and_swallowed_answer_has() {
    let (server, proxy) = rig();
    for (way, expected) in [
        (Way::ToServer, Value::Nil),
        (Way::ToClient, Value::from("1")),
    ] {
        proxy.heal();
        proxy.set(way, Fault::Swallow);
        let error = connect(&proxy, SHORT).call(&["SET", "k", "1"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert_eq!(server.cli(&["GET", "k"]), expected);
    }
}

#[test]
fn nothing_comes_out_of_a_connection_behind_what_was_swallowed() {
    let (server, proxy) = rig();
    for way in [Way::ToServer, Way::ToClient] {
        let mut connection = connect(&proxy, SHORT);
        proxy.set(way, Fault::Swallow);
        connection.call(&["SET", "k", "1"]).unwrap_err();
        proxy.heal();
        let error = connection.call(&["GET", "k"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "no answer but its own");
        connect(&proxy, LONG).call(&["SET", "k", "2"]).unwrap();
    }
    assert_eq!(server.cli(&["GET", "k"]), Value::from("2"));
}

#[test]
fn lost_answer_is_an_end_of_file_or_a_reset_and_heals_itself() {
    let (server, proxy) = rig();
    let cuts = [
        (Cut::Close, ErrorKind::UnexpectedEof),
        (Cut::Reset, ErrorKind::ConnectionReset),
    ];
    for (how, kind) in cuts {
        proxy.set(Way::ToClient, Fault::CutAfter { bytes: 0, how });
        let error = connect(&proxy, LONG).call(&["INCR", "k"]).unwrap_err();
        assert_eq!(error.kind(), kind);
        connect(&proxy, LONG).call(&["PING"]).unwrap();
    }
    assert_eq!(
        server.cli(&["GET", "k"]),
        Value::from("2"),
        "the requests took effect"
    );
}

#[test]
fn cut_lets_through_exactly_the_bytes_before_it() {
    let (_server, proxy) = rig();
    let mut client = connect(&proxy, LONG);
    // Two answers of 7 bytes, and the first 3 of the third.
    proxy.set(
        Way::ToClient,
        Fault::CutAfter {
            bytes: 17,
            how: Cut::Close,
        },
    );
    assert!(client.call(&["PING"]).is_ok());
    assert!(client.call(&["PING"]).is_ok());
    assert_eq!(
        client.call(&["PING"]).unwrap_err().kind(),
        ErrorKind::UnexpectedEof
    );
    assert_eq!(proxy.bytes(Way::ToClient), 17);
}

#[test]
fn cutting_by_hand_ends_the_connections_of_that_moment() {
    let (_server, proxy) = rig();
    let mut old = connect(&proxy, LONG);
    old.call(&["PING"]).unwrap();
    proxy.cut(Cut::Reset);
    assert_eq!(
        old.receive().unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
    connect(&proxy, LONG).call(&["PING"]).unwrap();
}

#[test]
fn half_open_connection_stays_dead_while_a_new_one_works() {
    let (server, proxy) = rig();
    let mut old = connect(&proxy, SHORT);
    old.call(&["PING"]).unwrap();
    proxy.set(Way::Both, Fault::HalfOpen);
    let mut born_dead = connect(&proxy, SHORT);
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    assert_eq!(
        old.receive().unwrap_err().kind(),
        ErrorKind::WouldBlock,
        "no end of file"
    );
    proxy.heal();
    assert_eq!(
        old.call(&["PING"]).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    assert_eq!(
        born_dead.call(&["PING"]).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    connect(&proxy, LONG).call(&["PING"]).unwrap();
}

#[test]
fn slices_change_nothing() {
    let (_server, proxy) = rig();
    proxy.set(Way::Both, Fault::Slice);
    let mut client = connect(&proxy, LONG);
    assert_eq!(client.call(&["SET", "k", &"x".repeat(500)]).unwrap(), ok());
    assert_eq!(client.call(&["STRLEN", "k"]).unwrap(), Value::Integer(500));
}

#[test]
fn held_request_arrives_after_its_sender_gave_up() {
    let (server, proxy) = rig();
    proxy.set(Way::ToServer, Fault::Hold);
    assert!(connect(&proxy, SHORT).call(&["SET", "k", "late"]).is_err());
    assert_eq!(server.cli(&["GET", "k"]), Value::Nil);
    proxy.heal();
    wait_until(LONG, "the late request arrives", || {
        server.cli(&["GET", "k"]) == "late".into()
    });
}

#[test]
fn duplicated_request_takes_effect_twice_and_is_answered_once() {
    let (server, proxy) = rig();
    let mut client = connect(&proxy, SHORT);
    proxy.set(Way::ToServer, Fault::Duplicate);
    assert_eq!(client.call(&["INCR", "k"]).unwrap(), Value::Integer(1));
    wait_until(LONG, "the duplicate arrives", || proxy.duplicates() == 1);
    assert_eq!(server.cli(&["GET", "k"]), Value::from("2"));
    assert!(client.receive().is_err(), "no second answer");
}

#[test]
#[should_panic(expected = "only requests")]
fn answers_cannot_be_duplicated() {
    Proxy::to(1).set(Way::Both, Fault::Duplicate);
}

#[test]
fn server_that_is_down_looks_like_a_closed_connection() {
    let (server, proxy) = rig();
    server.kill();
    assert!(connect(&proxy, LONG).call(&["PING"]).is_err());
    server.restart();
    connect(&proxy, LONG).call(&["PING"]).unwrap();
}

#[test]
fn aimed_faults_hit_listeners_or_the_others() {
    let (server, proxy) = rig();
    let (mut listener, mut other) = (connect(&proxy, SHORT), connect(&proxy, SHORT));
    listener.call(&["SUBSCRIBE", "c"]).unwrap();
    proxy.aim(Aim::Listeners);
    proxy.set(Way::ToClient, Fault::Hold);
    server.cli(&["PUBLISH", "c", "m"]);
    assert_eq!(other.call(&["SET", "k", "v"]).unwrap(), ok());
    wait_until(LONG, "the message is held", || proxy.held() == 1);
    assert!(listener.receive().is_err());
    proxy.aim(Aim::Requests);
    assert!(listener.receive().is_ok());
    assert!(other.call(&["SET", "k", "v"]).is_err());
    wait_until(LONG, "the answer is held", || proxy.held() == 1);
    proxy.heal();
    assert_eq!(other.receive().unwrap(), ok());
}
