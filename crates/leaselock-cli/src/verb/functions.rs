//! `leaselock functions load|print`

use leaselock::Client;
use serde_json::json;

use crate::args::Globals;
use crate::args::look::{FunctionsArgs, FunctionsDo};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{output, session};

/// Loads the library of this version, or prints it.
pub(crate) fn run(args: &FunctionsArgs, globals: &Globals) -> Result<Exit, Failure> {
    if args.what == FunctionsDo::Print {
        output::print(Client::functions_source().as_bytes())?;
        return Ok(Exit::OK);
    }
    let client = session::one_store(globals, "functions are loaded on one server at a time")?;
    let loaded = session::block_on(async { Ok(client.load_functions().await?) })?;
    let text = if globals.json {
        let object = json!({
            "library": loaded.name,
            "was_there": loaded.was_there,
            "others": loaded.others,
        });
        format!("{object}\n")
    } else {
        let how = if loaded.was_there {
            "was there"
        } else {
            "is loaded"
        };
        let others = loaded.others.iter();
        let others = others.map(|name| format!("of another version: {}\n", output::tame(name)));
        format!("{} {how}\n{}", loaded.name, others.collect::<String>())
    };
    output::print(text.as_bytes())?;
    Ok(Exit::OK)
}
