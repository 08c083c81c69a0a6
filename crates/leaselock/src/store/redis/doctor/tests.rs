//! Tests of the examination.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::examine;
use super::facts::{Facts, Shape, clock, latency};
use super::permissions::{IN_A_CLUSTER, USED, commands};
use crate::base::error::ErrorKind;
use crate::store::Store;
use crate::store::redis::tests::{PATIENCE, Server, store};
use crate::store::report::{Finding, Verdict};

fn fit(checks: &[Finding], topic: &str) -> Verdict {
    let check = checks.iter().find(|check| check.topic == topic);
    check
        .unwrap_or_else(|| panic!("no {topic} in {checks:#?}"))
        .verdict
}

fn of(info: &str, settings: &[(&str, &str)]) -> Vec<Finding> {
    let mut facts = Facts::default();
    facts.add_info(info);
    for (name, value) in settings {
        facts.add_settings(&[(*name).to_owned(), (*value).to_owned()]);
    }
    facts.checks(Shape::Single)
}

#[test]
fn old_servers_are_unfit_and_forks_have_their_own_name() {
    for (info, expected) in [
        ("redis_version:6.0.16\r\n", Verdict::Unfit),
        ("redis_version:6.2.0\r\n", Verdict::Fit),
        ("redis_version:10.0.1\r\n", Verdict::Fit),
    ] {
        assert_eq!(fit(&of(info, &[]), "server"), expected, "{info}");
    }
    let valkey = of(
        "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n",
        &[],
    );
    assert_eq!(valkey[0].found, "Valkey 9.1.2");
    assert!(of("", &[]).is_empty(), "nothing is known");
}

#[test]
fn what_a_restart_forgets_is_a_warning() {
    for (aof, fsync, save, expected) in [
        ("1", "always", "", Verdict::Fit),
        ("1", "everysec", "", Verdict::Warn),
        ("1", "no", "", Verdict::Warn),
        ("0", "always", "3600 1", Verdict::Warn),
        ("0", "always", "", Verdict::Warn),
    ] {
        let checks = of(
            &format!("aof_enabled:{aof}\r\n"),
            &[("appendfsync", fsync), ("save", save)],
        );
        assert_eq!(
            fit(&checks, "persistence"),
            expected,
            "{aof} {fsync} {save}"
        );
    }
}

#[test]
fn memory_must_not_be_made_by_deleting_locks() {
    for (policy, expected) in [
        ("noeviction", Verdict::Fit),
        ("volatile-lru", Verdict::Unfit),
        ("allkeys-random", Verdict::Unfit),
    ] {
        let checks = of(
            &format!("maxmemory:1000\r\nused_memory:10\r\nmaxmemory_policy:{policy}\r\n"),
            &[],
        );
        assert_eq!(fit(&checks, "eviction policy"), expected, "{policy}");
        assert_eq!(fit(&checks, "memory"), Verdict::Fit);
    }
    assert_eq!(
        fit(&of("maxmemory:1000\r\nused_memory:950\r\n", &[]), "memory"),
        Verdict::Warn
    );
    assert_eq!(
        fit(&of("maxmemory:0\r\nused_memory:950\r\n", &[]), "memory"),
        Verdict::Fit
    );
}

#[test]
fn a_server_that_refuses_writes_is_unfit_and_the_reason_is_named() {
    let primary = "redis_version:7.0.0\r\nrole:master\r\nused_memory:950\r\nmaxmemory:0\r\n";
    let (stops, saves) = (("stop-writes-on-bgsave-error", "yes"), ("save", "3600 1"));
    let (snapshot, short) = (
        "rdb_last_bgsave_status:err\r\n",
        "min_slaves_good_slaves:1\r\n",
    );
    let (aof, needed) = (
        "aof_last_write_status:err\r\naof_enabled:",
        "min-replicas-to-write",
    );
    let full = "maxmemory:900\r\nmaxmemory_policy:noeviction\r\n";
    for (info, settings, expected, named) in [
        ("", &[stops, saves][..], Verdict::Fit, "not refused"),
        (snapshot, &[stops, saves], Verdict::Unfit, "snapshot"),
        (snapshot, &[stops, ("save", "")], Verdict::Fit, ""),
        (
            snapshot,
            &[(stops.0, "no"), saves],
            Verdict::Fit,
            "not refused",
        ),
        (snapshot, &[], Verdict::Warn, "snapshot"),
        (&format!("{aof}1\r\n"), &[], Verdict::Unfit, "append-only"),
        (&format!("{aof}0\r\n"), &[], Verdict::Fit, ""),
        (short, &[(needed, "2")], Verdict::Unfit, "NOREPLICAS"),
        (short, &[(needed, "1")], Verdict::Fit, "replicas"),
        ("", &[], Verdict::Fit, "replicas"),
        (short, &[], Verdict::Fit, "the disk or memory"),
        (
            "min_slaves_good_slaves:0\r\n",
            &[],
            Verdict::Unfit,
            "NOREPLICAS",
        ),
        (
            &format!("{short}redis_version:6.2.5\r\n"),
            &[(needed, "2")],
            Verdict::Fit,
            "",
        ),
        (full, &[], Verdict::Unfit, "OOM"),
        (
            &format!("{full}mem_not_counted_for_evict:50\r\n"),
            &[],
            Verdict::Fit,
            "",
        ),
        (
            &format!("{full}maxmemory_policy:allkeys-lru\r\n"),
            &[],
            Verdict::Fit,
            "",
        ),
        (
            "role:slave\r\nslave_read_only:1\r\n",
            &[],
            Verdict::Unfit,
            "READONLY",
        ),
    ] {
        let checks = of(&format!("{primary}{info}"), settings);
        assert_eq!(fit(&checks, "writes"), expected, "{info} {settings:?}");
        let found = checks.iter().find(|check| check.topic == "writes").unwrap();
        assert!(found.found.contains(named), "{found:?}");
    }
}

