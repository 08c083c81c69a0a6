//! What all pages have: a place in the index, a line of navigation, and bounds on how much there is to read.
//!
//! The tables of `docs/README.md` are the index and the order of reading. The bounds lie in `xtask/pages.txt`.

use super::documents;
use super::prose::outside_code;
use crate::complaint::Complaint;
use crate::files::File;

const INDEX: &str = "docs/README.md";
/// A line for each page: its path, the words that it should have, the words that it may have until it is shorter, and how
/// many of its cells and sentences may be too long. `--write` lowers these to what there is, and raises none.
pub(super) const BOUNDS: &str = "xtask/pages.txt";
const WRITE: &str = "cargo xtask tidy --write";
const NAVIGATION: &str = "[documents](README.md) · ";
/// More words than this in a cell make a table hard to read.
const CELL: usize = 45;
/// More words than this in a sentence make a reader begin again.
const SENTENCE: usize = 30;
/// Bounds on words are such multiples, so that a page may get a sentence.
const ROUND: usize = 50;
/// So far below its bound a page may be before the bound has to follow: words, and the others.
const SLACK: [usize; 3] = [100, 3, 3];
const COUNTED: [&str; 3] = [
    "words",
    "cells of more than 45 words",
    "sentences of more than 30 words",
];

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
        let Some(bound) = bounds.iter().find(|bound| bound.path == page.path) else {
            let right = format!("a line in {BOUNDS}");
            found.push(Complaint::new(&page.path, 0, "has no bounds", right));
            continue;
        };
        for (at, lines) in measure(&page.text).iter().enumerate() {
            let (now, most, what) = (lines.len(), bound.most[at], COUNTED[at]);
            if now > most {
                let lines = if at == 0 { &[] } else { &lines[..] };
                let wrong = format!("has {now} {what} {lines:?}");
                let right = format!("at most {most}, as in {BOUNDS}");
                found.push(Complaint::new(&page.path, 0, wrong, right));
            } else if most > (now + SLACK[at]).max(bound.planned[at]) {
                let wrong = format!("has {now} {what}, and may have {most}");
                found.push(Complaint::new(
                    &page.path,
                    0,
                    wrong,
                    format!("run `{WRITE}`"),
                ));
            }
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
    for Bound {
        path,
        planned,
        most,
    } in bounds(all)
    {
        if let Some(page) = all.iter().find(|page| page.path == path) {
            let mut now = measure(&page.text).map(|lines| lines.len());
            now[0] = now[0].next_multiple_of(ROUND);
            let [words, cells, sentences] =
                [0, 1, 2].map(|at| most[at].min(now[at]).max(planned[at]));
            text += &format!("{path} {} {words} {cells} {sentences}\n", planned[0]);
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

/// A line of the bounds. Of cells and sentences none should be too long.
struct Bound {
    path: String,
    planned: [usize; 3],
    most: [usize; 3],
}

fn bounds(all: &[File]) -> Vec<Bound> {
    let file = all.iter().find(|file| file.path == BOUNDS);
    let bound = |text: &str| {
        let (path, numbers) = text.split_once(' ')?;
        let numbers: Result<Vec<usize>, _> = numbers.split(' ').map(str::parse).collect();
        let [planned, words, cells, sentences] = numbers.ok()?[..] else {
            return None;
        };
        Some(Bound {
            path: path.to_owned(),
            planned: [planned, 0, 0],
            most: [words, cells, sentences],
        })
    };
    let lines = file.map_or("", |file| &file.text).lines();
    lines.filter_map(bound).collect()
}

/// In which line each word stands, each cell that is too long, and each sentence that is too long.
fn measure(text: &str) -> [Vec<usize>; 3] {
    let [mut all, mut cells, mut sentences] = [(); 3].map(|()| Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        all.extend(line.split_whitespace().map(|_| number));
    }
    for (number, line) in outside_code(text) {
        let read = as_read(line);
        if line.starts_with('|') {
            let long = read.split('|').filter(|cell| words(cell) > CELL);
            cells.extend(long.map(|_| number));
        } else if !line.starts_with('#') && !line.starts_with(NAVIGATION) {
            let ends = |word: &&str| word.ends_with(['.', '?', '!', ':']);
            let all: Vec<&str> = read.split_whitespace().collect();
            let long = all.split(|word| ends(&word.trim_end_matches([')', '*'])));
            // The word that ends a sentence belongs to none of the parts.
            let long = long.filter(|part| words(&part.join(" ")) >= SENTENCE);
            sentences.extend(long.map(|_| number));
        }
    }
    [all, cells, sentences]
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
