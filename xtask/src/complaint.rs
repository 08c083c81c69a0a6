//! What a checker has to say about a line.

use std::fmt;

/// Something that is wrong, where, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Complaint {
    pub(crate) file: String,
    /// From 1; 0 for a complaint about the whole file.
    pub(crate) line: usize,
    pub(crate) wrong: String,
    pub(crate) right: String,
}

impl Complaint {
    pub(crate) fn new(
        file: &str,
        line: usize,
        wrong: impl Into<String>,
        right: impl Into<String>,
    ) -> Complaint {
        Complaint {
            file: file.to_owned(),
            line,
            wrong: wrong.into(),
            right: right.into(),
        }
    }
}

impl Complaint {
    /// What is wrong with a page that `command` makes from `sources`, at the first line that differs.
    pub(crate) fn of_page(
        page: &str,
        there: &str,
        wanted: &str,
        (sources, command): (&str, &str),
    ) -> Option<Complaint> {
        if there == wanted {
            return None;
        }
        let both = there.lines().zip(wanted.lines());
        let same = both.take_while(|(one, other)| one == other).count();
        let wrong = format!("is not what {sources} say");
        let right = format!("run `{command}` and look at what changed");
        Some(Complaint::new(page, same + 1, wrong, right))
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Complaint {
            file,
            line,
            wrong,
            right,
        } = self;
        match line {
            0 => write!(f, "{file}: {wrong}; {right}"),
            _ => write!(f, "{file}:{line}: {wrong}; {right}"),
        }
    }
}

/// All complaints as one error, in the order of files and lines.
pub(crate) fn report(mut complaints: Vec<Complaint>, checked: &str) -> Result<String, String> {
    if complaints.is_empty() {
        return Ok(format!("{checked}: nothing to complain about"));
    }
    complaints.sort();
    let lines: Vec<String> = complaints.iter().map(Complaint::to_string).collect();
    Err(format!(
        "{}\n{checked}: {} complaints",
        lines.join("\n"),
        lines.len()
    ))
}
