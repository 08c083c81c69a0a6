//! Lists in documents that the source decides: the events that an operator watches, the examples, and the ways of waiting.
//!
//! Such a list is complete on the day when it is written. Who adds an event or an example must learn of the list.

use super::source::Source;
use crate::complaint::Complaint;
use crate::files::File;
use crate::lex::{Language, Token, lex, matches_at, skip_brackets};

const LIBRARIES: [&str; 3] = [
    "crates/leaselock/src/",
    "crates/leaselock-cron/src/",
    "crates/leaselock-tower/src/",
];
/// The page with the table of events, and the heading above it.
const EVENTS_PAGE: (&str, &str) = ("docs/operations.md", "## What to watch");

/// The page that names every wait, and the traits that make one.
const WAITING_PAGE: &str = "docs/internals/waiting.md";
const WAITS: [&str; 2] = ["Attempts", "Callers"];

/// Levels whose events each have a row. Of the others the page may list what it likes.
const WATCHED: [&str; 3] = ["error", "warn", "info"];
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
/// What every event begins with: a filter for `leaselock` shows all of them.
const TARGET: &str = "leaselock";
/// Fields that say what another name says.
const OTHER_NAMES: [(&str, &str); 7] = [
    ("name", "lock"),
    ("service", "server"),
    ("cluster", "server"),
    ("endpoint", "server"),
    ("why", "reason"),
    ("doubt", "reason"),
    ("lost", "error"),
];

/// Pages of parts in which the order in time matters.
const WITH_PICTURE: [&str; 13] = [
    "docs/cluster.md",
    "docs/cron.md",
    "docs/election.md",
    "docs/fencing.md",
    "docs/guarantees.md",
    "docs/latch.md",
    "docs/mutex.md",
    "docs/once.md",
    "docs/owner.md",
    "docs/quorum.md",
    "docs/rwlock.md",
    "docs/sentinel.md",
    "docs/strict.md",
];

pub(super) fn check(all: &[File], found: &mut Vec<Complaint>) {
    pictures(all, found);
    if let Some(page) = all.iter().find(|file| file.path == EVENTS_PAGE.0) {
        events(&events_of(all), page, found);
    }
    if let Some(readme) = all.iter().find(|file| file.path == "docs/README.md") {
        examples(all, readme, found);
    }
    if let Some(page) = all.iter().find(|file| file.path == WAITING_PAGE) {
        waits(all, page, found);
    }
}

/// An event of the library.
struct Event<'a> {
    file: &'a str,
    line: usize,
    level: String,
    message: String,
    /// Where it is shown, and by which names.
    target: String,
    fields: Vec<String>,
}

/// The libraries' files without those of tests, as tokens.
fn library(all: &[File]) -> Vec<(Source<'_>, Vec<Token>)> {
    let code = all.iter().map(Source::of);
    let is_library = |path: &str| LIBRARIES.iter().any(|folder| path.starts_with(folder));
    let code = code.filter(|file| is_library(file.path) && file.path.ends_with(".rs"));
    let code = code.filter(|file| !file.is_test());
    let lexed = code.map(|file| {
        let tokens = lex(file.text, Language::Rust);
        (file, tokens)
    });
    lexed.collect()
}

fn events_of(all: &[File]) -> Vec<Event<'_>> {
    let code = library(all);
    let mut events = Vec::new();
    for (file, tokens) in &code {
        let tests_from = file.tests_from();
        for (at, token) in tokens.iter().enumerate() {
            let level = tokens.get(at + 3).map_or("", |level| level.text.as_str());
            let is_event = matches_at(tokens, at, &["tracing", ":", ":", level, "!", "("]);
            if !is_event || !LEVELS.contains(&level) || token.line >= tests_from {
                continue;
            }
            let body = &tokens[at + 5..skip_brackets(tokens, at + 5)];
            let message = body.iter().rev().find_map(Token::string);
            let target = body.iter().find_map(Token::string).unwrap_or_default();
            let fields = body.iter().skip(1).map(|token| token.text.clone());
            let fields: Vec<String> = fields.collect();
            let messages = match message {
                // The message is a constant, which may have a value for each implementation of a trait.
                Some("{}") => {
                    let name = body[body.len() - 2].text.as_str();
                    let texts = code.iter().flat_map(|(_, tokens)| constants(tokens, name));
                    texts.collect()
                }
                message => vec![message.unwrap_or_default().to_owned()],
            };
            events.extend(messages.into_iter().map(|message| Event {
                file: file.path,
                line: token.line,
                level: level.to_owned(),
                message,
                target: target.to_owned(),
                fields: fields.clone(),
            }));
        }
    }
    events
}

