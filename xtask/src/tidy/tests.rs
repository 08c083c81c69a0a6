//! Each rule against a file that breaks it, and against one that seems to break it but does not.

mod page_rules;

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

fn complaints(path: &str, text: &str) -> Vec<String> {
    let file = File {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    check(&[file])
        .into_iter()
        .map(|one| format!("{}: {}", one.line, one.wrong))
        .collect()
}

const LIBRARY: &str = "crates/leaselock/src/engine/ways/mod.rs";
const TEST: &str = "crates/leaselock/tests/it/mutex.rs";

#[test]
fn long_files_are_refused() {
    assert_eq!(complaints(LIBRARY, &"\n".repeat(500)), [""; 0]);
    assert_eq!(complaints("a.lua", &"\n".repeat(501)), ["0: has 501 lines"]);
}

#[test]
fn unfinished_work_is_refused() {
    for word in [
        concat!("#[", "ignore]"),
        concat!("to", "do!()"),
        concat!("// FIX", "ME: x"),
        concat!("// XX", "X"),
    ] {
        assert_eq!(complaints(LIBRARY, &format!("\n{word}")).len(), 1, "{word}");
    }
    assert_eq!(
        complaints(LIBRARY, concat!("// XX", "XX, mytodo!(), FIX", "MEANING")),
        [""; 0]
    );
}

#[test]
fn sleep_in_a_test_needs_a_reason() {
    let sleep = concat!("std::thread::", "sleep(d);");
    let bare = format!("fn f() {{}}\n{sleep}");
    assert_eq!(complaints(TEST, &bare), ["2: a bare sleep in a test"]);
    assert_eq!(complaints(LIBRARY, &bare), [""; 0]);
    assert_eq!(
        complaints(LIBRARY, &format!("#[cfg(test)]\nmod tests {{\n{sleep}")).len(),
        1
    );
    assert_eq!(
        complaints(TEST, &format!("{sleep} // the server's own clock")),
        [""; 0]
    );
    assert_eq!(
        complaints(TEST, &format!("// The server's own clock.\n{sleep}")),
        [""; 0]
    );
}

#[test]
fn unsafe_code_lives_in_two_kinds_of_file() {
    let code = "// unsafe\nlet a = \"unsafe\"; unsafe { f() }";
    assert_eq!(complaints(LIBRARY, code), ["2: unsafe code"]);
    assert_eq!(
        complaints("crates/leaselock-cli/src/process.rs", code),
        [""; 0]
    );
}

#[test]
fn clocks_are_read_in_one_file() {
    for code in [
        "Instant::now()",
        "std::time::SystemTime::now()",
        "clock_gettime(ClockId::Boottime)",
    ] {
        assert_eq!(complaints(LIBRARY, code), ["1: reads a clock"], "{code}");
        assert_eq!(
            complaints("crates/leaselock/src/base/clock.rs", code),
            [""; 0]
        );
    }
    assert_eq!(
        complaints(
            LIBRARY,
            "use x::clock_gettime; clock.now(); Instant::from(x)"
        ),
        [""; 0]
    );
}

#[test]
fn redis_crate_is_named_in_its_own_folder_only() {
    for code in [
        "use redis::Client;",
        "fn f(a: redis::Value) {}",
        "use ::redis::Client;",
    ] {
        assert_eq!(
            complaints(LIBRARY, code),
            ["1: names the redis crate"],
            "{code}"
        );
        assert_eq!(
            complaints("crates/leaselock/src/store/redis/run.rs", code),
            [""; 0]
        );
        assert_eq!(complaints(TEST, code), [""; 0]);
    }
    for code in [
        "use crate::store::redis::Redis;",
        "use self::redis::Redis;",
        "mod redis;\nfn f() -> redis::Redis {}",
        "\"redis::\"",
    ] {
        assert_eq!(complaints(LIBRARY, code), [""; 0], "{code}");
    }
}

#[test]
fn tests_do_not_use_the_usual_port() {
    let port = concat!("63", "79");
    for code in [
        format!("connect({port})"),
        format!("\"redis://localhost:{port}/\""),
    ] {
        assert_eq!(complaints(TEST, &code).len(), 1, "{code}");
        assert_eq!(complaints(LIBRARY, &code), [""; 0]);
    }
    assert_eq!(complaints(TEST, &format!("// {port}\n1{port}")), [""; 0]);
}

#[test]
fn links_are_found_outside_code_and_without_anchors() {
    let text = "[a](b.md#c) `[no](x.md)` [w](https://x) [here](#y)\n```\n[no](x.md)\n```\n[d](../e/ \"t\")";
    let expected = [(1, "b.md".to_owned()), (5, "../e/".to_owned())];
    assert_eq!(documents::link_targets(text), expected);
    assert_eq!(
        documents::resolve(Path::new("docs/../a/./b")),
        Some(PathBuf::from("a/b"))
    );
    assert_eq!(documents::resolve(Path::new("docs/../../a")), None);
}

/// A repository in a folder of its own, with one crate.
fn repository(name: &str, files: &[(&str, &str)]) -> Vec<Complaint> {
    let root = std::env::temp_dir().join(format!("xtask-tidy-{name}-{}", std::process::id()));
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut found = Vec::new();
    documents::check(&root, &files::below(&root, ""), &mut found);
    fs::remove_dir_all(&root).unwrap();
    found
}

#[test]
fn whole_repository_has_its_licences_and_links() {
    let whole = [
        ("LICENSE-MIT", "m"),
        ("LICENSE-APACHE", "a"),
        ("README.md", "[l](LICENSE-MIT)"),
        ("crates/leaselock/Cargo.toml", "[package]"),
        ("crates/leaselock/LICENSE-MIT", "m"),
        ("crates/leaselock/LICENSE-APACHE", "a"),
        ("crates/leaselock/README.md", "[l](https://example.org/)"),
        ("crates/kit/Cargo.toml", "publish = false"),
    ];
    assert_eq!(repository("whole", &whole), []);
    let mut files = whole.to_vec();
    files.remove(5);
    let found = repository("broken", &files);
    let licence = |one: &&Complaint| one.file == "crates/leaselock/LICENSE-APACHE";
    let found = found.iter().find(licence).expect("a complaint");
    assert_eq!(found.wrong, "is not the licence");
    let mut files = whole.to_vec();
    files.push(("docs/a.md", "[x](../gone.md)"));
    let found = repository("link", &files);
    assert_eq!(found[0].wrong, "the link to \"../gone.md\" leads nowhere");
}

#[test]
fn page_of_a_crate_links_to_nothing_outside_its_folder() {
    let files = [
        ("docs/a.md", ""),
        (
            "crates/one/README.md",
            "[a](../../docs/a.md) [b](https://example.org/) `[c](d.md)`",
        ),
        ("crates/one/lua/README.md", "[a](../../../docs/a.md)"),
    ];
    let found = repository("crate-page", &files);
    let found: Vec<&Complaint> = found
        .iter()
        .filter(|one| one.wrong.starts_with("the link"))
        .collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].file, "crates/one/README.md");
}

