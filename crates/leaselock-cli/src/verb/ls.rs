//! `leaselock ls [PATTERN]`

use std::io::IsTerminal as _;

use leaselock::inspect::Inspection;
use serde_json::json;

use crate::args::Globals;
use crate::args::inspect::LsArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::session::Purpose;
use crate::{output, session, show};

/// Lists the held locks by name. An empty list is no error; on a terminal a message names the store.
pub(crate) fn run(args: &LsArgs, globals: &Globals) -> Result<Exit, Failure> {
    let client = session::one_store(globals, Purpose::Operator, "ls")?;
    session::block_on(async {
        let mut found = client.list(&args.pattern).await?;
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let line = |seen| match globals.json {
            true => output::json(&show::json(seen)),
            false => show::text(seen),
        };
        let name = |seen: &Inspection| match globals.json {
            true => output::json(&json!({ "name": seen.name })),
            false => format!("{}\n", output::sanitized(&seen.name)),
        };
        let text: String = match args.names {
            true => found.iter().map(name).collect(),
            false => found.iter().map(line).collect(),
        };
        output::print(text.as_bytes())?;
        if found.is_empty() && shows_remarks(args, globals) {
            output::say(&nothing(&args.pattern, &client.store()));
        }
        Ok(Exit::OK)
    })
}

/// A script reads an empty list. A person needs to know which folder or server was asked.
fn shows_remarks(args: &LsArgs, globals: &Globals) -> bool {
    let for_people = !args.names && !globals.json && !globals.quiet;
    for_people && std::io::stdout().is_terminal()
}

fn nothing(pattern: &str, store: &str) -> String {
    let which = match pattern {
        "*" => String::new(),
        pattern => format!(" that match `{}`", output::sanitized(pattern)),
    };
    format!(
        "leaselock: no locks{which} are held in {}\n",
        output::sanitized(store)
    )
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
