//! One run of the benchmark: its clients, its workloads one after the other, and the cleanup.

use std::time::Duration;

use leaselock::Client;
use tokio::task::JoinSet;

use super::figures::Figures;
use super::{figures, free, hand_over, status_line};
use crate::args::Globals;
use crate::args::bench::BenchArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::procfs::Status;
use crate::session::Purpose;
use crate::signals::Signals;
use crate::{output, session};

/// How many tasks take free locks at a time.
const TASKS: [u16; 3] = [1, 16, 256];

/// Measures, cleans up whatever happens, and prints a table.
pub(crate) fn run(args: &BenchArgs, globals: &Globals) -> Result<Exit, Failure> {
    let clients = clients(args, globals)?;
    let signals = Signals::block(&Status::read()?)?;
    session::block_on(async {
        let signals = signals.listen()?;
        let outcome = tokio::select! {
            biased;
            signal = signals.ending() => Err(Exit::by_signal(signal?)),
            figures = measure(args, globals, &clients) => Ok(figures),
        };
        // What was under way has been dropped by now; closing sees it gone from the store.
        close(clients).await;
        match outcome {
            Ok(figures) => {
                output::print(figures::text(&figures?, globals.json).as_bytes())?;
                Ok(Exit::OK)
            }
            Err(ended) => Ok(ended),
        }
    })
}

/// One for each waiter, because tasks of one client would not ask the store to pass a lock on.
/// The first of them takes the free locks too.
fn clients(args: &BenchArgs, globals: &Globals) -> Result<Vec<Client>, Failure> {
    // The id of a client is random; this one is never used for anything else.
    let prefix = format!(
        "leaselock-bench-{}:",
        session::one_store(globals, Purpose::Operator, "bench measures one store")?.id()
    );
    let client = |_| session::client_that_measures(globals, &prefix);
    (0..args.waiters).map(client).collect()
}

async fn measure(
    args: &BenchArgs,
    globals: &Globals,
    clients: &[Client],
) -> Result<Vec<Figures>, Failure> {
    let parts = u32::try_from(TASKS.len()).unwrap_or(0) + 1;
    let span = Duration::from_secs(args.seconds.into()) / parts;
    let mut found = Vec::new();
    for tasks in TASKS {
        let what = format!("free locks, {tasks} at a time");
        found.push(
            status_line::shown(globals, &what, free::measure(&clients[0], tasks, span)).await?,
        );
    }
    let what = format!("hand-over among {} waiters", clients.len());
    found.push(status_line::shown(globals, &what, hand_over::measure(clients, span)).await?);
    Ok(found)
}

/// All at once: a store that is gone makes each of them wait for a while.
async fn close(clients: Vec<Client>) {
    let mut closing = JoinSet::new();
    for client in clients {
        closing.spawn(async move { client.close().await });
    }
    closing.join_all().await;
}