#[test]
fn links_of_a_page_are_checked_where_it_lies_and_not_where_it_is_linked_to() {
    let root = std::env::temp_dir().join(format!("xtask-tidy-linked-{}", std::process::id()));
    fs::create_dir_all(root.join("inner")).unwrap();
    fs::write(root.join("page.md"), "[l](other.md)").unwrap();
    fs::write(root.join("other.md"), "").unwrap();
    std::os::unix::fs::symlink("../page.md", root.join("inner/page.md")).unwrap();
    let mut found = Vec::new();
    documents::check(&root, &files::below(&root, ""), &mut found);
    fs::remove_dir_all(&root).unwrap();
    assert!(
        !found.iter().any(|one| one.wrong.contains("other.md")),
        "{found:?}"
    );
}

/// The complaints of the lists in a repository of these files.
fn list_complaints(files: &[(&str, &str)]) -> Vec<String> {
    complaints_of(lists::check, files)
}

fn complaints_of(check: fn(&[File], &mut Vec<Complaint>), files: &[(&str, &str)]) -> Vec<String> {
    let mut found = Vec::new();
    check(&files_of(files), &mut found);
    found.into_iter().map(|one| one.wrong).collect()
}

fn files_of(files: &[(&str, &str)]) -> Vec<File> {
    let file = |(path, text): &(&str, &str)| File {
        path: (*path).to_owned(),
        text: (*text).to_owned(),
    };
    files.iter().map(file).collect()
}

