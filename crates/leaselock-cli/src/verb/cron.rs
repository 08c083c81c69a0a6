//! `leaselock cron SPEC NAME -- COMMAND`

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leaselock::cron::CronError;
use leaselock_cron::ScheduledRuns;
use tokio::sync::Notify;

use super::cron_show;
use super::job_lock::{JobLock, start_guardian};
use super::service::{
    Service, begin_anew, is_refused_login, tell_retry, until_the_file_has_other_urls,
    with_urls_of_now,
};
use crate::args::Globals;
use crate::args::cron::CronArgs;
use crate::boottime::End;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::guardian::Guardian;
use crate::held::Held;
use crate::process::SignalSet;
use crate::session::{self, Purpose};
use crate::supervise::Outcome;
use crate::textfile::Textfile;

/// What follows a run.
enum Next {
    Exit(Exit),
    /// Another run, after this pause, with the URLs that the file has by then.
    Tick(Duration),
}

/// After a run that did not finish or did not begin: other hosts ask once a second, and may do better.
const OTHERS_FIRST: Duration = Duration::from_secs(1);

/// Guardian first, as in `run`; then a tick; then the job. For the next tick it becomes the same command again.
pub(crate) fn run(args: &CronArgs, globals: &Globals) -> Result<Exit, Failure> {
    let usage = |wrong| Failure::new(wrong, Exit::USAGE);
    let schedule = args.schedule().map_err(usage)?;
    if let Some(count) = args.next {
        return cron_show::print_next(&schedule, count, args, globals);
    }
    if args.show {
        return cron_show::show(args, &schedule, globals);
    }
    args.check().map_err(usage)?;
    let plan = args.run.plan(globals.longest()).map_err(usage)?;
    let service = Service {
        name: &args.run.name,
        open: |globals| session::one_store(globals, Purpose::Operator, "cron"),
    };
    let client = session::one_store(globals, Purpose::Job("cron", &plan.program), "cron")?;
    let cron = args.cron(&client, globals.longest()).validate()?;
    let (guardian, signals) = start_guardian(plan.guardian)?;
    let mask = signals.mask_before();
    let next = session::block_on(async {
        let signals = signals.listen()?;
        let runs = schedule.runs(cron).catch_up(args.catch_up());
        let failed = Arc::default();
        let mut runs = runs.on_error(told(globals, service.name, &failed));
        // The store is asked on meanwhile: it may serve again, or accept the login after all.
        let other_urls = async {
            failed.notified().await;
            until_the_file_has_other_urls(globals, service, &failed).await;
        };
        let begun = tokio::select! {
            biased;
            // First: it may have come before this process image began, and a tick may be due already.
            signal = signals.ending() => {
                Err(signal.map(|signal| Next::Exit(Exit::by_signal(signal))))
            }
            begun = runs.next() => Ok(begun),
            () = other_urls, if globals.url_file().is_some() => Err(Ok(Next::Tick(Duration::ZERO))),
        };
        let run = match begun {
            Ok(Ok(run)) => run,
            Err(next) => {
                guardian.retire();
                let limit = session::request_timeout(plan.guardian.ttl);
                session::close_within(&client, limit).await;
                return Ok(next?);
            }
            Ok(Err(error)) => {
                guardian.retire();
                client.close().await;
                let failure = Failure::cron(&error);
                Textfile::of(&args.run, globals).run_ended(failure.exit);
                return Err(failure);
            }
        };
        let names = [args.run.name.clone()];
        let lock = JobLock::new(&args.run, globals, &plan, &client, &signals, &names, false);
        let held = Held::Cron(run);
        lock.progress.acquired(&held);
        Box::pin(hold(args, &lock, held, runs, guardian, mask)).await
    })?;
    match next {
        Next::Exit(exit) => Ok(exit),
        Next::Tick(pause) => {
            std::thread::sleep(pause); // a signal that comes meanwhile ends the wait for the next tick
            Err(begin_anew(&with_urls_of_now(globals, service), &mask))
        }
    }
}

