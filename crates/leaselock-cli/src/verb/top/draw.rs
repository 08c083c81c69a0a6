//! A frame: cells that follow from the view, and from the clock where a row has an age.

use std::time::Duration;

use leaselock::inspect::Inspection;
use leaselock::satellite::rounded;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

use super::view::{Pane, Prompt, View};
use crate::lock_rows::{self, HEADINGS};
use crate::output::sanitized;
use crate::show;

const NAME: usize = 0;
const BY: usize = 3;
const HOST: usize = 5;
const WAITING: usize = 6;
const EXPIRES: usize = 7;
const NOTE: usize = 8;
/// The columns of `ls` by importance: a narrow terminal leaves out the last ones.
const COLUMNS: [usize; 9] = [NAME, WAITING, 2, BY, 1, 4, HOST, EXPIRES, NOTE];
/// A column of text is cut to so much and no further.
const NARROWEST: usize = 8;

const KEYS: &str = "Enter lock  / filter  s sort  c contended  ? keys  q quit";
const HELP: [&str; 12] = [
    "j k, arrows   choose a lock; also PageDown PageUp Home End",
    "Enter         the chosen lock with its queue, below the table",
    "/             only names with this text in them; Esc: all again",
    "s             sort by waiting, by name, by the longest held",
    "c             only locks that others wait for",
    "K             all kinds, or one of them alone, such as leader",
    "e             the event log of the store, the newest at the end",
    "d             what doctor says of the store; j k scroll it",
    "p             pause: nothing is asked of the store until p again",
    "b             break the chosen lock, with --allow-break",
    "Esc           close what is open",
    "q, Ctrl-C     end",
];

/// How a text is to be taken. Colours only repeat what the words say.
#[derive(Clone, Copy)]
enum Tone {
    Plain,
    Strong,
    Warning,
    Bad,
}

/// Draws all of it.
pub(super) fn draw(buffer: &mut Buffer, view: &View) {
    let area = buffer.area;
    let mut page = Page { view, area, buffer };
    let head = format!("leaselock top  {}  {}", view.choice(), view.store);
    page.line(Tone::Strong, &head);
    page.figures();
    if let Some((text, since)) = &view.trouble {
        let text = format!("no news for {}: {text}", page.age(*since));
        let room = page.area.height;
        // The other half is for what is open, and for the keys.
        page.area.height = room.div_ceil(2);
        page.whole(Tone::Bad, &text);
        page.area.height += room / 2;
    }
    if view.is_live {
        page.foot();
    }
    match view.pane {
        Pane::Table => page.table(),
        Pane::Lock => page.lock(),
        Pane::Events => page.events(),
        Pane::Report => page.report(),
        Pane::Help => HELP.iter().for_each(|line| page.line(Tone::Plain, line)),
    }
    for cell in &mut buffer.content {
        if !view.has_unicode && !cell.symbol().is_ascii() {
            cell.set_symbol("?");
        }
    }
}

/// Lines of text, as they are printed into a pipe.
pub(super) fn text(buffer: &Buffer) -> String {
    let line = |cells: &[Cell]| {
        let (mut line, mut covered) = (String::new(), 0);
        for cell in cells {
            // The cells behind a wide character are blank.
            if covered == 0 {
                line.push_str(cell.symbol());
                covered = width_of(cell.symbol()).max(1);
            }
            covered -= 1;
        }
        format!("{}\n", line.trim_end())
    };
    let lines = buffer.content.chunks(usize::from(buffer.area.width).max(1));
    format!("{}\n", lines.map(line).collect::<String>().trim_end())
}

/// What is left of the screen.
struct Page<'a> {
    view: &'a View,
    area: Rect,
    buffer: &'a mut Buffer,
}

