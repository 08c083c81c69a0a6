//! Held locks as rows of a table: the cells of each, and the order.

use leaselock::inspect::{Holder, Inspection};

use crate::args::inspect::SortColumn;
use crate::output::sanitized;
use crate::show;
use crate::table::or_none;

pub(crate) const HEADINGS: [&str; 9] = [
    "NAME", "KIND", "HELD", "BY", "PID", "HOST", "WAITING", "EXPIRES", "NOTE",
];

/// The program that holds a lock, its pid and its host, as far as they are known.
pub(crate) fn process(holder: &Holder) -> [String; 3] {
    let process = holder.process.as_ref();
    let by = match process {
        Some(process) => match &process.name {
            Some(name) if !name.is_empty() => sanitized(name),
            _ => format!("client {}", sanitized(&process.client)),
        },
        None => "another library".to_owned(),
    };
    [
        by,
        or_none(process.and_then(|process| Some(process.pid?.to_string()))),
        or_none(process.and_then(|process| Some(sanitized(process.host.as_ref()?)))),
    ]
}

/// The cells under the headings.
pub(crate) fn row(lock: &Inspection) -> [String; 9] {
    let holder = show::first_holder(&lock.state);
    let alone = holder.filter(|_| show::count(&lock.state) == 1);
    let [by, pid, host] = alone.map(process).unwrap_or_else(|| {
        let count = format!("{} holders", show::count(&lock.state));
        [count, or_none(None), or_none(None)]
    });
    [
        sanitized(&lock.name),
        or_none(lock.kind.map(str::to_owned)),
        or_none(holder.and_then(|holder| Some(show::whole(show::age(holder.since?))))),
        by,
        pid,
        host,
        lock.waiter_count.to_string(),
        or_none(holder.and_then(|holder| match holder.broken {
            true => Some("broken".to_owned()),
            false => holder.remaining.map(show::whole),
        })),
        or_none(alone.and_then(|holder| Some(sanitized(holder.note.as_ref()?)))),
    ]
}

/// By this column, and by name among equals.
pub(crate) fn sort(found: &mut [Inspection], by: Option<SortColumn>) {
    found.sort_by(|one, other| one.name.cmp(&other.name));
    match by {
        None | Some(SortColumn::Name) => {}
        Some(SortColumn::Waiting) => found.sort_by_key(|lock| std::cmp::Reverse(lock.waiter_count)),
        // One of which it is not known is last, and so is one without an end.
        Some(SortColumn::Held) => found.sort_by_key(|lock| {
            let since = show::first_holder(&lock.state).and_then(|it| it.since);
            (since.is_none(), since)
        }),
        Some(SortColumn::Expires) => found.sort_by_key(|lock| {
            let rest = show::first_holder(&lock.state).and_then(|it| it.remaining);
            (rest.is_none(), rest)
        }),
    }
}
