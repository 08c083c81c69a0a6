//! `leaselock acquire NAME`

use std::time::Duration;

use leaselock::interop::Protocol;
use leaselock::{AcquireError, Client};
use serde_json::json;

use super::request::{self, Request};

use crate::ancestors::Ancestors;
use crate::args::Globals;
use crate::args::acquire::AcquireArgs;
use crate::args::lease::WaitArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::first_contact::FirstContact;
use crate::held::Held;
use crate::look::{Look, Seen};
use crate::owner::JobOwner;
use crate::procfs::Status;
use crate::progress::Progress;
use crate::session::Purpose;
use crate::signals::{SignalStream, Signals};
use crate::waiting_message::WaitState;
use crate::{output, session, show};

/// Limit for leaving the queue when the store does not reply: one request timeout.
pub(super) const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// Acquires the lock and prints its handle. Releases the lock if the handle cannot be printed.
pub(crate) fn run(args: &AcquireArgs, globals: &Globals) -> Result<Exit, Failure> {
    let mode = args
        .mode()
        .map_err(|wrong| Failure::new(wrong, Exit::USAGE))?;
    let name = args.lock.like.name(&args.name, globals)?;
    if let Some(preset) = args.lock.like.other_protocol() {
        let text = format!("--like: a lease of {preset} has no handle; use run");
        return Err(Failure::new(text, Exit::USAGE));
    }
    let (client, request) = request::open(&args.name, mode, &args.lock, globals, Purpose::Handle)?;
    let request = request.without_renewal().validate()?;
    let signals = Signals::block(&Status::read()?)?;
    session::block_on(async {
        let signals = signals.listen()?;
        let names = [name];
        let progress = Progress::of(&names, session::has_queue(globals), globals);
        let wanted = Wanted {
            request,
            names: &names,
            owner: None,
            protocol: Protocol::Native,
        };
        let obtained = obtain(&client, wanted, &args.wait, globals, &signals, &progress).await?;
        let lease = match obtained {
            Obtained::Lease(held) => held,
            Obtained::Ended(exit) => return Ok(exit),
        };
        progress.acquired(&lease);
        let (fence, ttl) = (lease.fence(), lease.ttl());
        let detached = match lease {
            Held::Exclusive(lease) => lease.detach().await,
            Held::Shared(lease) => lease.detach().await,
            Held::Permits(lease) => lease.detach().await,
            _ => unreachable!("one name was asked for"),
        };
        let handle = match detached {
            Ok(handle) => handle,
            Err(error) => {
                // No handle was printed, so the client releases the lock in the background, which ends with
                // this process.
                session::close_within(&client, session::request_timeout(ttl)).await;
                return Err(error.into());
            }
        };
        let secret = handle.to_secret_string();
        let line = if globals.json {
            output::json(
                &json!({ "name": names[0], "fence": fence, "ttl_ms": show::ms(ttl), "handle": secret }),
            )
        } else {
            secret + "\n"
        };
        if let Err(error) = output::try_print(line.as_bytes()) {
            client.attach(handle).release().await.ok();
            let text = format!("standard output: {error}; the lock was released");
            return Err(Failure::new(text, Exit::OUTPUT));
        }
        client.close().await;
        Ok(Exit::OK)
    })
}

/// The result of a wait.
pub(crate) enum Obtained {
    Lease(Held),
    /// There is no lease and nothing to say: a signal ended the wait, or -q keeps quiet. The queue
    /// has no entry of ours.
    Ended(Exit),
}

/// What a verb waits for.
pub(crate) struct Wanted<'a> {
    pub(crate) request: Request,
    /// The names of the request, as leaselock knows them.
    pub(crate) names: &'a [String],
    /// For whom, if the lock is held for a job.
    pub(crate) owner: Option<&'a JobOwner>,
    /// How it is taken.
    pub(crate) protocol: Protocol,
}

/// Waits for the lock as long as the flags say, or until a signal comes.
pub(crate) async fn obtain(
    client: &Client,
    wanted: Wanted<'_>,
    wait: &WaitArgs,
    globals: &Globals,
    signals: &SignalStream,
    progress: &Progress,
) -> Result<Obtained, Failure> {
    let Wanted {
        request,
        names,
        owner,
        protocol,
    } = wanted;
    let look = Look::at(client, request.of_others(protocol));
    let state = WaitState::default();
    let ancestors = Ancestors::of_this_process();
    let alone = request.is_exclusive();
    let contact = FirstContact::begin(wait.policy());
    let acquire = async |policy| {
        let told = state.clone();
        let request = request.clone();
        let request = request.wait(policy, move |waiting| told.tell(waiting));
        match owner {
            Some(owner) => request.acquire_for(owner, globals).await,
            None => request.acquire(globals).await,
        }
    };
    let acquired = contact.ask(acquire, |_| {}); // `progress` tells of requests that fail
    let outcome = tokio::select! {
        biased;
        lease = acquired => lease,
        signal = signals.ending() => {
            let signal = signal?;
            session::close_within(client, LEAVE_WITHIN).await; // leaves the queue before the lock is granted to us
            progress.gave_up_at(signal);
            return Ok(Obtained::Ended(Exit::by_signal(signal)));
        }
        failure = ancestors.holds(&look, names, alone, wait.busy()), if !wait.nonblock => {
            session::close_within(client, LEAVE_WITHIN).await;
            return Err(failure);
        }
        () = state.show(&look, globals) => unreachable!("it never ends"),
        () = progress.follow(&state, &look) => unreachable!("it never ends"),
    };
    match outcome {
        Ok(lease) => Ok(Obtained::Lease(lease)),
        Err(ref error @ AcquireError::TimedOut { ref name, .. }) => {
            let name = name.as_str();
            let seen = if globals.quiet {
                None
            } else {
                look.see(name).await.ok()
            };
            client.close().await; // removes the record that names this process
            if globals.quiet {
                // Busy is an answer and no error, so -q keeps quiet about it.
                return Ok(Obtained::Ended(wait.busy()));
            }
            Err(busy(seen, name, alone, error, wait.busy(), &ancestors))
        }
        Err(error) => {
            use AcquireError::{Deadlock, Quarantined};
            if matches!(error, Deadlock { .. } | Quarantined { .. }) {
                session::close_within(client, LEAVE_WITHIN).await; // writes that into the event log
            }
            let failure = contact.failed(&error, Failure::acquire(&error, wait.busy()));
            Err(match state.has_an_answer() {
                true => failure.after_an_answer(),
                false => failure,
            })
        }
    }
}

/// Names the holder.
fn busy(
    seen: Option<Seen>,
    name: &str,
    alone: bool,
    error: &AcquireError,
    exit: Exit,
    ancestors: &Ancestors,
) -> Failure {
    match seen.and_then(|seen| Some((seen.held_by()?, seen))) {
        Some((held_by, seen)) => {
            let remark = ancestors.remark(seen.holders());
            // It may fit beside those who hold the lock, and wait for those who wait.
            let ahead = match !alone && seen.waiter_count() > 0 {
                true => format!("; {} ahead in the queue", seen.waiter_count()),
                false => String::new(),
            };
            let text = format!("`{name}` is held by {held_by}{remark}{ahead}");
            Failure::new(text, exit).busy(name, seen.holders().first())
        }
        None => Failure::acquire(error, exit),
    }
}
