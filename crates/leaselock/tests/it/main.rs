//! The library from outside: what it promises, against real stores and under faults.

mod conformance;
mod engine;
mod support;
