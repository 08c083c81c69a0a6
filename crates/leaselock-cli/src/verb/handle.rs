//! `leaselock extend` and `leaselock release`: the verbs that take a handle.

use std::fs::File;
use std::io::{BufRead as _, BufReader, IsTerminal as _, Read};

use leaselock::Client;
use leaselock::detached::{DetachedLease, Handle};
use serde_json::json;

use crate::args::Globals;
use crate::args::lease::{ExtendArgs, HandleArgs, ReleaseArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::session::Purpose;
use crate::{output, session, show};

/// A handle is a line; a name of 512 bytes makes it about 800.
const LONGEST: u64 = 4096;

pub(crate) fn extend(args: &ExtendArgs, globals: &Globals) -> Result<Exit, Failure> {
    let (_locks, lease) = attach(&args.handle, globals)?;
    let ttl = args.ttl(lease.handle(), globals.longest());
    session::block_on(async {
        lease.extend(ttl).await?;
        if globals.json {
            print(&lease, &[("ttl_ms", show::ms(ttl).into())])?;
        }
        Ok(Exit::OK)
    })
}

pub(crate) fn release(args: &ReleaseArgs, globals: &Globals) -> Result<Exit, Failure> {
    let (locks, lease) = attach(&args.handle, globals)?;
    let (name, fence) = (lease.handle().name().to_string(), lease.handle().fence());
    session::block_on(async {
        lease.release().await?;
        locks.close().await; // of several servers some may not have answered yet
        if globals.json {
            let object = json!({ "name": name, "fence": fence, "released": true });
            output::print(output::json(&object).as_bytes())?;
        }
        Ok(Exit::OK)
    })
}

fn print(lease: &DetachedLease, more: &[(&str, serde_json::Value)]) -> Result<(), Failure> {
    let mut object =
        json!({ "name": lease.handle().name().as_str(), "fence": lease.handle().fence() });
    for (key, value) in more {
        object[*key] = value.clone();
    }
    Ok(output::print(output::json(&object).as_bytes())?)
}

fn attach(args: &HandleArgs, globals: &Globals) -> Result<(Client, DetachedLease), Failure> {
    let handle: Handle = text(args)?.parse()?;
    let locks = session::client(globals, Purpose::Handle)?;
    let lease = locks.attach(handle);
    Ok((locks, lease))
}

/// From the file, else from the environment, else from standard input.
fn text(args: &HandleArgs) -> Result<String, Failure> {
    if let Some(path) = &args.handle_file {
        let unreadable = |error| Failure::new(format!("{}: {error}", path.display()), Exit::USAGE);
        return read(File::open(path).map_err(unreadable)?).map_err(unreadable);
    }
    match std::env::var("LEASELOCK_HANDLE") {
        Ok(handle) if !handle.is_empty() => Ok(handle),
        _ => {
            if std::io::stdin().is_terminal() {
                output::say("leaselock: paste the handle, then press Enter\n");
            }
            read(std::io::stdin())
                .map_err(|error| Failure::new(format!("standard input: {error}"), Exit::USAGE))
        }
    }
}

/// The first line: with `acquire --json` it is an object that has the handle in it.
fn read(from: impl Read) -> std::io::Result<String> {
    let mut text = String::new();
    // No further: on a terminal the Enter key ends it.
    BufReader::new(from.take(LONGEST)).read_line(&mut text)?;
    let line = text.trim_end_matches(['\n', '\r']);
    let object: Option<serde_json::Value> = serde_json::from_str(line).ok();
    let inside = object.as_ref().and_then(|object| object["handle"].as_str());
    Ok(inside.unwrap_or(line).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_read_from_its_line_and_from_the_object_of_acquire() {
        assert_eq!(read(&b"ll1.a.b.1\nmore"[..]).unwrap(), "ll1.a.b.1");
        assert_eq!(
            read(&br#"{"name":"a","handle":"ll1.a.b.1"}"#[..]).unwrap(),
            "ll1.a.b.1"
        );
        assert_eq!(read(&b""[..]).unwrap(), "");
    }
}
