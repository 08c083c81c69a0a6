//! The line under everything that can happen to its messages.

mod along;
mod crowd;
mod failed_polls;
mod former;
pub(crate) mod hand_over;
pub(crate) mod heads;
mod idle;
mod messages;
mod presence;
pub(crate) mod together;
mod urgent;
