//! Budgets of mechanisms: how many lines each may have, and which figure it buys, as ARCHITECTURE.md has them.
//!
//! A mechanism that grows past what it buys is better done without. So its lines are counted, and the table says for what.

use std::collections::BTreeMap;

use super::layers::PAGE;
use super::tree::{Module, Tree, below};
use crate::complaint::Complaint;

pub(crate) const HEADING: &str = "### Budgets";
/// How many largest files a complaint names.
const SHOWN: usize = 3;
/// So many lines may be saved before the column of the present figure has to follow.
const SLACK: usize = 50;

/// One mechanism: a row of the table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Budget {
    name: String,
    /// How many lines it may have.
    most: usize,
    /// While it has more: how many it had. They may only become fewer.
    now: Option<usize>,
    /// Files, and folders with all that lies in them; without any it is all of the library.
    paths: Vec<String>,
    /// Where the row stands in the page.
    line: usize,
}

impl Budget {
    /// Reads the table below the heading: mechanism, at most, now at most, what it buys, where it lies.
    pub(super) fn all(page: &str) -> Vec<Budget> {
        let lines = (1..).zip(page.lines());
        let part = lines.skip_while(|(_, line)| *line != HEADING).skip(1);
        let part = part.take_while(|(_, line)| !line.starts_with('#'));
        part.filter_map(|(line, text)| Budget::row(line, text))
            .collect()
    }

    /// Any other row, such as the first one, has no number.
    fn row(line: usize, text: &str) -> Option<Budget> {
        let cells: Vec<&str> = text.split('|').map(str::trim).collect();
        let [_, name, most, now, _, paths, _] = cells[..] else {
            return None;
        };
        let number = |cell: &str| cell.replace(',', "").parse().ok();
        let paths = paths.split('`').skip(1).step_by(2);
        Some(Budget {
            name: name.to_owned(),
            most: number(most)?,
            now: number(now),
            paths: paths.map(str::to_owned).collect(),
            line,
        })
    }

    fn has(&self, path: &str, folder: &str) -> bool {
        let path = below(path, folder).unwrap_or(path);
        let holds = |own: &String| match own.strip_suffix('/') {
            Some(own) => below(path, own).is_some(),
            None => path == own,
        };
        self.paths.is_empty() || self.paths.iter().any(holds)
    }

    /// Its files, the largest first.
    fn modules<'a>(&self, tree: &'a Tree, folder: &str) -> Vec<&'a Module> {
        let own = tree.modules.iter();
        let mut own: Vec<&Module> = own
            .filter(|module| self.has(&module.file, folder))
            .collect();
        own.sort_by_key(|module| std::cmp::Reverse(module.outline.lines));
        own
    }

    fn lines(&self, tree: &Tree, folder: &str) -> usize {
        let lines = self.modules(tree, folder).into_iter();
        lines.map(|module| module.outline.lines).sum()
    }

    fn complain(&self, wrong: String, right: String) -> Complaint {
        Complaint::new(PAGE, self.line, format!("{}: {wrong}", self.name), right)
    }

    /// What is wrong with how much there is of it.
    fn weighed(&self, tree: &Tree, folder: &str) -> Option<Complaint> {
        let (lines, limit) = (self.lines(tree, folder), self.now.unwrap_or(self.most));
        if lines > limit {
            let largest = self
                .modules(tree, folder)
                .into_iter()
                .take(SHOWN)
                .map(|module| {
                    let path = below(&module.file, folder).unwrap_or(&module.file);
                    format!("{path} ({})", module.outline.lines)
                });
            let largest: Vec<String> = largest.collect();
            let over = lines - limit;
            let wrong = format!("{lines} lines, which is {over} more than its budget of {limit}");
            let right = format!(
                "say it with less; the largest files: {}",
                largest.join(", ")
            );
            return Some(self.complain(wrong, right));
        }
        let now = self.now?;
        if lines <= self.most {
            let wrong = format!("{lines} lines are within the budget of {}", self.most);
            return Some(self.complain(wrong, "leave the column `now at most` empty".into()));
        }
        let wrong = format!("{lines} lines, where the page says {now} at most now");
        (now - lines > SLACK).then(|| self.complain(wrong, format!("write {lines} there")))
    }
}

/// All rules on the rows and on what they weigh.
pub(super) fn broken(tree: &Tree, folder: &str, budgets: &[Budget]) -> Vec<Complaint> {
    let mut found: Vec<Complaint> = budgets
        .iter()
        .filter_map(|budget| budget.weighed(tree, folder))
        .collect();
    let mut owners: BTreeMap<&str, &Budget> = BTreeMap::new();
    for budget in budgets.iter().filter(|budget| !budget.paths.is_empty()) {
        for path in &budget.paths {
            let one = Budget {
                paths: vec![path.clone()],
                ..Budget::default()
            };
            if one.modules(tree, folder).is_empty() {
                let wrong = format!("there is no `{path}`");
                found.push(budget.complain(wrong, "name what there is".into()));
            }
        }
        for module in budget.modules(tree, folder) {
            if let Some(other) = owners.insert(&module.file, budget) {
                let wrong = format!("{} is part of {} too", module.file, other.name);
                found.push(budget.complain(wrong, "count it once".into()));
            }
        }
    }
    found
}

/// Each row with its use, for `cargo xtask tidy --count`.
pub(super) fn table(tree: &Tree, folder: &str, budgets: &[Budget]) -> Vec<String> {
    let line = |budget: &Budget| {
        let (lines, most) = (budget.lines(tree, folder), budget.most);
        let over = lines.saturating_sub(most);
        let over = if over > 0 {
            format!(", {over} too many")
        } else {
            String::new()
        };
        format!("{lines:>7} of {most:>6}  {}{over}", budget.name)
    };
    budgets.iter().map(line).collect()
}
