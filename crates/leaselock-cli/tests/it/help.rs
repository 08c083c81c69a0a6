//! The help that people read first, and where it says that locks are kept.

use crate::common::{Running, Store};

#[test]
fn the_short_help_of_run_fits_on_a_screen_and_ends_with_examples() {
    let store = Store::file();
    for columns in ["80", "100"] {
        let mut command = store.leaselock(&["run", "-h"]);
        command.env("COLUMNS", columns);
        let help = Running::start(command).end().gives(0).out;
        assert!(help.lines().count() <= 30, "{help}");
        let (options, examples) = help.split_once("\nExamples:\n").unwrap();
        assert!(examples.contains("leaselock run -n "), "{help}");
        let (own, global) = options.split_once("\nGlobal options:\n").unwrap();
        assert!(own.contains("--ttl") && !own.contains("--url"), "{help}");
        assert!(
            global.contains("--url") && !global.contains("--tls-ca"),
            "{help}"
        );
    }
}

#[test]
fn the_long_help_has_what_the_short_one_leaves_out_under_headings() {
    let store = Store::file();
    let help = store.run(&["run", "--help"]).gives(0).out;
    let (_, rest) = help.split_once("\nGlobal options:\n").unwrap();
    let (global, server) = rest.split_once("\nServer options:\n").unwrap();
    assert!(
        global.contains("--prefix") && server.contains("--tls-ca"),
        "{help}"
    );
    assert!(server.contains("Examples:\n") && server.contains("Exit codes:\n"));
}

#[test]
fn help_and_manual_name_the_folder_and_doctor_and_status_the_one_that_is_used() {
    let store = Store::file();
    for page in [&["run", "--help"][..], &["man"], &["man", "run"]] {
        let text = store.run(page).gives(0).out.replace('\\', "");
        assert!(text.contains("/.local/state/leaselock"), "{page:?}: {text}");
        assert!(text.contains("/var/lib/leaselock"), "{page:?}: {text}");
    }
    let folder = format!("the folder {}", store.path("locks").display());
    let doctor = store.run(&["doctor"]).gives(0).out;
    assert!(doctor.starts_with(&folder), "{doctor}");
    let status = store.run(&["status", "-v", "job"]).gives(0);
    assert_eq!(status.err, format!("leaselock: locks in {folder}:\n"));
    assert_eq!(status.out, "job: free\n");
    assert_eq!(store.run(&["status", "job"]).gives(0).err, "");
}

#[test]
fn the_help_of_a_verb_that_knows_no_other_libraries_says_nothing_of_their_flags() {
    let store = Store::file();
    for verb in ["once", "elect", "cron"] {
        let help = store.run(&[verb, "--help"]).gives(0).out;
        assert!(help.contains("--ttl") && !help.contains("--like"), "{help}");
    }
}
