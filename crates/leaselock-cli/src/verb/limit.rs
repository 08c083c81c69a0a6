//! `leaselock limit NAME --rate N/PERIOD -- COMMAND`

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use leaselock::limiter::{Limiter, LimiterError, Rate};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::args::Globals;
use crate::args::limit::LimitArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job::{URL, WITHHELD};
use crate::procfs::Status;
use crate::progress::Progress;
use crate::session::Purpose;
use crate::signals::Signals;
use crate::{environment, output, session};

/// How long the end of a wait may take that a signal ended.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// Waits for the rate, and becomes the command.
pub(crate) fn run(args: &LimitArgs, globals: &Globals) -> Result<Exit, Failure> {
    let client = session::one_store(globals, Purpose::Operator, "limit")?;
    let rate = Rate::new(args.rate.limit, args.rate.period);
    let rate = args.burst.map_or(rate, |burst| rate.burst(burst));
    let limiter = client.limiter(&args.limiter, rate);
    if let Some(missing) = missing(args) {
        return Err(missing); // uses no permit
    }
    let progress = Progress::of(std::slice::from_ref(&args.limiter), false, globals);
    let signals = Signals::block(&Status::read()?)?;
    let mask = signals.mask_before();
    let ended = session::block_on(async {
        let signals = signals.listen()?;
        let signal = tokio::select! {
            allowed = allowed(&limiter, args, globals, &progress) => return allowed,
            signal = signals.ending() => signal?,
        };
        session::close_within(&client, CLOSE_WITHIN).await; // gives its moment back
        progress.gave_up_at(signal);
        Ok(Some(Exit::by_signal(signal)))
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
    progress: &Progress,
) -> Result<Option<Exit>, Failure> {
    let limit = if args.nonblock {
        Some(Duration::ZERO)
    } else {
        args.wait
    };
    match acquired(limiter, args.cost, limit, progress).await {
        Ok(()) => {
            progress.allowed();
            Ok(None)
        }
        Err(LimiterError::TimedOut { .. }) if globals.quiet => Ok(Some(Exit::BUSY)),
        Err(error) => Err(error.into()),
    }
}

/// With `-v` it asks first how long the wait will be. That reserves nothing, and newcomers do not overtake a waiter that has
/// reserved.
async fn acquired(
    limiter: &Limiter,
    cost: u32,
    limit: Option<Duration>,
    progress: &Progress,
) -> Result<(), LimiterError> {
    if progress.is_told() {
        match limiter.acquire_many_within(cost, Duration::ZERO).await {
            Err(LimiterError::TimedOut { retry_after, .. })
                if limit.is_none_or(|limit| retry_after <= limit) =>
            {
                progress.limited(retry_after);
            }
            outcome => return outcome,
        }
    }
    match limit {
        None => limiter.acquire_many(cost).await,
        Some(limit) => limiter.acquire_many_within(cost, limit).await,
    }
}

/// Why the command cannot be executed, as far as its file shows that before. The kernel alone finds out that the
/// interpreter of a script is missing: then the permit is used.
fn missing(args: &LimitArgs) -> Option<Failure> {
    let program = args.command.first()?;
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let files: Vec<PathBuf> = match program.as_bytes().contains(&b'/') {
        true => vec![program.into()],
        false => std::env::split_paths(&path)
            .map(|folder| folder.join(program))
            .collect(),
    };
    let mut why = Errno::NOENT;
    for file in files {
        match access(&file, Access::EXEC_OK) {
            Ok(()) if !file.is_dir() => return None,
            Ok(()) | Err(Errno::ACCESS) => why = Errno::ACCESS,
            Err(_) => {}
        }
    }
    Some(cannot_run(program, &why.into()))
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
    cannot_run(&program, &command.exec())
}

fn cannot_run(program: &OsStr, error: &io::Error) -> Failure {
    let exit = match error.kind() {
        ErrorKind::NotFound => Exit::NOT_FOUND,
        _ => Exit::CANNOT_EXECUTE,
    };
    let program = output::sanitized(&program.to_string_lossy());
    Failure::new(format!("cannot run `{program}`: {error}"), exit)
}
