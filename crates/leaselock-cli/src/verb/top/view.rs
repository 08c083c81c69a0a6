//! What is shown: the locks that were found, and how the operator wants to see them. No input and no output.

use std::time::Duration;

use leaselock::inspect::Inspection;
use rustix::process::Signal;

use super::fetch::{Seen, Target, Wish};
use super::input::Action;
use crate::args::inspect::{KINDS, SortColumn};
use crate::exit::Exit;
use crate::verb::break_;
use crate::{lock_rows, output};

/// In the order of the key that changes it.
const SORTS: [(SortColumn, &str); 3] = [
    (SortColumn::Waiting, "the most waiters first"),
    (SortColumn::Name, "by name"),
    (SortColumn::Held, "the longest held first"),
];

/// What is open below the first lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Pane {
    #[default]
    Table,
    /// The table, and below it the chosen lock.
    Lock,
    Events,
    /// What `doctor` says, as of when it was opened.
    Report,
    Help,
}

/// What is typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Prompt {
    Filter,
    /// The name, by which the operator says that this lock is meant.
    Name(Target),
    Why(Target),
}

/// What an action asks of the program.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    Ask(Wish),
    End(Exit),
}

/// Everything that a frame is drawn from.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) store: String,
    pub(super) has_colours: bool,
    pub(super) has_unicode: bool,
    /// A person is there: keys are named, and a row is marked.
    pub(super) is_live: bool,
    pub(super) may_break: bool,
    /// Now, by the clock of `boottime`.
    pub(super) now: u64,
    /// When the locks were listed, and how long the store took; nothing before the first reply.
    pub(super) listed: Option<(u64, Duration)>,
    pub(super) locks: Vec<Inspection>,
    /// Indexes of the locks that are wanted, in order.
    pub(super) shown: Vec<usize>,
    /// The chosen one of these.
    pub(super) at: usize,
    /// Nothing until the store has told them.
    pub(super) events: Option<Vec<String>>,
    /// Lines of any length; empty until the store has told them.
    pub(super) report: Vec<String>,
    /// The first of them that is shown.
    pub(super) report_from: usize,
    pub(super) pane: Pane,
    pub(super) sort: usize,
    /// Which of the kinds alone, counted from 1; 0 is all.
    pub(super) kind: usize,
    pub(super) only_contended: bool,
    pub(super) filter: String,
    pub(super) is_paused: bool,
    pub(super) prompt: Option<Prompt>,
    pub(super) typed: String,
    /// What came of the latest key.
    pub(super) said: Option<String>,
    /// Why the store does not tell more, and since when.
    pub(super) trouble: Option<(String, u64)>,
}

impl View {
    pub(super) fn chosen(&self) -> Option<&Inspection> {
        self.rows(self.at, 1).pop()
    }

    /// So many of the wanted locks from this row on.
    pub(super) fn rows(&self, first: usize, count: usize) -> Vec<&Inspection> {
        let indexes = self.shown.iter().skip(first).take(count);
        indexes.map(|index| &self.locks[*index]).collect()
    }

