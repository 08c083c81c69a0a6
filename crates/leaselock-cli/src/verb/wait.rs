//! `leaselock wait NAME`

use std::time::Duration;

use leaselock::{Holder, Holding, Wait};
use serde_json::json;

use crate::args::Globals;
use crate::args::inspect::WaitArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::kin::Kin;
use crate::story::Story;
use crate::{output, session, show};

/// Between two looks at a lock that stays held.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Looks until nobody holds it.
pub(crate) fn run(args: &WaitArgs, globals: &Globals) -> Result<Exit, Failure> {
    let client = session::client(globals)?;
    let name = args.like.name(&args.name, globals)?;
    let policy = match (args.nonblock, args.wait) {
        (true, _) => Wait::No,
        (false, Some(limit)) => Wait::Within(limit),
        (false, None) => Wait::Retries {
            count: None,
            delay: LOOK_EVERY,
            jitter_percent: 20,
        },
    };
    session::block_on(async {
        let mutex = args.like.mutex(client.mutex(&args.name)).wait(policy);
        let (story, kin) = (Story::of(&name, false, globals), Kin::of_this_process());
        let holder = tokio::select! {
            biased;
            holder = mutex.check() => holder?,
            failure = kin.holds(&client, &name, Exit::BUSY), if !args.nonblock => return Err(failure),
            () = story.look_on(&client, &name), if !args.nonblock => unreachable!("it never ends"),
        };
        if holder.is_none() {
            story.free();
        }
        if globals.json {
            let by = holder.as_ref().map(show::holder_json);
            let object = json!({ "name": name, "held": holder.is_some(), "holder": by });
            output::print(output::json(&object).as_bytes())?;
        }
        match holder {
            None => Ok(Exit::OK),
            Some(holder) if holder.foreign && args.like.odd().is_none() => {
                match client.inspect(&name).await?.state {
                    Holding::NotALock { kind } => Err(Failure::new(
                        format!(
                            "`{}` is no lock: a {} lies under this name",
                            name,
                            output::tame(&kind)
                        ),
                        Exit::FOREIGN_DATA,
                    )),
                    _ => still_held(&name, &holder, &kin, globals),
                }
            }
            Some(holder) => still_held(&name, &holder, &kin, globals),
        }
    })
}

fn still_held(name: &str, holder: &Holder, kin: &Kin, globals: &Globals) -> Result<Exit, Failure> {
    if globals.json || globals.quiet {
        return Ok(Exit::BUSY);
    }
    let remark = kin.remark(holder);
    let text = format!("`{name}` is held by {}{remark}", show::holder(holder));
    Err(Failure::new(text, Exit::BUSY))
}
