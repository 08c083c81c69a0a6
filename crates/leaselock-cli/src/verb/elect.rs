//! `leaselock elect NAME -- COMMAND`

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use super::run::run_as;
use crate::args::Globals;
use crate::args::elect::ElectArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::procfs::Status;
use crate::session::Purpose;
use crate::signals::Signals;
use crate::{output, session};

/// Between two questions whether the store answers.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Leads while the command runs; after a loss it campaigns again.
pub(crate) fn run(args: &ElectArgs, globals: &Globals) -> Result<Exit, Failure> {
    args.check()
        .map_err(|wrong| Failure::new(wrong, Exit::USAGE))?;
    let ended = run_as(&args.run, globals, Some(&args.value()))?;
    if args.once || !ended.is_lost {
        return Ok(ended.exit);
    }
    if !globals.quiet && !globals.json {
        output::say("leaselock: campaigning again\n");
    }
    ended.mask.become_mask(); // a signal that came meanwhile ends us here, where nothing is held
    if let Some(exit) = until_the_store_answers(args, globals)? {
        return Ok(exit);
    }
    Err(begin_anew())
}

/// Becomes this command again. It returns only if that fails.
///
/// The guardian of the next job must be forked while there is one thread, and this process has several by now.
pub(super) fn begin_anew() -> Failure {
    let mut words = std::env::args_os();
    let error = Command::new("/proc/self/exe")
        .arg0(words.next().unwrap_or_default())
        .args(words)
        .exec();
    Failure::internal(format!("cannot begin anew: {error}"))
}

/// The store may be the reason of the loss. Ends with an exit code when a signal comes.
fn until_the_store_answers(args: &ElectArgs, globals: &Globals) -> Result<Option<Exit>, Failure> {
    let client = session::one_store(globals, Purpose::Operator, "elect")?;
    let signals = Signals::block(&Status::read()?)?;
    let mask = signals.mask_before();
    let ended = session::block_on(async {
        let signals = signals.listen()?;
        let answers = async {
            let election = client.election(&args.run.name);
            while election.leader().await.is_err() {
                tokio::time::sleep(ASK_EVERY).await;
            }
        };
        tokio::select! {
            () = answers => Ok(None),
            signal = signals.ending() => Ok(Some(Exit::by_signal(signal?))),
        }
    })?;
    mask.become_mask();
    Ok(ended)
}
