//! What goes wrong with servers, networks and keys, and what a caller is told.

mod bytes;
mod changes;
mod frozen;
mod meddled;
mod not_serving;
mod refusals;
mod silent;
mod unreachable;
