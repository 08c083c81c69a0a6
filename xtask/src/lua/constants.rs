//! A name in capitals means the same in every file: positions in an entry, lengths, times.

use std::collections::BTreeMap;

use super::body;
use super::sources::Sources;
use crate::complaint::Complaint;

pub(super) fn check(sources: &Sources, found: &mut Vec<Complaint>) {
    let mut known: BTreeMap<String, (String, String)> = BTreeMap::new();
    let scripts = sources.scripts.iter();
    let scripts = scripts.map(|script| (script.file.path.clone(), script.code()));
    let fragments = sources.fragments.tokens();
    let fragments = fragments.map(|(path, tokens)| (path.to_owned(), tokens.to_vec()));
    for (path, tokens) in fragments.chain(scripts) {
        for constant in body::constants(&tokens) {
            let first = known
                .entry(constant.name.clone())
                .or_insert_with(|| (constant.value.clone(), path.clone()));
            if first.0 != constant.value {
                let wrong = format!("{} is {} here", constant.name, constant.value);
                let right = format!("{}, as in {}, or another name", first.0, first.1);
                found.push(Complaint::new(&path, constant.line, wrong, right));
            }
        }
    }
}
