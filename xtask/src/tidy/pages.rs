//! What all pages have: a place in the index, a line of navigation, and bounds on how much there is to read.
//!
//! The tables of `docs/README.md` are the index and the order of reading. The bounds lie in `xtask/pages.txt`.

use super::documents;
use super::prose::outside_code;
use crate::complaint::Complaint;
use crate::files::File;

const INDEX: &str = "docs/README.md";
/// A line for each page: its path, the words that it should have, and the words that it may have until it is shorter.
/// `--write` lowers the last to what there is, and raises none.
pub(super) const BOUNDS: &str = "xtask/pages.txt";
const WRITE: &str = "cargo xtask tidy --write";
const NAVIGATION: &str = "[documents](README.md) · ";
/// Bounds are such multiples, so that a page may get a sentence.
const ROUND: usize = 50;
/// So far below its bound a page may be before the bound has to follow.
const SLACK: usize = 100;
/// More words than this in a cell make a table hard to read.
const CELL: usize = 45;
/// More words than this in a sentence make a reader begin again.
const SENTENCE: usize = 30;

pub(super) fn check(all: &[File], found: &mut Vec<Complaint>) {
    let order = order(all);
    for page in all.iter().filter(|page| is_page(&page.path)) {
        match navigated(page, &order) {
            None => {
                let right = "a link in a table of docs/README.md";
                found.push(Complaint::new(&page.path, 0, "is not in the index", right));
            }
            Some(text) => {
                let made = ("the tables of docs/README.md", WRITE);
                found.extend(Complaint::of_page(&page.path, &page.text, &text, made));
            }
        }
    }
    let bounds = bounds(all);
    for page in all.iter().filter(|page| is_bounded(&page.path)) {
        let mut complain = |line, wrong: String, right: String| {
            found.push(Complaint::new(&page.path, line, wrong, right));
        };
        for (line, wrong) in outside_code(&page.text).into_iter().flat_map(too_long) {
            complain(
                line,
                wrong,
                "say it in several, or below the table".to_owned(),
            );
        }
        let now = page.text.split_whitespace().count();
        match bounds.iter().find(|(path, ..)| *path == page.path) {
            None => complain(0, "has no bound".to_owned(), format!("a line in {BOUNDS}")),
            Some((_, _, most)) if now > *most => {
                let right = format!("at most {most}, as in {BOUNDS}: move it, or say less");
                complain(0, format!("has {now} words"), right);
            }
            Some((_, planned, most)) if *most > (now + SLACK).max(*planned) => {
                let wrong = format!("has {now} words, and may have {most}");
                complain(0, wrong, format!("run `{WRITE}`"));
            }
            Some(_) => {}
        }
    }
}

/// The pages with their lines of navigation.
pub(super) fn with_navigation(all: &[File]) -> Vec<(String, String)> {
    let order = order(all);
    let made = order
        .iter()
        .map(|page| Some((page.path.clone(), navigated(page, &order)?)));
    made.flatten().collect()
}

/// The bounds, lowered to what the pages have, without pages that are gone.
pub(super) fn lowered(all: &[File]) -> Option<(String, String)> {
    let file = all.iter().find(|file| file.path == BOUNDS)?;
    let heads = file.text.lines().filter(|line| line.starts_with('#'));
    let mut text: String = heads.map(|line| format!("{line}\n")).collect();
    for (path, planned, most) in bounds(all) {
        if let Some(page) = all.iter().find(|page| page.path == path) {
            let now = page.text.split_whitespace().count();
            let most = most.min(now.next_multiple_of(ROUND)).max(planned);
            text += &format!("{path} {planned} {most}\n");
        }
    }
    Some((BOUNDS.to_owned(), text))
}

fn is_page(path: &str) -> bool {
    let name = path.strip_prefix("docs/").filter(|_| path != INDEX);
    name.is_some_and(|name| name.ends_with(".md") && !name.contains('/'))
}

