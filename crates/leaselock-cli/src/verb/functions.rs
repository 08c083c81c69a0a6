//! `leaselock functions load|print`

use leaselock::Client;
use leaselock::report::{FunctionsNode, LoadedFunctions};
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
    let loaded = session::block_on(async { Ok(locks.load_functions().await?) })?;
    let text = if globals.json {
        let node = |one: &FunctionsNode| json!({ "node": output::sanitized(&one.node), "was_there": one.was_there });
        let object = json!({
            "library": loaded.name,
            "was_there": loaded.was_there,
            "nodes": loaded.nodes.iter().map(node).collect::<Vec<_>>(),
            "others": loaded.others,
        });
        output::json(&object)
    } else {
        in_words(&loaded)
    };
    output::print(text.as_bytes())?;
    Ok(Exit::OK)
}

/// A line for each server when there are several.
fn in_words(loaded: &LoadedFunctions) -> String {
    let how = |was_there| {
        if was_there { "was there" } else { "is loaded" }
    };
    let others = loaded.others.iter();
    let others = others.map(|name| format!("of another version: {}\n", output::sanitized(name)));
    let nodes: String = match &loaded.nodes[..] {
        [_, _, ..] => {
            let nodes = loaded.nodes.iter();
            let line = |one: &FunctionsNode| {
                format!(
                    "{}: {} {}\n",
                    output::sanitized(&one.node),
                    loaded.name,
                    how(one.was_there)
                )
            };
            nodes.map(line).collect()
        }
        _ => format!("{} {}\n", loaded.name, how(loaded.was_there)),
    };
    format!("{nodes}{}", others.collect::<String>())
}
