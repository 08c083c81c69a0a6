//! The client of the verbs, and the runtime that they run on.

use std::ffi::OsStr;
use std::future::Future;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use leaselock::error::InvalidInput;
use leaselock::report::CloseReport;
use leaselock::{AnyClient, Client, ClientBuilder, Quorum};

use crate::args::Globals;
use crate::environment;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;

/// The library's request timeout for a lease of this ttl. When the store does not answer, the command exits within it.
pub(crate) fn request_timeout(ttl: Duration) -> Duration {
    Duration::from_secs(1).min(ttl / 4)
}

/// Closes the client within a limit. `None`: it was not done by then, and what is left expires at its ttl.
pub(crate) async fn close_within(client: &AnyClient, limit: Duration) -> Option<CloseReport> {
    tokio::time::timeout(limit, client.close()).await.ok()
}

/// Whether waiters queue; those of a quorum cannot.
pub(crate) fn has_queue(globals: &Globals) -> bool {
    globals.urls().len() < 2
}

/// The client of the URL that was given, or of several. Touches nothing yet and starts no thread.
pub(crate) fn client(globals: &Globals) -> Result<AnyClient, Failure> {
    build(globals, None, true)
}

/// The same for `run`: others see what runs, though not its arguments, which may be secret.
pub(crate) fn client_that_runs(globals: &Globals, program: &OsStr) -> Result<AnyClient, Failure> {
    build(globals, Some(&process_of(program)), true)
}

/// The same with readers or permits, which several servers cannot count. `why` says so.
pub(crate) fn client_that_shares(
    globals: &Globals,
    program: &OsStr,
    why: &str,
) -> Result<Client, Failure> {
    only_one(globals, why)?;
    let builder = builder(globals)?.process_name(&process_of(program));
    built(builder.build(), globals)
}

fn process_of(program: &OsStr) -> String {
    const MOST: usize = 60;
    let file = Path::new(program).file_name().unwrap_or(program);
    let shown: String = output::sanitized(&file.to_string_lossy())
        .chars()
        .take(MOST)
        .collect();
    format!("leaselock run {shown}")
}

/// The same without a session: a lease outlives this process.
pub(crate) fn client_without_session(globals: &Globals) -> Result<AnyClient, Failure> {
    build(globals, Some(ACQUIRES), false)
}

/// The same with readers or permits. `why` says why several servers cannot count them.
pub(crate) fn client_that_shares_without_session(
    globals: &Globals,
    why: &str,
) -> Result<Client, Failure> {
    only_one(globals, why)?;
    let builder = builder(globals)?.session(false).process_name(ACQUIRES);
    built(builder.build(), globals)
}

/// What others see of a process whose leases outlive it.
const ACQUIRES: &str = "leaselock acquire";

/// For verbs whose question several servers cannot vote on. `why` says so.
pub(crate) fn one_store(globals: &Globals, why: &str) -> Result<Client, Failure> {
    only_one(globals, why)?;
    built(builder(globals)?.build(), globals)
}

/// The same for `bench`: everything that it touches begins with the prefix that was given and this one.
pub(crate) fn client_that_measures(globals: &Globals, prefix: &str) -> Result<Client, Failure> {
    built(
        plain_builder(globals)?
            .prefix(&format!("{}{prefix}", globals.prefix))
            .process_name("leaselock bench")
            .build(),
        globals,
    )
}

/// The same with a longest ttl that another option than --strict gave.
pub(crate) fn client_in_strict_mode(
    globals: &Globals,
    longest: Duration,
) -> Result<Client, Failure> {
    only_one(globals, "strict mode is for one store")?;
    built(plain_builder(globals)?.strict(longest).build(), globals)
}

fn only_one(globals: &Globals, why: &str) -> Result<(), Failure> {
    match globals.urls().len() {
        0 | 1 => Ok(()),
        _ => Err(Failure::new(format!("{why}: give one --url"), Exit::USAGE)),
    }
}

fn build(globals: &Globals, process: Option<&str>, session: bool) -> Result<AnyClient, Failure> {
    let urls = globals.urls();
    if urls.len() > 1 {
        if globals.strict.is_some() {
            let text = "strict mode is for one store: several servers stay out of votes after a restart by themselves, \
                        see --longest-ttl";
            return Err(Failure::new(text, Exit::USAGE));
        }
        let mut quorum = Quorum::builder(urls)
            .prefix(&globals.prefix)
            .delayed_restart(!globals.durable_nodes)
            .functions(globals.functions);
        if let Some(longest) = globals.longest_ttl {
            quorum = quorum.longest_ttl(longest);
        }
        match globals.tls.options() {
            Ok(None) => {}
            Ok(Some(options)) => quorum = quorum.tls(options),
            Err(missing) => return Err(Failure::new(missing, Exit::USAGE)),
        }
        if let Some(process) = process {
            quorum = quorum.process_name(process);
        }
        return built(quorum.build(), globals).map(AnyClient::from);
    }
    let mut one = builder(globals)?.session(session);
    if let Some(process) = process {
        one = one.process_name(process);
    }
    built(one.build(), globals).map(AnyClient::from)
}

fn builder(globals: &Globals) -> Result<ClientBuilder, Failure> {
    let builder = plain_builder(globals)?;
    Ok(match globals.strict {
        Some(longest) => builder.strict(longest),
        None => builder,
    })
}

/// Not in strict mode: a new prefix would begin with a quarantine.
fn plain_builder(globals: &Globals) -> Result<ClientBuilder, Failure> {
    if globals.urls().is_empty() {
        environment::not_withheld()?;
    }
    let url = globals.url();
    if url.starts_with("mem:") {
        let text = "a lock in mem: would exclude no other process, because every leaselock has its own \
                    memory; use file: or file:///dir";
        return Err(Failure::new(text, Exit::USAGE));
    }
    let builder = Client::builder().url(url).prefix(&globals.prefix);
    let builder = builder.functions(globals.functions);
    match globals.tls.options() {
        Ok(None) => Ok(builder),
        Ok(Some(options)) => Ok(builder.tls(options)),
        Err(missing) => Err(Failure::new(missing, Exit::USAGE)),
    }
}

fn built<T>(built: Result<T, InvalidInput>, globals: &Globals) -> Result<T, Failure> {
    built.map_err(|wrong| {
        let several = globals.urls().into_iter().any(has_comma);
        let text = match several {
            true => "several servers are separated by spaces, or repeat --url".to_owned(),
            false => wrong.to_string(),
        };
        Failure::in_the_librarys_words(text, Exit::USAGE)
    })
}

/// Whether a URL of one server names several, as those of Sentinels and clusters may. A password may have commas.
fn has_comma(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else {
        return false;
    };
    let hosts = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
    matches!(scheme, "redis" | "rediss") && hosts.contains(',')
}

/// Tries to open as many sockets as the runtime does for signals, because the runtime panics when it cannot.
fn has_descriptors_for_a_runtime() -> std::io::Result<()> {
    let as_many = [
        UnixStream::pair()?,
        UnixStream::pair()?,
        UnixStream::pair()?,
    ];
    drop(as_many);
    Ok(())
}

/// Runs on this thread. The library has its own for what must not wait.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    has_descriptors_for_a_runtime()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let done = runtime.block_on(work);
    // A thread of the runtime may still wait for a name server that does not answer; this process does not.
    runtime.shutdown_background();
    done
}
