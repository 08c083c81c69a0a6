//! The prose of a page or of comments: without code, and of links only the words that a reader sees.

use crate::files::File;

/// A line of prose, with its number in the file.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::tidy) struct Line {
    pub(super) number: usize,
    pub(super) prose: String,
}

/// The prose of a page; of a changelog the part that is not released.
pub(in crate::tidy) fn of_page(file: &File) -> Vec<Line> {
    let lines = outside_code(&file.text);
    let changes = file.path.ends_with("CHANGELOG.md");
    let released = |line: &str| line.starts_with("## ") && !line.starts_with("## Unreleased");
    let current = lines
        .into_iter()
        .take_while(|(_, line)| !changes || !released(line));
    let glossary = file.path.ends_with("glossary.md");
    current
        .map(|(number, line)| Line {
            number,
            prose: prose(if glossary {
                without_synonyms(line)
            } else {
                line
            }),
        })
        .collect()
}

/// A row of the glossary without its last cell, which lists the old words on purpose.
fn without_synonyms(row: &str) -> &str {
    let cells = row.trim_end().strip_suffix('|');
    let last = cells.and_then(|cells| cells.rfind('|'));
    last.map_or(row, |last| &row[..last])
}

/// What begins a line of comment in Rust and in Lua; the longer one first, where one begins with another.
const RUST: &[&str] = &["///", "//!", "//"];
const LUA: &[&str] = &["--"];

/// The prose of the comments in a Rust or Lua file, on lines of their own or behind code; nothing of any other file.
pub(in crate::tidy) fn of_comments(file: &File) -> Vec<Line> {
    let starts = match file.path.rsplit_once('.') {
        Some((_, "rs")) => RUST,
        Some((_, "lua")) => LUA,
        _ => return Vec::new(),
    };
    let mut fenced = false;
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        let line = line.trim_start();
        let own = starts.iter().find_map(|start| line.strip_prefix(start));
        let Some(comment) = own.or_else(|| behind_code(line, starts)) else {
            continue;
        };
        let fence = comment.trim_start().starts_with("```");
        fenced ^= fence;
        if !fenced && !fence {
            lines.push(Line {
                number,
                prose: prose(comment),
            });
        }
    }
    lines
}

/// The comment behind the code of a line. Within a string an odd number of quotes comes before it.
fn behind_code<'a>(line: &'a str, starts: &[&str]) -> Option<&'a str> {
    let (code, comment) = line.split_once(&format!(" {} ", starts.last()?))?;
    let quotes = code.matches('"').count();
    quotes.is_multiple_of(2).then_some(comment)
}

/// The lines that are not fenced code, with their numbers.
pub(in crate::tidy) fn outside_code(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if !fenced && !fence {
            lines.push((number, line));
        }
    }
    lines
}

/// A line without code spans and link targets. A link's text stays when it is words, and goes when it is one name.
fn prose(line: &str) -> String {
    // Every second part stands between backticks.
    let line = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let mut prose = String::new();
    let mut rest = &*line;
    while let Some((before, after)) = rest.split_once('[') {
        prose.push_str(before);
        let Some((text, behind)) = after.split_once("](") else {
            rest = after;
            continue;
        };
        if text.contains(' ') {
            prose.push_str(text);
        }
        rest = behind.split_once(')').map_or("", |(_, behind)| behind);
    }
    prose.push_str(rest);
    prose
}
