//! `cargo xtask test`: the checks that CI runs, cheap ones first, until one fails.
//!
//! After a first run nothing in here needs the network: servers, libraries of others and
//! dependencies lie in the target folder and in cargo's own store.

mod alerts;
mod peers;
pub(crate) use peers::install_measured as install_measured_peers;

use std::path::Path;
use std::time::Duration;

use crate::cargo::Cargo;
use crate::{clock, lua, matrix, servers, tidy, toy};

/// Features add, so the ends of the scale and each one alone show a missing `cfg`.
const FEATURE_SETS: [&str; 5] = [
    "redis",
    "embedded",
    "redis,embedded",
    "tls",
    "redis-connection",
];

/// Runs the steps; `fast` ends before the documents and tests.
pub(crate) fn run(fast: bool) -> Result<String, String> {
    let mut steps = Steps::default();
    let outcome = all(&mut steps, fast);
    println!("\n{}", steps.summary());
    outcome.map(|()| "all is well".to_owned())
}

/// The libraries of others alone, for who runs single tests.
pub(crate) fn install_peers() -> Result<String, String> {
    let server = servers::find_or_fetch()?;
    let folder = peers::install(&Cargo::new(&server))?;
    Ok(format!("LEASELOCK_TEST_PEERS={}", folder.display()))
}

/// Compares the public API of the library crates with their listings, or renews these.
pub(crate) fn api(option: &str) -> Result<String, String> {
    let cargo = Cargo::new(Path::new("")); // needs no server
    let arguments = format!("run --quiet -p api -- {option}");
    cargo.run(arguments.trim())?;
    Ok("the public API is as it was listed".to_owned())
}

fn all(steps: &mut Steps, fast: bool) -> Result<(), String> {
    let server = steps.run("a server for the tests", servers::find_or_fetch)?;
    let cargo = Cargo::new(&server);
    steps.run("format", || {
        cargo.run("fmt --all --check")?;
        // Workspaces of their own. The benchmark's build would fetch the libraries that it measures.
        cargo.run("fmt --manifest-path bench/Cargo.toml --check")?;
        cargo.run("fmt --manifest-path peers/rust/Cargo.toml --check")
    })?;
    steps.run("script headers", || {
        lua::run(false).map(|summary| println!("{summary}"))
    })?;
    steps.run("repository rules", || {
        tidy::run().map(|summary| println!("{summary}"))
    })?;
    steps.run("alerts", || alerts::check().map(|said| println!("{said}")))?;
    let clippy = "clippy --workspace --all-targets --all-features -- -D warnings";
    steps.run("lints", || cargo.run(clippy))?;
    if fast {
        return Ok(());
    }
    steps.run("documents", || cargo.documents())?;
    steps.run("public API", || api("").map(drop))?;
    let peers = steps.run("libraries of others", || peers::install(&cargo))?;
    let cargo = cargo.with_peers(peers);
    let tests = "test --workspace --all-features --no-fail-fast --lib --bins --tests --examples";
    steps.run("tests", || cargo.run(tests))?;
    steps.run("oldest and newest server", matrix::of_two)?;
    steps.run("examples in documents", || {
        cargo.run("test --workspace --all-features --doc")
    })?;
    // After what uses the tests' own build: the copy's build takes the place of it.
    steps.run("a primitive of its own", || {
        toy::run().map(|summary| println!("{summary}"))
    })?;
    for features in FEATURE_SETS {
        // Not `check`: a warning that only one set of features shows counts as well.
        let lints = format!(
            "clippy -p leaselock --no-default-features --features {features} -- -D warnings"
        );
        steps.run(&format!("features {features}"), || cargo.run(&lints))?;
    }
    // All at once, since each is packaged against others that are not published yet.
    // Without building: the same sources were built above. Offline, so that no index is asked.
    let package = "package --workspace --exclude testkit --exclude xtask --exclude api --allow-dirty --no-verify --offline";
    steps.run("packages", || cargo.run(package))
}

/// What ran so far, and for how long.
#[derive(Debug, Default)]
struct Steps(Vec<(String, Duration, bool)>);

impl Steps {
    fn run<T>(
        &mut self,
        name: &str,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        println!("\n==> {name}");
        let start = clock::now();
        let outcome = work();
        self.0
            .push((name.to_owned(), clock::since(start), outcome.is_ok()));
        outcome
    }

    fn summary(&self) -> String {
        let line = |(name, took, well): &(String, Duration, bool)| {
            let mark = if *well { "ok    " } else { "FAILED" };
            format!("{mark} {:>8} {name}", format!("{took:.1?}"))
        };
        let total: Duration = self.0.iter().map(|(_, took, _)| *took).sum();
        let lines: Vec<String> = self.0.iter().map(line).collect();
        format!(
            "{}\n       {:>8} in all",
            lines.join("\n"),
            format!("{total:.1?}")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_failure_ends_the_run_and_is_marked() {
        let mut steps = Steps::default();
        assert_eq!(steps.run("one", || Ok(7)), Ok(7));
        assert_eq!(
            steps.run::<()>("two", || Err("no".into())),
            Err("no".into())
        );
        let marks: Vec<bool> = steps.0.iter().map(|(_, _, well)| *well).collect();
        assert_eq!(marks, [true, false]);
        assert!(steps.summary().contains("FAILED"), "{}", steps.summary());
    }
}
