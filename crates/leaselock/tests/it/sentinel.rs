//! A service whose primary is replaced while locks are held and waited for.

mod doctor;
mod refusals;
mod switches;
