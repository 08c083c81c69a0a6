//! Random cases on every engine.

use std::cell::Cell;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestRunner};

use super::lab::*;

/// Runs the check with so many random cases on every engine. It gets the number of its case, for names of its own.
pub(super) fn random_cases<S: Strategy>(
    cases: u32,
    strategy: &S,
    check: impl AsyncFn(&Lab, usize, &S::Value),
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (labs, number) = (every_engine(), Cell::new(0));
    let mut runner = TestRunner::new(Config {
        cases,
        ..Config::default()
    });
    let outcome = runner.run(strategy, |case| {
        number.set(number.get() + 1);
        for lab in &labs {
            runtime.block_on(check(lab, number.get(), &case));
        }
        Ok(())
    });
    outcome.unwrap();
}
