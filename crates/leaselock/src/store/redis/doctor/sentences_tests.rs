//! Tests of the report on several servers and of the promises, from facts alone.

use super::facts::Facts;
use super::{promises, together};
use crate::store::report::{Finding, Guarantee, Verdict};

fn facts(run_id: &str, offset_us: i64, info: &str) -> Facts {
    let mut facts = Facts::default();
    facts.offset_us = Some(offset_us);
    facts.open = Some(false);
    facts.readable = Some(false);
    facts.add_info(&format!("run_id:{run_id}\nrole:master\n{info}"));
    facts
}

const DURABLE: &str =
    "aof_enabled:1\nappendfsync:always\nmaxmemory_policy:noeviction\nconnected_slaves:0\n";
const FORGETFUL: &str = "aof_enabled:0\nmaxmemory_policy:noeviction\nconnected_slaves:0\n";

fn three(info: &str) -> Vec<Facts> {
    ["a", "b", "c"].map(|id| facts(id, 0, info)).into()
}

fn fit(checks: &[Finding], topic: &str) -> Verdict {
    let check = checks.iter().find(|check| check.topic == topic);
    check
        .unwrap_or_else(|| panic!("no {topic} in {checks:#?}"))
        .verdict
}

/// Returns the verdict of the one sentence with these words.
fn kept(promises: &[Guarantee], words: &str) -> Option<bool> {
    let mut matching = promises
        .iter()
        .filter(|promise| promise.text.contains(words));
    let promise = matching
        .next()
        .unwrap_or_else(|| panic!("no {words:?} in {promises:#?}"));
    assert!(
        matching.next().is_none(),
        "{words:?} twice in {promises:#?}"
    );
    promise.kept
}

#[test]
fn clocks_are_compared_with_each_other_and_not_only_with_ours() {
    for (offsets, expected) in [
        ([-600_000, 600_000], Verdict::Warn),
        ([900_000, 1_500_000], Verdict::Fit),
        ([i64::MIN, i64::MAX], Verdict::Warn),
    ] {
        let known = offsets.map(|offset| facts("x", offset, ""));
        let checks = together::checks(&known, 2);
        assert_eq!(
            fit(&checks, "clocks of the servers"),
            expected,
            "{offsets:?}"
        );
    }
    let alone = together::checks(&three("")[..1], 1);
    assert!(
        alone
            .iter()
            .all(|check| check.topic != "clocks of the servers")
    );
}

#[test]
fn each_primary_that_does_not_answer_is_a_warning() {
    for (answered, named, expected) in [
        (3, 3, Verdict::Fit),
        (2, 3, Verdict::Warn),
        (1, 3, Verdict::Warn),
    ] {
        let checks = together::checks(&three(DURABLE)[..answered], named);
        assert_eq!(
            fit(&checks, "servers that answer"),
            expected,
            "{answered} of {named}"
        );
    }
}

#[test]
fn what_a_restart_forgets_is_said_for_the_weakest_server() {
    let single = |info| promises::of(&[facts("a", 0, info)]);
    assert_eq!(kept(&single(DURABLE), "neither a restart"), Some(true));
    assert_eq!(
        kept(&single(FORGETFUL), "restart of a server forgets"),
        Some(false)
    );
    assert_eq!(
        kept(
            &single("aof_enabled:1\nappendfsync:everysec\n"),
            "a kill of it while its disk is slow, forgets its leases of the last second or two"
        ),
        Some(false)
    );
    assert_eq!(
        kept(
            &single("aof_enabled:1\nappendfsync:everysec\n"),
            "strict mode keeps the others out"
        ),
        Some(false)
    );
    assert_eq!(
        kept(&single(""), "settings for persistence could not be read"),
        None
    );
    let mut known = three(DURABLE);
    known[1] = facts("b", 0, FORGETFUL);
    let promises = promises::of(&known);
    assert_eq!(
        kept(&promises, "a restart of a server forgets its leases"),
        Some(false)
    );
}

#[test]
fn eviction_and_failover_are_said_in_words() {
    let of = |info: &str| promises::of(&[facts("a", 0, info)]);
    let lru = of("maxmemory_policy:allkeys-lru\nconnected_slaves:1\n");
    assert_eq!(kept(&lru, "deletes locks that are held"), Some(false));
    assert_eq!(kept(&lru, "a failover forgets"), Some(false));
    assert_eq!(kept(&lru, "min-replicas-to-write could not be read"), None);
    let guarded = "redis_version:7.0.15\nconnected_slaves:2\nmin-replicas-to-write:1\nmin-replicas-max-lag:3\n";
    assert_eq!(
        kept(&of(guarded), "heard from 1 of its replicas for 3 s"),
        Some(true)
    );
    let old = guarded.replace("7.0.15", "6.2.5");
    assert_eq!(
        kept(&of(&old), "before version 6.2.14 a script writes"),
        Some(false)
    );
    let careless = "connected_slaves:2\nmin-replicas-to-write:0\nmin-replicas-max-lag:10\n";
    assert_eq!(kept(&of(careless), "goes on granting"), Some(false));
    assert_eq!(kept(&of(DURABLE), "no client gets a lock"), Some(false));
}

#[test]
fn who_can_break_locks_is_said_for_the_most_open_server() {
    let mut known = three(DURABLE);
    let said = |known: &[Facts]| promises::of(known);
    assert_eq!(kept(&said(&known), "without a password"), Some(true));
    known[2].open = None;
    assert_eq!(kept(&said(&known), "whether strangers"), None);
    known[1].open = Some(true);
    known[0].readable = Some(true);
    let all = said(&known);
    assert_eq!(
        kept(&all, "every client that reaches a server"),
        Some(false)
    );
    assert_eq!(kept(&all, "a reader of the network"), Some(false));
    known[0].offset_us = Some(-7_000_000);
    assert_eq!(kept(&said(&known), "off by 7 s"), Some(false));
}
