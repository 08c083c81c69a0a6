//! Holders and lines, for people and as JSON. The JSON fields are a contract; the text is not.

use std::time::Duration;

use leaselock::Fence;
use leaselock::inspect::{
    Holder, Holding, Inspection, LockMode, PermitCount, Process, SharedHolder, Waiter,
};
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
    text.push_str(&age(holder.since_unix_ms));
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

fn age(since_unix_ms: Option<u64>) -> String {
    let Some(since) = since_unix_ms else {
        return String::new();
    };
    let age = Duration::from_millis(boottime::unix_ms().saturating_sub(since));
    format!(" for {}", for_people(whole(age)))
}

/// One of several, as a line of its own.
fn shared_holder(one: &SharedHolder) -> String {
    let who = who(one.process.as_ref(), Some(&one.client));
    let mode = match one.mode {
        LockMode::Permits(1) => ": 1 permit".to_owned(),
        LockMode::Permits(count) => format!(": {count} permits"),
        LockMode::Upgradable => ": reads, and may write".to_owned(),
        _ => ": reads".to_owned(),
    };
    let fence = match one.fence {
        Some(fence) => format!(", fence {fence}"),
        None => String::new(),
    };
    let (age, left) = (age(one.since_unix_ms), for_people(whole(one.remaining)));
    format!("{who}{mode}{age}, {left} left{fence}")
}

/// Who holds the lock, in one line; `None` when no lock of ours is held.
pub(crate) fn held_by(seen: &Inspection) -> Option<String> {
    const NAMED: usize = 3;
    let (holders, count) = match &seen.state {
        Holding::Held(by) => return Some(holder(by)),
        Holding::Shared { holders, count, .. } => (holders, *count),
        _ => return None,
    };
    let named = holders.iter().take(NAMED);
    let mut names: Vec<String> = named
        .map(|one| who(one.process.as_ref(), Some(&one.client)))
        .collect();
    if count > names.len() {
        names.push(format!("{} more", count - names.len()));
    }
    Some(format!("{}: {}", crowd(seen, count), names.join(", ")))
}

/// `2 readers`, or `2 holders of permits (1 of 4 is free)`.
fn crowd(seen: &Inspection, count: usize) -> String {
    let s = if count == 1 { "" } else { "s" };
    if !of_permits(seen) {
        return format!("{count} reader{s}");
    }
    match &seen.permits {
        Some(permits) => {
            let free = permits.total.saturating_sub(permits.used);
            let is = if free == 1 { "is" } else { "are" };
            let of = format!("{free} of {} {is} free", permits.total);
            format!("{count} holder{s} of permits ({of})")
        }
        None => format!("{count} holder{s} of permits"),
    }
}

fn of_permits(seen: &Inspection) -> bool {
    let Holding::Shared { holders, .. } = &seen.state else {
        return false;
    };
    holders
        .iter()
        .any(|one| matches!(one.mode, LockMode::Permits(_)))
}

/// `3 of 4 permits are used`
pub(crate) fn permits(permits: &PermitCount) -> String {
    let pinned = if permits.pinned {
        ", set by an operator"
    } else {
        ""
    };
    let PermitCount { total, used, .. } = permits;
    format!("{used} of {total} permits are used{pinned}")
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

/// One lock: a line, and one more for each of several holders and for each who waits.
pub(crate) fn text(seen: &Inspection) -> String {
    let name = sanitized(&seen.name);
    let text = match &seen.state {
        Holding::Held(by) => format!("{name}: held by {}\n", holder(by)),
        Holding::Shared { count, .. } => format!("{name}: held by {}\n", crowd(seen, *count)),
        Holding::NotALock { kind } => {
            format!(
                "{name}: not a lock: a {} lies under this name\n",
                sanitized(kind)
            )
        }
        _ => format!("{name}: free\n"),
    };
    text + &holders(seen) + &waiters(seen)
}

/// A line for each of several holders.
pub(crate) fn holders(seen: &Inspection) -> String {
    let Holding::Shared { holders, count, .. } = &seen.state else {
        return String::new();
    };
    let lines = holders
        .iter()
        .map(|one| format!("  - {}\n", shared_holder(one)));
    let mut text: String = lines.collect();
    if *count > holders.len() {
        text.push_str(&format!("  - and {} more\n", count - holders.len()));
    }
    text
}

/// A line for each who waits, and for each damage.
pub(crate) fn waiters(seen: &Inspection) -> String {
    let mut text = String::new();
    for waiter in &seen.queue {
        let who = who(waiter.process.as_ref(), Some(&waiter.client));
        let priority = match waiter.priority {
            0 => String::new(),
            priority => format!(", priority {priority}"),
        };
        let wish = match waiter.mode {
            LockMode::Shared | LockMode::Upgradable => ", to read".to_owned(),
            LockMode::Permits(1) => ", for 1 permit".to_owned(),
            LockMode::Permits(count) => format!(", for {count} permits"),
            _ => String::new(),
        };
        let position = waiter.position;
        text.push_str(&format!("  {position}. {who}{wish}{priority}\n"));
    }
    if seen.waiter_count > seen.queue.len() {
        let more = seen.waiter_count - seen.queue.len();
        text.push_str(&format!("  and {more} more wait\n"));
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
        Holding::Shared { .. } => ("shared", Value::Null, Value::Null),
        Holding::NotALock { kind } => ("other", Value::Null, json!({ "type": sanitized(kind) })),
        _ => ("free", Value::Null, Value::Null),
    };
    let line: Vec<Value> = seen.queue.iter().map(waiter_json).collect();
    json!({
        "name": seen.name, "state": state, "holder": holder, "found": found, "line": line,
        "holders": holders_json(&seen.state),
        "holder_count": count(&seen.state),
        "waiter_count": seen.waiter_count,
        "permits": seen.permits.map(|permits| json!({
            "total": permits.total, "used": permits.used, "pinned": permits.pinned,
        })),
        "damaged": seen.damaged,
    })
}

fn count(state: &Holding) -> usize {
    match state {
        Holding::Held(_) => 1,
        Holding::Shared { count, .. } => *count,
        _ => 0,
    }
}

/// Readers and holders of permits; none of a lock that is held alone.
pub(crate) fn holders_json(state: &Holding) -> Vec<Value> {
    match state {
        Holding::Shared { holders, .. } => holders.iter().map(shared_json).collect(),
        _ => Vec::new(),
    }
}

fn shared_json(one: &SharedHolder) -> Value {
    let (mode, permits) = mode_json(one.mode);
    json!({
        "mode": mode,
        "permits": permits,
        "client": one.client,
        "process": one.process.as_ref().map(process_json),
        "fence": one.fence.map(Fence::get),
        "since_unix_ms": one.since_unix_ms,
        "remaining_ms": ms(one.remaining),
        "digest": one.digest,
    })
}

fn mode_json(mode: LockMode) -> (&'static str, Option<u32>) {
    match mode {
        LockMode::Shared => ("shared", None),
        LockMode::Upgradable => ("upgradable", None),
        LockMode::Permits(count) => ("permits", Some(count)),
        _ => ("exclusive", None),
    }
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
    let (mode, permits) = mode_json(waiter.mode);
    json!({
        "place": waiter.position,
        "client": waiter.client,
        "process": waiter.process.as_ref().map(process_json),
        "priority": waiter.priority,
        "mode": mode,
        "permits": permits,
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
