//! Rules about lines. The forbidden words are glued together here, so that this file keeps them.

use super::source::Source;
use crate::complaint::Complaint;

/// Past this a file is a list that grew, and people get lost in it. Most are near 150.
const LINES_MAX: usize = 500;

/// What may not stand anywhere, and what to do instead.
const FORBIDDEN: [(&str, &str); 5] = [
    (
        concat!("#[", "ignore"),
        "run it, or delete it: a test that does not run proves nothing",
    ),
    (
        concat!("to", "do!("),
        "write it, or return an error: it panics in a user's program",
    ),
    (
        concat!("unimple", "mented!("),
        "write it, or return an error: it panics in a user's program",
    ),
    (
        concat!("FIX", "ME"),
        "repair it now, or say in a sentence what does not work and why",
    ),
    (
        concat!("XX", "X"),
        "repair it now, or say in a sentence what does not work and why",
    ),
];

pub(super) fn check(source: &Source<'_>, found: &mut Vec<Complaint>) {
    let length = source.text.lines().count();
    if length > LINES_MAX {
        let right = format!("at most {LINES_MAX}: split it by what it is about");
        found.push(Complaint::new(
            source.path,
            0,
            format!("has {length} lines"),
            right,
        ));
    }
    for (number, line) in (1..).zip(source.text.lines()) {
        for (word, right) in FORBIDDEN {
            if has_word(line, word) {
                let wrong = format!("`{word}` in the code");
                found.push(Complaint::new(source.path, number, wrong, right));
            }
        }
    }
    sleeps(source, found);
}

/// Whether `word` stands in the line without letters around it.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let opens = word.ends_with('(');
        !before.is_some_and(char::is_alphanumeric)
            && (opens || !after.is_some_and(char::is_alphanumeric))
    })
}

/// A test that sleeps is slow on a fast machine and wrong on a slow one: wait for a condition, or
/// say why there is none.
fn sleeps(source: &Source<'_>, found: &mut Vec<Complaint>) {
    let lines: Vec<&str> = source.text.lines().collect();
    for (index, line) in lines.iter().enumerate().skip(source.tests_from()) {
        let code = line.split("//").next().unwrap_or_default();
        let sleeps = [concat!("thread::", "sleep("), concat!("time::", "sleep(")];
        if !sleeps.iter().any(|sleep| code.contains(sleep)) {
            continue;
        }
        let above = index.checked_sub(1).map_or("", |above| lines[above]);
        if !line.contains("//") && !above.trim_start().starts_with("//") {
            let right = "wait for a condition, or say in a comment why it cannot be one";
            found.push(Complaint::new(
                source.path,
                index + 1,
                "a bare sleep in a test",
                right,
            ));
        }
    }
}
