//! The tested libraries in peers/README.md against the tests: a row for each library, and nothing in it that is not so.

use std::collections::BTreeSet;

use crate::PEERS;
use crate::peer::Peer;

const PAGE: &str = include_str!("../../../../peers/README.md");

/// The cells of the rows that begin with a library in backticks, below the heading *Tested libraries*.
fn rows() -> Vec<Vec<&'static str>> {
    let (_, tested) = PAGE.split_once("\n## Tested libraries\n").unwrap();
    let (tested, _) = tested.split_once("\n## ").unwrap();
    let rows = tested.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// The row that the page should have for a library, as far as the tests know it.
fn row(peer: &Peer) -> Vec<String> {
    let yes_or_no = |yes| if yes { "yes" } else { "no" }.to_owned();
    vec![
        format!("`{}`", peer.library),
        peer.version.to_owned(),
        format!("`{}`", peer.key("NAME")),
        peer.value.in_words(),
        yes_or_no(peer.extends),
        yes_or_no(peer.tells),
    ]
}

#[test]
fn the_table_of_the_page_is_that_of_the_tests() {
    let on_the_page: BTreeSet<Vec<String>> = rows()
        .iter()
        .map(|cells| cells.iter().map(|cell| (*cell).to_owned()).collect())
        .collect();
    let tested: BTreeSet<Vec<String>> = PEERS.iter().map(row).collect();
    assert_eq!(on_the_page, tested);
}