#[test]
fn replicas_that_nobody_waits_for_are_a_warning() {
    for (version, attached, needed, expected) in [
        ("7.0.0", "0", "0", Verdict::Fit),
        ("7.0.0", "2", "0", Verdict::Warn),
        ("7.0.0", "2", "1", Verdict::Fit),
        ("6.2.14", "2", "1", Verdict::Fit),
        ("6.2.5", "2", "1", Verdict::Warn),
    ] {
        let checks = of(
            &format!("redis_version:{version}\r\nconnected_slaves:{attached}\r\n"),
            &[("min-replicas-to-write", needed)],
        );
        assert_eq!(fit(&checks, "replicas"), expected);
    }
}

#[test]
fn a_clock_that_is_off_by_more_than_a_second_is_a_warning() {
    for (offset, expected) in [
        (0, Verdict::Fit),
        (-999_999, Verdict::Fit),
        (1_000_001, Verdict::Warn),
        (i64::MIN, Verdict::Warn),
    ] {
        assert_eq!(clock(offset).verdict, expected, "{offset}");
    }
    assert_eq!(
        latency(Duration::from_micros(1203)).found,
        "1.203 ms per round trip"
    );
    assert_eq!(latency(Duration::from_millis(80)).verdict, Verdict::Warn);
}

/// Every command in the scripts is among those whose permissions are checked.
#[test]
fn the_list_of_commands_is_that_of_the_scripts() {
    let mut called = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("lua")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(path).unwrap();
            if text.contains("On servers only.") {
                continue; // of protocols that are chosen lock by lock
            }
            called.extend(
                text.split("call('")
                    .skip(1)
                    .map(|rest| rest.split('\'').next().unwrap().to_owned()),
            );
        }
    }
    let used: BTreeSet<&str> = commands(USED)
        .chain(commands(IN_A_CLUSTER))
        .map(|command| command[0])
        .collect();
    let missing: Vec<_> = called
        .iter()
        .filter(|command| !used.contains(command.as_str()))
        .collect();
    assert!(!called.is_empty() && missing.is_empty(), "{missing:?}");
}

#[tokio::test]
async fn several_servers_are_examined_at_once_and_each_is_named() {
    let servers = [Server::start(), Server::start(), Server::start()];
    servers[2].kill();
    let stores: Vec<_> = servers.iter().map(|server| store(&server.url())).collect();
    let within = Duration::from_millis(500);
    let report = examine::all("three".to_owned(), &stores, within);
    let report = report.await.unwrap();
    assert_eq!(report.nodes.len(), 3);
    for (node, store) in report.nodes.iter().zip(&stores) {
        assert_eq!(node.store, store.describe());
    }
    assert_eq!(fit(&report.nodes[1].findings, "role"), Verdict::Fit);
    assert_eq!(fit(&report.nodes[2].findings, "answer"), Verdict::Unfit);
    assert_eq!(fit(&report.findings, "servers that answer"), Verdict::Warn);
    assert!(!report.is_fit(), "one is unfit");

    servers[0].kill();
    let gone = examine::all("none".to_owned(), &stores[..1], within);
    assert_eq!(gone.await.unwrap_err().kind(), ErrorKind::Unreachable);
}

#[tokio::test]
async fn a_plain_server_is_fit_with_warnings() {
    let server = Server::start();
    let checks = store(&server.url())
        .examine(PATIENCE)
        .await
        .unwrap()
        .findings;
    for topic in [
        "server",
        "role",
        "cluster",
        "eviction policy",
        "memory",
        "replicas",
        "clock",
        "latency",
        "transport",
    ] {
        assert_eq!(fit(&checks, topic), Verdict::Fit, "{checks:#?}");
    }
    assert_eq!(fit(&checks, "persistence"), Verdict::Warn);
    assert_eq!(fit(&checks, "login"), Verdict::Warn);
    if checks.iter().any(|check| check.topic == "permissions") {
        assert_eq!(fit(&checks, "permissions"), Verdict::Fit, "{checks:#?}");
    }
}