impl Page<'_> {
    /// The next line, cut to the width.
    fn line(&mut self, tone: Tone, text: &str) {
        if let Some(y) = self.next() {
            self.put((0, y), self.area.width.into(), text, tone);
        }
    }

    /// The next lines, as many as the text needs and there are.
    fn whole(&mut self, tone: Tone, text: &str) {
        for line in wrapped(text, self.area.width.into()) {
            self.line(tone, line.trim_end());
        }
    }

    fn next(&mut self) -> Option<u16> {
        self.area.height = self.area.height.checked_sub(1)?;
        self.area.y += 1;
        Some(self.area.y - 1)
    }

    fn put(&mut self, (x, y): (usize, u16), room: usize, text: &str, tone: Tone) {
        let style = match (tone, self.view.has_colours) {
            (Tone::Plain, _) => Style::new(),
            (Tone::Warning, true) => Style::new().fg(Color::Yellow),
            (Tone::Bad, true) => Style::new().fg(Color::Red),
            _ => Style::new().add_modifier(Modifier::BOLD),
        };
        if let Ok(x) = u16::try_from(x) {
            self.buffer.set_stringn(x, y, text, room, style);
        }
    }

    fn age(&self, since: u64) -> String {
        let age = Duration::from_nanos(self.view.now.saturating_sub(since));
        rounded(Duration::from_secs(age.as_secs()))
    }

    /// As many figures as there is room for.
    fn figures(&mut self) {
        let Some((at, took)) = self.view.listed else {
            return self.line(Tone::Plain, "asking the store");
        };
        let locks = &self.view.locks;
        let contended = locks.iter().filter(|lock| lock.waiter_count > 0).count();
        let waiting: usize = locks.iter().map(|lock| lock.waiter_count).sum();
        let waits = |lock: &Inspection| lock.queue.iter().map(|it| it.waited).max();
        let longest = locks.iter().filter_map(|lock| Some((waits(lock)?, lock)));
        let mut parts = vec![
            format!("{} held", locks.len()),
            format!("{contended} contended"),
            format!("{waiting} waiting"),
            format!("sweep {} ms", took.as_millis()),
            format!("{} ago", self.age(at)),
        ];
        if let Some((wait, lock)) = longest.max_by_key(|(wait, _)| *wait) {
            let (wait, name) = (show::whole(wait), sanitized(&lock.name));
            parts.push(format!("longest wait {wait} for {name}"));
        }
        while parts.len() > 1 && width_of(&parts.join("  ")) > self.area.width.into() {
            parts.pop();
        }
        let tone = if contended > 0 {
            Tone::Warning
        } else {
            Tone::Plain
        };
        self.line(tone, &parts.join("  "));
    }

    /// The last lines: what is typed, what came of it, or the keys.
    fn foot(&mut self) {
        let typed = sanitized(&self.view.typed);
        let (tone, text) = match (&self.view.prompt, &self.view.said) {
            (Some(Prompt::Filter), _) => (Tone::Strong, format!("only names with: {typed}_")),
            (Some(Prompt::Name(target)), _) => {
                let name = sanitized(&target.name);
                let asked = format!("to take `{name}` from all who hold it, type its name");
                (Tone::Bad, format!("{asked}: {typed}_"))
            }
            (Some(Prompt::Why(_)), _) => {
                let asked = "why, for the holder and the log?";
                (Tone::Bad, format!("{asked} {typed}_"))
            }
            (None, Some(said)) => (Tone::Strong, said.clone()),
            (None, None) => (Tone::Plain, KEYS.to_owned()),
        };
        let width = usize::from(self.area.width);
        let lines = match (&self.view.prompt, &self.view.said) {
            (None, Some(_)) => wrapped(&text, width),
            (None, None) => vec![text],
            (Some(_), _) => {
                // The end is what is being typed.
                let left_out = width_of(&text).saturating_sub(width);
                vec![text.chars().skip(left_out).collect()]
            }
        };
        let rows = u16::try_from(lines.len()).unwrap_or(u16::MAX);
        let rows = rows.min(self.area.height);
        self.area.height -= rows;
        for (y, line) in (self.area.bottom()..).zip(&lines).take(rows.into()) {
            self.put((0, y), width, line.trim_end(), tone);
        }
    }

    fn table(&mut self) {
        let Some(heading) = self.next() else { return };
        let rest = usize::from(self.area.height);
        // The last line of a text says how many are left out.
        let is_cut = !self.view.is_live && self.view.shown.len() > rest;
        let height = rest.saturating_sub(usize::from(is_cut)).max(1);
        let first = self.view.at / height * height;
        let seen = self.view.rows(first, height);
        let rows: Vec<_> = seen.into_iter().map(lock_rows::row).collect();
        let columns = columns(&rows, self.area.width.into());
        for (column, x, width) in &columns {
            self.put((*x, heading), *width, HEADINGS[*column], Tone::Strong);
        }
        for (at, row) in (first..).zip(&rows) {
            let Some(y) = self.next() else { return };
            for (column, x, width) in &columns {
                let tone = match *column {
                    WAITING if row[WAITING] != "0" => Tone::Warning,
                    EXPIRES if row[EXPIRES] == "broken" => Tone::Bad,
                    _ => Tone::Plain,
                };
                self.put((*x, y), *width, &row[*column], tone);
            }
            if self.view.is_live && at == self.view.at {
                let line = Rect::new(0, y, self.area.width, 1);
                let chosen = Style::new().add_modifier(Modifier::REVERSED);
                self.buffer.set_style(line, chosen);
            }
        }
        let more = self.view.shown.len() - rows.len();
        if rows.is_empty() && self.view.listed.is_some() {
            self.line(Tone::Plain, "no locks are held that are to be shown");
        } else if !self.view.is_live && more > 0 {
            self.line(Tone::Plain, &format!("and {more} more"));
        }
    }

    /// The table above, and the chosen lock below.
    fn lock(&mut self) {
        let mut below = self.area;
        below.height = self.area.height / 2;
        self.area.height -= below.height;
        below.y += self.area.height;
        self.table();
        self.area = below;
        self.line(Tone::Plain, &"-".repeat(below.width.into()));
        let text = self.view.chosen().map(show::text).unwrap_or_default();
        let width = usize::from(below.width);
        let lines = text.lines().flat_map(|line| wrapped(line, width));
        let lines: Vec<String> = lines.collect();
        let (count, room) = (lines.len(), usize::from(self.area.height));
        // The last line says what is left out.
        let shown = if count > room {
            room.saturating_sub(1)
        } else {
            count
        };
        for line in &lines[..shown] {
            self.line(Tone::Plain, line.trim_end());
        }
        if shown < count {
            let more = count - shown;
            self.line(Tone::Plain, &format!("  and {more} more lines in status"));
        }
    }

    fn report(&mut self) {
        if self.view.report.is_empty() && self.view.trouble.is_none() {
            self.line(Tone::Plain, "asking the store");
        }
        for text in self.view.report.iter().skip(self.view.report_from) {
            let tone = match text.split_whitespace().next() {
                Some("UNFIT") => Tone::Bad,
                Some("warn") => Tone::Warning,
                _ => Tone::Plain,
            };
            self.whole(tone, text);
        }
    }

    fn events(&mut self) {
        let Some(events) = &self.view.events else {
            if self.view.trouble.is_none() {
                self.line(Tone::Plain, "asking the store");
            }
            return;
        };
        if events.is_empty() {
            self.line(Tone::Plain, "the log has no entry");
        }
        let (width, height) = (self.area.width.into(), self.area.height.into());
        let entries = &events[events.len().saturating_sub(height)..];
        let entries = entries.iter().map(|entry| wrapped(entry.trim_end(), width));
        let lines: Vec<String> = entries.flatten().collect();
        for line in &lines[lines.len().saturating_sub(height)..] {
            self.line(Tone::Plain, line.trim_end());
        }
    }
}

