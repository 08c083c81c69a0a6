//! The suite that every primitive keeps, on the toy.

#![allow(dead_code, reason = "the suite's helpers serve other tests too")]

mod conformance;
mod engine;
mod support;
