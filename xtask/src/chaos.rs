//! `cargo xtask chaos`: the scenarios of `crates/leaselock/tests/chaos`, many rounds of each.

use crate::cargo::Cargo;
use crate::servers;

/// `filters` choose scenarios by a part of their names; without any, all are run, one after the other, so that one's
/// load is not another's bad weather.
pub(crate) fn run(filters: &[&str]) -> Result<String, String> {
    let server = servers::find_or_install()?;
    let cargo = Cargo::new(&server).with_rounds("long");
    // Thousands of waiters in a folder need an optimised build; it keeps the checks of the other one.
    let mut arguments =
        "test --config profile.dev.opt-level=2 -p leaselock --all-features --test chaos -- \
        --nocapture --test-threads=1"
            .to_owned();
    for filter in filters {
        arguments.push(' ');
        arguments.push_str(filter);
    }
    cargo.run(&arguments)?;
    Ok("all scenarios went well".to_owned())
}
