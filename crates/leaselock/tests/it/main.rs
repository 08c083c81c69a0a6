//! The library from outside: what it promises, against real stores and under faults.

mod cancel;
mod conformance;
mod engine;
mod faults;
mod support;
mod waiting;
