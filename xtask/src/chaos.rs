//! `cargo xtask chaos`: the scenarios of `crates/leaselock/tests/chaos`, many rounds of each, and the late writers of
//! the fence checkers.

use crate::cargo::Cargo;
use crate::servers;

/// What the tests of the fence checkers are called; they lie beside the other tests of the same resources.
const LATE_WRITERS: &str = "fence_checker";

/// `filters` choose scenarios by a part of their names; without any, all are run, one after the other, so that one's
/// load is not another's bad weather.
pub(crate) fn run(filters: &[&str]) -> Result<String, String> {
    let server = servers::find_or_install()?;
    let cargo = Cargo::new(&server).with_rounds("long");
    let (late, scenarios): (Vec<&str>, Vec<&str>) = filters
        .iter()
        .partition(|filter| filter.starts_with(LATE_WRITERS));
    if filters.is_empty() || !scenarios.is_empty() {
        cargo.run(&arguments("chaos", &scenarios))?;
    }
    if filters.is_empty() {
        cargo.run(&arguments("it", &[LATE_WRITERS]))?;
    } else if !late.is_empty() {
        cargo.run(&arguments("it", &late))?;
    }
    Ok("all scenarios went well".to_owned())
}

/// Thousands of waiters in a folder need an optimised build; it keeps the checks of the other one.
fn arguments(program: &str, filters: &[&str]) -> String {
    let mut arguments = format!(
        "test --config profile.dev.opt-level=2 -p leaselock --all-features --test {program} -- \
        --nocapture --test-threads=1"
    );
    for filter in filters {
        arguments.push(' ');
        arguments.push_str(filter);
    }
    arguments
}
