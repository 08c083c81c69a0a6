//! `leaselock wait NAME`

use std::time::Duration;

use leaselock::Wait;
use leaselock::inspect::{Holder, Holding, Inspection};
use serde_json::json;

use crate::ancestors::Ancestors;
use crate::args::Globals;
use crate::args::inspect::WaitArgs;
use crate::args::lease::wait_policy;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::first_contact::FirstContact;
use crate::progress::Progress;
use crate::session::Purpose;
use crate::{output, session, show};

/// Between two polls of a lock that stays held.
const POLL_EVERY: Duration = Duration::from_millis(200);

/// Polls until the lock is free.
pub(crate) fn run(args: &WaitArgs, globals: &Globals) -> Result<Exit, Failure> {
    let client = session::client(globals, Purpose::Operator)?;
    let name = args.like.name(&args.name, globals)?;
    let polls = Wait::Poll {
        count: None,
        delay: POLL_EVERY,
        jitter_percent: 20,
    };
    let policy = wait_policy(args.nonblock, args.wait, polls);
    session::block_on(async {
        let mutex = args.like.mutex(client.mutex(&args.name));
        let (progress, ancestors) = (
            Progress::of(std::slice::from_ref(&name), false, globals),
            Ancestors::of_this_process(),
        );
        let contact = FirstContact::begin(policy);
        let look = async |policy| mutex.clone().wait(policy).holder().await;
        let asked = contact.ask(look, |error| progress.retrying(error, &client.store()));
        let holder = tokio::select! {
            biased;
            holder = asked => holder,
            failure = ancestors.holds(&client, std::slice::from_ref(&name), true, Exit::BUSY), if !args.nonblock => return Err(failure),
            () = progress.follow_holder(&client, &name), if !args.nonblock => unreachable!("it never ends"),
        };
        let holder = holder.map_err(|error| contact.failed(&error, error.clone().into()))?;
        if holder.is_none() {
            progress.free();
        }
        // The holder is one of several when they share the lock.
        let seen = match &holder {
            Some(_) if args.like.other_protocol().is_none() => Some(client.inspect(&name).await?),
            _ => None,
        };
        let seen = seen.filter(|seen| {
            matches!(
                seen.state,
                Holding::Shared { .. } | Holding::NotALock { .. }
            )
        });
        if globals.json {
            print_json(&name, holder.as_ref(), seen.as_ref())?;
        }
        let Some(holder) = holder else {
            return Ok(Exit::OK);
        };
        if let Some(Inspection {
            state: Holding::NotALock { kind },
            ..
        }) = &seen
        {
            let kind = output::sanitized(kind);
            let text = format!("`{name}` is no lock: a {kind} lies under this name");
            return Err(Failure::new(text, Exit::FOREIGN_DATA));
        }
        if globals.json || globals.quiet {
            return Ok(Exit::BUSY);
        }
        let (state, held_by) = match seen {
            Some(seen) => (seen.state.clone(), show::held_by(&seen)),
            None => (Holding::Held(holder.clone()), None),
        };
        let held_by = held_by.unwrap_or_else(|| show::holder(&holder));
        let remark = ancestors.remark(&state);
        let text = format!("`{name}` is held by {held_by}{remark}");
        Err(Failure::new(text, Exit::BUSY))
    })
}

fn print_json(
    name: &str,
    holder: Option<&Holder>,
    shared: Option<&Inspection>,
) -> Result<(), Failure> {
    let holders = shared.map_or_else(Vec::new, |seen| show::holders_json(&seen.state));
    let by = holder.filter(|_| holders.is_empty());
    let object = json!({
        "name": name,
        "held": holder.is_some(),
        "holder": by.map(show::holder_json),
        "holders": holders,
    });
    Ok(output::print(output::json(&object).as_bytes())?)
}
