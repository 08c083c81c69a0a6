//! Each way a lease can move between tasks and processes, when something breaks in the middle of it.

pub(crate) mod crash;
mod fences;
mod loss;
mod turns;
