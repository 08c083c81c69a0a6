//! The comment at the top of a script.

use crate::lex::{Kind, Language, Token, lex};

/// One `KEYS[n] name  what it is`. `KEYS[…]` stands for all that come behind those before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) line: usize,
    /// `KEYS` or `ARGV`.
    pub(super) array: &'static str,
    pub(super) number: usize,
    pub(super) open_ended: bool,
    pub(super) name: String,
}

/// A paragraph such as `Replay`, its word taken off, lines joined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Section {
    /// 0 when the section is missing.
    pub(super) line: usize,
    pub(super) lines: Vec<String>,
}

impl Section {
    pub(super) fn is_missing(&self) -> bool {
        self.line == 0 || self.text().is_empty()
    }

    pub(super) fn text(&self) -> String {
        self.lines.join(" ").trim().to_owned()
    }

    /// The tokens of the section, with the lines of the file.
    pub(super) fn tokens(&self) -> Vec<Token> {
        let lines = self.lines.iter().zip(self.line..);
        let tokens = lines.flat_map(|(text, line)| {
            lex(text, Language::Lua)
                .into_iter()
                .map(move |token| Token { line, ..token })
        });
        tokens.collect()
    }
}

/// A header taken apart. What is missing is empty; the rules complain about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// What stands before the colon of the first line.
    pub(super) title: String,
    pub(super) summary: Section,
    pub(super) slots: Vec<Slot>,
    pub(super) returns: Section,
    pub(super) replay: Section,
    pub(super) writes: Section,
}

impl Header {
    /// Reads the comment lines at the top; a line that begins with spaces goes on with the last.
    pub(super) fn parse(source: &str) -> Header {
        let mut header = Header::default();
        let mut current = Place::Nowhere;
        for (line, text) in (1..).zip(source.lines()) {
            let Some(text) = text
                .strip_prefix("--")
                .filter(|text| !text.starts_with('#'))
            else {
                break;
            };
            let text = text.strip_prefix(' ').unwrap_or(text);
            if line == 1 {
                let (title, summary) = text.split_once(": ").unwrap_or(("", text));
                header.title = title.to_owned();
                header.summary = Section {
                    line,
                    lines: vec![summary.to_owned()],
                };
                current = Place::Summary;
            } else if let Some(slot) = header.parse_slot(line, text) {
                header.slots.push(slot);
                current = Place::Nowhere;
            } else {
                current = header.parse_text(line, text, current);
            }
        }
        header
    }

    fn parse_text(&mut self, line: usize, text: &str, current: Place) -> Place {
        let sections = [
            ("Returns", Place::Returns),
            ("Replay", Place::Replay),
            ("Writes", Place::Writes),
        ];
        for (word, place) in sections {
            if let Some(rest) = text.strip_prefix(word).filter(|rest| rest.starts_with(' ')) {
                let section = self.section(place).expect("these places are sections");
                *section = Section {
                    line,
                    lines: vec![rest.trim().to_owned()],
                };
                return place;
            }
        }
        let goes_on = current == Place::Summary || text.starts_with(' ');
        match self.section(current) {
            Some(section) if goes_on && !text.trim().is_empty() => {
                section.lines.push(text.trim().to_owned());
                current
            }
            _ => Place::Nowhere,
        }
    }

    fn parse_slot(&self, line: usize, text: &str) -> Option<Slot> {
        let array = ["KEYS", "ARGV"]
            .into_iter()
            .find(|array| text.starts_with(array))?;
        let (index, rest) = text[array.len()..].strip_prefix('[')?.split_once(']')?;
        let open_ended = index == "…";
        let number = if open_ended {
            self.of(array).count() + 1
        } else {
            index.parse().ok()?
        };
        let name = rest
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned();
        Some(Slot {
            line,
            array,
            number,
            open_ended,
            name,
        })
    }

    fn section(&mut self, place: Place) -> Option<&mut Section> {
        match place {
            Place::Nowhere => None,
            Place::Summary => Some(&mut self.summary),
            Place::Returns => Some(&mut self.returns),
            Place::Replay => Some(&mut self.replay),
            Place::Writes => Some(&mut self.writes),
        }
    }

    /// The slots of `KEYS` or of `ARGV`.
    pub(super) fn of<'a>(&'a self, array: &'a str) -> impl Iterator<Item = &'a Slot> {
        self.slots.iter().filter(move |slot| slot.array == array)
    }

    /// The names in the braces of the answers, such as `fence` in `{"granted", fence}`.
    pub(super) fn answer_names(&self) -> Vec<Token> {
        let mut depth = 0;
        let tokens = self.returns.tokens().into_iter().filter(|token| {
            depth += i32::from(token.is("{")) - i32::from(token.is("}"));
            depth > 0 && token.kind == Kind::Word
        });
        tokens.collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Nowhere,
    Summary,
    Returns,
    Replay,
    Writes,
}
