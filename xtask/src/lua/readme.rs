//! The tables of fragments and scripts in `lua/README.md`, made from the headers.

use std::fmt::Write;

use super::fragment::Fragments;
use super::header::Slot;
use super::sources::Script;

const INTRO: &str = "\
# Scripts

<!-- Written by `cargo xtask lua --write` from the headers; change those. -->

An atomic step on a lock of leaselock's own is one script. Redis, Valkey and the embedded store run it; one whose header says *On servers only* runs there alone.
A line `--#include prelude fence` in a script stands for the functions of these files, its fragments; what stands above it does without them.
A line `--#inline mint` stands for the lines of `inline/mint.lua`.
The lines between `--#strict` and `--#end` are there in strict mode only.
The lines between `--#plain` and `--#end` serve plain cases without functions; a test shows that the lines below give the same replies and leave the same keys (`src/script_tests/plain_cases.rs`).
The header of each script is its contract: `cargo xtask lua` compares it with the body and with the Rust half.

## Fragments

| fragment | what it has |
|---|---|
";
const SCRIPTS: &str = "
## The scripts

| script | what it does | keys | arguments | answers | the same call again |
|---|---|---|---|---|---|
";

pub(super) fn table(scripts: &[Script], fragments: &Fragments) -> String {
    let mut text = INTRO.to_owned();
    for (name, summary) in fragments.summaries() {
        let summary = cell(&summary);
        writeln!(text, "| [`{name}`]({name}.lua) | {summary} |")
            .expect("a string can be written to");
    }
    text.push_str(SCRIPTS);
    for script in scripts {
        let Script { name, header, .. } = script;
        let keys = names(header.of("KEYS"));
        let args = names(header.of("ARGV"));
        let answers = answers(&header.returns.lines);
        let (summary, replay) = (cell(&header.summary.text()), cell(&header.replay.text()));
        let link = format!("[`{name}`]({name}.lua)");
        writeln!(
            text,
            "| {link} | {summary} | {keys} | {args} | {answers} | {replay} |"
        )
        .expect("a string can be written to");
    }
    text
}

fn names<'a>(slots: impl Iterator<Item = &'a Slot>) -> String {
    let name = |slot: &Slot| format!("`{}{}`", slot.name, if slot.open_ended { "…" } else { "" });
    let names: Vec<String> = slots.map(name).collect();
    if names.is_empty() {
        "–".to_owned()
    } else {
        names.join(", ")
    }
}

/// The part in braces of each line that begins with one.
fn answers(lines: &[String]) -> String {
    let answer = |line: &String| {
        let end = line.rfind('}').filter(|_| line.starts_with('{'))?;
        Some(format!("`{}`", cell(&line[..=end])))
    };
    lines
        .iter()
        .filter_map(answer)
        .collect::<Vec<_>>()
        .join("<br>")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
