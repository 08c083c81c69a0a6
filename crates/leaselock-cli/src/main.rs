//! The `leaselock` command: runs a job under a lease, shows who holds which lock, and breaks locks.

#[cfg(not(target_os = "linux"))]
compile_error!("the command needs Linux: its guardian uses pidfd and timerfd");

mod alarm;
mod ancestors;
mod args;
mod boottime;
mod caller;
mod capture;
mod duration;
mod environment;
mod event;
mod exit;
mod failure;
mod feed;
mod first_contact;
mod guardian;
mod held;
mod invisible;
mod job;
mod limits;
mod lock_rows;
mod log;
mod look;
mod loss;
mod manual;
mod output;
mod owner;
mod process;
mod process_tree;
mod procfs;
mod progress;
mod regular_file;
mod secrets;
mod session;
mod show;
mod signal_name;
mod signals;
mod supervise;
mod table;
mod text_width;
mod textfile;
mod url_file;
mod verb;
mod waiting_message;

use std::process::ExitCode;

use args::usage::{Answer, answer, asks_for_json, in_one_line};
use args::{Cli, Verb};
use exit::Exit;
use failure::Failure;

fn main() -> ExitCode {
    process::use_no_plugins_for_names();
    signals::listen_as_process_1().ok(); // what needs /proc says itself that it is missing
    let line: Vec<_> = std::env::args_os().collect();
    let exit = match Cli::understand(&line) {
        Ok(mut cli) => obey(&mut cli).unwrap_or_else(|failure| {
            failure.say(cli.globals.json);
            failure.exit
        }),
        Err(error) => match answer(&error) {
            Answer::Asked(text) => print(text.as_bytes()).unwrap_or_else(|failure| {
                failure.say(asks_for_json(&line));
                failure.exit
            }),
            Answer::Wrong(text, exit) => {
                match asks_for_json(&line) {
                    true => Failure::new(in_one_line(&text), exit).say(true),
                    false => output::say(&text),
                }
                exit
            }
        },
    };
    exit.into()
}

fn obey(cli: &mut Cli) -> Result<Exit, Failure> {
    log::show(cli.globals.verbose, cli.globals.json);
    let file = cli.globals.url_file().filter(|_| cli.verb.needs_store());
    let read = |file| url_file::handed_over().map_or_else(|| url_file::read(file), Ok);
    if let Some(urls) = file.map(read).transpose()? {
        cli.globals.take_urls(urls);
    }
    let globals = &cli.globals;
    match &cli.verb {
        Verb::Run(args) => verb::run::run(args, globals),
        Verb::Hold(args) => verb::hold::run(args, globals),
        Verb::Acquire(args) => verb::acquire::run(args, globals),
        Verb::Extend(args) => verb::handle::extend(args, globals),
        Verb::Release(args) => verb::handle::release(args, globals),
        Verb::Status(args) => verb::status::run(args, globals),
        Verb::Ls(args) => verb::ls::run(args, globals),
        #[cfg(feature = "top")]
        Verb::Top(args) => verb::top::run(args, globals),
        Verb::Blame(args) => verb::blame::run(args, globals),
        Verb::Wait(args) => verb::wait::run(args, globals),
        Verb::Break(args) => verb::break_::run(args, globals),
        Verb::Log(args) => verb::log::run(args, globals),
        Verb::Permits(args) => verb::permits::run(args, globals),
        Verb::Elect(args) => verb::elect::run(args, globals),
        Verb::Leader(args) => verb::leader::run(args, globals),
        Verb::Once(args) => verb::once::run(args, globals),
        Verb::Cron(args) => verb::cron::run(args, globals),
        Verb::Schedules(args) => verb::schedules::run(args, globals),
        Verb::Latch(args) => verb::latch::run(args, globals),
        Verb::Limit(args) => verb::limit::run(args, globals),
        Verb::Count(args) => verb::count::run(args, globals),
        Verb::Doctor(_) => verb::doctor::run(globals),
        Verb::Strict(args) => verb::strict::run(args, globals),
        Verb::Functions(args) => verb::functions::run(args, globals),
        Verb::Bench(args) => verb::bench::run(args, globals),
        Verb::Completions(args) => print(&verb::completions::text(args)),
        Verb::Man(args) => {
            print(&verb::man::text(args).map_err(|wrong| Failure::new(wrong, Exit::USAGE))?)
        }
    }
}

fn print(bytes: &[u8]) -> Result<Exit, Failure> {
    output::print(bytes)?;
    Ok(Exit::OK)
}