#[tokio::test]
async fn what_is_unfit_is_found_on_a_real_server() {
    let server = Server::builder()
        .config("cluster-enabled", "yes")
        .config("maxmemory-policy", "allkeys-lru")
        .start();
    let checks = store(&server.url())
        .examine(PATIENCE)
        .await
        .unwrap()
        .findings;
    assert_eq!(fit(&checks, "cluster"), Verdict::Unfit);
    assert_eq!(fit(&checks, "eviction policy"), Verdict::Unfit);
    let server = Server::builder().password("sekret").start();
    server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    let checks = store(&server.url())
        .examine(PATIENCE)
        .await
        .unwrap()
        .findings;
    assert_eq!(fit(&checks, "role"), Verdict::Unfit);
    assert_eq!(fit(&checks, "login"), Verdict::Fit);
}

/// What the report says and what the server does with a script are compared: before Redis 6.2.14 too few replicas refuse
/// single commands alone.
#[tokio::test]
async fn a_real_server_that_refuses_writes_is_unfit_until_it_takes_them_again() {
    let server = Server::builder().config("min-replicas-to-write", "1");
    let server = server.config("dbfilename", "taken").start();
    server.cli(&["CONFIG", "SET", "save", "3600 1"]); // older servers take no two words on their command line
    let store = store(&server.url());
    let found = async || {
        let checks = store.examine(PATIENCE).await.unwrap().findings;
        let check = checks.into_iter().find(|check| check.topic == "writes");
        let check = check.unwrap();
        let write = "return redis.call('SET', 'key', 'value')";
        let is_refused = server.cli(&["EVAL", write, "0"]).is_error();
        assert_eq!(check.verdict == Verdict::Unfit, is_refused, "{check:?}");
        (check.found, is_refused)
    };
    assert!(server.cli(&["SET", "key", "value"]).is_error());
    let (found_first, is_refused) = found().await;
    assert_eq!(found_first.contains("NOREPLICAS"), is_refused);
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(found().await.0.contains("OOM"));
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(found().await.0.contains("not refused"));
    std::fs::create_dir(server.dir().join("taken")).unwrap(); // so that no snapshot can have this name
    server.cli(&["BGSAVE"]);
    testkit::wait_until(PATIENCE, "a snapshot fails", || {
        server.cli(&["SET", "key", "value"]).is_error()
    });
    assert!(found().await.0.contains("snapshot"));
    server.cli(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
    assert!(found().await.0.contains("not refused"));
}

#[tokio::test]
async fn a_server_that_keeps_things_to_itself_gets_warnings() {
    let server = Server::start();
    server.cli(&[
        "ACL", "SETUSER", "u", "on", ">pw", "~*", "&*", "+@all", "-info", "-config",
    ]);
    let url = format!("redis://u:pw@127.0.0.1:{}", server.port());
    let checks = store(&url).examine(PATIENCE).await.unwrap().findings;
    assert_eq!(
        (fit(&checks, "INFO"), fit(&checks, "CONFIG")),
        (Verdict::Warn, Verdict::Warn)
    );
    assert_eq!(
        fit(&checks, "login"),
        Verdict::Warn,
        "the default user is open"
    );
    assert_eq!(fit(&checks, "clock"), Verdict::Fit);
}

#[tokio::test]
async fn commands_that_are_not_allowed_are_named() {
    let server = Server::start();
    let advice = async |denied: &[&str]| {
        let user = [
            "ACL", "SETUSER", "u", "reset", "on", ">pw", "~*", "&*", "+@all",
        ];
        server.cli(&[&user[..], denied].concat());
        let url = format!("redis://u:pw@127.0.0.1:{}", server.port());
        let checks = store(&url).examine(PATIENCE).await.unwrap().findings;
        let check = checks
            .into_iter()
            .find(|check| check.topic == "permissions");
        let check = check.expect("permissions are always looked at");
        (check.advice, check.found)
    };
    let (named, _) = advice(&["-evalsha"]).await;
    assert_eq!(named.as_deref(), Some("give the user +evalsha"));
    let (named, found) = advice(&["-zadd", "-publish"]).await;
    match named {
        Some(named) => assert_eq!(named, "give the user +publish +zadd"),
        // Before Redis 7 the server does not answer questions about commands that change something.
        None => assert!(found.contains("cannot be asked"), "{found}"),
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_cannot_be_examined() {
    let server = Server::start();
    server.kill();
    let error = store(&server.url())
        .examine(Duration::from_millis(200))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
}
