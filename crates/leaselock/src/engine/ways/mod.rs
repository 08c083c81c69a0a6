//! The ways of acquiring, and what they have in common: the loop, its pauses, and what a reply means.

pub(crate) mod all;
pub(crate) mod ask;
mod choice;
pub(crate) mod deadlock;
mod first_try;
pub(crate) mod local;
mod one_try;
#[cfg(all(test, feature = "embedded"))]
mod patience_tests;
mod poll;
pub(crate) mod queue;
mod run;
pub(crate) mod schedule;
#[cfg(all(test, feature = "embedded"))]
mod tests;
pub(crate) mod trying;
pub(crate) mod turn_budget;
mod vote;
