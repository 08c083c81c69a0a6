//! Which lock a key belongs to, and what it is of it.

/// What a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Lock,
    Queue,
    Waiters,
    Fence,
    Usage,
    /// Of strict mode: one for all locks.
    Gate,
}

/// The name of the lock and the part; `None` for keys that no lock has.
pub(crate) fn parse(key: &str) -> Option<(&str, Part)> {
    let (name, side) = if let Some(inner) = key.strip_prefix('{')
        && let Some((name, side)) = inner.split_once("}:ll:")
    {
        (name, side)
    } else if let Some((name, side)) = key.split_once(":ll:t:") {
        (name, side)
    } else if key.starts_with("ll:gate") {
        return Some(("", Part::Gate));
    } else if key.starts_with("ll:") || key.contains(":ll:") {
        return None;
    } else {
        return Some((key, Part::Lock));
    };
    let part = match side {
        "queue" => Part::Queue,
        "waiters" => Part::Waiters,
        "fence" => Part::Fence,
        "usage" => Part::Usage,
        _ => return None,
    };
    Some((name, part))
}
