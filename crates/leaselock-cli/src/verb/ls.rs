//! `leaselock ls [PATTERN]`

use crate::args::Globals;
use crate::args::inspect::LsArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{output, session, show};

/// Held locks by name. None is no error.
pub(crate) fn run(args: &LsArgs, globals: &Globals) -> Result<Exit, Failure> {
    let client = session::one_store(
        globals,
        "several servers have no list of locks that a majority agreed on",
    )?;
    session::block_on(async {
        let mut found = client.list(&args.pattern).await?;
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let line = |seen| match globals.json {
            true => output::json(&show::json(seen)),
            false => show::text(seen),
        };
        let text: String = found.iter().map(line).collect();
        output::print(text.as_bytes())?;
        Ok(Exit::OK)
    })
}
