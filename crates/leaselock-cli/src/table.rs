//! Columns for people: headings in capitals, each column as wide as its widest cell, two spaces between. On a terminal the
//! first column, of names, is narrower when the others have no room beside it.

use std::io::{IsTerminal as _, stdout};

use crate::text_width::{cut, padded, shortened, width as cells_of};
use crate::waiting_message::columns;

const BETWEEN: &str = "  ";
/// Names have so much room, whatever the other columns need, and a quarter of a wide terminal.
const NAMES_AT_LEAST: usize = 12;

/// The widths of the columns, by the rows that were there when it was made. Later ones may be wider.
pub(crate) struct Table<const N: usize> {
    widths: [usize; N],
    /// A longer name is shortened on a terminal.
    longest_name: usize,
    /// The width of the terminal, which cuts a line.
    cut: usize,
}

impl<const N: usize> Table<N> {
    pub(crate) fn of(rows: &[[String; N]], cut: Option<usize>) -> Self {
        let mut widths: [usize; N] = std::array::from_fn(|column| {
            let widths = rows.iter().map(|row| cells_of(&row[column]));
            widths.max().unwrap_or_default()
        });
        let cut = cut.unwrap_or(usize::MAX);
        let others = widths.iter().skip(1).map(|width| BETWEEN.len() + width);
        let rest = cut.saturating_sub(others.sum());
        let longest_name = rest.max(cut / 4).max(NAMES_AT_LEAST);
        if let Some(names) = widths.first_mut() {
            *names = longest_name.min(*names);
        }
        Table {
            widths,
            longest_name,
            cut,
        }
    }

    pub(crate) fn line(&self, cells: &[String; N]) -> String {
        let most = std::iter::once(self.longest_name).chain(std::iter::repeat(usize::MAX));
        let cells = cells.iter().zip(self.widths).zip(most);
        let cells = cells.map(|((cell, width), most)| padded(&shortened(cell, most), width));
        let line = cells.collect::<Vec<_>>().join(BETWEEN);
        format!("{}\n", cut(&line, self.cut).trim_end())
    }
}

/// Whether all columns have room, with names as short as they may be.
pub(crate) fn fits<const N: usize>(rows: &[[String; N]], cut: Option<usize>) -> bool {
    let widest = |column: usize| rows.iter().map(|row| cells_of(&row[column])).max();
    let others = (1..N).map(|column| BETWEEN.len() + widest(column).unwrap_or_default());
    let names = widest(0).unwrap_or_default().min(NAMES_AT_LEAST);
    cut.is_none_or(|cut| names + others.sum::<usize>() <= cut)
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
    fn a_long_name_gives_way_to_the_other_columns_on_a_terminal_alone() {
        let rows = [
            ["NAME", "BY", "PID"],
            ["nightly-report-of-sales", "sh", "17"],
        ];
        let rows = rows.map(|row| row.map(str::to_owned));
        let expected = "NAME             BY  PID\nnightly-report…  sh  17\n";
        assert_eq!(text(&rows, Some(24)), expected);
        assert!(text(&rows, Some(60)).contains("\nnightly-report-of-sales  sh"));
        assert!(text(&rows, None).contains("\nnightly-report-of-sales  sh"));
        // One of a later page has no more room than those of the first.
        let later = ["nightly-report-of-all", "sh", "9"].map(str::to_owned);
        assert_eq!(
            Table::of(&rows, Some(24)).line(&later),
            "nightly-report…  sh  9\n"
        );
    }

    #[test]
    fn columns_stand_below_each_other_also_behind_wide_and_joined_characters() {
        let rows = [["NAME", "BY"], ["夜間", "a"], ["e\u{301}", "b"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(text(&rows, None), "NAME  BY\n夜間  a\ne\u{301}     b\n");
        assert_eq!(text(&rows, Some(3)), "NAM\n夜\ne\u{301}\n");
    }
}
