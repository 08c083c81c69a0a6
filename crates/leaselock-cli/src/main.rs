//! The `leaselock` command: runs a job under a lease, and shows and settles who holds what.

#![expect(dead_code, reason = "the verbs that need a store are not there yet")]

#[cfg(not(target_os = "linux"))]
compile_error!("the command needs Linux: its guardian stands on pidfd and timerfd");

mod args;
mod boottime;
mod duration;
mod exit;
mod guardian;
mod job;
mod output;
mod process;
mod procfs;
mod quarry;
mod signal_name;
mod signals;
mod supervise;
mod verb;

use std::process::ExitCode;

use clap::Parser as _;

use args::usage::{Answer, answer};
use args::{Cli, Verb};
use exit::Exit;

fn main() -> ExitCode {
    let exit = match Cli::try_parse() {
        Ok(cli) => obey(&cli),
        Err(error) => match answer(&error) {
            Answer::Asked(text) => print(text.as_bytes()),
            Answer::Wrong(text, exit) => {
                output::say(&text);
                exit
            }
        },
    };
    exit.into()
}

fn obey(cli: &Cli) -> Exit {
    match &cli.verb {
        Verb::Completions(args) => print(&verb::completions::text(args)),
        Verb::Man(args) => match verb::man::text(args) {
            Ok(page) => print(&page),
            Err(wrong) => complain(&wrong, Exit::USAGE),
        },
        _ => complain("this verb is not built yet", Exit::INTERNAL),
    }
}

fn print(bytes: &[u8]) -> Exit {
    match output::print(bytes) {
        Ok(()) => Exit::OK,
        Err(error) => complain(&format!("standard output: {error}"), Exit::INTERNAL),
    }
}

fn complain(wrong: &str, exit: Exit) -> Exit {
    output::say(&format!("leaselock: {wrong}\n"));
    exit
}
