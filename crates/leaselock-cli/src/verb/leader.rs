//! `leaselock leader NAME`

use leaselock::election::{LeaderObserver, Proclamation};
use leaselock::error::RequestError;
use serde_json::{Value, json};

use crate::args::Globals;
use crate::args::elect::LeaderArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::session::Purpose;
use crate::{output, session};

/// Prints who leads, once or with each change.
pub(crate) fn run(args: &LeaderArgs, globals: &Globals) -> Result<Exit, Failure> {
    let client = session::one_store(globals, Purpose::Operator, "leader")?;
    session::block_on(async {
        let election = client.election(&args.name);
        if args.follow {
            return tokio::select! {
                biased;
                () = output::reader_gone() => Ok(Exit::OK),
                failed = follow(election.observe(), args, globals) => failed.map(|()| Exit::OK),
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

/// Ends with an error alone.
async fn follow(
    mut observer: LeaderObserver,
    args: &LeaderArgs,
    globals: &Globals,
) -> Result<(), Failure> {
    observer.changed().await?;
    loop {
        print(observer.current(), args, globals)?;
        until_changed(&mut observer, globals).await?;
    }
}

/// A store that does not answer is told once for each time, and does not end the following.
async fn until_changed(observer: &mut LeaderObserver, globals: &Globals) -> Result<(), Failure> {
    let mut is_told = false;
    loop {
        match observer.changed().await {
            Ok(()) => return Ok(()),
            Err(error @ RequestError::Store(_)) => {
                if !std::mem::replace(&mut is_told, true) && !globals.quiet {
                    Failure::from(error).say(globals.json);
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
