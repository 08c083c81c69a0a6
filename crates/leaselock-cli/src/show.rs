//! Holders and lines, for people and as JSON. The JSON fields are a contract; the text is not.

use std::time::Duration;

use leaselock::Fence;
use leaselock::inspect::{Holder, Holding, Inspection, Process, Waiter};
use serde_json::{Value, json};

use crate::boottime;
use crate::duration::for_people;
use crate::output::sanitized;

/// `report[1234] on db1`, or the client's id when nothing more is known.
pub(crate) fn who(process: Option<&Process>, client: Option<&str>) -> String {
    match (process, client) {
        (Some(p), _) => format!(
            "{}[{}] on {}",
            sanitized(&p.name),
            p.pid,
            sanitized(&p.host)
        ),
        (None, Some(client)) => format!("client {}", sanitized(client)),
        (None, None) => "another lock library".to_owned(),
    }
}

pub(crate) fn holder(holder: &Holder) -> String {
    let mut text = who(holder.process.as_ref(), holder.client.as_deref());
    if let Some(since) = holder.since_unix_ms {
        let age = Duration::from_millis(boottime::unix_ms().saturating_sub(since));
        text.push_str(&format!(" for {}", for_people(whole(age))));
    }
    match holder.remaining {
        Some(rest) => text.push_str(&format!(", {} left", for_people(whole(rest)))),
        None => text.push_str(", without an end"),
    }
    if let Some(fence) = holder.fence {
        text.push_str(&format!(", fence {fence}"));
    }
    if let Some(why) = &holder.why {
        text.push_str(&format!(", why: {}", sanitized(why)));
    }
    text
}

/// A length of time, for people.
pub(crate) fn duration(duration: Duration) -> String {
    for_people(whole(duration)).to_string()
}

/// People need no nanoseconds.
fn whole(duration: Duration) -> Duration {
    if duration > Duration::from_secs(10) {
        Duration::from_secs(duration.as_secs())
    } else {
        Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

/// One lock: a line, and one more for each who waits.
pub(crate) fn text(seen: &Inspection) -> String {
    let name = sanitized(&seen.name);
    let mut text = match &seen.state {
        Holding::Held(by) => format!("{name}: held by {}\n", holder(by)),
        Holding::NotALock { kind } => {
            format!(
                "{name}: not a lock: a {} lies under this name\n",
                sanitized(kind)
            )
        }
        _ => format!("{name}: free\n"),
    };
    for waiter in &seen.queue {
        let who = who(waiter.process.as_ref(), Some(&waiter.client));
        let priority = match waiter.priority {
            0 => String::new(),
            priority => format!(", priority {priority}"),
        };
        text.push_str(&format!("  {}. {who}{priority}\n", waiter.position));
    }
    for what in &seen.damaged {
        text.push_str(&format!("  damaged: {}\n", sanitized(what)));
    }
    text
}

/// One lock as one object.
pub(crate) fn json(seen: &Inspection) -> Value {
    let (state, holder, found) = match &seen.state {
        Holding::Held(by) => ("held", holder_json(by), Value::Null),
        Holding::NotALock { kind } => ("other", Value::Null, json!({ "type": sanitized(kind) })),
        _ => ("free", Value::Null, Value::Null),
    };
    let line: Vec<Value> = seen.queue.iter().map(waiter_json).collect();
    json!({
        "name": seen.name, "state": state, "holder": holder, "found": found, "line": line,
        "damaged": seen.damaged,
    })
}

pub(crate) fn holder_json(holder: &Holder) -> Value {
    json!({
        "foreign": holder.foreign,
        "client": holder.client,
        "process": holder.process.as_ref().map(process_json),
        "why": holder.why,
        "fence": holder.fence.map(Fence::get),
        "since_unix_ms": holder.since_unix_ms,
        "remaining_ms": holder.remaining.map(ms),
        "digest": holder.digest,
    })
}

fn waiter_json(waiter: &Waiter) -> Value {
    json!({
        "place": waiter.position,
        "client": waiter.client,
        "process": waiter.process.as_ref().map(process_json),
        "priority": waiter.priority,
    })
}

pub(crate) fn process_json(process: &Process) -> Value {
    json!({
        "host": process.host,
        "pid": process.pid,
        "name": process.name,
        "started_unix_ms": process.started_unix_ms,
    })
}

/// Whole milliseconds.
pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
