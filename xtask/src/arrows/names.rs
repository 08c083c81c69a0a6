//! A name of a type stands for one thing, so that a search for it finds that thing.

use std::collections::BTreeMap;

use super::tree::{Module, Tree};
use crate::complaint::Complaint;

/// Names of several types, each with the reason.
const REPEATED: [(&str, &str); 2] = [
    (
        "Acquire",
        "the request of a kind's step of that name; each kind has one of its own",
    ),
    (
        "Written",
        "two files of which one is compiled, with and without servers",
    ),
];

pub(super) fn repeated(tree: &Tree) -> Vec<Complaint> {
    let mut first = BTreeMap::<&str, &Module>::new();
    let mut found = Vec::new();
    for module in &tree.modules {
        for item in module.outline.items.iter().filter(|item| item.is_type) {
            let other = *first.entry(&item.name).or_insert(module);
            let is_listed = REPEATED.iter().any(|(name, _)| *name == item.name);
            if other.file != module.file && !is_listed {
                let wrong = format!(
                    "a second type `{}`, beside that of {}",
                    item.name, other.file
                );
                let right = "a name that says which one it is";
                found.push(Complaint::new(&module.file, item.line, wrong, right));
            }
        }
    }
    found
}
