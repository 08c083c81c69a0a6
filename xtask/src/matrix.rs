//! `cargo xtask matrix`: the part of the suite that is about one server, on one server program after the other.

mod page;
mod row;
mod wheels;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::row::{Outcome, PARTS, Row, Tests};
use crate::cargo::{Cargo, run_tests_side_by_side};
use crate::{clock, files, servers};

/// Runs the suite on the servers in `--servers DIR`, or on those that can be fetched.
pub(crate) fn run(arguments: &[&str]) -> Result<String, String> {
    let (mut folder, mut quick, mut write) = (None, false, false);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match *argument {
            "--servers" => folder = Some(rest.next().ok_or("--servers needs a folder")?),
            "--quick" => quick = true,
            "--write" => write = true,
            other => return Err(format!("matrix does not know {other}")),
        }
    }
    let folder = match folder {
        Some(folder) => PathBuf::from(folder),
        None if quick => wheels::fetch_ends(&fetched())?,
        None => wheels::fetch_all(&fetched())?,
    };
    let mut programs = Program::all_in(&folder)?;
    if !quick {
        // The one that all other tests run on.
        programs.extend(Program::at(&servers::find_or_fetch()?));
    }
    programs.sort();
    programs.dedup_by(|one, other| one.name == other.name);
    let built = Built::once()?;
    let rows = on(&chosen(programs, quick), &built)?;
    println!("\n{}", page::table(&rows));
    if write {
        page::write(&rows)?;
    }
    let failed: Vec<&str> = rows
        .iter()
        .filter(|row| !row.is_well())
        .map(Row::name)
        .collect();
    if failed.is_empty() {
        Ok(format!("{} servers, all well", rows.len()))
    } else {
        Err(format!("not well on: {}", failed.join(", ")))
    }
}

/// The oldest and the newest server, with the promises of a single one alone. Where they cannot be had it says so, and
/// fails in CI.
pub(crate) fn of_two() -> Result<(), String> {
    let folder = match wheels::fetch_ends(&fetched()) {
        Err(problem) if env::var_os("CI").is_none_or(|ci| ci != "true") => {
            println!("skipped: {problem}");
            return Ok(());
        }
        folder => folder?,
    };
    let programs = Program::all_in(&folder)?;
    let built = Built::once()?;
    for program in chosen(programs, true) {
        let promises = built.run(&program, Tests::It, &["conformance::redis::"])?;
        println!("{}: {promises:?}", program.name);
        if promises.failed > 0 {
            return Err(format!("not well on {}", program.name));
        }
    }
    Ok(())
}

fn fetched() -> PathBuf {
    files::target().join("matrix-servers")
}

fn chosen(programs: Vec<Program>, quick: bool) -> Vec<Program> {
    let (last, quick) = (
        programs.len().saturating_sub(1),
        quick && programs.len() > 2,
    );
    let kept = programs.into_iter().enumerate();
    kept.filter(|(place, _)| !quick || *place == 0 || *place == last)
        .map(|(_, program)| program)
        .collect()
}

fn on(programs: &[Program], built: &Built) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for program in programs {
        let start = clock::now();
        let mut outcomes = Vec::new();
        for (at, (_, tests, filters)) in PARTS.into_iter().enumerate() {
            // A test counts once, in the first part that means it.
            let counted = PARTS[..at].iter().filter(|before| before.1 == tests);
            let counted = counted.flat_map(|(_, _, filters)| *filters);
            let skips = counted.flat_map(|filter| ["--skip", *filter]);
            let args: Vec<&str> = filters.iter().copied().chain(skips).collect();
            outcomes.push(built.run(program, tests, &args)?);
        }
        println!(
            "{}: {outcomes:?} in {:.0?}",
            program.name,
            clock::since(start)
        );
        rows.push(Row {
            name: program.name.clone(),
            tls: program.has_tls(),
            outcomes,
        });
    }
    Ok(rows)
}

/// A server program, in the order of the table: Redis before Valkey, old before new.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Program {
    maker: String,
    version: Vec<u32>,
    name: String,
    path: PathBuf,
}

impl Program {
    fn all_in(folder: &Path) -> Result<Vec<Program>, String> {
        let problem = |error| format!("{}: {error}", folder.display());
        let entries = std::fs::read_dir(folder).map_err(problem)?.flatten();
        let mut found: Vec<_> = entries
            .filter_map(|entry| Program::at(&entry.path()))
            .collect();
        found.sort();
        if found.is_empty() {
            return Err(format!("{} holds no server", folder.display()));
        }
        Ok(found)
    }

    /// What it says of itself: `Redis server v=7.2.4 sha=…`.
    fn at(path: &Path) -> Option<Program> {
        let said = Command::new(path).arg("--version").output().ok()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let (maker, behind) = said.split_once(" server v=")?;
        let digits = behind.split(' ').next()?;
        let version = digits.split('.').map_while(|part| part.parse().ok());
        Some(Program {
            maker: maker.to_owned(),
            version: version.collect(),
            name: format!("{maker} {digits}"),
            path: std::path::absolute(path).ok()?,
        })
    }

