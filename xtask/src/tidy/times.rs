//! The table of all times: what ends or repeats after how long, with the constant that says so.
//!
//! An operator who sees a pause of five seconds finds it here. The table is made from the constants and the comments
//! above them, so that no time is missing and none is said twice.

use super::source::Source;
use crate::complaint::Complaint;
use crate::files::File;

pub(super) const PAGE: &str = "docs/internals/times.md";
const FOLDERS: [&str; 5] = [
    "crates/leaselock/src/",
    "crates/leaselock-cron/src/",
    "crates/leaselock-tower/src/",
    "crates/leaselock-cli/src/",
    "crates/leaselock/lua/",
];
const INTRODUCTION: &str = "\
# Times

For maintainers, and for operators who wonder about a pause: everything that ends or is repeated after a fixed time.
`cargo xtask tidy --write` makes this table from the constants and their comments; `cargo xtask tidy` compares.

| time | what | constant |
|---|---|---|
";

/// A constant that is a time.
#[derive(Debug, PartialEq, Eq)]
struct Time {
    line: usize,
    name: String,
    value: String,
    what: String,
}

/// Compares the page with the constants.
pub(super) fn check(all: &[File], found: &mut Vec<Complaint>) {
    let wanted = page(all, found);
    let there = all.iter().find(|file| file.path == PAGE);
    let there = there.map_or("", |file| file.text.as_str());
    let made = ("the constants", "cargo xtask tidy --write");
    found.extend(Complaint::of_page(PAGE, there, &wanted, made));
}

/// The page as it should be, and constants without a comment.
pub(super) fn page(all: &[File], found: &mut Vec<Complaint>) -> String {
    let mut page = INTRODUCTION.to_owned();
    let sources = all.iter().map(Source::of).filter(|source| {
        FOLDERS.iter().any(|folder| source.path.starts_with(folder)) && !is_test(source)
    });
    for source in sources {
        for time in times(&source) {
            if time.what.is_empty() {
                let wrong = format!("{} says how long, and not what for", time.name);
                let right = "a comment above it that says what ends or is repeated";
                found.push(Complaint::new(source.path, time.line, wrong, right));
            }
            let path = source.path.trim_start_matches("crates/");
            let Time {
                name, value, what, ..
            } = time;
            page += &format!("| {value} | {what} | `{name}`, `{path}` |\n");
        }
    }
    page
}

fn is_test(source: &Source<'_>) -> bool {
    source.is_test() || source.file_name().ends_with("_tests.rs")
}

fn times(source: &Source<'_>) -> Vec<Time> {
    let is_lua = source.path.ends_with(".lua");
    let tests_from = source.tests_from();
    let (mut times, mut comment, mut belongs) = (Vec::new(), String::new(), false);
    for (number, line) in (1..).zip(source.text.lines()) {
        if number >= tests_from {
            break;
        }
        let line = line.trim();
        if let Some(text) = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("// "))
        {
            if belongs {
                (comment, belongs) = (String::new(), false);
            }
            comment = format!("{comment} {}", text.trim());
            continue;
        }
        let constant = if is_lua { of_lua(line) } else { of_rust(line) };
        if let Some((name, value, after)) = constant {
            let what = after.unwrap_or_else(|| first_sentence(&comment));
            let value = if is_lua {
                value
            } else {
                readable(&value, source.text)
            };
            times.push(Time {
                line: number,
                name,
                value,
                what,
            });
            belongs = true; // what follows at once has the same comment, unless it has one of its own
        } else if is_constant(line) {
            belongs = true;
        } else if !line.starts_with("#[") {
            (comment, belongs) = (String::new(), false);
        }
    }
    times
}

fn is_constant(line: &str) -> bool {
    line.split_whitespace().take(2).any(|word| word == "const")
}

/// `const NAME: Duration = …;` and the like: name and value.
fn of_rust(line: &str) -> Option<(String, String, Option<String>)> {
    let at = line
        .find("const ")
        .filter(|at| *at == 0 || line.starts_with("pub"))?;
    let (name, rest) = line[at + "const ".len()..].split_once(':')?;
    let (kind, value) = rest.split_once('=')?;
    let kind = kind.trim();
    let is_time = kind == "Duration"
        || kind.starts_with("[Duration;")
        || kind == "Ttl"
        || (kind == "&[u64]" && name.ends_with("_MS"));
    let value = value.trim().trim_end_matches([';', '{']).trim();
    is_time.then(|| (name.to_owned(), value.to_owned(), None))
}

/// `local NAME_MS = 5000 -- what` of a script.
fn of_lua(line: &str) -> Option<(String, String, Option<String>)> {
    let (name, rest) = line.strip_prefix("local ")?.split_once('=')?;
    let name = name.trim();
    let unit = ["_MS", "_US"]
        .into_iter()
        .find(|unit| name.ends_with(unit))?;
    let is_constant = name
        .bytes()
        .all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    let (value, comment) = rest.split_once("--").unwrap_or((rest, ""));
    let value = value.trim().trim_matches('\'');
    let number = value.parse::<u64>().ok().filter(|_| is_constant)?;
    let us = if unit == "_MS" { number * 1000 } else { number };
    Some((name.to_owned(), micros(us), Some(first_sentence(comment))))
}

