//! One small tree for each complaint, and one for each way to write a path.

use super::*;

const LAYERED: &str = "## Layers\n\n| layer |\n|---|\n| `base/` |\n| `store/` |\n| `engine/` |\n\
                       | `mutex/`, `latch/` |\n| `lib.rs` |\n\n\
                       ### Storeys of the engine\n\n| `values/` |\n| `ways/` |\n";

fn file(path: &str, text: &str) -> File {
    File {
        path: path.to_owned(),
        text: text.to_owned(),
    }
}

/// The complaints about a library of these files, whose root declares five modules.
fn complaints(files: &[(&str, &str)]) -> Vec<String> {
    let mut all = vec![
        file(PAGE, LAYERED),
        file(
            &format!("{LIBRARY}/lib.rs"),
            "mod base; mod store; mod engine; mod mutex; mod latch;",
        ),
    ];
    for (path, text) in files {
        all.push(file(&format!("{LIBRARY}/{path}"), text));
    }
    let tree = Tree::of(&all, LIBRARY, "lib.rs");
    let found = broken(&tree, &orders(&all, LIBRARY));
    found
        .iter()
        .map(|one| one.to_string().replace(&format!("{LIBRARY}/"), ""))
        .collect()
}

/// The arrows of a tree in which `a.rs` names something of `b.rs`, in the words of `a`.
fn arrows_of(a: &str) -> Vec<(String, String)> {
    let all = [
        file("s/lib.rs", "mod x; pub use x::b::B;"),
        file(
            "s/x/mod.rs",
            "mod a; pub(crate) mod b; pub(crate) use b::B; use b as bee;",
        ),
        file("s/x/a.rs", a),
        file("s/x/b.rs", "pub(crate) struct B; pub(crate) fn f() {}"),
    ];
    let tree = Tree::of(&all, "s", "lib.rs");
    let name = |at: usize| tree.modules[at].path.join("::");
    let arrows = tree.arrows();
    let from_a = arrows.iter().filter(|arrow| name(arrow.from) == "x::a");
    from_a
        .map(|arrow| (name(arrow.from), name(arrow.to)))
        .collect()
}

#[test]
fn every_way_to_write_a_path_is_an_arrow_to_the_file_that_defines() {
    for a in [
        "use crate::x::b::B;",
        "use super::b::{B as C};",
        "use super::B;",
        "use crate::B;",
        "fn g() { crate::x::b::f() }",
        "use super::b; fn g() { b::f() }",
        "use crate::x::{b::{self}}; fn g() { b::f() }",
        "fn g() { super::b::f() }",
        "use crate::x; fn g() { x::b::f() }",
        "fn g() { super::bee::f() }",
        "use crate::x::b::*;",
        "macro_rules! m { () => { $crate::x::b::f() } }",
    ] {
        let expected = [("x::a".to_owned(), "x::b".to_owned())];
        assert_eq!(arrows_of(a), expected, "{a}");
    }
}

#[test]
fn what_is_no_code_of_the_library_is_no_arrow() {
    for a in [
        "use std::fmt; use redis::b;",
        "//! [`crate::x::b::B`]\nconst S: &str = \"crate::x::b::B\";",
        "#[cfg(test)]\nmod tests { use crate::x::b::B; }",
        "use super::b;",
        "pub(in crate::x) fn f() {}",
    ] {
        assert_eq!(arrows_of(a), [], "{a}");
    }
}

#[test]
fn an_arrow_up_is_refused_with_its_line_and_layers() {
    let found = complaints(&[
        ("base/mod.rs", "mod clock;"),
        ("base/clock.rs", "\nuse crate::store::port::Store;"),
        ("store/mod.rs", "pub(crate) mod port;"),
        ("store/port.rs", "pub(crate) struct Store;"),
    ]);
    assert_eq!(
        found,
        [
            "base/clock.rs:2: `base` names `store`, which is above it; hand store/port.rs in from above, or move it down"
        ]
    );
}

