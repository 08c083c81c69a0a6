//! The suite that every primitive keeps, on the toy; and what the flag promises.

#![allow(dead_code, reason = "the suite's helpers serve other tests too")]

mod conformance;
mod engine;
mod flag;
mod support;
