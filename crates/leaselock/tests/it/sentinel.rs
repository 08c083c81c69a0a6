//! A service whose primary is replaced while locks are held and waited for.

mod refusals;
mod switches;
