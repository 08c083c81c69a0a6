//! The units of systemd in `ops/systemd`, and the page that prints one of them.

use std::fs;
use std::process::Command;

use testkit::tempdir;

const PAGE: &str = include_str!("../../../../docs/cron.md");
const UNITS: [(&str, &str); 3] = [
    (
        "nightly.service",
        include_str!("../../../../ops/systemd/nightly.service"),
    ),
    (
        "report.service",
        include_str!("../../../../ops/systemd/report.service"),
    ),
    (
        "report.timer",
        include_str!("../../../../ops/systemd/report.timer"),
    ),
];

#[test]
fn the_page_prints_the_unit_of_a_service_that_is_shipped() {
    let (file, text) = UNITS[0];
    let mut blocks = PAGE.split("\n```").skip(1).step_by(2);
    assert!(
        blocks.any(|block| {
            block
                .split_once('\n')
                .is_some_and(|(_, it)| it == text.trim_end())
        }),
        "docs/cron.md has no block that is ops/systemd/{file}"
    );
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        return eprintln!("NOT VERIFIED: systemd-analyze is missing; the package systemd has it");
    }
    let folder = tempdir().unwrap();
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]);
    for (file, text) in UNITS {
        // systemd checks whether the programs are there, which are those of a machine with the package.
        let text = text.replace("/usr/bin/leaselock", env!("CARGO_BIN_EXE_leaselock"));
        let text = text.replace("/usr/local/bin/report", "/bin/true");
        fs::write(folder.path().join(file), text).unwrap();
        verify.arg(folder.path().join(file));
    }
    let output = verify.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}
