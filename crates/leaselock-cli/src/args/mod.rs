//! The command line: what the user may write, each flag with a text that says what it does.
//!
//! This is the first of two stages. Here is validated text that has touched nothing; the second
//! stage ([`run::RunPlan`]) works out what follows from several flags together. Help, the manual
//! page and the completions come from the same definitions.

pub(crate) mod acquire;
pub(crate) mod bench;
mod command_line;
pub(crate) mod count;
pub(crate) mod cron;
pub(crate) mod elect;
mod globals;
pub(crate) mod hold;
pub(crate) mod inspect;
pub(crate) mod latch;
pub(crate) mod lease;
pub(crate) mod like;
pub(crate) mod limit;
pub(crate) mod log;
pub(crate) mod mode;
pub(crate) mod once;
pub(crate) mod permits;
pub(crate) mod run;
pub(crate) mod schedules;
pub(crate) mod strict;
pub(crate) mod tls;
#[cfg(feature = "top")]
pub(crate) mod top;
pub(crate) mod usage;

pub(crate) use self::command_line::{Cli, Verb};
pub(crate) use self::globals::Globals;

#[cfg(test)]
mod misplaced_tests;
