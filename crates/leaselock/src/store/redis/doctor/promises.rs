//! The promises of a set-up, in sentences. No I/O.

use std::time::Duration;

use super::facts::Facts;
use super::together::apart_us;
use crate::base::span::rounded;
use crate::store::report::Guarantee;

/// Lists the promises; `known` are the servers that replied, and the weakest of them decides.
pub(super) fn of(known: &[Facts]) -> Vec<Guarantee> {
    let mut promises = vec![worst(known, restart), worst(known, eviction)];
    promises.extend(failover(known));
    promises.push(clocks(known));
    promises.extend(access(known));
    promises.push(Guarantee::kept("fencing tokens grow with every grant, also after leases were forgotten, unless a clock is set back too"));
    promises
}

fn worst(known: &[Facts], sentence: impl Fn(&Facts) -> Guarantee) -> Guarantee {
    let badness = |promise: &Guarantee| match promise.kept {
        Some(true) => 0,
        None => 1,
        Some(false) => 2,
    };
    let all = known.iter().map(sentence);
    all.max_by_key(badness)
        .unwrap_or_else(|| Guarantee::unknown("no server answered"))
}

fn restart(facts: &Facts) -> Guarantee {
    let Some(append_only) = facts.is_append_only() else {
        let text =
            "whether a restart forgets leases: the settings for persistence could not be read";
        return Guarantee::unknown(text);
    };
    let overlap = "and others get them while their holders go on";
    match (append_only, facts.get("appendfsync")) {
        (true, Some("always")) => Guarantee::kept(
            "neither a restart nor a power failure of a server forgets a lease, if its disk keeps what it says",
        ),
        (true, Some("everysec")) => Guarantee::broken(format!(
            "a power failure of a server, or a kill of it while its disk is slow, forgets its leases of the last second \
             or two, {overlap}; strict mode keeps the others out"
        )),
        (true, _) => Guarantee::broken(format!(
            "a power failure of a server forgets its latest leases, {overlap}"
        )),
        (false, _) => Guarantee::broken(format!(
            "a restart of a server forgets its leases, {overlap}"
        )),
    }
}

fn eviction(facts: &Facts) -> Guarantee {
    match facts.policy() {
        Some("noeviction") => Guarantee::kept(
            "a full server refuses new locks and deletes none; release and extend go on",
        ),
        Some(_) => Guarantee::broken("a full server deletes locks that are held"),
        None => Guarantee::unknown(
            "whether a full server deletes locks: its eviction policy could not be read",
        ),
    }
}

/// Says what happens when a primary dies or is cut off.
fn failover(known: &[Facts]) -> Vec<Guarantee> {
    let primaries = known
        .iter()
        .filter(|facts| facts.get("role") == Some("master"));
    let Some((attached, facts)) = primaries
        .filter_map(|facts| Some((facts.number("connected_slaves")?, facts)))
        .max_by_key(|(attached, facts)| {
            (*attached, facts.number("min-replicas-to-write") == Some(0))
        })
    else {
        let text = "what a failover forgets: the server does not say whether it has replicas";
        return vec![Guarantee::unknown(text)];
    };
    if attached == 0 {
        let text = "while the server is down or cut off no client gets a lock: it has no replica that could take its place";
        return vec![Guarantee::broken(text)];
    }
    let mut promises = vec![Guarantee::broken(
        "a failover forgets the grants that had not reached the replica, and others get them while their holders go on",
    )];
    let lag = facts.number("min-replicas-max-lag").unwrap_or_default();
    promises.push(match facts.number("min-replicas-to-write") {
        Some(needed) if needed > 0 && !facts.holds_scripts_to_replicas() => Guarantee::broken("a primary that is cut off goes on granting: before version 6.2.14 a script writes whatever \
             min-replicas-to-write says"),
        Some(0) => Guarantee::broken("a primary that is cut off from its replicas goes on granting while one of them takes its place"),
        Some(needed) if lag > 0 => Guarantee::kept(format!(
                "a primary that has not heard from {needed} of its replicas for {lag} s grants and extends nothing"
            )),
        _ => Guarantee::unknown("whether a primary that is cut off goes on granting: min-replicas-to-write could not be read"),
    });
    promises
}

/// Says whether clocks agree: a wrong clock will be corrected some day, and that is a step.
fn clocks(known: &[Facts]) -> Guarantee {
    const OFF_US: u64 = 1_000_000;
    let offsets = known.iter().filter_map(|facts| facts.offset_us);
    let Some(farthest) = offsets.map(i64::unsigned_abs).max() else {
        return Guarantee::unknown("whether the clocks agree: no server told its time");
    };
    let apart = apart_us(known).unwrap_or_default();
    let off_us = farthest.max(apart);
    let off = rounded(Duration::from_micros(off_us));
    if off_us <= OFF_US {
        let text =
            format!("clock skew is {off}; a clock step would end leases early or late by its size");
        return Guarantee::kept(text);
    }
    let text = format!(
        "a clock is off by {off}: the step that sets it right ends leases early, or keeps them too long"
    );
    Guarantee::broken(text)
}

/// Says who can break a lock unasked.
fn access(known: &[Facts]) -> Vec<Guarantee> {
    let any = |flag: fn(&Facts) -> Option<bool>| {
        let flags = known.iter().map(flag);
        flags.max_by_key(|flag| match flag {
            Some(false) => 0,
            None => 1,
            Some(true) => 2,
        })
    };
    let password = match any(|facts| facts.open) {
        Some(Some(false)) => Guarantee::kept("no client takes or breaks a lock without a password"),
        Some(Some(true)) => Guarantee::broken(
            "every client that reaches a server takes and breaks locks without a password",
        ),
        _ => Guarantee::unknown(
            "whether strangers can break locks: the rights of the user `default` could not be read",
        ),
    };
    let mut promises = vec![password];
    if any(|facts| facts.readable) == Some(Some(true)) {
        promises.push(Guarantee::broken(
            "a reader of the network between here and a server can release the locks of other clients",
        ));
    }
    promises
}
