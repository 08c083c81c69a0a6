//! The program of Prometheus that reads metrics as its server does.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// Where `./x test` unpacks it.
const UNPACKED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../target/promtool/usr/bin/promtool"
);

/// Panics if promtool finds a fault in this text of metrics, other than the remarks on its style that are `known`.
/// Without promtool it says so, and the text counts as good.
#[track_caller]
pub fn accepts(text: &str, known: &[&str]) {
    /// What promtool exits with after remarks on a text that can be read.
    const REMARKS: i32 = 3;
    let start = |program: &str| {
        let mut promtool = Command::new(program);
        promtool.args(["check", "metrics"]).stdin(Stdio::piped());
        promtool.stdout(Stdio::piped()).stderr(Stdio::piped());
        promtool.spawn()
    };
    let Ok(mut promtool) = start("promtool").or_else(|_| start(UNPACKED)) else {
        return eprintln!("promtool is not there, so only the test has read the metrics");
    };
    let mut stdin = promtool.stdin.take().expect("it is piped");
    stdin
        .write_all(text.as_bytes())
        .expect("promtool reads its input");
    drop(stdin);
    let output = promtool.wait_with_output().expect("promtool ends");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let is_known = said.lines().all(|line| known.contains(&line));
    let can_read = output.status.success() || output.status.code() == Some(REMARKS);
    assert!(can_read && is_known, "{text}{}: {said}", output.status);
}
