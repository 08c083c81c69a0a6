//! One line of `MONITOR`.

use std::borrow::Cow;

/// A command, when it ran, and who sent it.
#[derive(Debug)]
pub(super) struct Line<'a> {
    /// Microseconds since 1970, by the server.
    pub(super) at_us: u64,
    /// The address of the client; `None` for a command of a script.
    pub(super) client: Option<&'a str>,
    pub(super) verb: &'a str,
    rest: &'a str,
}

impl<'a> Line<'a> {
    /// `1795442801.533460 [0 lua] "SET" "job" …`, without the plus sign; `None` for anything else.
    pub(super) fn parse(text: &'a str) -> Option<Line<'a>> {
        let (stamp, rest) = text.split_once(' ')?;
        let (seconds, micros) = stamp.split_once('.')?;
        let at_us = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
        let (source, rest) = rest.strip_prefix('[')?.split_once("] \"")?;
        let (_, sender) = source.split_once(' ')?;
        let (verb, rest) = rest.split_once('"')?;
        Some(Line {
            at_us,
            client: (sender != "lua").then_some(sender),
            verb,
            rest,
        })
    }

    /// The words behind the verb.
    pub(super) fn words(&self) -> Vec<Cow<'a, str>> {
        let mut words = Vec::with_capacity(8);
        let mut rest = self.rest;
        while let Some(start) = rest.find('"') {
            let body = &rest[start + 1..];
            let Some(end) = closing(body) else { break };
            words.push(unescaped(&body[..end]));
            rest = &body[end + 1..];
        }
        words
    }
}

/// Where the quotation mark is that ends the word.
fn closing(body: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + body[from..].find(['"', '\\'])?;
        if body.as_bytes()[at] == b'"' {
            return Some(at);
        }
        from = at + 2; // a backslash, and what it stands before
        if from > body.len() {
            return None;
        }
    }
}

/// Bytes that are no text are shown as `\xHH`; no key or token of ours has any, so they stay as they are shown.
fn unescaped(word: &str) -> Cow<'_, str> {
    if !word.contains('\\') {
        return Cow::Borrowed(word);
    }
    let mut text = String::with_capacity(word.len());
    let mut letters = word.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            text.push(letter);
            continue;
        }
        match letters.next() {
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('t') => text.push('\t'),
            Some('x') => text.push_str("\\x"),
            Some(other) => text.push(other),
            None => {}
        }
    }
    Cow::Owned(text)
}
