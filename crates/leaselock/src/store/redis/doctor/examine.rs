//! Examination of servers: whether each is fit for locks, and what the set-up can promise.

use std::time::Duration;

use futures_util::future::join_all;

use super::ask::Examined;
use super::facts::{Facts, Shape};
use super::{facts, permissions, promises, together};
use crate::base::{CLOCK, Result, clock, refusal};
use crate::store::Store;
use crate::store::redis::link::RedisStore;
use crate::store::redis::{answer, calls, error_map};
use crate::store::report::{Finding, Report, Verdict};
use crate::store::url::Place;

/// Settings that are not in INFO, and those that may be missing there.
const SETTINGS: [&str; 8] = [
    "appendfsync",
    "save",
    "stop-writes-on-bgsave-error",
    "min-replicas-to-write",
    "min-replicas-max-lag",
    "maxmemory-policy",
    "appendonly",
    "protected-mode",
];
const LATENCY_SAMPLES: usize = 5;

pub(crate) async fn one(link: &RedisStore, within: Duration) -> Result<Report> {
    let (shape, until) = (Shape::Single, CLOCK.now().plus(within));
    let (checks, facts) = examine(Examined { link, shape, until }).await?;
    let promises = promises::of(&[facts]);
    Ok(Report::new(link.describe(), checks, promises))
}

/// Examines the primaries of a cluster at once.
///
/// One that does not reply is unfit; when none does, that is an error.
pub(crate) async fn all(name: String, links: &[RedisStore], within: Duration) -> Result<Report> {
    let (shape, until) = (Shape::Cluster, CLOCK.now().plus(within));
    let servers = links.iter().map(|link| Examined { link, shape, until });
    let outcomes = join_all(servers.map(examine)).await;
    let (mut nodes, mut known, mut silence) = (Vec::new(), Vec::new(), None);
    for (link, outcome) in links.iter().zip(outcomes) {
        let checks = match outcome {
            Ok((checks, facts)) => {
                known.push(facts);
                checks
            }
            Err(error) => {
                let check = together::silent(&error);
                silence = Some(error);
                vec![check]
            }
        };
        let store = link.describe();
        nodes.push(Report::new(store, checks, Vec::new()));
    }
    if known.is_empty() {
        let nobody = refusal!(Internal: "no server was named");
        return Err(silence.unwrap_or(nobody));
    }
    let promises = promises::of(&known);
    let report = Report::new(name, together::checks(&known, links.len()), promises);
    Ok(Report { nodes, ..report })
}

/// Checks everything that matters to locks.
///
/// A server that does not reply at all is an error; one that refuses a command gets a warning in its place.
async fn examine(server: Examined<'_>) -> Result<(Vec<Finding>, Facts)> {
    let link = server.link;
    let mut checks = Vec::new();
    let mut facts = Facts::default();
    let latency = measure(server, &mut facts).await?;
    match server.ask(&["INFO"]).await? {
        Ok(info) => facts.add_info(&answer::text(&info).unwrap_or_default()),
        Err(refusal) => checks.push(unread("INFO", &refusal)),
    }
    let mut refused = None;
    for setting in SETTINGS {
        match server.ask(&["CONFIG", "GET", setting]).await? {
            Ok(pairs) => facts.add_settings(&answer::texts(&pairs)),
            Err(refusal) => refused = Some(refusal),
        }
    }
    checks.extend(refused.map(|refusal| unread("CONFIG", &refusal)));
    facts.open = is_open(server).await?;
    facts.readable = transport(link).map(|check| check.verdict > Verdict::Fit);
    checks.extend(facts.checks(server.shape));
    checks.push(latency);
    checks.extend(facts.offset_us.map(facts::clock));
    checks.extend(transport(link));
    checks.extend(facts.login());
    checks.extend(functions(server).await?);
    checks.push(permissions::check(server, facts.is_seven()).await?);
    Ok((checks, facts))
}

fn unread(topic: &str, refusal: &str) -> Finding {
    let found = format!("could not be read: {}", error_map::quoted(refusal));
    let advice = format!("allow {topic} to this user, or look up by hand what it would tell");
    Finding::warn(topic, found, advice)
}

/// Measures the server's clock against ours, by the quickest reply, and the round trip.
async fn measure(server: Examined<'_>, facts: &mut Facts) -> Result<Finding> {
    let mut trips = Vec::new();
    for _ in 0..LATENCY_SAMPLES {
        let (sent, wall) = (CLOCK.now(), clock::wall_us());
        let answer = server.ask(&["TIME"]).await?;
        let trip = CLOCK.now().saturating_since(sent);
        let quickest = trips.iter().all(|before| trip < *before);
        trips.push(trip);
        if let Ok(time) = answer
            && quickest
            && let [seconds, micros] = answer::texts(&time).as_slice()
            && let (Ok(seconds), Ok(micros)) = (seconds.parse::<i64>(), micros.parse::<i64>())
        {
            let here = wall.saturating_add(u64::try_from(trip.as_micros() / 2).unwrap_or(u64::MAX));
            facts.offset_us = Some(
                seconds
                    .saturating_mul(1_000_000)
                    .saturating_add(micros)
                    .saturating_sub_unsigned(here),
            );
        }
    }
    trips.sort_unstable();
    let median = trips.get(LATENCY_SAMPLES / 2).copied().unwrap_or_default();
    Ok(facts::latency(median))
}

/// Reports whether others on the network path can read tokens and the password.
fn transport(link: &RedisStore) -> Option<Finding> {
    let RedisStore::Own(own) = link else {
        return None;
    };
    let local = |host: &str| {
        host == "localhost"
            || host
                .parse()
                .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
    };
    let (tls, is_local) = match &own.endpoint.url().place {
        Place::Unix(_) => return Some(Finding::fit("transport", "unix socket")),
        Place::Tcp { host, tls, .. } => (*tls, local(host)),
        Place::Watched(all) => (all.tls, all.known.iter().all(|(host, _)| local(host))),
    };
    Some(match (tls, is_local) {
        (true, _) => Finding::fit("transport", "TLS"),
        (false, true) => Finding::fit("transport", "plain text on this machine"),
        (false, false) => {
            let advice = "anyone who can read the network can release your locks: use rediss:// where it is not your own";
            Finding::warn("transport", "plain text to another machine", advice)
        }
    })
}

/// Checks that the functions of this version are there, for a client that calls them.
async fn functions(server: Examined<'_>) -> Result<Option<Finding>> {
    let Some(library) = server.link.functions() else {
        return Ok(None);
    };
    let asked = server.ask(&["FCALL", library.any_function(), "0"]).await?;
    Ok(Some(match asked {
        Err(line) if calls::is_absent(&line) => {
            let advice = "an administrator loads them with `leaselock functions load`";
            let found = format!("{} is not there", library.name);
            Finding::unfit("functions", found, advice)
        }
        _ => Finding::fit("functions", library.name.as_str()),
    }))
}

/// Returns whether a login needs no password; `None` when only administrators may ask.
async fn is_open(server: Examined<'_>) -> Result<Option<bool>> {
    let RedisStore::Own(own) = server.link else {
        return Ok(None);
    };
    if own.endpoint.url().password.is_none() {
        return Ok(Some(true));
    }
    let asked = server.ask(&["ACL", "GETUSER", "default"]).await?;
    Ok(asked.ok().map(|user| facts::is_open(&user)))
}
