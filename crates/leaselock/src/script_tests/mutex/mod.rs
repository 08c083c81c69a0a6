//! The scripts of a mutex.

mod branches;
mod many;
