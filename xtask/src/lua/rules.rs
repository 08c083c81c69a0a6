//! What must be true of a header and its body. One function for each rule.

use std::collections::{BTreeMap, BTreeSet};

use super::body::{self, Use};
use super::fragment::Fragments;
use super::sources::Script;
use crate::complaint::Complaint;
use crate::lex::Token;

/// Words that mean a time, and so need a unit.
const TIMES: [&str; 7] = [
    "ttl", "pttl", "timeout", "delay", "deadline", "validity", "interval",
];
const UNITS: [&str; 2] = ["_ms", "_us"];

pub(super) fn check(script: &Script, fragments: &Fragments, found: &mut Vec<Complaint>) {
    let mut complain = |line: usize, wrong: String, right: &str| {
        found.push(Complaint::new(&script.file.path, line, wrong, right));
    };
    let complain: Complain<'_> = &mut complain;
    title(script, complain);
    numbering(script, complain);
    uses(script, complain);
    bindings(script, complain);
    tags(script, fragments, complain);
    sections(script, complain);
    units(script, complain);
    time(script, fragments, complain);
}

type Complain<'a> = &'a mut dyn FnMut(usize, String, &str);

fn title(script: &Script, complain: Complain<'_>) {
    if script.file.text.starts_with("#!") {
        let right = "leave it out: with one, release is refused when memory is full";
        complain(1, "begins with a shebang".into(), right);
    } else if script.header.title != script.name {
        let right = format!("begin with `-- {}: what it does.`", script.name);
        complain(1, "the first line does not name the file".into(), &right);
    } else if script.header.summary.is_missing() {
        complain(
            1,
            "the first line does not say what it does".into(),
            "one sentence",
        );
    }
}

fn numbering(script: &Script, complain: Complain<'_>) {
    for array in ["KEYS", "ARGV"] {
        let mut ended = false;
        for (expected, slot) in (1..).zip(script.header.of(array)) {
            if slot.number != expected || ended {
                let wrong = format!("{array}[{}] is listed out of order", slot.number);
                complain(
                    slot.line,
                    wrong,
                    &format!("{array}[{expected}], without gaps"),
                );
            }
            if slot.name.is_empty() {
                let wrong = format!("{array}[{}] has no name", slot.number);
                complain(slot.line, wrong, "the name that the body gives it");
            }
            ended = slot.open_ended;
        }
    }
}

/// Header and body list the same keys and arguments.
fn uses(script: &Script, complain: Complain<'_>) {
    let used = body::uses(&script.code());
    for one in &used {
        let (array, line) = (one.array, one.line);
        let mut slots = script.header.of(array);
        match one.number {
            Some(number) if !slots.any(|slot| covers(slot.number, slot.open_ended, number)) => {
                complain(
                    line,
                    format!("{array}[{number}] is not in the header"),
                    "list it there",
                );
            }
            None if !slots.any(|slot| slot.open_ended) => {
                let right = format!("write the number, or list `{array}[…]` in the header");
                complain(line, format!("{array} is used without a number"), &right);
            }
            _ => {}
        }
    }
    for slot in &script.header.slots {
        let here = |one: &Use| {
            one.array == slot.array
                && match one.number {
                    Some(number) => covers(slot.number, slot.open_ended, number),
                    None => slot.open_ended,
                }
        };
        if !used.iter().any(here) {
            let wrong = format!("{}[{}] is not used by the body", slot.array, slot.number);
            complain(slot.line, wrong, "use it or take it out");
        }
    }
}

fn covers(slot: usize, open_ended: bool, number: usize) -> bool {
    slot == number || (open_ended && number > slot)
}

/// The body begins by giving each key and argument the name that the header gives it, and so does what stands in front.
fn bindings(script: &Script, complain: Complain<'_>) {
    for code in [&script.body, &script.front] {
        bindings_of(script, code, complain);
    }
}

