//! The repository's tasks: `cargo xtask test`, `cargo xtask lua`, `cargo xtask tidy`.

mod complaint;
mod files;
mod lex;
mod lua;

use std::process::ExitCode;

fn main() -> ExitCode {
    lua::run(false)
}
