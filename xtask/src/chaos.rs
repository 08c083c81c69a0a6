//! `cargo xtask chaos`: the scenarios of `crates/leaselock/tests/chaos`, many rounds of each, and those that lie beside
//! other tests.

use crate::cargo::Cargo;
use crate::servers;

/// Scenarios beside other tests, with their package: late writers of the fence checkers, services that are killed.
const ELSEWHERE: [(&str, &str); 2] = [
    ("fence_checker", "leaselock"),
    ("cron::struck", "leaselock-cli"),
];

/// `filters` choose scenarios by a part of their names; without any, all are run, one after the other, so that one's
/// load is not another's bad weather.
pub(crate) fn run(filters: &[&str]) -> Result<String, String> {
    let server = servers::find_or_fetch()?;
    let cargo = Cargo::new(&server).with_rounds("long");
    let is_elsewhere = |filter: &&&str| ELSEWHERE.iter().any(|(name, _)| filter.starts_with(name));
    let (elsewhere, scenarios): (Vec<&str>, Vec<&str>) = filters.iter().partition(is_elsewhere);
    if filters.is_empty() || !scenarios.is_empty() {
        cargo.run(&arguments("leaselock", "chaos", &scenarios))?;
    }
    for (name, package) in ELSEWHERE {
        let chosen = elsewhere.iter().filter(|filter| filter.starts_with(name));
        let chosen: Vec<&str> = match filters.is_empty() {
            true => vec![name],
            false => chosen.copied().collect(),
        };
        if !chosen.is_empty() {
            cargo.run(&arguments(package, "it", &chosen))?;
        }
    }
    Ok("all scenarios went well".to_owned())
}

/// Thousands of waiters in a folder need an optimised build; it keeps the checks of the other one.
fn arguments(package: &str, program: &str, filters: &[&str]) -> String {
    let mut arguments = format!(
        "test --config profile.dev.opt-level=2 -p {package} --all-features --test {program} -- \
        --nocapture --test-threads=1"
    );
    for filter in filters {
        arguments.push(' ');
        arguments.push_str(filter);
    }
    arguments
}
