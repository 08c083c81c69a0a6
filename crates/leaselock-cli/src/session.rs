//! The client that the verbs talk through, and the thread that they run on.

use std::future::Future;

use leaselock::{Client, ClientBuilder};

use crate::args::Globals;
use crate::failure::Failure;

/// A client for the URL that was given. Touches nothing yet and starts no thread.
pub(crate) fn client(globals: &Globals) -> Result<Client, Failure> {
    Ok(builder(globals).build()?)
}

/// The same without a session: a lease outlives this process.
pub(crate) fn client_without_session(globals: &Globals) -> Result<Client, Failure> {
    Ok(builder(globals).session(false).build()?)
}

fn builder(globals: &Globals) -> ClientBuilder {
    Client::builder().url(globals.url())
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
