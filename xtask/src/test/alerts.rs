//! Each alert fires on its series and on no other, and each panel of the dashboard asks what Prometheus understands:
//! promtool says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files;

const RULES: &str = "ops/prometheus/leaselock.rules.yml";
const TESTS: &str = "ops/prometheus/leaselock.test.yml";
const DASHBOARD: &str = "ops/grafana/leaselock.json";
/// The dashboard's expressions as rules, because promtool checks rules only.
const PANELS: &str = "target/promtool-panels.yml";

/// Without promtool the alerts are not checked, and the summary says so.
pub(super) fn check() -> Result<String, String> {
    let root = files::root();
    let Some(promtool) = find(&root) else {
        return Ok("NOT CHECKED: promtool is missing; the package prometheus has it".to_owned());
    };
    let panels = panels(&root)?;
    for arguments in [
        ["check", "rules", RULES],
        ["test", "rules", TESTS],
        ["check", "rules", PANELS],
    ] {
        let ran = Command::new(&promtool)
            .args(arguments)
            .current_dir(&root)
            .output();
        let ran = ran.map_err(|error| format!("{}: {error}", promtool.display()))?;
        if !ran.status.success() {
            let said = [ran.stdout, ran.stderr].concat();
            return Err(format!(
                "promtool {}: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&said)
            ));
        }
    }
    Ok(format!(
        "each fires on its series, alone; {panels} expressions of the dashboard are well formed"
    ))
}

/// Writes the expressions of all panels, and returns how many there are.
fn panels(root: &Path) -> Result<usize, String> {
    let failed = |error: std::io::Error| format!("{DASHBOARD}: {error}");
    let text = fs::read_to_string(root.join(DASHBOARD)).map_err(failed)?;
    let expression = |line: &str| {
        let text = line.trim().strip_prefix("\"expr\": \"")?;
        let text = text.strip_suffix("\",")?.replace("\\\"", "\"");
        Some(text.replace("$__rate_interval", "5m"))
    };
    let expressions: Vec<String> = text.lines().filter_map(expression).collect();
    let rule = |(at, text): (usize, &String)| {
        format!("  - record: panel:{at}\n    expr: |-\n      {text}\n")
    };
    let rules: String = expressions.iter().enumerate().map(rule).collect();
    fs::write(
        root.join(PANELS),
        format!("groups:\n- name: panels\n  rules:\n{rules}"),
    )
    .map_err(failed)?;
    Ok(expressions.len())
}

/// It is on the path, or CI has unpacked it.
fn find(root: &Path) -> Option<PathBuf> {
    let unpacked = root.join("target/promtool/usr/bin/promtool");
    let both = [PathBuf::from("promtool"), unpacked];
    let runs = |program: &PathBuf| Command::new(program).arg("--version").output().is_ok();
    both.into_iter().find(runs)
}
