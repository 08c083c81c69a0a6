//! What the users of locks saw and when, and whether it can be true of locks.
//!
//! Each process writes lines into a file with a [`Recorder`]; several may share one file. Times are
//! [`crate::clock::now`], which all processes of the machine agree on. [`read`] and [`check()`] come after.
//!
//! The order of "read the clock" and "act" is what makes a check sound: an attempt is stamped
//! *before* it acts (`invoke`, `release`) and *after* it learned something (`granted`, `lost`), so
//! that a hold in the history is never longer than the real one.

mod check;
mod event;
mod line;
mod recorder;
mod violation;

pub use self::check::{Summary, check};
pub use self::event::{Event, Id, What};
pub use self::recorder::{Attempt, Recorder, read};
pub use self::violation::Violation;
