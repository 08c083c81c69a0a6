//! The units of systemd in `ops/systemd`, and the pages that print them.

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
const CRON_JOB: &str = include_str!("../../../../ops/kubernetes/cronjob.yaml");

#[test]
fn the_page_prints_the_units_and_the_manifest_that_are_shipped() {
    let blocks: Vec<&str> = PAGE.split("\n```").skip(1).step_by(2).collect();
    let printed = |text: &str| {
        let is_it = |block: &&&str| {
            block
                .split_once('\n')
                .is_some_and(|(_, it)| it == text.trim_end())
        };
        blocks.iter().find(is_it).is_some()
    };
    for (file, text) in UNITS {
        assert!(
            printed(text),
            "docs/cron.md has no block that is ops/systemd/{file}"
        );
    }
    assert!(
        printed(CRON_JOB),
        "docs/cron.md has no block that is ops/kubernetes/cronjob.yaml"
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
        // systemd looks whether the programs are there, which are those of a machine with the package.
        let text = text.replace("/usr/bin/leaselock", env!("CARGO_BIN_EXE_leaselock"));
        let text = text.replace("/usr/local/bin/report", "/bin/true");
        fs::write(folder.path().join(file), text).unwrap();
        verify.arg(folder.path().join(file));
    }
    let output = verify.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}
