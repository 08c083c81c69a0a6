//! The ways of acquiring, and what they have in common: the loop, its pauses, and what a reply means.

pub(crate) mod all;
pub(crate) mod ask;
mod choice;
pub(crate) mod deadlock;
mod failure;
mod first_try;
pub(crate) mod key_watch;
pub(crate) mod local;
mod one_try;
mod outcome;
mod owned;
mod patience;
#[cfg(all(test, feature = "embedded"))]
mod patience_tests;
mod poll;
mod queue;
mod retry;
mod rights;
mod run;
pub(crate) mod schedule;
mod solo;
#[cfg(all(test, feature = "embedded"))]
mod tests;
pub(crate) mod trying;
mod turn;
pub(crate) mod turn_budget;
mod vote;
