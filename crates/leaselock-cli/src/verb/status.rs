//! `leaselock status NAME…`

use std::io::IsTerminal as _;

use leaselock::ErrorKind;
use leaselock::error::RequestError;

use super::ls::{nothing, shows_remarks};
use crate::args::Globals;
use crate::args::inspect::StatusArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::look::{Look, Seen};
use crate::session::Purpose;
use crate::{output, session, show};

/// Shows each lock in the order asked for. An error with one does not hide the others.
pub(crate) fn run(args: &StatusArgs, globals: &Globals) -> Result<Exit, Failure> {
    if args.names.is_empty() {
        return all(globals);
    }
    let client = session::client(globals, Purpose::Operator)?;
    session::block_on(async {
        if shows_store(globals) {
            let store = output::sanitized(&client.store());
            output::say(&format!("leaselock: locks in {store}:\n"));
        }
        let mut failed = Ok(Exit::OK);
        for name in &args.names {
            let seen = async {
                let mutex = || args.like.mutex(client.mutex(name));
                let theirs = args.like.other_protocol().map(|_| mutex());
                let key = args.like.name(name, globals)?;
                let mut seen = Look::at(&client, theirs).see(&key).await;
                let is_other = |error: &RequestError| match error {
                    RequestError::Store(error) => error.kind() == ErrorKind::WrongType,
                    // Their protocol takes no lock here, as in strict mode.
                    other => matches!(other, RequestError::Invalid(_)),
                };
                if seen.as_ref().is_err_and(is_other) {
                    seen = Look::native(&client).see(&key).await; // it says what lies there instead
                }
                let seen = seen?;
                Ok::<_, Failure>(match (seen, globals.json) {
                    (Seen::Ours(seen), true) => output::json(&show::json(&seen)),
                    (Seen::Ours(seen), false) => show::text(&seen),
                    (Seen::Theirs(holder), true) => {
                        output::json(&show::json_of_others(&key, holder.as_ref()))
                    }
                    (Seen::Theirs(holder), false) => show::text_of_others(&key, holder.as_ref()),
                })
            };
            match seen.await {
                Ok(text) => output::print(text.as_bytes())?,
                Err(error) => {
                    if let Err(before) = std::mem::replace(&mut failed, Err(error)) {
                        before.say(globals.json);
                    }
                }
            }
        }
        failed
    })
}

/// Shows all that are held, by name.
fn all(globals: &Globals) -> Result<Exit, Failure> {
    let client = session::one_store(globals, Purpose::Operator, "status without a name")?;
    session::block_on(async {
        let mut found = client.list("*").await?;
        found.sort_by(|one, other| one.name.cmp(&other.name));
        let line = |lock| match globals.json {
            true => output::json(&show::json(lock)),
            false => show::text(lock),
        };
        let text: String = found.iter().map(line).collect();
        output::print(text.as_bytes())?;
        if found.is_empty() && shows_remarks(globals) {
            output::say(&nothing("*", &client.store()));
        }
        Ok(Exit::OK)
    })
}

/// A person may expect another folder than the one that is used. With `--json` every line must be an object, so this
/// one is left out.
fn shows_store(globals: &Globals) -> bool {
    let for_people = !globals.json && !globals.quiet;
    for_people && (globals.verbose > 0 || std::io::stdout().is_terminal())
}
