//! `leaselock count NAME`

use std::time::Duration;

use leaselock::Client;
use leaselock::counter::{Counter, CounterError};
use serde_json::json;

use crate::args::Globals;
use crate::args::count::CountArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::session::Purpose;
use crate::{output, session};

fn counter(client: &Client, args: &CountArgs) -> Counter {
    let mut counter = client.counter(&args.counter);
    if let Some(shown) = &args.fenced {
        counter = counter.fenced(shown);
    }
    if let Some(count) = args.min_replicas {
        let timeout = args.replica_timeout.unwrap_or(Duration::from_secs(1));
        counter = counter.min_replicas(count, timeout);
    }
    counter
}

/// Changes the counter as the flags say, and prints it.
pub(crate) fn run(args: &CountArgs, globals: &Globals) -> Result<Exit, Failure> {
    let client = session::one_store(globals, Purpose::Operator, "count")?;
    session::block_on(async {
        let counter = counter(&client, args);
        let outcome = match args.cas.as_deref() {
            Some(&[expected, new]) => {
                let set = counter.compare_and_set(expected, new).await;
                set.map(|()| new)
            }
            _ if args.get => counter.get().await,
            _ => counter.add(args.add.unwrap_or(1)).await,
        };
        let outcome = match outcome {
            Err(CounterError::Unknown(unknown)) => unknown.resolve().await,
            outcome => outcome,
        };
        let (value, exit) = match outcome {
            Ok(value) => (value, Exit::OK),
            Err(CounterError::Mismatch { theirs, .. }) => (theirs, Exit::DIFFERS),
            Err(error) => return Err(error.into()),
        };
        let text = match globals.json {
            true => output::json(&json!({ "name": args.counter, "value": value })),
            false => format!("{value}\n"),
        };
        output::print(text.as_bytes())?;
        Ok(exit)
    })
}
