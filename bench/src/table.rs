//! Tables for people: on a terminal, and as Markdown.

use crate::report::{Case, Show, Target};

const BY_HAND: &str = "by hand";

/// Headings and cells of one case.
pub fn rows(case: &Case) -> Vec<Vec<String>> {
    let headings = case.columns.iter().map(|column| column.heading.to_owned());
    let mut rows = vec![
        std::iter::once(String::new())
            .chain(headings)
            .collect::<Vec<_>>(),
    ];
    for measured in case
        .results
        .iter()
        .filter(|measured| !measured.rounds.is_empty())
    {
        let name = measured.contender.as_str();
        let cells = case.columns.iter().map(|column| match column.show {
            Show::Median(digits) => case
                .median(name, column.metric)
                .map_or(String::new(), |value| number(value, digits)),
            Show::RatioTo(other) => ratio(case, name, other, column.metric),
            Show::RatioToByHand => ratio(
                case,
                name,
                &name.replace("leaselock", BY_HAND),
                column.metric,
            ),
        });
        rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
    }
    rows
}

fn ratio(case: &Case, name: &str, other: &str, metric: &str) -> String {
    if name == other {
        return String::new();
    }
    case.ratio(name, other, metric)
        .map_or(String::new(), |spread| {
            format!(
                "{:.2} ({:.2}–{:.2})",
                spread.median, spread.lower, spread.upper
            )
        })
}

/// With a thin blank between thousands.
pub fn number(value: f64, digits: usize) -> String {
    let plain = format!("{value:.digits$}");
    let (whole, rest) = plain
        .split_once('.')
        .map_or((plain.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        let left = whole.len() - index;
        if index > 0 && left.is_multiple_of(3) && digit.is_ascii_digit() && whole.len() > 4 {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    rest.map_or(grouped.clone(), |rest| format!("{grouped}.{rest}"))
}

/// Columns side by side, numbers to the right.
pub fn plain(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let mut text = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let width = width(column);
            text += &if column == 0 {
                format!("  {cell:<width$}")
            } else {
                format!("  {cell:>width$}")
            };
        }
        text = text.trim_end().to_owned() + "\n";
    }
    text
}

pub fn markdown(rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        text += &format!("| {} |\n", row.join(" | "));
        if index == 0 {
            text += &format!("|---{}|\n", "|--:".repeat(row.len() - 1));
        }
    }
    text
}

/// Each figure of leaselock over that of the other build of it, round by round; empty without such a build.
pub fn before_and_after(case: &Case) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for measured in &case.results {
        let name = measured.contender.as_str();
        let before = name.replace("leaselock", "before");
        if before == name || case.of(&before).is_none() {
            continue;
        }
        let plain = case
            .columns
            .iter()
            .filter(|column| matches!(column.show, Show::Median(_)));
        for column in plain {
            let cell = ratio(case, name, &before, column.metric);
            rows.push(vec![name.to_owned(), column.heading.to_owned(), cell]);
        }
    }
    if !rows.is_empty() {
        rows.insert(
            0,
            ["after ÷ before", "", "median (quarters)"]
                .map(str::to_owned)
                .to_vec(),
        );
    }
    rows
}

/// What was promised, what was measured, and whether that is enough.
pub fn targets(targets: &[Target]) -> Vec<Vec<String>> {
    let heading = ["", "measured", "target", ""].map(str::to_owned).to_vec();
    let line = |target: &Target| {
        let sign = if target.at_most { "≤" } else { "≥" };
        let digits = |value: f64| {
            if value >= 100.0 {
                0
            } else if value >= 10.0 {
                1
            } else {
                3
            }
        };
        let measured = target.measured.map_or("not measured".to_owned(), |value| {
            number(value, digits(value))
        });
        let verdict = match (target.measured, target.met()) {
            (None, _) => "",
            (_, true) => "met",
            (_, false) => "missed",
        };
        let limit = format!(
            "{sign} {}",
            number(
                target.limit,
                if target.limit.fract() == 0.0 { 0 } else { 3 }
            )
        );
        vec![target.what.clone(), measured, limit, verdict.to_owned()]
    };
    std::iter::once(heading)
        .chain(targets.iter().map(line))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped_from_five_digits_on() {
        assert_eq!(number(1234.0, 0), "1234");
        assert_eq!(number(83_700.4, 1), "83 700.4");
        assert_eq!(number(1_000_000.0, 0), "1 000 000");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            vec!["".to_owned(), "µs".to_owned()],
            vec!["raw".to_owned(), "1000".to_owned()],
        ];
        assert_eq!(plain(&rows), "         µs\n  raw  1000\n");
        assert_eq!(markdown(&rows), "|  | µs |\n|---|--:|\n| raw | 1000 |\n");
    }
}
