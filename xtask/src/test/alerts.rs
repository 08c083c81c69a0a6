//! Each alert fires on its series and on no other: promtool says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files;

const RULES: &str = "ops/prometheus/leaselock.rules.yml";
const TESTS: &str = "ops/prometheus/leaselock.test.yml";

/// Without promtool the alerts are not checked, and the summary says so.
pub(super) fn check() -> Result<String, String> {
    let root = files::root();
    let Some(promtool) = find(&root) else {
        return Ok("NOT CHECKED: promtool is missing; the package prometheus has it".to_owned());
    };
    for arguments in [["check", "rules", RULES], ["test", "rules", TESTS]] {
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
    Ok("each fires on its series, alone".to_owned())
}

/// It is on the path, or CI has unpacked it.
fn find(root: &Path) -> Option<PathBuf> {
    let unpacked = root.join("target/promtool/usr/bin/promtool");
    let both = [PathBuf::from("promtool"), unpacked];
    let runs = |program: &PathBuf| Command::new(program).arg("--version").output().is_ok();
    both.into_iter().find(runs)
}
