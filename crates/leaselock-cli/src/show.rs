//! Holders and lines, for people and as JSON. The JSON fields are a contract; the text is not.

use std::time::{Duration, SystemTime};

use leaselock::inspect::{Holder, Holding, Inspection, LockMode, Process, Waiter};
use leaselock::satellite::rounded;
use leaselock::semaphore::PermitCount;
use serde_json::{Value, json};

use crate::boottime;
use crate::output::sanitized;

/// `report[1234] on db1`, or the client's id when nothing more is known.
pub(crate) fn who(process: Option<&Process>) -> String {
    match process {
        Some(process) => sanitized(&process.to_string()),
        None => "another lock library".to_owned(),
    }
}

/// The same with the user that runs it, `report[1234] on db1 (user alice)`, where that is known.
fn who_and_user(process: Option<&Process>) -> String {
    let user = process.and_then(|process| process.user.as_ref());
    let user = user.map(|user| match user.strip_prefix("uid ") {
        Some(_) => format!(" ({})", sanitized(user)),
        None => format!(" (user {})", sanitized(user)),
    });
    who(process) + &user.unwrap_or_default()
}

/// Readers or holders of permits hold it.
pub(crate) fn is_shared(state: &Holding) -> bool {
    matches!(state, Holding::Held { .. }) && state.exclusive().is_none()
}

pub(crate) fn all_holders(state: Holding) -> Vec<Holder> {
    match state {
        Holding::Held { holders, .. } => holders,
        _ => Vec::new(),
    }
}

pub(crate) fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map(ms).unwrap_or_default()
}

pub(crate) fn holder(holder: &Holder) -> String {
    held_by_whom(holder, who(holder.process.as_ref()))
}

fn held_by_whom(holder: &Holder, mut text: String) -> String {
    text.push_str(&for_so_long(holder.since));
    if let Some(note) = &holder.note {
        text.push_str(&format!(": {}", sanitized(note)));
    }
    text.push_str(&format!("; {}", end(holder)));
    if let Some(fence) = holder.fence {
        text.push_str(&format!("; fence {fence}"));
    }
    text
}

/// `July figures; held by report[1234] on db1 for 4 s; …`
pub(crate) fn held_for(by: &Holder) -> String {
    let mut by = by.clone();
    let note = by.note.take().unwrap_or_default();
    format!("{}; held by {}", sanitized(&note), holder(&by))
}

/// When the name is free again, as far as the store knows. A holder that lives renews its lease.
fn end(holder: &Holder) -> String {
    let rest = holder.remaining.map(whole);
    match (rest, holder.broken) {
        (None, false) => "without an end".to_owned(),
        (None, true) => "broken".to_owned(),
        (Some(rest), false) => format!("expires in {rest} unless renewed"),
        (Some(rest), true) => format!("broken, free in {rest} at the latest"),
    }
}

/// People do not read tenths of a second.
pub(crate) fn whole(time: Duration) -> String {
    rounded(match time.as_secs() {
        0 => time,
        seconds => Duration::from_secs(seconds),
    })
}

pub(crate) fn age(since: SystemTime) -> Duration {
    Duration::from_millis(boottime::unix_ms().saturating_sub(unix_ms(since)))
}

fn for_so_long(since: Option<SystemTime>) -> String {
    let text = since.map(|since| format!(" for {}", whole(age(since))));
    text.unwrap_or_default()
}

/// One of several, as a line of its own.
fn shared_holder(one: &Holder) -> String {
    let who = who_and_user(one.process.as_ref());
    let mode = match one.mode {
        LockMode::Permits(1) => ": 1 permit".to_owned(),
        LockMode::Permits(count) => format!(": {count} permits"),
        LockMode::Upgradable => ": reads, and may write".to_owned(),
        _ => ": reads".to_owned(),
    };
    let fence = match one.fence {
        Some(fence) => format!("; fence {fence}"),
        None => String::new(),
    };
    format!("{who}{mode}{}; {}{fence}", for_so_long(one.since), end(one))
}