fn is_bounded(path: &str) -> bool {
    is_page(path) || [INDEX, "README.md"].contains(&path)
}

/// The pages in the order of the first link to each in the tables of the index.
fn order(all: &[File]) -> Vec<&File> {
    let index = all.iter().find(|file| file.path == INDEX);
    let rows = index.map_or("", |file| &file.text).lines();
    let rows: Vec<&str> = rows.filter(|line| line.starts_with('|')).collect();
    let mut order: Vec<&File> = Vec::new();
    for (_, target) in documents::link_targets(&rows.join("\n")) {
        let path = format!("docs/{target}");
        let page = all.iter().find(|file| file.path == path && is_page(&path));
        order.extend(page.filter(|page| !order.contains(page)));
    }
    order
}

/// The page with its line of navigation below the title; `None` when the index lacks it.
fn navigated(page: &File, order: &[&File]) -> Option<String> {
    let at = order.iter().position(|one| one.path == page.path)?;
    let link = |page: &File| {
        let title = page.text.lines().next().unwrap_or_default();
        let title = title.trim_start_matches("# ");
        format!("[{title}]({})", page.path.trim_start_matches("docs/"))
    };
    let before = at.checked_sub(1).map(|at| format!("← {}", link(order[at])));
    let next = order.get(at + 1).map(|page| format!("{} →", link(page)));
    let sides: Vec<String> = before.into_iter().chain(next).collect();
    let (title, rest) = page.text.split_once("\n\n")?;
    let old = rest.strip_prefix(NAVIGATION);
    let body = old
        .and_then(|old| old.split_once("\n\n"))
        .map_or(rest, |(_, body)| body);
    Some(format!(
        "{title}\n\n{NAVIGATION}{}\n\n{body}",
        sides.join(" · ")
    ))
}

/// Of each page the words that it should have, and those that it may have.
fn bounds(all: &[File]) -> Vec<(&str, usize, usize)> {
    let file = all.iter().find(|file| file.path == BOUNDS);
    let lines = file.map_or("", |file| &file.text).lines();
    let bounds = lines.filter_map(|line| {
        let [path, planned, most] = line.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        Some((path, planned.parse().ok()?, most.parse().ok()?))
    });
    bounds.collect()
}

/// What is too long in a line: cells of a row, or sentences.
fn too_long((number, line): (usize, &str)) -> Vec<(usize, String)> {
    let read = as_read(line);
    let (what, most, parts): (_, _, Vec<String>) = if line.starts_with('|') {
        let cells = read.split('|').map(str::to_owned);
        ("a cell", CELL, cells.collect())
    } else if line.starts_with('#') || line.starts_with(NAVIGATION) {
        return Vec::new();
    } else {
        let ends = |word: &&str| {
            let word = word.trim_end_matches([')', '*']);
            word.ends_with(['.', '?', '!', ':'])
        };
        let all: Vec<&str> = read.split_whitespace().collect();
        let sentences = all.split_inclusive(ends).map(|words| words.join(" "));
        ("a sentence", SENTENCE, sentences.collect())
    };
    let lengths = parts.iter().map(|part| words(part));
    let long = lengths.filter(|words| *words > most);
    long.map(|words| {
        (
            number,
            format!("{what} has {words} words, more than {most}"),
        )
    })
    .collect()
}

/// The line as a reader sees it: code is one word, and a link its text.
fn as_read(line: &str) -> String {
    // Every second part stands between backticks.
    let parts = line.split('`').enumerate();
    let line: String = parts
        .map(|(at, part)| if at % 2 == 0 { part } else { "x" })
        .collect();
    let parts = line.split("](").enumerate();
    let read = parts.map(|(at, part)| match at {
        0 => part,
        _ => part.split_once(')').map_or("", |(_, behind)| behind),
    });
    read.collect()
}

/// How many there are that have a letter or a digit.
fn words(text: &str) -> usize {
    let words = text.split_whitespace();
    words
        .filter(|word| word.contains(char::is_alphanumeric))
        .count()
}
