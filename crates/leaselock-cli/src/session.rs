//! The client of the verbs, and the runtime that they run on.

use std::ffi::OsStr;
use std::future::Future;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use leaselock::error::InvalidInput;
use leaselock::report::CloseReport;
use leaselock::{Client, ClientBuilder};

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
pub(crate) async fn close_within(client: &Client, limit: Duration) -> Option<CloseReport> {
    tokio::time::timeout(limit, client.close()).await.ok()
}

/// Whether waiters queue; those of a quorum cannot.
pub(crate) fn has_queue(globals: &Globals) -> bool {
    globals.urls().len() < 2
}

/// The verbs whose lease ends with their job, in the record of the client.
pub(crate) const JOB_VERBS: [&str; 4] = ["run", "elect", "once", "cron"];

/// What a verb needs a client for.
#[derive(Clone, Copy)]
pub(crate) enum Purpose<'a> {
    /// To inspect or to change something, as an operator.
    Operator,
    /// To hold a lock for a job, by one of [`JOB_VERBS`]. Others see which program runs, though not its arguments, which
    /// may be secret.
    Job(&'static str, &'a OsStr),
    /// To hold a lock for the program of this name, which started us.
    Hold(&'a str),
    /// For leases that outlive this process.
    Handle,
}

impl Purpose<'_> {
    /// The verb that holds for another program, and the name of that program as others see it.
    fn holds_for(self) -> Option<(&'static str, String)> {
        const MOST: usize = 60;
        let shown = |name: &str| output::sanitized(name).chars().take(MOST).collect();
        match self {
            Purpose::Operator => None,
            Purpose::Handle => Some(("acquire", "leaselock acquire".to_owned())),
            Purpose::Job(verb, program) => {
                let file = Path::new(program).file_name().unwrap_or(program);
                Some((verb, shown(&file.to_string_lossy())))
            }
            Purpose::Hold("") => Some(("hold", "leaselock hold".to_owned())),
            Purpose::Hold(program) => Some(("hold", shown(program))),
        }
    }

    /// Whether its leases end with this process.
    fn has_session(self) -> bool {
        !matches!(self, Purpose::Handle)
    }
}

/// The client of the URL that was given, or of several. Touches nothing yet and starts no thread.
pub(crate) fn client(globals: &Globals, purpose: Purpose<'_>) -> Result<Client, Failure> {
    let mut builder = builder(globals)?;
    if !purpose.has_session() {
        builder = builder.outlive_process();
    }
    if let Some((verb, program)) = purpose.holds_for() {
        builder = builder.process_name(&program).process_via(verb);
    }
    built(builder.open(), globals)
}

/// The same for `what`, which a majority of servers does not have: a verb or an option.
pub(crate) fn one_store(
    globals: &Globals,
    purpose: Purpose<'_>,
    what: &str,
) -> Result<Client, Failure> {
    only_one(globals, what)?;
    client(globals, purpose)
}

/// The same for `bench`: everything that it touches begins with the prefix that was given and this one.
pub(crate) fn client_that_measures(globals: &Globals, prefix: &str) -> Result<Client, Failure> {
    built(
        plain_builder(globals)?
            .prefix(&format!("{}{prefix}", globals.prefix))
            .process_name("leaselock bench")
            .open(),
        globals,
    )
}

/// The same with a longest ttl that another option than --strict gave.
pub(crate) fn client_in_strict_mode(
    globals: &Globals,
    longest: Duration,
) -> Result<Client, Failure> {
    only_one(globals, "strict mode")?;
    built(plain_builder(globals)?.strict(longest).open(), globals)
}

fn only_one(globals: &Globals, what: &str) -> Result<(), Failure> {
    match globals.urls().len() {
        0 | 1 => Ok(()),
        count => {
            let text = format!(
                "{what} is not available on a majority of servers ({count} given): name one with --url"
            );
            Err(Failure::new(text, Exit::USAGE))
        }
    }
}

fn builder(globals: &Globals) -> Result<ClientBuilder, Failure> {
    let builder = plain_builder(globals)?;
    match globals.strict {
        Some(_) if globals.urls().len() > 1 => {
            let text = "strict mode is for one store: several servers stay out of votes after a restart by themselves, \
                        see --longest-ttl";
            Err(Failure::new(text, Exit::USAGE))
        }
        Some(longest) => Ok(builder.strict(longest)),
        None => Ok(builder),
    }
}

/// Not in strict mode: a new prefix would begin with a quarantine.
fn plain_builder(globals: &Globals) -> Result<ClientBuilder, Failure> {
    let mut builder = Client::builder().prefix(&globals.prefix);
    if globals.functions {
        builder = builder.functions_only();
    }
    let builder = match globals.tls.options() {
        Ok(None) => builder,
        Ok(Some(options)) => builder.tls(options),
        Err(missing) => return Err(Failure::new(missing, Exit::USAGE)),
    };
    match globals.urls() {
        urls if urls.len() > 1 => Ok(of_a_majority(builder.urls(urls), globals)),
        urls => {
            if urls.is_empty() {
                environment::not_withheld()?;
            }
            one_store_of(builder, globals.url())
        }
    }
}

fn of_a_majority(mut builder: ClientBuilder, globals: &Globals) -> ClientBuilder {
    if globals.durable_nodes {
        builder = builder.durable_nodes();
    }
    match globals.longest_ttl {
        Some(longest) => builder.longest_ttl(longest),
        None => builder,
    }
}

fn one_store_of(builder: ClientBuilder, url: &str) -> Result<ClientBuilder, Failure> {
    if url.starts_with("mem:") {
        let text = "a lock in mem: would exclude no other process, because every leaselock has its own \
                    memory; use file: or file:///dir";
        return Err(Failure::new(text, Exit::USAGE));
    }
    Ok(builder.url(url))
}

fn built(built: Result<Client, InvalidInput>, globals: &Globals) -> Result<Client, Failure> {
    built.map_err(|wrong| {
        let several = globals.urls().into_iter().any(has_comma);
        let text = match several {
            true => "several servers are separated by spaces, or repeat --url; in --url-file they are one a line".to_owned(),
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
    matches!(scheme, "redis" | "rediss" | "valkey" | "valkeys") && hosts.contains(',')
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