/// Who holds the lock, in one line; `None` when no lock of ours is held.
pub(crate) fn held_by(seen: &Inspection) -> Option<String> {
    const NAMED: usize = 3;
    if let Some(by) = seen.state.exclusive() {
        return Some(holder(by));
    }
    let Holding::Held { holders, count, .. } = &seen.state else {
        return None;
    };
    let named = holders.iter().take(NAMED);
    let mut names: Vec<String> = named.map(|one| who(one.process.as_ref())).collect();
    if *count > names.len() {
        names.push(format!("{} more", count - names.len()));
    }
    Some(format!("{}: {}", crowd(seen, *count), names.join(", ")))
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

pub(crate) fn of_permits(seen: &Inspection) -> bool {
    let Holding::Held { holders, .. } = &seen.state else {
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

/// One lock: a line, and one more for each of several holders and for each who waits.
pub(crate) fn text(seen: &Inspection) -> String {
    let name = sanitized(&seen.name);
    let text = match &seen.state {
        Holding::Held { count, .. } => match seen.state.exclusive() {
            Some(by) => {
                let who = who_and_user(by.process.as_ref());
                format!("{name}: held by {}\n", held_by_whom(by, who))
            }
            None => format!("{name}: held by {}\n", crowd(seen, *count)),
        },
        Holding::NotALock { kind, .. } => {
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
    let (Holding::Held { holders, count, .. }, true) = (&seen.state, is_shared(&seen.state)) else {
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
        let who = who(Some(&waiter.process));
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
        let (position, waits) = (waiter.position, whole(waiter.waited));
        text.push_str(&format!(
            "  {position}. {who}, waits {waits}{wish}{priority}\n"
        ));
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

/// A lock that is taken in another library's way, which has neither queue nor sharing.
pub(crate) fn text_of_others(name: &str, by: Option<&Holder>) -> String {
    let state = by.map_or("free".to_owned(), |by| format!("held by {}", holder(by)));
    format!("{}: {state}\n", sanitized(name))
}

/// The same as an object, with the fields of [`json()`].
pub(crate) fn json_of_others(name: &str, by: Option<&Holder>) -> Value {
    let nobody: [Value; 0] = [];
    json!({
        "name": name, "kind": by.map(|_| "mutex"), "state": if by.is_some() { "held" } else { "free" },
        "holder": by.map(holder_json), "found": null, "queue": nobody,
        "holders": nobody, "holder_count": usize::from(by.is_some()),
        "waiter_count": 0, "permits": null, "damaged": nobody,
    })
}

/// One lock as one object.
pub(crate) fn json(seen: &Inspection) -> Value {
    let (state, holder, found) = match &seen.state {
        Holding::Held { .. } => match seen.state.exclusive() {
            Some(by) => ("held", holder_json(by), Value::Null),
            None => ("shared", Value::Null, Value::Null),
        },
        Holding::NotALock { kind, .. } => {
            ("other", Value::Null, json!({ "type": sanitized(kind) }))
        }
        _ => ("free", Value::Null, Value::Null),
    };
    let queue: Vec<Value> = seen.queue.iter().map(waiter_json).collect();
    json!({
        "name": seen.name, "kind": seen.kind, "state": state, "holder": holder, "found": found, "queue": queue,
        "holders": holders_json(&seen.state),
        "holder_count": count(&seen.state),
        "waiter_count": seen.waiter_count,
        "permits": seen.permits,
        "damaged": seen.damaged,
    })
}

/// The only one, or of several the one whose lease ends first.
pub(crate) fn first_holder(state: &Holding) -> Option<&Holder> {
    match state {
        Holding::Held { holders, .. } => holders.first(),
        _ => None,
    }
}

pub(crate) fn count(state: &Holding) -> usize {
    match state {
        Holding::Held { count, .. } => *count,
        _ => 0,
    }
}

/// Readers and holders of permits; none of a lock that is held alone.
pub(crate) fn holders_json(state: &Holding) -> Vec<Value> {
    match state {
        Holding::Held { holders, .. } if is_shared(state) => {
            holders.iter().map(shared_json).collect()
        }
        _ => Vec::new(),
    }
}

fn shared_json(one: &Holder) -> Value {
    let mode = json!(one.mode);
    json!({
        "mode": mode["mode"],
        "permits": mode["permits"],
        "client": client(one.process.as_ref()),
        "process": process_json(one.process.as_ref()),
        "fence": one.fence,
        "since_unix_ms": one.since.map(unix_ms),
        "remaining_ms": one.remaining.map(ms),
        "digest": one.digest,
        "broken": one.broken,
    })
}

pub(crate) fn holder_json(holder: &Holder) -> Value {
    json!({
        "foreign": holder.is_foreign(),
        "client": client(holder.process.as_ref()),
        "process": process_json(holder.process.as_ref()),
        "note": holder.note,
        "fence": holder.fence,
        "since_unix_ms": holder.since.map(unix_ms),
        "remaining_ms": holder.remaining.map(ms),
        "digest": holder.digest,
        "broken": holder.broken,
    })
}

fn waiter_json(waiter: &Waiter) -> Value {
    let mode = json!(waiter.mode);
    json!({
        "position": waiter.position,
        "client": waiter.process.client,
        "process": process_json(Some(&waiter.process)),
        "priority": waiter.priority,
        "mode": mode["mode"],
        "permits": mode["permits"],
        "waited_ms": ms(waiter.waited),
    })
}

pub(crate) fn client(process: Option<&Process>) -> Option<&str> {
    process.map(|process| process.client.as_str())
}

/// Null when its record is gone.
pub(crate) fn process_json(process: Option<&Process>) -> Value {
    match process {
        Some(process) if process.pid.is_some() => json!({
            "host": process.host,
            "pid": process.pid,
            "name": process.name,
            "started_unix_ms": process.started.map(unix_ms),
            "user": process.user,
            "version": process.version,
            "via": process.via,
        }),
        _ => Value::Null,
    }
}

/// Whole milliseconds.
pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