#[test]
fn an_arrow_to_another_primitive_is_refused() {
    let found = complaints(&[
        ("mutex/mod.rs", "mod a;"),
        ("mutex/a.rs", "use crate::latch::b::B;"),
        ("latch/mod.rs", "pub(crate) mod b;"),
        ("latch/b.rs", "pub(crate) struct B;"),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("`mutex` names `latch`, which is beside it"),
        "{found:?}"
    );
}

#[test]
fn a_circle_is_refused_with_its_shortest_loop() {
    let found = complaints(&[
        ("base/mod.rs", "mod a; mod b;"),
        ("base/a.rs", "use super::b::B; struct A;"),
        ("base/b.rs", "use super::a::A; struct B;"),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    let wrong = "one of 2 files in a circle: base/a.rs -> base/b.rs -> base/a.rs";
    assert!(found[0].contains(wrong), "{found:?}");
}

#[test]
fn a_circle_of_folders_is_refused_although_no_file_is_in_one() {
    let found = complaints(&[
        ("base/mod.rs", "mod a; mod b;"),
        ("base/a/mod.rs", "mod low; mod high;"),
        ("base/a/low.rs", "struct Low;"),
        ("base/a/high.rs", "\nuse crate::base::b::B; struct High;"),
        ("base/b.rs", "use super::a::low::Low; struct B;"),
    ]);
    assert_eq!(
        found,
        [
            "base/a/high.rs:2: one of 2 rooms of `base/` in a circle: a -> b -> a; move what both need to a room below them"
        ]
    );
}

#[test]
fn an_arrow_to_a_higher_storey_of_the_engine_is_refused_and_so_is_a_file_in_none() {
    let found = complaints(&[
        ("engine/mod.rs", "mod values; mod ways; mod attic;"),
        ("engine/values.rs", "use super::ways::Way;"),
        ("engine/ways.rs", "struct Way;"),
        ("engine/attic.rs", ""),
    ]);
    assert_eq!(found.len(), 2, "{found:?}");
    let wrong = "engine/values.rs:1: `values` names `ways`, which is above it";
    assert!(found[0].starts_with(wrong), "{found:?}");
    assert!(
        found[1].starts_with("engine/attic.rs: is in no layer"),
        "{found:?}"
    );
}

#[test]
fn a_mod_rs_that_defines_is_refused() {
    let found = complaints(&[("base/mod.rs", "//! Docs.\n\npub(crate) struct Clock;")]);
    assert!(
        found[0].starts_with("base/mod.rs:3: a mod.rs that defines Clock"),
        "{found:?}"
    );
}

#[test]
fn a_long_file_is_refused_and_its_tests_do_not_count() {
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(300));
    let short = format!("{}{tests}", "\n".repeat(LINES_MAX));
    assert_eq!(complaints(&[("base.rs", &short)]), [""; 0]);
    let long = format!("{short}\n");
    let found = complaints(&[("base.rs", &long)]);
    assert!(
        found[0].starts_with("base.rs: has 401 lines without its tests"),
        "{found:?}"
    );
}

#[test]
fn a_file_in_no_layer_is_refused() {
    let all = [
        file(PAGE, LAYERED),
        file(&format!("{LIBRARY}/lib.rs"), "mod attic;"),
        file(&format!("{LIBRARY}/attic.rs"), ""),
    ];
    let mut found = Vec::new();
    check(&all, &mut found);
    let wrong: Vec<&str> = found.iter().map(|one| one.wrong.as_str()).collect();
    assert!(wrong.contains(&"is in no layer"), "{found:?}");
}

#[test]
fn lines_are_counted_by_layer() {
    let all = [
        file(PAGE, LAYERED),
        file(&format!("{LIBRARY}/lib.rs"), "mod base;\n"),
        file(
            &format!("{LIBRARY}/base.rs"),
            "fn f() {}\n#[cfg(test)]\nfn g() {}\n",
        ),
    ];
    let text = count(&all);
    assert!(text.contains("      1 lines    1 files  base"), "{text}");
    assert!(text.contains("      2 lines    2 files  in all"), "{text}");
}

#[test]
fn a_name_of_two_types_is_refused_unless_it_is_on_the_list() {
    let base = "struct Terms; const TERMS: u8 = 1; struct Written; fn kind() -> &'static Kind {}";
    let engine = "pub(crate) enum Terms { A } struct Written; const TERMS: u8 = 2; struct Kind;";
    let all = [
        file(&format!("{LIBRARY}/lib.rs"), "mod base; mod engine;"),
        file(&format!("{LIBRARY}/base.rs"), base),
        file(&format!("{LIBRARY}/engine.rs"), engine),
    ];
    let found = names::repeated(&Tree::of(&all, LIBRARY, "lib.rs"));
    let wrong: Vec<&str> = found.iter().map(|one| one.wrong.as_str()).collect();
    assert_eq!(wrong.len(), 1, "{found:?}");
    assert!(
        wrong[0].starts_with("a second type `Terms`, beside that of"),
        "{found:?}"
    );
}

/// The complaints about a library of two files of ten lines each, with this table of budgets.
fn weighed(rows: &str) -> Vec<String> {
    let page = format!(
        "{LAYERED}\n{}\n\n| mechanism | at most | now at most | buys | lies in |\n|---|--:|--:|---|---|\n{rows}",
        budgets::HEADING
    );
    let ten = "\n".repeat(10);
    let all = [
        file(PAGE, &page),
        file(&format!("{LIBRARY}/lib.rs"), "mod base; mod store;"),
        file(&format!("{LIBRARY}/base.rs"), "mod clock;"),
        file(&format!("{LIBRARY}/base/clock.rs"), &ten),
        file(&format!("{LIBRARY}/store.rs"), &ten),
    ];
    let mut found = Vec::new();
    check(&all, &mut found);
    let found = found.iter().filter(|one| one.file == PAGE);
    found
        .map(|one| format!("{}; {}", one.wrong, one.right))
        .collect()
}

#[test]
fn a_mechanism_within_its_budget_is_as_it_should_be() {
    let rows = "| clocks | 10 | | time | `base/` |\n| store | 1,000 | | data | `store.rs` |\n| all | 22 | | | |\n";
    assert_eq!(weighed(rows), [""; 0]);
}

#[test]
fn a_mechanism_over_its_budget_is_refused_with_its_largest_files() {
    let found = weighed("| both | 18 | | much | `base/`, `store.rs` |\n");
    let wrong = "both: 20 lines, which is 2 more than its budget of 18; \
                 say it with less; the largest files: base/clock.rs (10), store.rs (10)";
    assert_eq!(found, [wrong]);
    let found = weighed("| all | 18 | | | |\n");
    assert!(
        found[0].starts_with("all: 22 lines, which is 4 more"),
        "{found:?}"
    );
}

#[test]
fn a_mechanism_over_its_budget_keeps_the_figure_of_the_page_and_that_figure_follows_it() {
    assert_eq!(
        weighed("| both | 18 | 20 | | `base/`, `store.rs` |\n"),
        [""; 0]
    );
    let found = weighed("| both | 18 | 19 | | `base/`, `store.rs` |\n");
    assert!(
        found[0].contains("which is 1 more than its budget of 19"),
        "{found:?}"
    );
    let found = weighed("| both | 18 | 100 | | `base/`, `store.rs` |\n");
    assert!(found[0].ends_with("write 20 there"), "{found:?}");
    let found = weighed("| both | 20 | 21 | | `base/`, `store.rs` |\n");
    assert!(
        found[0].starts_with("both: 20 lines are within the budget of 20"),
        "{found:?}"
    );
}

#[test]
fn a_budget_of_what_is_not_there_or_is_another_ones_is_refused() {
    let found = weighed(
        "| clocks | 10 | | | `base/`, `attic/` |\n| store | 20 | | | `store.rs`, `base/clock.rs` |\n",
    );
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].starts_with("clocks: there is no `attic/`"),
        "{found:?}"
    );
    let wrong = format!("store: {LIBRARY}/base/clock.rs is part of clocks too");
    assert!(found[1].starts_with(&wrong), "{found:?}");
}

#[test]
fn the_lines_of_a_mechanism_are_counted_beside_its_budget() {
    let row = "| clocks | 1 | 2 | time | `base.rs` |\n";
    let page = format!("{LAYERED}\n{}\n\n{row}", budgets::HEADING);
    let all = [
        file(PAGE, &page),
        file(&format!("{LIBRARY}/lib.rs"), "mod base;"),
        file(&format!("{LIBRARY}/base.rs"), "fn f() {}\nfn g() {}\n"),
    ];
    let text = count(&all);
    assert!(
        text.ends_with("      2 of      1  clocks, 1 too many"),
        "{text}"
    );
}
