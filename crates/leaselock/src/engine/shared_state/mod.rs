//! What waits, counts or records, and holds nothing: the pieces of which such primitives are built.

pub(crate) mod noun;
pub(crate) mod recorded_run;
