//! The line under everything that can happen to its messages.

mod crowd;
mod messages;
mod presence;
mod together;
