//! What the hosts of a round note, and what has to be true of it.

use std::collections::BTreeMap;
use std::path::Path;

use testkit::notes::lines;

/// The fences of the runs of each tick of each name: of those that have begun, have done their work, and have been told
/// that their end is recorded.
pub(super) type Noted = BTreeMap<(String, u32), [Vec<u64>; 3]>;

pub(super) fn noted(folder: &Path) -> Noted {
    let mut noted = Noted::new();
    for (index, file) in ["begun", "worked", "confirmed"].into_iter().enumerate() {
        for line in lines(folder, file) {
            let words: Vec<&str> = line.split(' ').collect();
            let tick = (words[0].to_owned(), words[1].parse().unwrap());
            let fences = noted.entry(tick).or_default();
            fences[index].push(words[2].parse().unwrap());
        }
    }
    noted
}

/// How many runs of this tick have begun, worked and been confirmed.
pub(super) fn judged(
    noted: &Noted,
    name: &str,
    tick: u32,
    again: bool,
    context: &str,
) -> [usize; 3] {
    let none = Default::default();
    let [begun, worked, confirmed] = noted.get(&(name.to_owned(), tick)).unwrap_or(&none);
    let context = format!("{context}: tick {tick}: {begun:?}, {worked:?}, {confirmed:?}");
    match again {
        true => assert!(!worked.is_empty(), "never run to its end: {context}"),
        false => assert!(begun.len() <= 1, "begun twice: {context}"),
    }
    assert!(confirmed.len() <= 1, "ended twice: {context}");
    if let Some(end) = confirmed.first() {
        // Otherwise the end of a run was recorded that another one had replaced.
        assert_eq!(Some(end), begun.iter().max(), "{context}");
    }
    [begun.len(), worked.len(), confirmed.len()]
}