    /// Without a certificate one that can do TLS says so, and any other says that it cannot.
    fn has_tls(&self) -> bool {
        let mut command = Command::new(&self.path);
        command.args([
            "--port",
            "0",
            "--tls-port",
            "1",
            "--tls-cert-file",
            "/absent.pem",
        ]);
        let said = command.current_dir(files::target()).output();
        said.is_ok_and(|said| {
            let text = [said.stdout, said.stderr].concat();
            String::from_utf8_lossy(&text).contains("Failed to configure TLS")
        })
    }
}

/// The test programs. They are copied, so that what is built meanwhile does not change them.
struct Built {
    lib: PathBuf,
    it: PathBuf,
}

impl Built {
    fn once() -> Result<Built, String> {
        let cargo = Cargo::new(&servers::find_or_fetch()?);
        // The whole workspace, as for all tests: a package alone takes other features of its dependencies.
        let said = cargo.answered(
            "test --workspace --all-features --lib --test it --no-run --message-format json-render-diagnostics",
        )?;
        let copy = |of: &str, name: &str| {
            let source = files::root().join("crates/leaselock").join(of);
            let found =
                executable(&said, &source).ok_or_else(|| format!("no {of} was built:\n{said}"))?;
            let to = fetched().join(name);
            std::fs::create_dir_all(fetched())
                .and_then(|()| std::fs::copy(found, &to))
                .map_err(|error| format!("{}: {error}", to.display()))?;
            Ok::<_, String>(to)
        };
        Ok(Built {
            lib: copy("src/lib.rs", "tests-lib")?,
            it: copy("tests/it/main.rs", "tests-it")?,
        })
    }

    fn run(&self, program: &Program, tests: Tests, args: &[&str]) -> Result<Outcome, String> {
        let mut command = Command::new(match tests {
            Tests::Lib => &self.lib,
            Tests::It => &self.it,
        });
        command
            .args(args)
            .current_dir(files::root().join("crates/leaselock"));
        command.env("LEASELOCK_TEST_SERVER", &program.path);
        run_tests_side_by_side(&mut command);
        let output = command.output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let outcome =
            Outcome::read(&said).ok_or_else(|| format!("the tests did not run:\n{said}"))?;
        if outcome.failed > 0 {
            println!("{said}");
        }
        Ok(outcome)
    }
}

/// From a line such as `{…,"src_path":"/crates/a/tests/it/main.rs",…,"executable":"/target/debug/deps/it-1a2b3c",…}`.
fn executable<'a>(said: &'a str, source: &Path) -> Option<&'a str> {
    let source = format!("\"src_path\":\"{}\"", source.display());
    let lines = said.lines().filter(|line| line.contains(&source));
    let behind = |line: &'a str| line.split_once("\"executable\":\"").map(|(_, path)| path);
    lines.filter_map(behind).next()?.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tests_say_last_is_understood() {
        let said = "running 3 tests\ntest result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 8 filtered out";
        let outcome = Outcome::read(said);
        assert_eq!(
            outcome,
            Some(Outcome {
                passed: 12,
                failed: 3
            })
        );
        assert_eq!(Outcome::read("error: could not compile"), None);
    }

    #[test]
    fn what_was_built_is_found_in_the_words_of_cargo() {
        let line = |source: &str, executable: &str| {
            format!("{{\"target\":{{\"src_path\":\"{source}\"}},\"executable\":{executable}}}\n")
        };
        let said = [
            line("/a/src/lib.rs", "null"), // the library, which its tests are built beside
            line("/a/src/lib.rs", "\"/t/a-1\""),
            line("/b/tests/it/main.rs", "\"/t/it-3\""),
            line("/a/tests/it/main.rs", "\"/t/it-2\""),
        ]
        .concat();
        let found = |source: &str| executable(&said, Path::new(source));
        assert_eq!(found("/a/tests/it/main.rs"), Some("/t/it-2"));
        assert_eq!(found("/a/src/lib.rs"), Some("/t/a-1"));
        assert_eq!(found("/a/tests/other.rs"), None);
    }

    #[test]
    fn quick_means_the_oldest_and_the_newest() {
        let program = |maker: &str, version: &[u32]| Program {
            maker: maker.to_owned(),
            version: version.to_vec(),
            name: String::new(),
            path: PathBuf::new(),
        };
        let mut all = vec![
            program("Valkey", &[9, 1, 2]),
            program("Redis", &[7, 0, 15]),
            program("Valkey", &[8, 1]),
            program("Redis", &[6, 2, 14]),
        ];
        all.sort();
        let quick = chosen(all.clone(), true);
        assert_eq!(
            quick,
            [program("Redis", &[6, 2, 14]), program("Valkey", &[9, 1, 2])]
        );
        assert_eq!(chosen(all, false).len(), 4);
    }
}
