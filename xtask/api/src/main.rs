//! `cargo xtask api [--write]`: what the library crates promise for years, one line an item.
//!
//! Each library crate has a `public-api.txt` with its public items and their signatures, as rustdoc's JSON has them. A
//! change of the public API is a change of that file, so that its author sees it. `--write` renews the
//! files. Only rustdoc is told to take unstable options, so that nothing else is built anew.

mod listing;

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

use self::listing::Listing;

/// The library crates, each with how many types it may have at its root and in all. Of the 97, three are what an
/// operator sees: counts by kind, and entries of the event log. They came after the other 94 were settled.
const CRATES: [(&str, usize, usize); 4] = [
    ("leaselock", 24, 97),
    ("leaselock-fence", 9, 9),
    ("leaselock-tower", 9, 9),
    ("leaselock-cron", 5, 5),
];
/// A list of all types and futures of `leaselock`, by hand.
const SEND_SYNC: &str = "crates/leaselock/tests/it/send_sync.rs";
/// Set when cargo runs this program in place of rustdoc.
const IN_PLACE_OF_RUSTDOC: &str = "LEASELOCK_API_RUSTDOC";

fn main() -> ExitCode {
    let outcome = if env::var_os(IN_PLACE_OF_RUSTDOC).is_some() {
        rustdoc()
    } else {
        run(env::args().any(|arg| arg == "--write"))
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(writes: bool) -> Result<(), String> {
    let mut problems = Vec::new();
    for (name, root_max, types_max) in CRATES {
        let listing = Listing::read(&json_of(name)?)?;
        let path = format!("crates/{name}/public-api.txt");
        println!("{name}: {}", listing.counts());
        let found = [
            ("at its root", listing.root(), root_max),
            ("in all", listing.types(), types_max),
        ];
        for (what, count, most) in found {
            if count > most {
                problems.push(format!(
                    "{name} has {count} types {what}, and {most} are enough"
                ));
            }
        }
        if name == "leaselock" {
            let covered = std::fs::read_to_string(SEND_SYNC).map_err(|error| error.to_string())?;
            problems.extend(listing.misses(&covered));
        }
        if writes {
            std::fs::write(&path, listing.text()).map_err(|error| format!("{path}: {error}"))?;
        } else {
            let known = std::fs::read_to_string(&path).unwrap_or_default();
            problems.extend(listing.differs(&known, &path));
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("\n")),
    }
}

/// Documents a crate as JSON, and returns the file.
fn json_of(name: &str) -> Result<String, String> {
    let own = env::current_exe().map_err(|error| error.to_string())?;
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = "--lib --all-features -- -Z unstable-options --output-format json";
    let mut command = Command::new(cargo);
    command.args(["rustdoc", "--quiet", "-p", name]);
    command.args(arguments.split(' '));
    command.env("RUSTDOC", own).env(IN_PLACE_OF_RUSTDOC, "1");
    done(command.status(), "cargo rustdoc")?;
    let target = env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let file = Path::new(&target)
        .join("doc")
        .join(name.replace('-', "_") + ".json");
    Ok(file.display().to_string())
}

/// Runs rustdoc with the same arguments.
fn rustdoc() -> Result<(), String> {
    let mut command = Command::new("rustdoc");
    command
        .args(env::args_os().skip(1))
        .env("RUSTC_BOOTSTRAP", "1");
    done(command.status(), "rustdoc")
}

fn done(status: std::io::Result<ExitStatus>, what: &str) -> Result<(), String> {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what}: {status}")),
        Err(error) => Err(format!("{what}: {error}")),
    }
}
