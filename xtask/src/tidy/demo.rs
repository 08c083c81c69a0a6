//! The picture on the first page, drawn from what a test recorded of two terminals.

use crate::complaint::Complaint;
use crate::files::File;

const RECORDING: &str = "docs/img/demo.txt";
const PICTURE: &str = "docs/img/demo.svg";

/// Characters of a line; a longer one goes on in the next row, or is cut while it may still change.
const COLUMNS: usize = 96;
const CHANGES: &str = "leaselock: waiting for ";
/// Sizes in pixels of the picture.
const ROW: usize = 18;
const WIDTH: usize = 800;
const MARGIN: usize = 20;
/// A reader needs so long before the next command, at what happens to the server, and at the end.
const READ_MS: usize = 1_800;
const HAPPENS_MS: usize = 2_500;
const END_MS: usize = 6_000;
/// A reader waits no longer for the next line.
const LONGEST_MS: usize = 1_000;

/// Ground and letters have enough contrast on light pages and on dark ones. A reader who wants no motion sees the end.
const STYLE: &str = "text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#c9d1d9;white-space:pre}\
.typed{fill:#fff;font-weight:600}.lost{fill:#ff9492}.waits{fill:#f0c674}.happens{fill:#79c0ff}\
.title{fill:#9198a1}.gone{opacity:0}";

pub(super) fn check(all: &[File], found: &mut Vec<Complaint>) {
    let text = |path: &str| all.iter().find(|file| file.path == path);
    let (Some(recording), Some(there)) = (text(RECORDING), text(PICTURE)) else {
        let wrong = "there is no recording with its picture";
        let right = "record it as the test `demo` says, then `cargo xtask tidy --write`";
        found.push(Complaint::new(PICTURE, 0, wrong, right));
        return;
    };
    let by = (RECORDING, "cargo xtask tidy --write");
    let wanted = drawn(&recording.text);
    found.extend(Complaint::of_page(PICTURE, &there.text, &wanted, by));
}

/// The picture with its path.
pub(super) fn made(all: &[File]) -> Option<(String, String)> {
    let recording = all.iter().find(|file| file.path == RECORDING)?;
    Some((PICTURE.to_owned(), drawn(&recording.text)))
}

struct Shown<'a> {
    pane: usize,
    row: usize,
    text: &'a str,
    from_ms: usize,
    /// When another line took its place.
    to_ms: Option<usize>,
}

