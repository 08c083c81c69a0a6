//! `leaselock ls [PATTERN]`

use std::collections::{BTreeSet, HashSet};
use std::io::{ErrorKind, IsTerminal as _};
use std::ops::ControlFlow;
use std::time::Duration;

use leaselock::Client;
use leaselock::inspect::Inspection;
use serde_json::json;

use crate::args::Globals;
use crate::args::inspect::LsArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lock_rows::{HEADINGS, row, sort};
use crate::output::{NotPrinted, sanitized};
use crate::session::Purpose;
use crate::table::{self, Table};
use crate::{output, session, show};

/// So many are printed in order; of more the first ones are, and the others as the store lists them.
const SORTED: usize = 1_000;
/// A shell offers no more names than these.
const OFFERED: usize = 200;
/// A shell that completes a name waits for so long: what the store has not told by then is not offered
const OFFERED_WITHIN: Duration = Duration::from_secs(1); // a distant one is asked several times

/// Lists the held locks. An empty list is no error; on a terminal a message names the store.
pub(crate) fn run(args: &LsArgs, globals: &Globals) -> Result<Exit, Failure> {
    let client = session::one_store(globals, Purpose::Operator, "ls")?;
    if let Some(typed) = &args.complete {
        return complete(&client, typed);
    }
    session::block_on(async {
        let sweeps = args.sort.is_some();
        let mut listing = Listing::default();
        let (mut seen, mut found, mut printed) = (HashSet::new(), Vec::new(), Ok(true));
        let mut any = false;
        let pages = client.list_pages(&args.pattern, |page| {
            any |= !page.is_empty();
            for lock in page {
                let is = |kind: &String| lock.kind == Some(kind.as_str());
                let of_kind = args.kind.is_empty() || args.kind.iter().any(is);
                let wanted = of_kind && (lock.waiter_count > 0 || !args.contended);
                let is_full = !sweeps && seen.len() >= args.limit;
                if wanted && !is_full && seen.insert(lock.name.clone()) {
                    found.push(lock);
                }
            }
            if !sweeps && seen.len() > SORTED {
                printed = listing.print(&mut found, args, globals);
            }
            let is_enough = !sweeps && any && seen.len() >= args.limit;
            let goes_on = matches!(printed, Ok(true)) && !is_enough;
            match goes_on {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        pages.await?;
        if printed? {
            listing.print(&mut found, args, globals)?;
        }
        let is_empty = seen.is_empty() || args.limit == 0;
        if is_empty && !args.names && shows_remarks(globals) {
            let store = client.store();
            output::say(&match any {
                true => none_asked_for(&store),
                false => nothing(&args.pattern, &store),
            });
        }
        Ok(Exit::OK)
    })
}

/// Prints the names that begin with what was typed. A store that does not reply in time is no error.
fn complete(client: &Client, typed: &str) -> Result<Exit, Failure> {
    session::block_on(async {
        let mut names = BTreeSet::new();
        let pattern = format!("{}*", literal(typed));
        let pages = client.list_pages(&pattern, |page| {
            names.extend(page.into_iter().map(|lock| lock.name));
            match names.len() < OFFERED {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        if let Ok(listed) = tokio::time::timeout(OFFERED_WITHIN, pages).await {
            listed?;
        }
        let lines = names.iter().take(OFFERED);
        let lines: String = lines.map(|name| format!("{}\n", sanitized(name))).collect();
        output::print(lines.as_bytes())?;
        Ok(Exit::OK)
    })
}

/// The pattern that only this text matches.
fn literal(text: &str) -> String {
    let is_special = |c| matches!(c, '*' | '?' | '[' | ']' | '\\');
    let escape = |c| is_special(c).then_some('\\').into_iter().chain([c]);
    text.chars().flat_map(escape).collect()
}

/// What is printed, page by page.
#[derive(Default)]
struct Listing {
    /// Made of the first page.
    table: Option<Table<9>>,
}

impl Listing {
    /// Prints and forgets what was found; true if the pipe is still read.
    fn print(
        &mut self,
        found: &mut Vec<Inspection>,
        args: &LsArgs,
        globals: &Globals,
    ) -> Result<bool, NotPrinted> {
        let mut found = std::mem::take(found);
        sort(&mut found, args.sort);
        found.truncate(args.limit);
        let text: String = match (args.names, globals.json) {
            (true, true) => found
                .iter()
                .map(|lock| output::json(&json!({ "name": lock.name })))
                .collect(),
            (true, false) => found
                .iter()
                .map(|lock| format!("{}\n", sanitized(&lock.name)))
                .collect(),
            (false, true) => found
                .iter()
                .map(|lock| output::json(&show::json(lock)))
                .collect(),
            (false, false) => self.rows(&found),
        };
        match output::try_print(text.as_bytes()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(NotPrinted(error)),
        }
    }

    fn rows(&mut self, found: &[Inspection]) -> String {
        let mut rows: Vec<_> = found.iter().map(row).collect();
        if self.table.is_none() && !rows.is_empty() {
            rows.insert(0, HEADINGS.map(str::to_owned));
        }
        let table = self
            .table
            .get_or_insert_with(|| Table::of(&rows, table::width()));
        rows.iter().map(|row| table.line(row)).collect()
    }
}

/// A script reads an empty list. A person needs to know which folder or server was asked.
pub(super) fn shows_remarks(globals: &Globals) -> bool {
    !globals.json && !globals.quiet && std::io::stdout().is_terminal()
}

pub(super) fn nothing(pattern: &str, store: &str) -> String {
    let which = match pattern {
        "*" => String::new(),
        pattern => format!(" that match `{}`", sanitized(pattern)),
    };
    format!(
        "leaselock: no locks{which} are held in {}\n",
        sanitized(store)
    )
}

/// Some are held, and the flags leave out all of them.
fn none_asked_for(store: &str) -> String {
    let store = sanitized(store);
    format!("leaselock: of the locks that are held in {store} none is asked for\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_names_the_pattern_and_the_store() {
        let folder = "the folder /var/lib/leaselock";
        let text = "leaselock: no locks are held in the folder /var/lib/leaselock\n";
        assert_eq!(nothing("*", folder), text);
        let text = "leaselock: no locks that match `db:*` are held in redis://h:6379/0\n";
        assert_eq!(nothing("db:*", "redis://h:6379/0"), text);
    }
}