/// The first sentence of a comment, with a capital and a cell's worth of it.
fn first_sentence(comment: &str) -> String {
    let text = comment.trim().replace('|', "\\|");
    let end = text.find(". ").unwrap_or(text.len());
    let sentence = text[..end].trim_end_matches('.');
    let mut letters = sentence.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// The value in the largest unit that fits.
fn readable(value: &str, file: &str) -> String {
    let parts = value.trim_start_matches('&').trim_matches(['[', ']']);
    if value.starts_with("&[") {
        let each = parts.split(',').filter_map(product);
        return each
            .map(|ms| micros(ms * 1000))
            .collect::<Vec<_>>()
            .join(", ");
    }
    let units = [
        ("from_secs(", 1_000_000),
        ("from_millis(", 1000),
        ("from_micros(", 1),
        ("whole_ms(", 1000),
    ];
    let mut found: Vec<(usize, String)> = Vec::new();
    for (unit, us) in units {
        for (at, _) in value.match_indices(unit) {
            let inside = value[at + unit.len()..]
                .split(')')
                .next()
                .unwrap_or_default();
            if let Some(number) = product(inside) {
                found.push((at, micros(number * us)));
            }
        }
    }
    found.sort();
    if !found.is_empty() {
        return found
            .into_iter()
            .map(|(_, text)| text)
            .collect::<Vec<_>>()
            .join(", ");
    }
    if let Some((name, times)) = value.split_once(".saturating_mul(") {
        let times = product(times.trim_end_matches(')'));
        let unit = file.lines().find_map(|line| {
            let (its, value, _) = of_rust(line.trim())?;
            (its == name).then_some(value)
        });
        let unit =
            unit.and_then(|unit| product(unit.split_once("from_secs(")?.1.trim_end_matches(')')));
        if let (Some(times), Some(unit)) = (times, unit) {
            return micros(times * unit * 1_000_000);
        }
    }
    format!("`{value}`")
}

/// `7 * 24 * 60`, as a number.
fn product(text: &str) -> Option<u64> {
    let factors = text
        .split('*')
        .map(|one| one.trim().replace('_', "").parse::<u64>().ok());
    factors.product()
}

fn micros(us: u64) -> String {
    const UNITS: [(u64, &str); 6] = [
        (86_400_000_000, "days"),
        (3_600_000_000, "h"),
        (60_000_000, "min"),
        (1_000_000, "s"),
        (1000, "ms"),
        (1, "µs"),
    ];
    let unit = UNITS
        .iter()
        .find(|(unit, _)| us >= *unit && us.is_multiple_of(*unit));
    match unit {
        Some((unit, name)) if us / unit == 1 && *name == "days" => "1 day".to_owned(),
        Some((unit, name)) => format!("{} {name}", us / unit),
        None => us.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn every_time_has_a_row_with_what_it_is_for() {
        let rust = "\
            /// How long a record lasts. More is said elsewhere.\n\
            pub const KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);\n\
            const DAY: Duration = Duration::from_secs(86_400);\n\
            /// Between two tries; the last one repeats.\n\
            const PAUSES_MS: &[u64] = &[0, 50, 3000];\n\
            /// For a month.\n\
            const MONTH: Duration = DAY.saturating_mul(30);\n\
            #[cfg(test)]\nmod tests {\nconst LONG: Duration = Duration::from_secs(60);\n}\n";
        let lua = "local GONE_MS = 45000 -- a waiter that does not poll for so long is gone\nlocal now_ms = 3\n";
        let all = [
            file("crates/leaselock/src/a.rs", rust),
            file("crates/leaselock/lua/queue.lua", lua),
        ];
        let mut found = Vec::new();
        let page = page(&all, &mut found);
        let rows: Vec<&str> = page.lines().skip(7).collect();
        assert_eq!(
            rows,
            [
                "| 7 days | How long a record lasts | `KEPT`, `leaselock/src/a.rs` |",
                "| 1 day | How long a record lasts | `DAY`, `leaselock/src/a.rs` |",
                "| 0, 50 ms, 3 s | Between two tries; the last one repeats | `PAUSES_MS`, `leaselock/src/a.rs` |",
                "| 30 days | For a month | `MONTH`, `leaselock/src/a.rs` |",
                "| 45 s | A waiter that does not poll for so long is gone | `GONE_MS`, `leaselock/lua/queue.lua` |",
            ]
        );
        assert_eq!(found, []);
    }

    #[test]
    fn a_time_without_a_comment_is_refused_and_so_is_an_old_page() {
        let bare = "fn a() {}\n\nconst WITHIN: Duration = Duration::from_secs(1);\n";
        let all = [file("crates/leaselock/src/a.rs", bare), file(PAGE, "old")];
        let mut found = Vec::new();
        check(&all, &mut found);
        let said: Vec<String> = found.iter().map(Complaint::to_string).collect();
        assert!(said[0].contains("a.rs:3: WITHIN says how long"), "{said:?}");
        assert!(
            said[1].contains("is not what the constants say"),
            "{said:?}"
        );
    }
}
