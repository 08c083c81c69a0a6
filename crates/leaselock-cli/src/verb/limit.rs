//! `leaselock limit NAME --rate N/PERIOD -- COMMAND`

use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use leaselock::{Limiter, LimiterError};

use crate::args::Globals;
use crate::args::limit::LimitArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job::{URL, WITHHELD};
use crate::procfs::Status;
use crate::session::Purpose;
use crate::signals::Signals;
use crate::{environment, output, session};

/// How long the end of a wait may take that a signal ended.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// Waits for the rate, and becomes the command.
pub(crate) fn run(args: &LimitArgs, globals: &Globals) -> Result<Exit, Failure> {
    let client = session::one_store(
        globals,
        Purpose::Operator,
        "limit: several servers cannot count",
    )?;
    let limiter = client
        .limiter(&args.limiter)
        .rate(args.rate.limit, args.rate.period);
    let limiter = match args.burst {
        Some(burst) => limiter.burst(burst),
        None => limiter,
    };
    let signals = Signals::block(&Status::read()?)?;
    let mask = signals.mask_before();
    let ended = session::block_on(async {
        let signals = signals.listen()?;
        let ended = tokio::select! {
            allowed = allowed(&limiter, args, globals) => return allowed,
            signal = signals.ending() => Some(Exit::by_signal(signal?)),
        };
        session::close_within(&client.clone().into(), CLOSE_WITHIN).await; // gives its moment back
        Ok(ended)
    })?;
    mask.become_mask();
    match ended {
        Some(exit) => Ok(exit),
        None => Err(become_the_command(args)),
    }
}

/// `None` once the command may run.
async fn allowed(
    limiter: &Limiter,
    args: &LimitArgs,
    globals: &Globals,
) -> Result<Option<Exit>, Failure> {
    let limit = if args.nonblock {
        Some(Duration::ZERO)
    } else {
        args.wait
    };
    let outcome = match limit {
        None => limiter.acquire(args.cost).await,
        Some(limit) => limiter.acquire_within(args.cost, limit).await,
    };
    match outcome {
        Ok(()) => Ok(None),
        Err(LimiterError::Limited { .. }) if globals.quiet => Ok(Some(Exit::BUSY)),
        Err(error) => Err(error.into()),
    }
}

/// Why this process could not become the command; otherwise it does not return.
fn become_the_command(args: &LimitArgs) -> Failure {
    let mut words = args.command.iter();
    let program = words.next().map_or_else(Default::default, Clone::clone);
    let mut command = Command::new(&program);
    command.args(words);
    if environment::withholds_url(false) {
        command.env_remove(URL).env(WITHHELD, URL);
    }
    let error = command.exec();
    let exit = match error.kind() {
        ErrorKind::NotFound => Exit::NOT_FOUND,
        _ => Exit::CANNOT_EXECUTE,
    };
    let program = output::sanitized(&program.to_string_lossy());
    Failure::new(format!("cannot run `{program}`: {error}"), exit)
}
