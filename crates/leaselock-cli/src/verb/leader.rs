//! `leaselock leader NAME`

use leaselock::election::{LeaderObserver, Proclamation};
use leaselock::error::RequestError;
use serde_json::{Value, json};

use super::service::{ReadAgain, Service};
use crate::args::Globals;
use crate::args::elect::LeaderArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::session::Purpose;
use crate::{output, session};

/// Prints who leads, once or with each change.
pub(crate) fn run(args: &LeaderArgs, globals: &Globals) -> Result<Exit, Failure> {
    let service = Service {
        name: &args.name,
        open: |globals| session::one_store(globals, Purpose::Operator, "leader"),
    };
    let client = (service.open)(globals)?;
    session::block_on(async {
        let election = client.election(&args.name);
        if args.follow {
            return tokio::select! {
                biased;
                () = output::reader_gone() => Ok(Exit::OK),
                failed = follow(election.observe(), service, args, globals) => failed.map(|()| Exit::OK),
            };
        }
        let leader = election.leader().await?;
        if globals.json || leader.is_some() {
            print(leader.as_ref(), args, globals)?;
        } else if !globals.quiet {
            let name = output::sanitized(&args.name);
            output::say(&format!("leaselock: no client leads `{name}`\n"));
        }
        Ok(if leader.is_some() {
            Exit::OK
        } else {
            Exit::NO_LEADER
        })
    })
}

/// Ends with an error alone. A store that does not answer is told once for each change, and does not end the following: it
/// goes on with the URL that the file has by then.
async fn follow(
    mut observer: LeaderObserver,
    service: Service<'_>,
    args: &LeaderArgs,
    globals: &Globals,
) -> Result<(), Failure> {
    observer.changed().await?;
    let mut again = ReadAgain::new(globals, service);
    let (mut globals, mut is_told) = (globals.clone(), false);
    let mut shown = observer.current().cloned();
    print(shown.as_ref(), args, &globals)?;
    loop {
        match observer.changed().await {
            // Another observer may find what this one has shown.
            Ok(()) if observer.current() == shown.as_ref() => is_told = false,
            Ok(()) => {
                is_told = false;
                shown = observer.current().cloned();
                print(shown.as_ref(), args, &globals)?;
            }
            Err(error @ RequestError::Store(_)) => {
                if !std::mem::replace(&mut is_told, true) && !globals.quiet {
                    Failure::from(error).say(globals.json);
                }
                if let Some((changed, client)) = again.changed(&globals) {
                    observer = client.election(&args.name).observe();
                    (globals, is_told) = (changed, false);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn print(
    leader: Option<&Proclamation>,
    args: &LeaderArgs,
    globals: &Globals,
) -> Result<(), Failure> {
    let text = match (globals.json, leader) {
        (true, leader) => {
            let leader = leader.map(object);
            output::json(&json!({ "name": args.name, "leader": leader }))
        }
        (false, Some(leader)) => output::sanitized(&leader.value) + "\n",
        (false, None) => "\n".to_owned(),
    };
    Ok(output::print(text.as_bytes())?)
}

fn object(leader: &Proclamation) -> Value {
    json!({
        "value": leader.value,
        "term": leader.term.get(),
        "client": leader.client,
    })
}
