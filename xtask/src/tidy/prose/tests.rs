//! Each rule against a page that breaks it, and against one that seems to break it but does not.

use super::*;

fn complaints(path: &str, text: &str) -> Vec<String> {
    let file = File {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    let mut found = Vec::new();
    check(&[file], &mut found);
    found.iter().map(Complaint::to_string).collect()
}

const PAGE: &str = "docs/mutex.md";

#[test]
fn an_old_word_is_named_with_file_line_and_the_standard_term() {
    assert_eq!(
        complaints(PAGE, "# Mutex\n\nA waiter gets in line.\n"),
        ["docs/mutex.md:3: says \"in line\"; the standard term: queue, in the queue, position"]
    );
    for (sentence, word) in [
        ("Whoever is first LOOKS every second.", "whoever"),
        ("Whoever is first LOOKS every second.", "looks"),
        ("The tasks share a seat.", "seat"),
        ("The lease runs out.", "runs out"),
        ("| who | looks |\n|---|---|", "looks"),
        ("[looks every second](a.md)", "looks"),
    ] {
        let found = complaints(PAGE, sentence);
        let named = found
            .iter()
            .any(|one| one.starts_with(&format!("docs/mutex.md:1: says {word:?}")));
        assert!(named, "{sentence}: {found:?}");
    }
}

#[test]
fn code_names_and_plain_senses_are_left_alone() {
    for text in [
        "`looks` and [bells.rs](../src/bells.rs) and [the](party/seat.rs)",
        "```text\nwhoever looks\n```",
        "The parser of one party; it runs out of memory; in line with this.",
        "A string that outlooks the ringing of bellows: spring, command line, deadline.",
        "The text says `in line` and `whoever`.",
    ] {
        assert_eq!(complaints(PAGE, text), [""; 0], "{text}");
    }
    assert_eq!(complaints("peers/README.md", "whoever"), [""; 0]);
}

#[test]
fn of_a_changelog_the_rule_reads_the_part_that_is_not_released() {
    let text = "# Changelog\n\n## Unreleased\n\n- Nobody waits.\n\n## 0.1.0\n\n- Nobody waits.\n";
    let found = complaints("CHANGELOG.md", text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("CHANGELOG.md:5:"), "{found:?}");
}

#[test]
fn the_glossary_may_list_old_words_as_synonyms_and_not_use_them() {
    let row = "| **poll** | a request of a waiter | look |";
    assert_eq!(
        complaints(
            "docs/glossary.md",
            &format!("| a | b | c |\n|---|---|---|\n{row}")
        ),
        [""; 0]
    );
    let used = row.replace("a request of a waiter", "a look");
    assert_eq!(
        complaints(
            "docs/glossary.md",
            &format!("| a | b | c |\n|---|---|---|\n{used}")
        )
        .len(),
        1
    );
}

#[test]
fn comments_are_read_and_code_is_not() {
    let source = "//! Whoever waits.\n/// ```\n/// let party = 1; // whoever\n/// ```\n// nobody\nlet nobody = 1;\n    /// `nobody`\n";
    let lines = |path: &str, text: &str| {
        let file = File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let mut found = Vec::new();
        old_words(&file, text::of_comments(&file), &mut found);
        found.iter().map(|one| one.line).collect::<Vec<_>>()
    };
    assert_eq!(lines("crates/a.rs", source), [1, 5]);
    let behind_code =
        "wait(); // nobody\nlet nobody = \"wait // nobody\";\nlet a = \"b\"; // whoever\n";
    assert_eq!(lines("crates/a.rs", behind_code), [1, 3]);
    let script = "-- who: nobody\nlocal nobody = '-- nobody'\n  -- looks\n";
    assert_eq!(lines("crates/a.lua", script), [1, 3]);
    assert_eq!(lines("crates/a.toml", source), [0; 0]);
}

#[test]
fn an_old_word_in_a_comment_is_named_with_file_and_line() {
    let source = "fn wait() {}\n\n    // Nobody waits.\n";
    let path = "crates/leaselock/src/base/name.rs";
    let found = complaints(path, source);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with(&format!(
            "{path}:3: says \"nobody\"; the standard term: name the actor"
        )),
        "{found:?}"
    );
    for read in [
        "bench/src/waiters.rs",
        "crates/leaselock/examples/limiter.rs",
        "crates/leaselock/src/script_tests/model.rs",
        "crates/leaselock/tests/it/latch.rs",
        "crates/leaselock-cli/src/exit.rs",
        "crates/testkit/src/proxy.rs",
        "xtask/src/tidy.rs",
    ] {
        let found = complaints(read, source);
        assert_eq!(found.len(), 1, "{read}: {found:?}");
    }
}

#[test]
fn tables_without_a_header_are_refused() {
    let headerless = "text\n\n| a | b |\n| c | d |\n";
    let found = complaints(PAGE, headerless);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("docs/mutex.md:3: a table without a header"),
        "{found:?}"
    );
    // As it came about: a blank line in the middle of a table.
    let split = "| a |\n|---|\n| b |\n\n| c |\n";
    assert!(complaints(PAGE, split)[0].contains(":5:"));
    for whole in ["| | |\n|---|:-:|\n| a | b |", "```text\n| a |\n```"] {
        assert_eq!(complaints(PAGE, whole), [""; 0], "{whole}");
    }
}

#[test]
fn pages_and_folders_on_the_lists_exist() {
    let root = crate::files::root();
    for path in PAGES.iter().chain(&LIBRARIES) {
        assert!(root.join(path).exists(), "{path}");
    }
}

#[test]
fn rustdoc_names_no_page_that_is_not_on_docs_rs() {
    let named = |comment: &str| complaints("crates/leaselock/src/lib.rs", comment).len();
    assert_eq!(named("/// See `docs/strict.md` for more."), 1);
    assert_eq!(named("//! The table is in docs/strict.md."), 1);
    assert_eq!(named("/// See <https://redis.io/docs/latest/a.md>."), 0);
    assert_eq!(named("// The table of docs/strict.md is this one."), 0);
    assert_eq!(named("/// See [`Client`], of which docs.rs has a page."), 0);
}
