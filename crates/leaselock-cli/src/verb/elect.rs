//! `leaselock elect NAME -- COMMAND`

use leaselock::Wait;

use super::run::run_as;
use super::service::{
    Service, begin_anew, tell, tell_retry, until_the_store_answers, with_urls_of_now,
};
use crate::args::Globals;
use crate::args::elect::ElectArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::session::{self, Purpose};

/// Leads while the command runs; after a loss it campaigns again. A campaign without a limit also does when the login is
/// no longer right.
pub(crate) fn run(args: &ElectArgs, globals: &Globals) -> Result<Exit, Failure> {
    args.check()
        .map_err(|wrong| Failure::new(wrong, Exit::USAGE))?;
    let name = &args.run.name;
    let ended = run_as(&args.run, globals, Some(&args.value()))?;
    let is_refused = match ended.exit {
        Ok(exit) if args.once || !ended.is_lost => return Ok(exit),
        Ok(_) => {
            tell(globals, name, "campaigning again");
            false
        }
        Err(failure) if may_be_another_login(&failure, args, globals) => {
            tell_retry(globals, name, &failure, true);
            true
        }
        Err(failure) => return Err(failure),
    };
    // Signals stay blocked: one that came meanwhile is heard here, where nothing is held.
    let answers = until_the_store_answers(globals, service(args), is_refused, async |client| {
        client.election(name).leader().await.map(drop)
    });
    match answers? {
        Ok(globals) => Err(begin_anew(&globals, &ended.mask)),
        Err(exit) => Ok(exit),
    }
}

fn service(args: &ElectArgs) -> Service<'_> {
    Service {
        name: &args.run.name,
        open: |globals| session::one_store(globals, Purpose::Operator, "elect"),
    }
}

/// Whether the server has refused a login that was right before, or the file has another one by now.
///
/// A campaign with a limit ends with the refusal: waiting for a login would outlast the limit.
fn may_be_another_login(failure: &Failure, args: &ElectArgs, globals: &Globals) -> bool {
    let other = || with_urls_of_now(globals, service(args)).given_urls() != globals.given_urls();
    globals.url_file().is_some()
        && args.run.wait.policy() == Wait::Forever
        && failure.is_refused_login()
        && (failure.is_after_an_answer() || other())
}
