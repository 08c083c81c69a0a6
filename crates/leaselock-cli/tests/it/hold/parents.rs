//! The death of the program that started it, on whose behalf it holds.

use std::fs;

use testkit::process::{Signal, is_alive, signal};

use crate::common::{Running, Store, on_both, until};

/// A shell that starts `hold`, and keeps its input open. A fork of it may do so too.
fn parent(store: &Store, forked: bool) -> Running {
    for file in ["in", "fork", "hold", "events"] {
        fs::remove_file(store.path(file)).ok();
    }
    let fork = match forked {
        true => "sleep 600 & echo $! > fork;",
        false => "",
    };
    let script = format!(
        "mkfifo in; exec 3<>in 4>in; {fork} \"$0\" hold job <in 3>&- 4>&- >events & echo $! > hold; wait"
    );
    // The shell opens both ends; `hold` has the one for reading alone.
    let program = env!("CARGO_BIN_EXE_leaselock");
    Running::start(store.command("sh", &["-c", &script, program]))
}

#[test]
fn a_parent_that_is_killed_ends_the_hold_although_its_fork_keeps_the_input_open() {
    on_both(|store| {
        for forked in [false, true] {
            let mut shell = parent(store, forked);
            until("the grant", || store.read("events").contains("acquired"));
            let hold: u32 = store.line_in("hold").parse().unwrap();
            let fork = forked.then(|| store.line_in("fork").parse::<u32>().unwrap());
            shell.kill();
            until("the end of the hold", || !is_alive(hold));
            assert_eq!(store.status()["state"], "free");
            let told = store.read("events");
            assert!(told.contains("\"event\":\"released\""), "{told}");
            if let Some(fork) = fork {
                assert!(is_alive(fork), "it kept the input open");
                signal(fork, Signal::KILL);
            }
        }
    });
}

#[test]
fn a_parent_that_is_killed_ends_the_wait() {
    on_both(|store| {
        let holder = store.hold(&[]);
        let mut shell = parent(store, true);
        store.until_queued(1);
        let (hold, fork) = (store.line_in("hold"), store.line_in("fork"));
        shell.kill();
        until("the end of the wait", || !is_alive(hold.parse().unwrap()));
        assert_eq!(store.status()["queue"], serde_json::json!([]));
        signal(fork.parse().unwrap(), Signal::KILL);
        holder.end().gives(0);
    });
}
