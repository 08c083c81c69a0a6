//! The lines that begin with `--#` and say how a script is joined, and the names that they use.

use crate::files::File;

pub(super) const FOLDER: &str = "crates/leaselock/lua";
/// A fragment that users need too lies in a crate of its own.
pub(super) const FENCE_FOLDER: &str = "crates/leaselock-fence/lua";

/// What a marker calls a file, such as `mutex/acquire`.
pub(super) fn name_of(file: &File) -> &str {
    let path = file.path.trim_start_matches(FOLDER);
    let path = path.trim_start_matches(FENCE_FOLDER);
    path.trim_start_matches('/').trim_end_matches(".lua")
}

/// `--#include prelude fence`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Include {
    pub(super) line: usize,
    pub(super) names: Vec<String>,
    /// In strict mode only.
    pub(super) strict: bool,
}

/// A file sorted by its markers. What stands in `--#plain` is checked as all else is.
///
/// Each text has as many lines as the file, so that line numbers stay right.
#[derive(Debug, Default)]
pub(super) struct Marked {
    /// Without the lines between `--#strict` and `--#end`.
    pub(super) plain: String,
    /// Those lines alone.
    pub(super) strict: String,
    pub(super) includes: Vec<Include>,
    /// Markers that mean nothing, and where.
    pub(super) wrong: Vec<(usize, String)>,
}

impl Marked {
    pub(super) fn parse(text: &str) -> Marked {
        let mut marked = Marked::default();
        let (mut opened_at, mut plain_at) = (None, None);
        for (line, text) in (1..).zip(text.lines()) {
            let marker = text.strip_prefix("--#");
            match marker {
                Some("strict") if opened_at.or(plain_at).is_none() => opened_at = Some(line),
                Some("plain") if opened_at.or(plain_at).is_none() => plain_at = Some(line),
                Some("end") if opened_at.or(plain_at).is_some() => {
                    (opened_at, plain_at) = (None, None);
                }
                Some(marker) => marked.include(line, marker, opened_at.is_some()),
                None if opened_at.is_some() => marked.strict.push_str(text),
                None => marked.plain.push_str(text),
            }
            marked.plain.push('\n');
            marked.strict.push('\n');
        }
        let unclosed = |how: &str, at: Option<usize>| Some((at?, format!("{how} has no end")));
        marked.wrong.extend(unclosed("strict", opened_at));
        marked.wrong.extend(unclosed("plain", plain_at));
        marked
    }

    fn include(&mut self, line: usize, marker: &str, strict: bool) {
        let names = marker.strip_prefix("include ").unwrap_or_default();
        let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
        if names.is_empty() {
            self.wrong
                .push((line, format!("the marker {marker:?} means nothing here")));
        }
        self.includes.push(Include {
            line,
            names,
            strict,
        });
    }
}
