//! As what a lock is held, and by whom.

use crate::common::{Running, on_both, until};

#[test]
fn status_names_the_user_of_each_holder() {
    on_both(|store| {
        let start = |flags: &[&str], file: &str| {
            let script = format!("echo > {file}; exec cat");
            let words = [&["run"], flags, &["--", "sh", "-c", &script]].concat();
            let mut command = store.leaselock(&words);
            command.env("LOGNAME", "alice");
            let running = Running::start(command);
            store.line_in(file);
            running
        };
        let alone = start(&["job"], "alone");
        let reader = start(&["-s", "config"], "reads");
        for (name, behind) in [("job", " for "), ("config", ": reads; ")] {
            let status = || store.run(&["status", name]).gives(0).out;
            let shown = format!(" (user alice){behind}");
            until(name, || status().contains(&shown));
        }
        for one in [alone, reader] {
            one.end().gives(0);
        }
    });
}
