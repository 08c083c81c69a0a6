//! The rules about pages: the index, navigation, bounds, what is named, and figures.

use super::*;

const INDEX: (&str, &str) = ("docs/README.md", "[b](b.md)\n| [b](b.md), [a](a.md#x) | |");
const BOUNDS: &str = "# path planned most\ndocs/README.md 9 9\ndocs/a.md 60 120\ndocs/b.md 60 60\n";

#[test]
fn a_page_has_a_place_in_the_index_and_the_line_of_navigation() {
    let files = |pages: [&str; 3]| {
        let named = ["docs/a.md", "docs/b.md", "docs/c.md"]
            .into_iter()
            .zip(pages);
        let bounds = BOUNDS.replace("120", "60") + "docs/c.md 9 9\n";
        let all = named.chain([INDEX, (pages::BOUNDS, &bounds)]);
        files_of(&all.collect::<Vec<_>>())
    };
    let complaints = |files: &[File]| {
        let mut found = Vec::new();
        pages::check(files, &mut found);
        found.iter().map(Complaint::to_string).collect::<Vec<_>>()
    };
    let before = files([
        "# A\n\nText.",
        "# B\n\n[documents](README.md) · old\n\nText.",
        "# C\n\nText.",
    ]);
    let found = complaints(&before);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(
        found[2].starts_with("docs/c.md: is not in the index"),
        "{found:?}"
    );
    let made = pages::with_navigation(&before);
    assert_eq!(
        made[0].1,
        "# B\n\n[documents](README.md) · [A](a.md) →\n\nText."
    );
    assert_eq!(
        made[1].1,
        "# A\n\n[documents](README.md) · ← [B](b.md)\n\nText."
    );
    let found = complaints(&files([&made[1].1, &made[0].1, "# C\n\nText."]));
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn a_page_keeps_to_its_bound_and_this_follows_the_page() {
    let complaints = |a: &str, bounds: &str| {
        let a = format!("# A\n\n[documents](README.md) · ← [B](b.md)\n\n{a}");
        let b = "# B\n\n[documents](README.md) · [A](a.md) →\n\nText.";
        let files = [
            INDEX,
            ("docs/a.md", &*a),
            ("docs/b.md", b),
            (pages::BOUNDS, bounds),
        ];
        let lowered = pages::lowered(&files_of(&files)).unwrap().1;
        (complaints_of(pages::check, &files), lowered)
    };
    let short = |count| "Word. ".repeat(count);
    let (found, lowered) = complaints(&short(61), BOUNDS);
    assert_eq!(found, [""; 0]);
    assert_eq!(lowered, BOUNDS.replace("120", "100"));
    assert_eq!(
        complaints(&short(20), BOUNDS).1,
        BOUNDS.replace("120", "60")
    );
    assert_eq!(complaints(&short(115), BOUNDS).0, ["has 121 words"]);
    let found = complaints(&short(13), BOUNDS).0;
    assert_eq!(found, ["has 19 words, and may have 120"]);
    let gone = BOUNDS.replace("docs/b.md 60 60\n", "");
    assert_eq!(complaints(&short(61), &gone).0, ["has no bound"]);
}

#[test]
fn a_long_sentence_and_a_long_cell_are_refused_and_code_is_one_word() {
    let found = |text: &str| {
        complaints_of(
            pages::check,
            &[("README.md", text), (pages::BOUNDS, "README.md 999 999")],
        )
    };
    let words = |count| "w ".repeat(count);
    let fits = format!(
        "{}end. {}[a b](c.md) `{}`: {}.",
        words(29),
        words(27),
        words(40),
        words(29)
    );
    assert_eq!(found(&fits), [""; 0]);
    assert_eq!(
        found(&format!("```\n{}\n```\n| {} |", words(50), words(45))),
        [""; 0]
    );
    let sentence = "a sentence has 31 words, more than 30";
    assert_eq!(found(&format!("One. {}end. Two.", words(30))), [sentence]);
    let cell = "a cell has 46 words, more than 45";
    assert_eq!(found(&format!("| a | {} |", words(46))), [cell]);
}

#[test]
fn every_verb_every_public_item_and_every_field_is_named() {
    let listing = "pub mod leaselock\npub fn leaselock::Client::open(&str) -> Self\n\
                   #[non_exhaustive] pub enum leaselock::Gone<T>\npub const leaselock::Preset::REDIS_PY: Self";
    let page = |text| {
        let help = "crates/leaselock-cli/tests/snapshots/help-run.txt";
        let fields = "crates/leaselock-cli/tests/snapshots/json-fields.txt";
        let json = "\n| `name` | x |\n\n```text\nstatus\n.name: text\n.queue[].pid: number\n```\n";
        let files = [
            (help, ""),
            (fields, "status\n.name: text\n.queue[].pid: number\n"),
            ("docs/json.md", json),
            ("docs/a.md", text),
            ("crates/leaselock/public-api.txt", listing),
            (
                "crates/leaselock/src/a.rs",
                "//! `leaselock` and `Client`.\n/// `Gone`",
            ),
        ];
        complaints_of(named::check, &files)
    };
    let fields = [
        "does not say what `pid` means",
        "does not say what `queue` means",
    ];
    let all = "`run NAME`, `open`, `Gone`, `redis-py`";
    assert_eq!(page(all), fields);
    let none = [
        "no page names the verb \"run\"",
        "no page names `leaselock::Client::open`",
        "no page names `leaselock::Gone`",
        "no page names `leaselock::Preset::REDIS_PY`",
    ];
    assert_eq!(
        page("run open Gone redis-py `running`"),
        [&none[..], &fields].concat()
    );
}

#[test]
fn a_figure_that_is_not_of_the_stored_run_is_refused() {
    let contender = |name: &str, values: [u8; 3]| {
        let rounds = values.map(|value| format!("\"pairs_per_s\": {value}.0,\n"));
        format!("\"contender\": \"{name}\",\n{}", rounds.concat())
    };
    let run = [
        "\"title\": \"16 tasks, each\",\n".to_owned(),
        contender("raw", [10, 10, 20]),
        contender("leaselock", [5, 8, 30]),
    ];
    let complaints = |readme: &str, page: &str| {
        let readme = format!("| tasks | 16 |\n|---|--:|\n{readme}\n\n| other | 1 |");
        let page = format!("| tasks, each with a lock of its own | leaselock |\n|---|--:|\n{page}");
        let files = [
            ("docs/img/run.json", &*run.concat()),
            ("README.md", &readme),
            ("docs/performance.md", &page),
        ];
        complaints_of(figures::check, &files)
    };
    let (row, right) = (
        "| with fencing tokens, the default | −20 % |",
        "| 16 | 0.80 (0.65–1.15) |",
    );
    assert_eq!(complaints(row, right), [""; 0]);
    let wrong = complaints(&row.replace("20", "21"), &right.replace("1.15", "1.16"));
    assert_eq!(
        wrong,
        [
            "leaselock with 16 tasks: \"0.80 (0.65–1.16)\"",
            "leaselock with 16 tasks: \"−21 %\""
        ]
    );
    assert_eq!(
        complaints("", "| 17 | x |"),
        ["leaselock with 17 tasks: \"x\""]
    );
}
