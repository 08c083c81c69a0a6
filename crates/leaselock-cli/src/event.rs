//! The events of a lock as objects, in one form wherever they are printed. Their fields are a contract.

use std::time::Duration;

use leaselock::LeaseView;
use leaselock::report::LogEntry;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::boottime;
use crate::held::Held;
use crate::look::Seen;
use crate::output;
use crate::show;

/// One event as a line: its word, the name and the text, and the facts, which are an object or nothing.
pub(crate) fn line(event: &str, name: &str, text: &str, facts: Value) -> String {
    let text = output::sanitized(text);
    let head = json!({ "event": event, "name": name, "text": text }).to_string();
    let facts = match facts {
        Value::Object(facts) if !facts.is_empty() => Value::Object(facts).to_string(),
        _ => "{}".to_owned(),
    };
    let comma = if facts == "{}" { "" } else { "," };
    // The words come first, so that people who read the lines find them.
    let (head, facts) = (&head[..head.len() - 1], &facts[1..]);
    output::line(&format!("{head}{comma}{facts}"))
}

/// Of a wait: where in the queue, and who holds the lock, as in `status`. Unknown is null.
pub(crate) fn waiting(position: Option<usize>, seen: Option<&Seen>) -> Value {
    let alone = seen.and_then(Seen::alone);
    json!({
        "position": position,
        "holder": alone.map(show::holder_json),
        "holders": seen.map(Seen::several_json),
    })
}

/// Of a grant. Of several names the fence and the sequencer are those of the first, and `fences` has all.
pub(crate) fn acquired(held: &Held) -> Value {
    let each = held.each();
    let first = each.first();
    let mut facts = deadline(held.first_to_end().deadline().as_nanos());
    facts["fence"] = json!(first.map(|one| one["fence"].clone()));
    facts["sequencer"] = json!(first.map(|one| one["sequencer"].clone()));
    facts["ttl_ms"] = json!(show::ms(held.ttl()));
    if each.len() > 1 {
        facts["fences"] = json!(each);
    }
    facts
}

/// Of a break, by the entry of the event log.
pub(crate) fn broken(entry: &LogEntry) -> Value {
    let why = Some(&entry.text).filter(|why| !why.is_empty());
    json!({ "by": entry.by, "why": why })
}

/// Who broke the lease that has been lost, if an operator did and the event log says so half a second later at most.
pub(crate) async fn breaker(lease: &LeaseView) -> Option<LogEntry> {
    /// For how long the command asks who broke a lost lease.
    const WITHIN: Duration = Duration::from_millis(600);
    timeout(WITHIN, lease.broken_by()).await.ok().flatten()
}

/// When a lease ends: in whole milliseconds of the clock that counts suspend, rounded down, and from now on.
pub(crate) fn deadline(at: u64) -> Value {
    const MS: u64 = 1_000_000;
    json!({
        "deadline_boot_ms": at / MS,
        "deadline_in_ms": at.saturating_sub(boottime::now()) / MS,
    })
}