/// The texts of the constants of this name.
fn constants(tokens: &[Token], name: &str) -> Vec<String> {
    let begins = (0..tokens.len()).filter(|at| matches_at(tokens, *at, &["const", name, ":"]));
    let text = |at: usize| {
        let declared = tokens[at..].iter().take_while(|token| !token.is(";"));
        declared.filter_map(Token::string).last()
    };
    begins.filter_map(text).map(str::to_owned).collect()
}

/// Compares the events with the table. A cell names an event by the beginning of its message.
fn events(events: &[Event<'_>], page: &File, found: &mut Vec<Complaint>) {
    let numbered = (1..).zip(page.text.lines());
    let rows = numbered
        .skip_while(|(_, line)| *line != EVENTS_PAGE.1)
        .skip_while(|(_, line)| !line.starts_with("| event |"))
        .skip(2)
        .take_while(|(_, line)| line.starts_with('|'));
    let mut listed = Vec::new();
    for (number, row) in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, names, level, ..] = cells[..] else {
            continue;
        };
        let names = names.split('`').skip(1).step_by(2);
        listed.extend(names.map(|name| (number, name, level)));
    }
    for event in events {
        if event.target != TARGET {
            let wrong = format!("the event {:?} has another target", event.message);
            let right = format!("begin with `target: {TARGET:?}`");
            found.push(Complaint::new(event.file, event.line, wrong, right));
        }
        for (other, right) in OTHER_NAMES {
            if event.fields.iter().any(|field| field == other)
                && !event.fields.contains(&right.to_owned())
            {
                let wrong = format!("the event {:?} has the field `{other}`", event.message);
                found.push(Complaint::new(
                    event.file,
                    event.line,
                    wrong,
                    format!("`{right}`"),
                ));
            }
        }
    }
    for event in events.iter().filter(|one| WATCHED.contains(&&*one.level)) {
        let row = |(_, name, level): &(usize, &str, &str)| {
            event.message.starts_with(name) && event.level == *level
        };
        if !listed.iter().any(row) {
            let wrong = format!("the event {:?} has no row", event.message);
            let right = format!(
                "a row of level {} in {}, *What to watch*",
                event.level, page.path
            );
            found.push(Complaint::new(event.file, event.line, wrong, right));
        }
    }
    for (line, name, level) in listed {
        let is_it = |one: &Event<'_>| one.message.starts_with(name) && one.level == level;
        if !events.iter().any(is_it) {
            let wrong = format!("the library has no event {name:?} of level {level}");
            let right = "the beginning of a message in the source, and its level";
            found.push(Complaint::new(&page.path, line, wrong, right));
        }
    }
}

fn examples(all: &[File], readme: &File, found: &mut Vec<Complaint>) {
    let examples = all.iter().filter_map(|file| {
        let within = file.path.strip_prefix("crates/")?;
        let (_, name) = within.split_once("/examples/")?;
        let name = name.strip_suffix(".rs")?;
        (!name.contains('/')).then_some((file, name))
    });
    for (file, name) in examples {
        if !readme
            .text
            .contains(&format!("| [{name}](../{})", file.path))
        {
            let wrong = format!("the example {name:?} is not listed");
            let right = "a row in docs/README.md, *Examples*, with the question that it answers";
            found.push(Complaint::new(&file.path, 0, wrong, right));
        }
    }
}

fn pictures(all: &[File], found: &mut Vec<Complaint>) {
    let pages = all
        .iter()
        .filter(|page| WITH_PICTURE.contains(&&*page.path));
    for page in pages.filter(|page| !page.text.contains("\n```mermaid\n")) {
        let right = "a sequence diagram in Mermaid, as docs/fencing.md has one";
        found.push(Complaint::new(&page.path, 0, "no picture", right));
    }
}

/// `impl … Attempt for NAME` is one way of waiting.
fn waits(all: &[File], page: &File, found: &mut Vec<Complaint>) {
    for (file, tokens) in library(all) {
        let before_tests = tokens
            .iter()
            .take_while(|token| token.line < file.tests_from());
        let before_tests: Vec<&Token> = before_tests.collect();
        for three in before_tests.windows(3) {
            let is_one = WAITS.iter().any(|wait| three[0].is(wait)) && three[1].is("for");
            let name = &three[2].text;
            if is_one && !page.text.contains(&format!("`{name}`")) {
                let wrong = format!("the {} {name:?} is not listed", three[0].text);
                let right = format!("a row in {}, *One loop*", page.path);
                found.push(Complaint::new(file.path, three[2].line, wrong, right));
            }
        }
    }
}