/// What is shown from when to when, how many rows each pane has, and when all is over.
///
/// The panes are A, what happens to the server, and B.
fn staged(recording: &str) -> (Vec<Shown<'_>>, [usize; 3], usize) {
    let (mut all, mut rows): (Vec<Shown<'_>>, _) = (Vec::new(), [0; 3]);
    let (mut now_ms, mut before_ms) = (0, 0);
    for line in recording.lines().filter(|line| !line.starts_with('#')) {
        let (at_ms, rest) = line.trim_start().split_once(' ').unwrap_or(("0", line));
        let at_ms: usize = at_ms.parse().unwrap_or(before_ms);
        let pane = ["A", "-", "B"].iter().position(|one| rest.starts_with(one));
        let (pane, text) = (pane.unwrap_or(1), rest.get(3..).unwrap_or_default());
        let text = match text.char_indices().nth(COLUMNS) {
            Some((end, _)) if text.starts_with(CHANGES) => &text[..end],
            _ => text,
        };
        let pause_ms = match text {
            _ if all.is_empty() => 500,
            _ if pane == 1 => HAPPENS_MS,
            _ if text.starts_with("$ ") => READ_MS,
            _ => 0,
        };
        now_ms += at_ms
            .saturating_sub(before_ms)
            .min(LONGEST_MS)
            .max(pause_ms);
        before_ms = at_ms;
        let before = all.iter_mut().rev().find(|one| one.pane == pane);
        let row = match before.filter(|_| rest.get(1..).is_some_and(|rest| rest.starts_with('~'))) {
            Some(before) => {
                before.to_ms = Some(now_ms);
                before.row
            }
            None => rows[pane],
        };
        rows[pane] = row + text.chars().count().div_ceil(COLUMNS).max(1);
        all.push(Shown {
            pane,
            row,
            text,
            from_ms: now_ms,
            to_ms: None,
        });
    }
    (all, rows, now_ms + END_MS)
}

fn drawn(recording: &str) -> String {
    let (all, rows, end_ms) = staged(recording);
    let tops = [0, 1, 2].map(|pane| MARGIN + ROW * (rows[..pane].iter().sum::<usize>() + 2 * pane));
    let height = tops[2] + ROW * (rows[2] + 1) + MARGIN / 2;
    let part = |ms: usize| format!("{}.{:02}%", ms * 100 / end_ms, ms * 10_000 / end_ms % 100);
    let (mut moves, mut body) = (String::new(), String::new());
    for (at, one) in all
        .iter()
        .enumerate()
        .filter(|(_, one)| !one.text.is_empty())
    {
        let to = one.to_ms.map(|ms| format!("{}{{opacity:0}}", part(ms)));
        let from = part(one.from_ms);
        let to = to.unwrap_or_default();
        moves += &format!("@keyframes k{at}{{0%{{opacity:0}}{from}{{opacity:1}}{to}}}");
        moves += &format!(".k{at}{{animation:k{at} {end_ms}ms step-end infinite}}");
        let gone = if one.to_ms.is_some() { " gone" } else { "" };
        let class = class(one);
        let letters: Vec<char> = one.text.chars().collect();
        for (more, row) in letters.chunks(COLUMNS).enumerate() {
            let row: String = row.iter().collect();
            let y = tops[one.pane] + ROW * (one.row + more + 1);
            let row = row.replace('&', "&amp;").replace('<', "&lt;");
            body += &format!(
                "<text class=\"k{at}{class}{gone}\" x=\"{MARGIN}\" y=\"{y}\">{row}</text>\n"
            );
        }
    }
    let title = |pane: usize, text: &str| {
        let y = tops[pane];
        format!("<text class=\"title\" x=\"{MARGIN}\" y=\"{y}\">{text}</text>\n")
    };
    let titles = title(0, "one terminal") + &title(2, "another");
    let label = "Two terminals: the server comes back empty, and the first job is stopped before the second one starts";
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{label}\">\n\
         <style>{STYLE}@media (prefers-reduced-motion:no-preference){{{moves}}}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"8\" fill=\"#161b22\"/>\n\
         {titles}{body}</svg>\n"
    )
}

fn class(one: &Shown<'_>) -> &'static str {
    match one.text {
        _ if one.pane == 1 => " happens",
        text if text.starts_with("$ ") => " typed",
        text if text.contains("lost") && one.pane == 0 => " lost",
        text if text.starts_with(CHANGES) => " waits",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = "\
# A head.
    0 A  $ run
   90 A  works & waits
  900 -  the server is killed
 9000 B  leaselock: waiting for it, which goes on and on and on and on and on and on and on and on and on without end
 9100 B~ done
";

    #[test]
    fn lines_follow_one_another_at_a_pace_that_can_be_read_and_one_takes_the_place_of_another() {
        let (all, rows, end_ms) = staged(RECORDED);
        let times: Vec<_> = all
            .iter()
            .map(|one| (one.row, one.from_ms, one.to_ms))
            .collect();
        assert_eq!(
            times,
            [
                (0, 500, None),
                (1, 590, None),
                (0, 3_090, None),
                (0, 4_090, Some(4_190)),
                (0, 4_190, None)
            ]
        );
        assert_eq!((rows, end_ms), ([2, 1, 1], 10_190));
        let picture = drawn(RECORDED);
        assert!(picture.contains(">works &amp; waits</text>"), "{picture}");
        assert!(picture.contains("class=\"k3 waits gone\""), "{picture}");
        assert!(!picture.contains("without end"), "{picture}");
    }

    #[test]
    fn a_picture_that_is_not_of_its_recording_is_refused() {
        let file = |path: &str, text: &str| File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let complaints = |picture: &str| {
            let mut found = Vec::new();
            check(
                &[file(RECORDING, RECORDED), file(PICTURE, picture)],
                &mut found,
            );
            found.len()
        };
        assert_eq!(complaints(&drawn(RECORDED)), 0);
        assert_eq!(complaints(&drawn("    0 A  $ another")), 1);
        let mut found = Vec::new();
        check(&[file(PICTURE, "")], &mut found);
        assert_eq!(found.len(), 1, "no recording");
    }
}
