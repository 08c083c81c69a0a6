//! `leaselock blame [PATTERN]`

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;
use std::time::Duration;

use leaselock::inspect::{Holder, Holding, Inspection, LockMode, Waiter};
use serde_json::{Value, json};

use crate::args::Globals;
use crate::args::inspect::BlameArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::sanitized;
use crate::session::Purpose;
use crate::{lock_rows, output, session, show, table};

const HEADINGS: [&str; 7] = [
    "HOLDER", "PID", "HOST", "LOCKS", "WAITING", "WAITED", "LONGEST",
];

/// Shows whom the waiters wait for, at this moment.
pub(crate) fn run(args: &BlameArgs, globals: &Globals) -> Result<Exit, Failure> {
    let client = session::one_store(globals, Purpose::Operator, "blame")?;
    session::block_on(async {
        let mut contended = HashMap::new();
        let pages = client.list_pages(&args.pattern, |page| {
            let locks = page.into_iter().filter(|lock| lock.waiter_count > 0);
            contended.extend(locks.map(|lock| (lock.name.clone(), lock)));
            ControlFlow::Continue(())
        });
        pages.await?;
        let mut found = blamed(contended.values());
        if found.is_empty() && !globals.json && !globals.quiet {
            let store = sanitized(&client.store());
            let which = match args.pattern.as_str() {
                "*" => String::new(),
                pattern => format!(" matches `{}` and", sanitized(pattern)),
            };
            output::say(&format!(
                "leaselock: nobody waits for a lock that{which} is held by leaselock in {store}\n"
            ));
        }
        found.truncate(args.limit);
        let text = match globals.json {
            true => found.iter().map(|one| output::json(&one.json())).collect(),
            false => lines(&found),
        };
        Ok(output::print(text.as_bytes()).map(|()| Exit::OK)?)
    })
}

/// A client that holds what others wait for.
struct Blamed<'a> {
    holder: &'a Holder,
    locks: usize,
    waiting: usize,
    /// So many of them are in the sum: a queue is read up to a length.
    counted: usize,
    waited: Duration,
    longest: Duration,
    /// The lock of the longest wait.
    of: &'a str,
}

/// Who has made the others wait the longest is the first.
fn blamed<'a>(locks: impl Iterator<Item = &'a Inspection>) -> Vec<Blamed<'a>> {
    let mut found: BTreeMap<Option<&str>, Blamed<'a>> = BTreeMap::new();
    for lock in locks {
        let Holding::Held { holders, .. } = &lock.state else {
            continue;
        };
        let mut met = HashSet::new();
        for holder in holders {
            let client = show::client(holder.process.as_ref());
            let waits: Vec<_> = lock.queue.iter().filter(|it| !is_own(it, holder)).collect();
            let waiting = lock.waiter_count - (lock.queue.len() - waits.len());
            // One client may have several of the permits.
            if waiting == 0 || !met.insert(client) {
                continue;
            }
            let one = found.entry(client).or_insert(Blamed {
                holder,
                locks: 0,
                waiting: 0,
                counted: 0,
                waited: Duration::ZERO,
                longest: Duration::ZERO,
                of: &lock.name,
            });
            one.locks += 1;
            one.waiting += waiting;
            one.counted += waits.len();
            for waiter in waits {
                one.waited += waiter.waited;
                if waiter.waited > one.longest {
                    (one.longest, one.of) = (waiter.waited, &lock.name);
                }
            }
        }
    }
    let mut found: Vec<_> = found.into_values().collect();
    found.sort_by_key(|one| Reverse(one.waited));
    found
}

/// A reader that asks to write waits for the other readers, and not for itself.
fn is_own(waiter: &Waiter, holder: &Holder) -> bool {
    let client = show::client(holder.process.as_ref());
    holder.mode == LockMode::Upgradable && client == Some(&waiter.process.client)
}

impl Blamed<'_> {
    fn cells(&self) -> [String; 7] {
        let [by, pid, host] = lock_rows::process(self.holder);
        let waited = show::whole(self.waited);
        let waited = match self.counted < self.waiting {
            true => format!("over {waited}"),
            false => waited,
        };
        let longest = format!("{} for {}", show::whole(self.longest), sanitized(self.of));
        let (locks, waiting) = (self.locks.to_string(), self.waiting.to_string());
        [by, pid, host, locks, waiting, waited, longest]
    }

    fn json(&self) -> Value {
        json!({
            "client": show::client(self.holder.process.as_ref()),
            "process": show::process_json(self.holder.process.as_ref()),
            "locks": self.locks,
            "waiting": self.waiting,
            "counted": self.counted,
            "waited_ms": show::ms(self.waited),
            "longest_ms": show::ms(self.longest),
            "longest_name": self.of,
        })
    }
}

fn lines(found: &[Blamed<'_>]) -> String {
    let headings = std::iter::once(HEADINGS.map(str::to_owned));
    let rows: Vec<_> = headings.chain(found.iter().map(Blamed::cells)).collect();
    table::text(&rows, table::width())
}
