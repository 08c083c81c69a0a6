//! Where it was measured: what carries over to another machine, and nothing that names this one.

use std::collections::BTreeMap;
use std::fs;

use crate::servers::Servers;

pub fn describe() -> Result<BTreeMap<&'static str, String>, String> {
    let server = Servers::start()?.version()?;
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = kernel
        .split(['-', '+'])
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned();
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or_default();
    Ok(BTreeMap::from([
        ("server", server),
        ("cores", cores.to_string()),
        ("Linux", release),
        (
            "processor",
            model.trim_start_matches([' ', '\t', ':']).to_owned(),
        ),
        ("client", "redis-rs 1.8.1, TCP loopback".to_owned()),
    ]))
}
