//! The `leaselock` command.

mod args;
mod boottime;
mod duration;
mod exit;
mod guardian;
mod job;
mod process;
mod procfs;
mod quarry;
mod signal_name;
mod signals;
mod supervise;

fn main() {}
