//! What must be true of the commands that scripts and fragments give the server.

use std::collections::{BTreeMap, BTreeSet};

use super::body::{self, Command};
use super::sources::{Sources, WHITELIST};
use crate::complaint::Complaint;
use crate::lex::Token;

/// Work that grows with the database, and the end of other people's data.
const FORBIDDEN: [&str; 5] = ["KEYS", "SCAN", "RANDOMKEY", "FLUSHALL", "FLUSHDB"];
/// They count in seconds; a millisecond count given to one of them is a lease 1000 times too long.
const SECONDS: [&str; 5] = ["EXPIRE", "EXPIREAT", "EXPIRETIME", "SETEX", "TTL"];

/// The commands of a script or of a fragment.
pub(super) fn check(path: &str, tokens: &[Token], found: &mut Vec<Complaint>) {
    let mut complain = |line: usize, wrong: String, right: &str| {
        found.push(Complaint::new(path, line, wrong, right));
    };
    for Command { line, name } in body::commands(tokens) {
        match name.as_deref() {
            None => {
                let right = "write the command's name in the call, so that it can be checked";
                complain(line, "a command that is not written out".into(), right);
            }
            Some(name) if FORBIDDEN.contains(&name) => {
                complain(
                    line,
                    format!("{name} in a script"),
                    "touch the declared keys only",
                );
            }
            Some(name) if SECONDS.contains(&name) => {
                complain(
                    line,
                    format!("{name} counts in seconds"),
                    "the P form, in milliseconds",
                );
            }
            Some(_) => {}
        }
    }
    for token in tokens.iter().filter(|token| is_seconds_option(token)) {
        complain(
            token.line,
            format!("{:?} counts in seconds", token.text),
            "PX or PXAT",
        );
    }
}

fn is_seconds_option(token: &Token) -> bool {
    token
        .string()
        .is_some_and(|text| matches!(text, "EX" | "EXAT"))
}

/// The embedded store admits exactly the commands that scripts use.
pub(super) fn check_whitelist(sources: &Sources, found: &mut Vec<Complaint>) {
    let Some((_, tokens)) = sources.rust.iter().find(|(path, _)| path == WHITELIST) else {
        return; // a build without that store
    };
    let start = tokens
        .iter()
        .position(|token| token.is("WHITELIST"))
        .unwrap_or(tokens.len());
    let list = tokens[start..].iter().take_while(|token| !token.is(";"));
    let listed: BTreeMap<&str, usize> = list
        .filter_map(|token| Some((token.string()?, token.line)))
        .flat_map(|(text, line)| text.split_whitespace().map(move |name| (name, line)))
        .collect();
    let scripts = sources
        .scripts
        .iter()
        .filter(|script| !script.is_for_servers());
    let scripts = scripts.map(|s| (s.file.path.as_str(), s.body.as_slice()));
    let mut used = BTreeSet::new();
    for (path, body) in scripts.chain(sources.fragments.run_everywhere()) {
        for command in body::commands(body) {
            let Some(name) = command.name else { continue };
            if !listed.contains_key(name.as_str()) && !used.contains(&name) {
                let right = format!("add it to {WHITELIST}, and to the embedded store");
                let wrong = format!("{name} is not on the whitelist");
                found.push(Complaint::new(path, command.line, wrong, right));
            }
            used.insert(name);
        }
    }
    for (name, line) in listed {
        if !used.contains(name) {
            let wrong = format!("no script uses {name}");
            found.push(Complaint::new(
                WHITELIST,
                line,
                wrong,
                "take it off the whitelist",
            ));
        }
    }
}