#[test]
fn a_page_of_what_happens_in_order_has_a_picture() {
    let complaints = |text| list_complaints(&[("docs/mutex.md", text), ("docs/access.md", "none")]);
    assert_eq!(complaints("text"), ["no picture"]);
    assert_eq!(complaints("text\n```mermaid\nflowchart LR\n```\n"), [""; 0]);
}

#[test]
fn every_event_that_an_operator_watches_has_a_row_and_every_row_an_event() {
    let page = |rows: &str| {
        let head = "| `before` | warn | no event: another table |\n\n## What to watch\n\n";
        format!("{head}| event | level | means |\n|---|---|---|\n{rows}\n\n| `after` | warn | |")
    };
    let code = "fn f() { tracing::warn!(target: \"leaselock\", %a, \"it is lost: now\"); tracing::debug!(target: \"leaselock\", \"asked\"); }
                fn g() { tracing::info!(target: \"leaselock\", b = %c, \"{}\", P::TEXT); }
                impl P for A { const TEXT: &str = \"moved\"; } impl P for B { const TEXT: &str = \"gone\"; }
                #[cfg(test)]
                mod tests { fn f() { tracing::warn!(\"of a test\"); } }";
    let complaints = |rows: &str| {
        let page = page(rows);
        list_complaints(&[("docs/operations.md", &page), (LIBRARY, code)])
    };
    let whole = "| `it is lost`, with the name | warn | |\n| `moved`, `gone` | info | |";
    assert_eq!(complaints(whole), [""; 0]);
    assert_eq!(
        complaints(&format!("{whole}\n| `asked` | debug | |")),
        [""; 0]
    );
    let missing = "| `it is lost` | info | |\n| `moved` | info | |";
    assert_eq!(
        complaints(missing),
        [
            "the event \"it is lost: now\" has no row",
            "the event \"gone\" has no row",
            "the library has no event \"it is lost\" of level info"
        ]
    );
}

#[test]
fn an_event_has_the_one_target_and_the_one_name_of_each_field() {
    let page = "## What to watch\n\n| event | level | means |\n|---|---|---|\n";
    let code = "fn f() { tracing::debug!(lock = %a, \"asked\"); tracing::debug!(target: \"leaselock\", name = %a, \"told\");
                tracing::debug!(target: \"leaselock\", lock = %self.name, \"heard\"); }";
    let found = list_complaints(&[("docs/operations.md", page), (LIBRARY, code)]);
    assert_eq!(
        found,
        [
            "the event \"asked\" has another target",
            "the event \"told\" has the field `name`"
        ]
    );
}

#[test]
fn every_example_has_a_row() {
    let readme = "| [one](../crates/leaselock/examples/one.rs) | How? |";
    let files = [
        ("docs/README.md", readme),
        ("crates/leaselock/examples/one.rs", ""),
        ("crates/leaselock/examples/two.rs", ""),
        ("crates/leaselock-cron/examples/three.rs", ""),
    ];
    let found = list_complaints(&files);
    assert_eq!(
        found,
        [
            "the example \"two\" is not listed",
            "the example \"three\" is not listed"
        ]
    );
}

#[test]
fn every_way_of_waiting_has_a_row() {
    let files = [
        ("docs/internals/waiting.md", "| `Queued` | |"),
        (
            LIBRARY,
            "impl Attempts for Queued<'_> {} impl<T: Try> Attempts for Trying<'_, T> {}",
        ),
    ];
    let found = list_complaints(&files);
    assert_eq!(found, ["the Attempts \"Trying\" is not listed"]);
}
