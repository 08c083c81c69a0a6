//! A lease as the client's thread knows it: its record, its state, when it ends, and who is told that it is lost.

pub(crate) mod deadlines;
pub(crate) mod loss;
pub(crate) mod record;
pub(crate) mod state;
