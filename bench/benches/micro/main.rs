//! Parts of the library by themselves: `cargo xtask bench micro`.
//!
//! The pure parts are private, and a benchmark is no reason to publish them. So their source files
//! are built once more, here; `lua` beside this package leads to the scripts they include.

// Only a part of each file is used here.
#![allow(
    dead_code,
    unused_imports,
    unfulfilled_lint_expectations,
    unexpected_cfgs
)]

#[path = "../../../crates/leaselock/src/clock.rs"]
mod clock;
#[path = "../../../crates/leaselock/src/error.rs"]
mod error;
#[path = "../../../crates/leaselock/src/fence.rs"]
mod fence;
#[path = "../../../crates/leaselock/src/keys.rs"]
mod keys;
#[path = "../../../crates/leaselock/src/lease/core.rs"]
mod lease_core;
#[path = "../../../crates/leaselock/src/name.rs"]
mod name;
#[path = "../../../crates/leaselock/src/script.rs"]
mod script;
#[path = "../../../crates/leaselock/src/mutex/steps.rs"]
mod steps;
#[path = "../../../crates/leaselock/src/token.rs"]
mod token;
#[path = "../../../crates/leaselock/src/ttl.rs"]
mod ttl;

mod embedded;
mod pure;

fn main() {
    divan::main();
}
