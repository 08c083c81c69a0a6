//! Words that this project once made up, and the standard term for each.

/// Old words in all their forms, and what to write instead.
pub(super) const OLD: [(&[&str], &str); 16] = [
    (
        &[
            "whoever",
            "whomever",
            "somebody",
            "someone",
            "anybody",
            "everybody",
            "nobody",
        ],
        "name the actor: client, holder, waiter, task, server, user, program",
    ),
    (
        &["look", "looks", "looked", "looking"],
        "poll, of a waiter; check, read or inspect, of anything else",
    ),
    (
        &["onlooker", "onlookers"],
        "an observer, or the operation that shows it",
    ),
    (
        &[
            "in line",
            "the line of waiters",
            "leave the line",
            "leaves the line",
            "waiting line",
        ],
        "queue, in the queue, position",
    ),
    (&["ticket", "tickets"], "queue entry"),
    (&["seat", "seats"], "slot"),
    (&["company"], "batch"),
    (
        &["ring", "rings", "rang", "rung", "bell", "bells"],
        "wake-up; to wake, to notify",
    ),
    (
        &["runs out", "ran out", "run out", "running out"],
        "expires, of a lease; times out, of a wait",
    ),
    (&["clean-up", "clean-ups"], "cleanup; to clean up"),
    (&["mop", "mops", "reaper", "debt", "debts"], "cleanup"),
    (&["owe", "owes", "owed"], "cleanup, pending; to clean up"),
    (&["ear", "ears"], "receiver, subscription"),
    (&["lane", "lanes"], "connection"),
    (&["time-out", "time-outs"], "timeout"),
    (&["vigil", "leash", "rooms"], "the term of docs/glossary.md"),
];

/// Exact phrases in which such a word is meant in its plain sense.
const ALLOWED: [&str; 4] = ["in line with", "runs out of", "ran out of", "run out of"];

/// The text in small letters, with the allowed phrases blanked out.
pub(super) fn without_allowed(prose: &str) -> String {
    let mut prose = prose.to_lowercase();
    for phrase in ALLOWED {
        prose = prose.replace(phrase, "…");
    }
    prose
}

/// Whether the form stands in the text without letters around it.
pub(super) fn contains(prose: &str, form: &str) -> bool {
    prose.match_indices(form).any(|(at, _)| {
        let before = prose[..at].chars().next_back();
        let after = prose[at + form.len()..].chars().next();
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !is_word(before) && !is_word(after)
    })
}
