//! What processes of one test tell each other: lines of files in a folder that they share.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

/// Appends a line. A process that is killed has written all of it or nothing.
pub fn note(folder: &Path, file: &str, line: &str) {
    let options = OpenOptions::new()
        .append(true)
        .create(true)
        .open(folder.join(file));
    let mut file = options.unwrap_or_else(|error| panic!("cannot note in {file}: {error}"));
    file.write_all(format!("{line}\n").as_bytes())
        .unwrap_or_else(|error| panic!("cannot note {line}: {error}"));
}

/// Returns the lines so far; none if no process has written one.
pub fn lines(folder: &Path, file: &str) -> Vec<String> {
    let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_in_the_order_they_were_noted() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(lines(folder.path(), "told").is_empty());
        note(folder.path(), "told", "one");
        note(folder.path(), "told", "");
        note(folder.path(), "told", "two");
        assert_eq!(lines(folder.path(), "told"), ["one", "", "two"]);
    }
}
