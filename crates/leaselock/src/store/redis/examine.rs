//! Is this server fit for locks?

mod facts;
pub(super) mod permissions;

use redis::{Cmd, Value};

use self::facts::Facts;
use super::{CLOCK, Link, answer, fault};
use crate::clock::{self, Moment};
use crate::doctor::{Check, Fit};
use crate::error::StoreError;
use crate::store::url::Place;

/// Settings that are not in INFO, and one that may be.
const SETTINGS: [&str; 5] = [
    "appendfsync",
    "save",
    "min-replicas-to-write",
    "maxmemory-policy",
    "appendonly",
];
const LATENCY_SAMPLES: usize = 5;

/// Looks at everything that matters to locks. A server that does not answer at all is an error; one that refuses to
/// say something gets a warning in its place.
pub(super) async fn examine(link: &Link, until: Moment) -> Result<Vec<Check>, StoreError> {
    let mut checks = Vec::new();
    let clock = measure(link, until).await?;
    let mut facts = Facts::default();
    match ask(link, &redis::cmd("INFO"), until).await? {
        Ok(info) => facts.add_info(&answer::text(&info).unwrap_or_default()),
        Err(refusal) => checks.push(unread("INFO", &refusal)),
    }
    let mut refused = None;
    for setting in SETTINGS {
        match ask(link, redis::cmd("CONFIG").arg("GET").arg(setting), until).await? {
            Ok(pairs) => facts.add_settings(&answer::texts(&pairs)),
            Err(refusal) => refused = Some(refusal),
        }
    }
    checks.extend(refused.map(|refusal| unread("CONFIG", &refusal)));
    checks.extend(facts.checks());
    checks.extend(clock);
    checks.extend(transport(link));
    checks.extend(login(link, until).await?);
    checks.push(permissions::check(link, facts.is_seven(), until).await?);
    Ok(checks)
}

/// The answer, or the error line that the server sent instead of one.
async fn ask(
    link: &Link,
    command: &Cmd,
    until: Moment,
) -> Result<Result<Value, String>, StoreError> {
    match link.ask(command, until).await? {
        Value::ServerError(reply) => {
            let line = fault::line(&reply);
            let error = link.explain(&line);
            // A server that serves nobody cannot be examined; a command that is refused can be done without.
            if error.may_pass() && !error.maybe_applied() {
                Err(error)
            } else {
                Ok(Err(line))
            }
        }
        value => Ok(Ok(value)),
    }
}

fn unread(topic: &str, refusal: &str) -> Check {
    let found = format!("could not be read: {}", fault::quoted(refusal));
    let advice = format!("allow {topic} to this user, or look up by hand what it would tell");
    Check::new(topic, found, Fit::Warn, Some(&advice))
}

/// The server's clock against ours, and how long a round trip takes.
async fn measure(link: &Link, until: Moment) -> Result<Vec<Check>, StoreError> {
    let mut trips = Vec::new();
    let mut offset = None;
    for _ in 0..LATENCY_SAMPLES {
        let (sent, wall) = (CLOCK.now(), clock::wall_us());
        let answer = ask(link, &redis::cmd("TIME"), until).await?;
        let trip = CLOCK.now().saturating_since(sent);
        trips.push(trip);
        if let Ok(time) = answer
            && let [seconds, micros] = answer::texts(&time).as_slice()
            && let (Ok(seconds), Ok(micros)) = (seconds.parse::<i64>(), micros.parse::<i64>())
        {
            let here = wall.saturating_add(u64::try_from(trip.as_micros() / 2).unwrap_or(u64::MAX));
            offset = Some(
                seconds
                    .saturating_mul(1_000_000)
                    .saturating_add(micros)
                    .saturating_sub_unsigned(here),
            );
        }
    }
    trips.sort_unstable();
    let median = trips.get(LATENCY_SAMPLES / 2).copied().unwrap_or_default();
    let mut checks = vec![facts::latency(median)];
    checks.extend(offset.map(facts::clock));
    Ok(checks)
}

/// Whether others on the way can read tokens and the password.
fn transport(link: &Link) -> Option<Check> {
    let Link::Own(lane) = link else { return None };
    let local = |host: &str| {
        host == "localhost"
            || host
                .parse()
                .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
    };
    Some(match &lane.endpoint().url().place {
        Place::Unix(_) => Check::new("transport", "unix socket", Fit::Fit, None),
        Place::Tcp { tls: true, .. } => Check::new("transport", "TLS", Fit::Fit, None),
        Place::Tcp { host, .. } if local(host) => {
            Check::new("transport", "plain text on this machine", Fit::Fit, None)
        }
        Place::Tcp { .. } => {
            let advice = "whoever can read the network can release your locks: use rediss:// where it is not your own";
            Check::new(
                "transport",
                "plain text to another machine",
                Fit::Warn,
                Some(advice),
            )
        }
    })
}

/// Whether anybody gets in without a password.
async fn login(link: &Link, until: Moment) -> Result<Option<Check>, StoreError> {
    let Link::Own(lane) = link else {
        return Ok(None);
    };
    let open = if lane.endpoint().url().password.is_none() {
        true
    } else {
        match ask(link, redis::cmd("ACL").arg("GETUSER").arg("default"), until).await? {
            Ok(user) => facts::is_open(&user),
            Err(_) => return Ok(None), // only administrators may ask
        }
    };
    let advice = "whoever reaches the server can break every lock: set requirepass, or ACL users and `user default off`";
    Ok(Some(if open {
        Check::new("login", "nobody needs a password", Fit::Warn, Some(advice))
    } else {
        Check::new("login", "needs a password", Fit::Fit, None)
    }))
}

#[cfg(test)]
mod tests;