/// Says it when the store begins to fail, or to refuse the login.
fn told(
    globals: &Globals,
    name: &str,
    failed: &Arc<Notify>,
) -> impl Fn(&CronError) + Send + Sync + 'static {
    let (globals, name, failed) = (globals.clone(), name.to_owned(), Arc::clone(failed));
    move |error| {
        tell_retry(&globals, &name, error, is_refused_login(error));
        failed.notify_one();
    }
}

/// Runs the job, and records that it has run. A job that was not started gives its tick back.
async fn hold(
    args: &CronArgs,
    lock: &JobLock<'_>,
    held: Held,
    runs: ScheduledRuns,
    guardian: Guardian,
    mask: SignalSet,
) -> Result<Next, Failure> {
    let end = End::default();
    let supervised = {
        let job = pin!(lock.supervised(&held, guardian, mask, &end, None));
        tokio::select! {
            biased;
            supervised = job => supervised,
            () = overlapped(runs) => unreachable!("it never ends"),
        }
    };
    let (outcome, leaving) = match supervised {
        Ok(supervised) => supervised,
        Err(failure) => {
            lock.release(held).await.ok();
            lock.textfile.run_ended(failure.exit);
            if !may_pass(failure.exit) {
                return Err(failure);
            }
            let text = format!("{}: {failure}; the tick is given back", lock.name);
            lock.say("not-started", &text);
            return Ok(Next::Tick(OTHERS_FIRST));
        }
    };
    let is_to_end = lock.signals.has_been_asked_to_end();
    let (exit, pause) = match outcome {
        Outcome::Ended(status) => {
            let exit = Exit::of_job(status);
            match args.has_crashed(exit, is_to_end) {
                true => {
                    give_up(lock, held, exit);
                    (exit, OTHERS_FIRST)
                }
                false => {
                    finish(lock, held, exit).await;
                    (exit, Duration::ZERO)
                }
            }
        }
        Outcome::Lost(_) => {
            drop(held); // before the client closes, which waits for the release
            (Exit::LOST, Duration::ZERO)
        }
        Outcome::Unguarded(_) => {
            drop(held);
            (Exit::INTERNAL, OTHERS_FIRST)
        }
    };
    lock.textfile.run_ended(exit);
    let next = match is_to_end {
        true => Next::Exit(exit),
        false => Next::Tick(pause),
    };
    let limit = session::request_timeout(lock.plan.guardian.ttl);
    session::close_within(lock.client, limit).await;
    if let Some(guardian) = leaving {
        guardian.wait(); // it has ended by now
    }
    Ok(next)
}

/// Records the ticks that come while the job runs as left out. Never completes.
async fn overlapped(mut runs: ScheduledRuns) {
    // A run can begin only after a loss of the lease, when the job is being ended. It is left to other hosts.
    if let Ok(run) = runs.next().await {
        run.cancel().await.ok(); // repeated in the background
    }
    pending::<()>().await;
}

/// Whether the next start may succeed: the machine was too busy or paused, or the store did not answer.
fn may_pass(exit: Exit) -> bool {
    [Exit::INTERNAL, Exit::LOST, Exit::UNAVAILABLE].contains(&exit)
}

/// Gives the name back without a record that the run has ended.
fn give_up(lock: &JobLock<'_>, held: Held, exit: Exit) {
    let tick = held.tick().unwrap_or_default();
    drop(held);
    lock.progress.released();
    let (name, code) = (lock.name, exit.code());
    let text = format!(
        "{name}: the run of {tick} exited {code}: it has crashed, and a host runs it again"
    );
    lock.say("job-crashed", &text);
}

async fn finish(lock: &JobLock<'_>, held: Held, exit: Exit) {
    let tick = held.tick().unwrap_or_default();
    let Held::Cron(run) = held else { return };
    if exit != Exit::OK {
        run.log_failure(&format!("exited {}", exit.code()));
    }
    match run.finish().await {
        Ok(()) => lock.progress.released(),
        Err(error) => Failure::cron(&error).say(lock.globals.json),
    }
    if exit != Exit::OK {
        let text = format!("{}: the run of {tick} exited {}", lock.name, exit.code());
        lock.say("job-failed", &text);
    }
}