/// The text in lines of that width at most, cut at spaces where there are any. All but the first begin as far in as its
/// words do, behind what stands in columns.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    let indent = text.rfind("  ").map_or(0, |at| at + 2).min(width / 2);
    for word in text.split_inclusive(' ') {
        if width_of(&line) + width_of(word.trim_end()) > width && !line.trim().is_empty() {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// The columns that there is room for: which, from where on, how wide.
fn columns(rows: &[[String; 9]], width: usize) -> Vec<(usize, usize, usize)> {
    let (mut found, mut x) = (Vec::new(), 0);
    for column in COLUMNS {
        let cells = rows.iter().map(|row| width_of(&row[column]));
        let widest = cells.max().unwrap_or(0).max(HEADINGS[column].len());
        let (is_text, most) = match column {
            // With these, every column has room on a terminal of 160.
            NAME => (true, (width * 3 / 8).max(NARROWEST)),
            BY | HOST => (true, (width / 8).max(12)),
            _ => (column == NOTE, widest),
        };
        let (wish, room) = (widest.min(most), width.saturating_sub(x));
        if wish > room && (!is_text || room < NARROWEST) {
            break;
        }
        found.push((column, x, wish.min(room)));
        x += wish + 2;
    }
    found
}

/// In cells of a terminal.
fn width_of(text: &str) -> usize {
    Span::raw(text).width()
}
