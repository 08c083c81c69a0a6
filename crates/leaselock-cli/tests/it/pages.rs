//! The shell of the tutorial and of the recipes, as a reader pastes it into an empty folder, and what the pages say that
//! it prints.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::{env, fs};

use crate::common::{Running, Store};

const TUTORIAL: &str = include_str!("../../../../docs/tutorial.md");
const RECIPES: &str = include_str!("../../../../docs/recipes.md");

/// Programs of the reader's that the recipes start, and what each prints.
const PROGRAMS: [(&str, &str); 3] = [
    ("migrate", "migrated to version 42"),
    ("serve", "serving"),
    ("deploy", "deployed"),
];

/// Each block of shell, with the output that the page shows right below it.
fn shell_of(page: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = page.split("```").collect(); // prose and code take turns
    let codes = (1..parts.len()).step_by(2);
    let shells = codes.filter_map(|at| Some((at, parts[at].strip_prefix("sh\n")?)));
    let with_output = shells.map(|(at, shell)| {
        let follows = parts
            .get(at + 2)
            .filter(|_| parts[at + 1].trim().is_empty());
        let output = follows.and_then(|code| code.strip_prefix("text\n"));
        (
            shell,
            output.unwrap_or_else(|| panic!("no output below:\n{shell}")),
        )
    });
    with_output.collect()
}

/// Whether the line is the one on the page, where `…` stands for any text.
fn is_like(line: &str, on_page: &str) -> bool {
    let Some((before, rest)) = on_page.split_once('…') else {
        return line == on_page;
    };
    let Some(line) = line.strip_prefix(before) else {
        return false;
    };
    let ends = line.char_indices().map(|(at, _)| at).chain([line.len()]);
    ends.into_iter().any(|at| is_like(&line[at..], rest))
}

#[track_caller]
fn prints_what_it_says(page: &str) {
    let store = Store::file(); // the folder `locks` in the one that the shell is in
    for (name, says) in PROGRAMS {
        let file = store.path(name);
        fs::write(&file, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let command = Path::new(env!("CARGO_BIN_EXE_leaselock")).parent().unwrap();
    let (folder, path) = (store.path(""), env::var("PATH").unwrap());
    let path = format!("{}:{}:{path}", folder.display(), command.display());
    let blocks = shell_of(page);
    assert!(!blocks.is_empty(), "no shell on the page");
    for (shell, on_page) in blocks {
        let mut command = store.command("sh", &["-c", &format!("exec 2>&1\n{shell}")]);
        command.env("PATH", &path);
        let printed = Running::start(command).end().out;
        let (lines, wanted): (Vec<&str>, Vec<&str>) =
            (printed.lines().collect(), on_page.lines().collect());
        let alike = lines.len() == wanted.len()
            && lines
                .iter()
                .zip(&wanted)
                .all(|(one, two)| is_like(one, two));
        assert!(
            alike,
            "{shell}printed:\n{printed}\nand the page says:\n{on_page}"
        );
    }
}

#[test]
fn the_shell_of_the_tutorial_prints_what_the_page_says() {
    prints_what_it_says(TUTORIAL);
}

#[test]
fn the_shell_of_the_recipes_prints_what_the_page_says() {
    prints_what_it_says(RECIPES);
}

#[test]
fn a_line_that_differs_from_the_page_is_noticed() {
    assert!(is_like("held by x; ends", "held by …; ends"));
    assert!(is_like("x", "…") && is_like("a b c d", "a …c…"));
    for (line, on_page) in [
        ("busy", "bus"),
        ("held by x; end", "held by …; ends"),
        ("b", "a…"),
    ] {
        assert!(!is_like(line, on_page), "{line:?} is no {on_page:?}");
    }
}
