//! Columns for people: headings in capitals, each column as wide as its widest cell, two spaces between.

use std::io::{IsTerminal as _, stdout};

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::waiting_message::columns;

/// The widths of the columns, by the rows that were there when it was made. Later ones may be wider.
pub(crate) struct Table<const N: usize> {
    widths: [usize; N],
    /// The width of the terminal, which cuts a line.
    cut: usize,
}

impl<const N: usize> Table<N> {
    pub(crate) fn of(rows: &[[String; N]], cut: Option<usize>) -> Self {
        let widths = std::array::from_fn(|column| {
            let widths = rows.iter().map(|row| row[column].width());
            widths.max().unwrap_or_default()
        });
        let cut = cut.unwrap_or(usize::MAX);
        Table { widths, cut }
    }

    pub(crate) fn line(&self, cells: &[String; N]) -> String {
        let padded = cells.iter().zip(self.widths);
        let padded = padded.map(|(cell, width)| {
            let rest = width.saturating_sub(cell.width());
            format!("{cell}{:rest$}", "")
        });
        let line = padded.collect::<Vec<_>>().join("  ");
        format!("{}\n", fitting(&line, self.cut).trim_end())
    }
}

/// As much of the text as so many columns of a terminal have room for.
pub(crate) fn fitting(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let rest = text.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or_default();
        used > columns
    });
    &text[..rest.map_or(text.len(), |(at, _)| at)]
}

/// The lines of all rows, of which the first is the headings; nothing at all without another one.
pub(crate) fn text<const N: usize>(rows: &[[String; N]], cut: Option<usize>) -> String {
    let table = Table::of(rows, cut);
    match rows {
        [] | [_] => String::new(),
        rows => rows.iter().map(|row| table.line(row)).collect(),
    }
}

/// The width of the terminal, if standard output is one.
pub(crate) fn width() -> Option<usize> {
    stdout().is_terminal().then(|| columns(stdout()))
}

/// What stands where nothing is known.
pub(crate) fn or_none(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_a_terminal_cuts_the_line() {
        let rows =
            [["NAME", "BY"], ["a", "somebody"], ["longer", "b"]].map(|row| row.map(str::to_owned));
        assert_eq!(
            text(&rows, None),
            "NAME    BY\na       somebody\nlonger  b\n"
        );
        assert_eq!(text(&rows[..1], None), "");
        assert_eq!(Table::of(&rows, Some(10)).line(&rows[1]), "a       so\n");
    }

    #[test]
    fn a_character_has_the_columns_that_a_terminal_gives_it() {
        let rows = [["NAME", "BY"], ["日本", "a"], ["e\u{301}", "b"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        let lines = "NAME  BY\n日本  a\ne\u{301}     b\n";
        assert_eq!(text(&rows, None), lines);
        assert_eq!(Table::of(&rows, Some(3)).line(&rows[1]), "日\n");
    }
}
