//! `leaselock wait NAME`

use std::time::Duration;

use leaselock::Wait;
use leaselock::inspect::{Holder, Inspection};
use serde_json::json;

use crate::ancestors::Ancestors;
use crate::args::Globals;
use crate::args::inspect::WaitArgs;
use crate::args::lease::wait_policy;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::first_contact::FirstContact;
use crate::look::Look;
use crate::progress::Progress;
use crate::session::Purpose;
use crate::{output, session, show, waiting_message};

/// A hundred years.
const FOREVER: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

/// Polls until the lock is free.
pub(crate) fn run(args: &WaitArgs, globals: &Globals) -> Result<Exit, Failure> {
    let client = session::client(globals, Purpose::Operator)?;
    let name = args.like.name(&args.name, globals)?;
    let policy = wait_policy(args.nonblock, args.wait, Wait::Forever);
    session::block_on(async {
        let mutex = args.like.mutex(client.mutex(&args.name));
        let theirs = args.like.other_protocol().map(|_| mutex.clone());
        let look = Look::at(&client, theirs);
        let (progress, ancestors) = (
            Progress::of(std::slice::from_ref(&name), false, globals),
            Ancestors::of_this_process(),
        );
        let contact = FirstContact::begin(policy);
        // Polls, so that it takes no place in the queue.
        let ask = async |policy| {
            let free = match policy {
                Wait::Never => return mutex.holder().await,
                Wait::Timeout(limit) => mutex.free_within(limit).await?,
                _ => mutex.free_within(FOREVER).await?,
            };
            match free {
                true => Ok(None),
                false => mutex.holder().await,
            }
        };
        let asked = contact.ask(ask, |error| progress.retrying(error, &client.store()));
        let holder = tokio::select! {
            biased;
            holder = asked => holder,
            failure = ancestors.holds(&look, std::slice::from_ref(&name), true, Exit::BUSY), if !args.nonblock => return Err(failure),
            () = progress.follow_holder(&look, &name), if !args.nonblock => unreachable!("it never ends"),
            () = waiting_message::show_holder(&look, &name, globals), if !args.nonblock => unreachable!("it never ends"),
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
        let seen = seen.filter(|seen| show::is_shared(&seen.state));
        if globals.json {
            print_json(&name, holder.as_ref(), seen.as_ref())?;
        }
        let Some(holder) = holder else {
            return Ok(Exit::OK);
        };
        if globals.json || globals.quiet {
            return Ok(Exit::BUSY);
        }
        let held_by = seen.as_ref().and_then(show::held_by);
        let held_by = held_by.unwrap_or_else(|| show::holder(&holder));
        let holders = seen.map_or(vec![holder], |seen| show::all_holders(seen.state));
        let remark = ancestors.remark(&holders);
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
