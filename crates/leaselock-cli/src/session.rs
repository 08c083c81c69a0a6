//! The client that the verbs talk through, and the thread that they run on.

use std::ffi::OsStr;
use std::future::Future;
use std::path::Path;
use std::time::Duration;

use leaselock::{Client, ClientBuilder};

use crate::args::Globals;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;

/// A client for the URL that was given. Touches nothing yet and starts no thread.
pub(crate) fn client(globals: &Globals) -> Result<Client, Failure> {
    build(builder(globals)?)
}

/// The same for `run`: others see what runs, though not its arguments, which may be secret.
pub(crate) fn client_that_runs(globals: &Globals, program: &OsStr) -> Result<Client, Failure> {
    const MOST: usize = 60;
    let file = Path::new(program).file_name().unwrap_or(program);
    let shown: String = output::tame(&file.to_string_lossy())
        .chars()
        .take(MOST)
        .collect();
    build(builder(globals)?.process_name(&format!("leaselock run {shown}")))
}

/// The same without a session: a lease outlives this process.
pub(crate) fn client_without_session(globals: &Globals) -> Result<Client, Failure> {
    build(
        builder(globals)?
            .session(false)
            .process_name("leaselock acquire"),
    )
}

/// The same for `bench`: everything that it touches begins with `prefix`.
pub(crate) fn client_that_measures(globals: &Globals, prefix: &str) -> Result<Client, Failure> {
    build(
        plain_builder(globals)?
            .prefix(prefix)
            .process_name("leaselock bench"),
    )
}

/// The same with a longest ttl that was said in another way than by --strict.
pub(crate) fn client_in_strict_mode(
    globals: &Globals,
    longest: Duration,
) -> Result<Client, Failure> {
    build(plain_builder(globals)?.strict(longest))
}

fn builder(globals: &Globals) -> Result<ClientBuilder, Failure> {
    let builder = plain_builder(globals)?;
    Ok(match globals.strict {
        Some(longest) => builder.strict(longest),
        None => builder,
    })
}

/// Not in strict mode: a prefix that nobody has used yet would begin with a quarantine.
fn plain_builder(globals: &Globals) -> Result<ClientBuilder, Failure> {
    let url = globals.url();
    if url.starts_with("mem:") {
        let text = "a lock in mem: would exclude nobody, because every leaselock has its own \
                    memory; use file: or file:///dir";
        return Err(Failure::new(text, Exit::USAGE));
    }
    let builder = Client::builder().url(url).functions(globals.functions);
    match globals.tls.options() {
        Ok(None) => Ok(builder),
        Ok(Some(options)) => Ok(builder.tls(options)),
        Err(missing) => Err(Failure::new(missing, Exit::USAGE)),
    }
}

fn build(builder: ClientBuilder) -> Result<Client, Failure> {
    builder
        .build()
        .map_err(|wrong| Failure::in_the_librarys_words(wrong, Exit::USAGE))
}

/// Runs on this thread. The library has its own for what must not wait.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

/// What `-v` shows, on standard error.
pub(crate) fn trace(verbose: u8) {
    let level = match verbose {
        0 => return,
        1 => tracing::Level::INFO,
        2 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
}
