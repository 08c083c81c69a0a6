//! `leaselock functions load|print`

use leaselock::report::LoadedFunctions;
use leaselock::{Client, ErrorKind};
use serde_json::json;

use crate::args::Globals;
use crate::args::inspect::{FunctionsArgs, FunctionsDo};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::session::Purpose;
use crate::{output, session};

/// Loads the library of this version, or prints it.
pub(crate) fn run(args: &FunctionsArgs, globals: &Globals) -> Result<Exit, Failure> {
    if args.what == FunctionsDo::Print {
        output::print(Client::functions_source().as_bytes())?;
        return Ok(Exit::OK);
    }
    let locks = session::client(globals, Purpose::Operator)?;
    let loaded = session::block_on(async { Ok(locks.load_functions().await) })?;
    // Servers are refused as a store is: of several, others may have been changed when one has no functions.
    let is_folder = globals.url().starts_with("file:");
    let loaded = loaded.map_err(|error| match error.kind() {
        ErrorKind::Unsupported if is_folder => Failure::new(error.to_string(), Exit::USAGE),
        _ => Failure::from(error),
    })?;
    let mut others: Vec<_> = loaded.iter().flat_map(|one| &one.others).collect();
    others.sort();
    others.dedup();
    let text = if globals.json {
        let node = |one: &LoadedFunctions| json!({ "node": output::sanitized(&one.node), "was_there": one.was_there });
        let object = json!({
            "library": loaded.first().map(|one| &one.name),
            "was_there": loaded.iter().all(|one| one.was_there),
            "nodes": loaded.iter().map(node).collect::<Vec<_>>(),
            "others": others,
        });
        output::json(&object)
    } else {
        in_words(&loaded, &others)
    };
    output::print(text.as_bytes())?;
    Ok(Exit::OK)
}

/// A line for each server; it is named when there are several.
fn in_words(loaded: &[LoadedFunctions], others: &[&String]) -> String {
    let is_one = loaded.len() == 1;
    let nodes = loaded.iter().map(|one| {
        let how = if one.was_there {
            "was there"
        } else {
            "is loaded"
        };
        match is_one {
            true => format!("{} {how}\n", one.name),
            false => format!("{}: {} {how}\n", output::sanitized(&one.node), one.name),
        }
    });
    let others = others
        .iter()
        .map(|name| format!("of another version: {}\n", output::sanitized(name)));
    nodes.chain(others).collect()
}
