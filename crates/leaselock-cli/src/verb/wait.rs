//! `leaselock wait NAME`

use std::time::Duration;

use leaselock::Wait;
use leaselock::inspect::{Holder, Holding};
use serde_json::json;

use crate::ancestors::Ancestors;
use crate::args::Globals;
use crate::args::inspect::WaitArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::{output, session, show};

/// Between two polls of a lock that stays held.
const POLL_EVERY: Duration = Duration::from_millis(200);

/// Polls until the lock is free.
pub(crate) fn run(args: &WaitArgs, globals: &Globals) -> Result<Exit, Failure> {
    let client = session::client(globals)?;
    let name = args.like.name(&args.name, globals)?;
    let policy = match (args.nonblock, args.wait) {
        (true, _) => Wait::Never,
        (false, Some(limit)) => Wait::Timeout(limit),
        (false, None) => Wait::Poll {
            count: None,
            delay: POLL_EVERY,
            jitter_percent: 20,
        },
    };
    session::block_on(async {
        let mutex = args.like.mutex(client.mutex(&args.name)).wait(policy);
        let (progress, ancestors) = (
            Progress::of(&name, false, globals),
            Ancestors::of_this_process(),
        );
        let holder = tokio::select! {
            biased;
            holder = mutex.holder() => holder?,
            failure = ancestors.holds(&client, &name, Exit::BUSY), if !args.nonblock => return Err(failure),
            () = progress.follow_holder(&client, &name), if !args.nonblock => unreachable!("it never ends"),
        };
        if holder.is_none() {
            progress.free();
        }
        if globals.json {
            let by = holder.as_ref().map(show::holder_json);
            let object = json!({ "name": name, "held": holder.is_some(), "holder": by });
            output::print(output::json(&object).as_bytes())?;
        }
        match holder {
            None => Ok(Exit::OK),
            Some(holder) if holder.foreign && args.like.other_protocol().is_none() => {
                match client.inspect(&name).await?.state {
                    Holding::NotALock { kind } => Err(Failure::new(
                        format!(
                            "`{}` is no lock: a {} lies under this name",
                            name,
                            output::sanitized(&kind)
                        ),
                        Exit::FOREIGN_DATA,
                    )),
                    _ => still_held(&name, &holder, &ancestors, globals),
                }
            }
            Some(holder) => still_held(&name, &holder, &ancestors, globals),
        }
    })
}

fn still_held(
    name: &str,
    holder: &Holder,
    ancestors: &Ancestors,
    globals: &Globals,
) -> Result<Exit, Failure> {
    if globals.json || globals.quiet {
        return Ok(Exit::BUSY);
    }
    let remark = ancestors.remark(holder);
    let text = format!("`{name}` is held by {}{remark}", show::holder(holder));
    Err(Failure::new(text, Exit::BUSY))
}
