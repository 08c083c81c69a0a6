//! Jobs that run other jobs, and wait for each other in a circle.

use crate::common::{Running, Store, on_both, until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_leaselock");

/// Runs a job that holds `mine`, and then runs another one that needs `theirs`.
fn crossing(store: &Store, mine: &str, theirs: &str) -> Running {
    let script = format!(
        "echo > has-{mine}; until test -e go; do sleep 0.02; done; $LL run {theirs} -- true"
    );
    let mut command = store.leaselock(&["run", mine, "--", "sh", "-c", &script]);
    command.env("LL", PROGRAM);
    Running::start(command)
}

#[test]
fn of_two_jobs_that_wait_for_each_others_lock_one_is_told_the_circle_and_the_other_goes_on() {
    on_both(|store| {
        let jobs = [crossing(store, "one", "two"), crossing(store, "two", "one")];
        for name in ["has-one", "has-two"] {
            until(name, || store.path(name).exists());
        }
        std::fs::write(store.path("go"), "").unwrap();
        let mut done = jobs.map(Running::end);
        done.sort_by_key(|done| done.code);
        let [fine, told] = done;
        fine.gives(0);
        for words in [
            "deadlock: ",
            "`leaselock run one` holds `one` and waits for `two`",
        ] {
            assert!(told.err.contains(words), "{told:?}");
        }
        told.gives(75);
    });
}
