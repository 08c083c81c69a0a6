//! `leaselock log [NAME]`

use std::collections::HashSet;
use std::io::ErrorKind;
use std::pin::pin;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use leaselock::Name;
use leaselock::inspect::printable;
use leaselock::report::LogEntry;
use leaselock::satellite::tame;
use serde_json::json;

use super::service::{ReadAgain, Service};
use crate::args::Globals;
use crate::args::log::LogArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, NotPrinted};
use crate::session::Purpose;
use crate::text_width::padded;
use crate::{boottime, session};

/// Between two questions for new entries.
const EVERY: Duration = Duration::from_secs(1);
/// The store's clock may go slower than ours, so a question goes back further than to the one before.
const OVERLAP: Duration = Duration::from_secs(10);
/// The store keeps fewer, so an entry that was forgotten here does not come again. After a step of its clock an old one is
/// found again and again.
const KNOWN_MAX: usize = 2000;
/// A longer word is no kind of ours.
const KIND_MAX: usize = 20;

/// Prints the entries, and with `--follow` each new one.
pub(crate) fn run(args: &LogArgs, globals: &Globals) -> Result<Exit, Failure> {
    let service = Service {
        name: args.name.as_deref().unwrap_or_default(),
        open: |globals| session::client(globals, Purpose::Operator),
    };
    let mut client = (service.open)(globals)?;
    if let Some(name) = &args.name {
        Name::new(name.as_str())?;
    }
    session::block_on(async {
        let mut asked = boottime::now();
        // Older entries than were asked for are not new when they are found again.
        let mut known = match args.follow {
            true => client.log(Duration::MAX).await?,
            false => Vec::new(),
        };
        let found = client.log(args.since.unwrap_or(Duration::MAX)).await?;
        let is_open = print(found.iter(), args, globals)?;
        if !args.follow {
            let is_told = !globals.quiet && !globals.json;
            if is_told && !found.iter().any(|entry| is_asked_for(entry, args)) {
                output::say("leaselock: the log has no such entry\n");
            }
            return Ok(Exit::OK);
        }
        add(&mut known, found);
        let (mut is_open, mut is_told) = (is_open, false);
        let (mut again, mut globals) = (ReadAgain::new(globals, service), globals.clone());
        let mut gone = pin!(output::reader_gone());
        while is_open {
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = &mut gone => return Ok(Exit::OK),
            }
            let now = boottime::now();
            let back = Duration::from_nanos(now.saturating_sub(asked)) + OVERLAP;
            match client.log(back).await {
                Ok(newest) => {
                    let new = add(&mut known, newest);
                    is_open = print(known[new..].iter(), args, &globals)?;
                    known.drain(..known.len().saturating_sub(KNOWN_MAX));
                    (asked, is_told) = (now, false);
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_told, true) && !globals.quiet {
                        Failure::from(error).say(globals.json);
                    }
                    if let Some(changed) = again.changed(&globals) {
                        ((globals, client), is_told) = (changed, false);
                    }
                }
            }
        }
        Ok(Exit::OK)
    })
}

/// Adds those that are not among them, and returns where these begin. Those that are found again move behind the others,
/// so that what the store has no more is forgotten first.
fn add(known: &mut Vec<LogEntry>, newest: Vec<LogEntry>) -> usize {
    let before: HashSet<_> = known.iter().map(identity).collect();
    let is_known = |entry: &LogEntry| before.contains(&identity(entry));
    let (again, new): (Vec<_>, Vec<_>) = newest.into_iter().partition(is_known);
    let found: HashSet<_> = again.iter().map(identity).collect();
    known.retain(|entry| !found.contains(&identity(entry)));
    known.extend(again);
    let begin = known.len();
    known.extend(new);
    begin
}

fn identity(entry: &LogEntry) -> (&str, &str, Option<&str>, &str) {
    let name = entry.name.as_deref();
    (&entry.id, &entry.kind, name, &entry.text)
}

fn is_asked_for(entry: &LogEntry, args: &LogArgs) -> bool {
    let is_of = |asked: Option<&str>, has: Option<&str>| asked.is_none() || asked == has;
    let name = args.name.as_deref().map(printable); // as the log has it
    let kind = args.kind.as_deref();
    is_of(name.as_deref(), entry.name.as_deref()) && is_of(kind, Some(&entry.kind))
}

/// False when the reader of standard output has gone: it follows no more.
fn print<'a>(
    entries: impl Iterator<Item = &'a LogEntry>,
    args: &LogArgs,
    globals: &Globals,
) -> Result<bool, Failure> {
    let asked = entries.filter(|entry| is_asked_for(entry, args));
    let text: String = match globals.json {
        true => asked.map(|entry| output::json(&json!(entry))).collect(),
        false => asked.map(line).collect::<Result<_, _>>()?,
    };
    match output::try_print(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(NotPrinted(error).into()),
        Ok(()) => Ok(true),
    }
}

/// Time, kind, name and what is to be said. The library has made the texts printable.
pub(super) fn line(entry: &LogEntry) -> Result<String, Failure> {
    let at = Timestamp::try_from(entry.at).map_err(Failure::internal)?;
    let at = at
        .to_zoned(TimeZone::system())
        .strftime("%Y-%m-%d %H:%M:%S");
    let kind = padded(&tame(&entry.kind, KIND_MAX), 16);
    let name = output::sanitized(entry.name.as_deref().unwrap_or("-"));
    let mut line = format!("{at}  {kind}  {name}");
    if let Some(fence) = entry.fence {
        line.push_str(&format!("  fence {fence}"));
    }
    if let Some(by) = &entry.by {
        line.push_str(&format!("  by {}", output::sanitized(by)));
    }
    if !entry.text.is_empty() {
        line.push_str(&format!("  {}", output::sanitized(&entry.text)));
    }
    line.push('\n');
    Ok(line)
}
