//! The repository's tasks: `cargo xtask test`, `cargo xtask lua`, `cargo xtask tidy`.

mod complaint;
mod files;
mod lex;
mod lua;
mod tidy;

use std::process::ExitCode;

fn main() -> ExitCode {
    tidy::run();
    lua::run(false)
}
