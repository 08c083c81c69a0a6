//! What must be true of the markers of a script: each fragment that it names exists and is needed, and each that it needs
//! is named above.

use std::collections::BTreeSet;

use super::fragment::Fragments;
use super::markers::Include;
use super::sources::Script;
use crate::complaint::Complaint;

pub(super) fn check(script: &Script, fragments: &Fragments, found: &mut Vec<Complaint>) {
    let mut complain = |line: usize, wrong: String, right: &str| {
        found.push(Complaint::new(&script.file.path, line, wrong, right));
    };
    for (line, wrong) in &script.wrong_markers {
        let right =
            "`--#include NAME…`, `--#inline NAME`, or `--#strict` or `--#plain` with its `--#end`";
        complain(*line, wrong.clone(), right);
    }
    let plain: Vec<&Include> = script.includes.iter().filter(|one| !one.strict).collect();
    let all: Vec<&Include> = script.includes.iter().collect();
    for (code, visible) in [(&script.body, &plain), (&script.front, &all)] {
        let mut said = BTreeSet::new();
        for (line, name, fragment) in fragments.used_by(code) {
            let above = visible.iter().filter(|include| include.line < line);
            let named = above
                .flat_map(|include| &include.names)
                .any(|n| n == fragment);
            if !named && said.insert(fragment) {
                let wrong = format!("`{name}` is of {fragment}, which no marker above includes");
                complain(line, wrong, "name the fragment there, or do without");
            }
        }
    }
    order(&all, fragments, &mut complain);
    needed(script, &all, fragments, &mut complain);
}

/// Each fragment stands behind those that it uses.
fn order(all: &[&Include], fragments: &Fragments, complain: &mut impl FnMut(usize, String, &str)) {
    let mut before = BTreeSet::new();
    for include in all {
        for name in &include.names {
            let Some(code) = fragments.code_of(name) else {
                let right = "a file of this name in lua/";
                complain(
                    include.line,
                    format!("there is no fragment {name:?}"),
                    right,
                );
                continue;
            };
            let used = fragments.used_by(code).into_iter();
            let missing = used
                .map(|(.., other)| other)
                .find(|other| !before.contains(*other));
            if let Some(other) = missing {
                let wrong = format!("{name} uses {other}, which does not stand before it");
                complain(include.line, wrong, "name it first");
            }
            if !before.insert(name.as_str()) {
                complain(include.line, format!("{name} is included again"), "once");
            }
        }
    }
}

/// The script uses each fragment, by itself or through another.
fn needed(
    script: &Script,
    all: &[&Include],
    fragments: &Fragments,
    complain: &mut impl FnMut(usize, String, &str),
) {
    let code = script.code();
    let mut needed = BTreeSet::new();
    let mut todo: Vec<&str> = fragments.used_by(&code).iter().map(|used| used.2).collect();
    while let Some(name) = todo.pop() {
        if needed.insert(name) {
            let code = fragments.code_of(name).unwrap_or_default();
            todo.extend(fragments.used_by(code).iter().map(|used| used.2));
        }
    }
    for include in all {
        for name in include
            .names
            .iter()
            .filter(|name| !needed.contains(name.as_str()))
        {
            if fragments.code_of(name).is_some() {
                let wrong = format!("nothing here uses {name}");
                complain(include.line, wrong, "leave the fragment out");
            }
        }
    }
}
