//! The ways of acquiring: `choice` chooses one of `retry`, `poll`, `vote`, `queue` and `local`; a primitive that needs
//! another has `begin_run` or `all`. In common they have the loop `run`, its pauses `schedule`, and `ask`, what a reply means.

pub(crate) mod all;
pub(crate) mod ask;
pub(crate) mod begin_run;
mod choice;
pub(crate) mod deadlock;
mod first_try;
pub(crate) mod local;
#[cfg(all(test, feature = "embedded"))]
mod patience_tests;
mod poll;
pub(crate) mod queue;
mod retry;
mod run;
pub(crate) mod schedule;
#[cfg(all(test, feature = "embedded"))]
mod tests;
pub(crate) mod turn_budget;
mod vote;