fn bindings_of(script: &Script, code: &[Token], complain: Complain<'_>) {
    let (bindings, end) = body::bindings(code);
    let mut seen = BTreeSet::new();
    for one in body::uses(code) {
        let Some(number) = one.number else { continue };
        let slot = script
            .header
            .of(one.array)
            .find(|slot| slot.number == number);
        let Some(slot) = slot.filter(|slot| !slot.open_ended) else {
            continue;
        };
        let what = format!("{}[{number}]", one.array);
        if !seen.insert((one.array, number)) {
            complain(
                one.line,
                format!("{what} is used again"),
                &format!("say `{}`", slot.name),
            );
        } else if one.at >= end {
            let right = format!("begin the body with `local {} = {what}`", slot.name);
            complain(
                one.line,
                format!("{what} is used before it has a name"),
                &right,
            );
        } else if let Some(binding) = bindings.iter().find(|binding| binding.of.at == one.at) {
            if binding.name != slot.name {
                let wrong = format!("{what} is called `{}`", binding.name);
                complain(
                    one.line,
                    wrong,
                    &format!("`{}`, as in the header", slot.name),
                );
            }
        } else {
            complain(
                one.line,
                format!("{what} shares a name"),
                "one name for each value",
            );
        }
    }
}

/// The header lists the answers that exist.
fn tags(script: &Script, fragments: &Fragments, complain: Complain<'_>) {
    let listed: BTreeMap<String, usize> = listed_tags(script);
    let code = script.code();
    let reached = fragments.reached_by(&code);
    let mut given = body::tags(&code);
    let own = given.len();
    given.extend(reached.iter().flat_map(|tokens| body::tags(tokens)));
    for (index, (line, tag)) in given.iter().enumerate() {
        if !listed.contains_key(tag) {
            let line = if index < own {
                *line
            } else {
                script.header.returns.line
            };
            complain(
                line,
                format!("the answer {tag:?} is not in the header"),
                "list it in Returns",
            );
        }
    }
    for (tag, line) in &listed {
        if !given.iter().any(|(_, other)| other == tag) {
            complain(
                *line,
                format!("the answer {tag:?} is never given"),
                "take it out of Returns",
            );
        }
    }
    if listed.is_empty() {
        complain(
            1,
            "the header lists no answers".into(),
            "`Returns {\"tag\", …}   what it means`",
        );
    }
}

pub(super) fn listed_tags(script: &Script) -> BTreeMap<String, usize> {
    let tags = body::tags(&script.header.returns.tokens());
    tags.into_iter().map(|(line, tag)| (tag, line)).collect()
}

fn sections(script: &Script, complain: Complain<'_>) {
    let header = &script.header;
    if header.replay.is_missing() {
        let right =
            "say what the same call does a second time: a lost answer makes clients repeat it";
        complain(1, "the header has no Replay".into(), right);
    }
    if header.writes.is_missing() {
        complain(
            1,
            "the header has no Writes".into(),
            "`Writes lock, fence`, or `Writes nothing`",
        );
        return;
    }
    let text = header.writes.text();
    let names = text
        .split([';', '('])
        .next()
        .unwrap_or_default()
        .split(',')
        .map(str::trim);
    for name in names.filter(|name| *name != "nothing") {
        if !header.of("KEYS").any(|slot| slot.name == name) {
            let right = "the names of KEYS, with commas between them; remarks after a semicolon";
            complain(
                header.writes.line,
                format!("Writes names {name:?}, which is no key"),
                right,
            );
        }
    }
}

fn units(script: &Script, complain: Complain<'_>) {
    let slots = script
        .header
        .of("ARGV")
        .map(|slot| (slot.line, slot.name.clone()));
    let answers = script
        .header
        .answer_names()
        .into_iter()
        .map(|token| (token.line, token.text));
    for (line, name) in slots.chain(answers) {
        let last = name.rsplit('_').next().unwrap_or_default();
        if TIMES.contains(&last) || ["s", "sec", "secs", "seconds"].contains(&last) {
            let right = format!(
                "milliseconds, and a name that ends in {}",
                UNITS.join(" or ")
            );
            complain(line, format!("`{name}` is a time without its unit"), &right);
        }
    }
}

/// What stands in front gives the answer when it has read the time.
fn time(script: &Script, fragments: &Fragments, complain: Complain<'_>) {
    for code in [&script.body, &script.front] {
        let times = fragments.times(code);
        if times > 1 {
            let right = "once, at the start, into a name: one script has one time";
            complain(1, format!("the time is read {times} times"), right);
        }
    }
}