    /// Which locks are shown, and in which order.
    pub(super) fn choice(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.is_paused.then(|| "PAUSED".to_owned()));
        let filter = Some(output::sanitized(&self.filter)).filter(|it| !it.is_empty());
        parts.extend(filter.map(|filter| format!("only *{filter}*")));
        parts.extend(self.only_contended.then(|| "only contended".to_owned()));
        parts.extend(self.only_kind().map(|kind| format!("only {kind}")));
        parts.push(SORTS[self.sort].1.to_owned());
        parts.join("  ")
    }

    fn only_kind(&self) -> Option<&'static str> {
        KINDS.get(self.kind.checked_sub(1)?).copied()
    }

    /// What is read at each time.
    pub(super) fn wish(&self) -> Wish {
        Wish {
            locks: true,
            events: self.pane == Pane::Events,
            ..Wish::default()
        }
    }

    /// Takes in what the store has told; what is missing stays as it was.
    pub(super) fn learn(&mut self, seen: Seen) {
        self.said = seen.said.or(self.said.take());
        let latest = self.listed.map_or(self.now, |(at, _)| at);
        let since = self.trouble.take().map_or(latest, |(_, since)| since);
        let text = seen.trouble.map(|it| output::sanitized(&it.to_string()));
        self.trouble = text.map(|text| (text, since));
        self.events = seen.events.or(self.events.take());
        self.report = seen.report.unwrap_or(std::mem::take(&mut self.report));
        if let Some((locks, took)) = seen.locks {
            self.listed = Some((self.now, took));
            self.arrange(Some(locks));
        }
    }

    /// Sorts and filters; the chosen lock stays chosen, wherever it is now.
    fn arrange(&mut self, locks: Option<Vec<Inspection>>) {
        let chosen = self.chosen().map(|lock| lock.name.clone());
        self.locks = locks.unwrap_or_else(|| std::mem::take(&mut self.locks));
        lock_rows::sort(&mut self.locks, Some(SORTS[self.sort].0));
        let is_wanted = |lock: &Inspection| {
            let of_kind = self.only_kind().is_none_or(|kind| lock.kind == Some(kind));
            let contended = lock.waiter_count > 0 || !self.only_contended;
            of_kind && contended && lock.name.contains(&self.filter)
        };
        let indexes = 0..self.locks.len();
        self.shown = indexes.filter(|at| is_wanted(&self.locks[*at])).collect();
        let is_chosen = |index: &usize| Some(&self.locks[*index].name) == chosen.as_ref();
        let last = self.shown.len().saturating_sub(1);
        let still = self.shown.iter().position(is_chosen);
        self.at = still.unwrap_or(self.at.min(last));
    }

    /// Does what the operator wants, as far as it is about what is shown.
    pub(super) fn apply(&mut self, action: Action) -> Effect {
        self.said = None;
        match action {
            Action::Move(rows) if self.pane == Pane::Report => {
                let last = self.report.len().saturating_sub(1);
                self.report_from = self.report_from.saturating_add_signed(rows).min(last);
                return Effect::Nothing;
            }
            Action::Move(rows) => {
                let last = self.shown.len().saturating_sub(1);
                self.at = self.at.saturating_add_signed(rows).min(last);
                return Effect::Nothing;
            }
            Action::Enter => return self.enter(),
            Action::Back => self.back(),
            Action::Type(c) => self.typed.extend(Some(c).filter(|c| !c.is_control())),
            Action::Erase => drop(self.typed.pop()),
            Action::Do('/') => self.ask(Prompt::Filter, self.filter.clone()),
            Action::Do('s') => self.sort = (self.sort + 1) % SORTS.len(),
            Action::Do('c') => self.only_contended = !self.only_contended,
            Action::Do('K') => self.kind = (self.kind + 1) % (KINDS.len() + 1),
            Action::Do('e') => {
                self.toggle(Pane::Events);
                if self.pane != Pane::Events {
                    return Effect::Nothing;
                }
                let (locks, wish) = (false, self.wish());
                return Effect::Ask(Wish { locks, ..wish });
            }
            Action::Do('d') => {
                self.toggle(Pane::Report);
                self.report_from = 0;
                if self.pane != Pane::Report {
                    return Effect::Nothing;
                }
                self.report.clear();
                let report = true;
                return Effect::Ask(Wish {
                    report,
                    ..Wish::default()
                });
            }
            Action::Do('?') => self.toggle(Pane::Help),
            Action::Do('p') => self.is_paused = !self.is_paused,
            Action::Do('b') => self.ask_to_break(),
            Action::Do('q') => return Effect::End(Exit::OK),
            Action::Do(_) => return Effect::Nothing,
            Action::Interrupt => return Effect::End(Exit::by_signal(Signal::INT)),
        }
        if self.prompt == Some(Prompt::Filter) {
            self.filter.clone_from(&self.typed);
        }
        self.arrange(None);
        Effect::Nothing
    }

    fn ask(&mut self, prompt: Prompt, typed: String) {
        (self.prompt, self.typed) = (Some(prompt), typed);
    }

    fn toggle(&mut self, pane: Pane) {
        self.pane = if self.pane == pane { Pane::Table } else { pane };
    }

    fn enter(&mut self) -> Effect {
        let typed = std::mem::take(&mut self.typed);
        match self.prompt.take() {
            None => self.toggle(Pane::Lock),
            Some(Prompt::Filter) => {}
            Some(Prompt::Name(target)) if target.name == typed => {
                self.ask(Prompt::Why(target), String::new());
            }
            Some(Prompt::Name(_)) => {
                self.said = Some("that is not its name; nothing was broken".to_owned());
            }
            Some(Prompt::Why(target)) => {
                let breaking = Some((target, typed.trim().to_owned()));
                let wish = self.wish();
                return Effect::Ask(Wish { breaking, ..wish });
            }
        }
        Effect::Nothing
    }

    /// One step: the prompt, then the pane, then the filter.
    fn back(&mut self) {
        match self.prompt.take() {
            Some(Prompt::Name(_) | Prompt::Why(_)) => {}
            None if self.pane != Pane::Table => self.pane = Pane::Table,
            Some(Prompt::Filter) | None => self.filter.clear(),
        }
    }

    fn ask_to_break(&mut self) {
        if !self.may_break {
            let text = "to break a lock here, start `leaselock top --allow-break`";
            self.said = Some(text.to_owned());
        } else if let Some(lock) = self.chosen() {
            let (name, grants) = (lock.name.clone(), break_::grants(&lock.state));
            self.ask(Prompt::Name(Target { name, grants }), String::new());
        }
    }
}
