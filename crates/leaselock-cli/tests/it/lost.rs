//! A lease that cannot be kept, on a server: the job is dead before another holder can acquire the lock.
//!
//! Jobs here ignore TERM and write a beat every few milliseconds. A second client queues and
//! writes to the same file when it starts: no beat may stand behind that line. Jobs end with their
//! folder, so a test that fails leaves none behind.

use std::fs::{Permissions, copy, set_permissions};
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::getuid;
use testkit::Server;
use testkit::process::{Signal, children, is_alive, signal, stop};

use crate::common::{Running, Store, seconds, until, uptime};

const TTL: f64 = 3.0;
const BEATS: &str = "trap '' TERM; echo $$ > job; \
                     while echo beat $(cat /proc/uptime) >> log; do sleep 0.01; done";

struct Scene {
    store: Store,
    wrapper: Running,
    job: u32,
}

/// Whether nothing of a process runs any more, by its `stat` and `status`: it is dead, or was killed and waits for a
/// processor to end on. The kernel runs no instruction of a program to which SIGKILL has been sent.
fn runs_no_more(found: &str) -> bool {
    const EXITING: u64 = 4;
    const KILL: u64 = 1 << 8;
    let Some((_, fields)) = found.split_once(") ") else {
        return true; // there is no such process
    };
    let fields: Vec<&str> = fields.split(' ').collect();
    let flags: u64 = fields[6].parse().unwrap();
    let pending = ["SigPnd:\t", "ShdPnd:\t"].map(|name| {
        let mut lines = found.lines();
        let mask = lines.find_map(|line| line.strip_prefix(name));
        mask.map_or(0, |mask| u64::from_str_radix(mask, 16).unwrap())
    });
    let is_killed = (pending[0] | pending[1]) & KILL != 0;
    is_killed || matches!(fields[0], "Z" | "X") || flags & EXITING != 0
}

impl Scene {
    fn set() -> Scene {
        let store = Store::redis();
        let wrapper = store.start(&["run", "--ttl", "3s", "job", "--", "sh", "-c", BEATS]);
        let job = store.line_in("job").parse().unwrap();
        Scene {
            store,
            wrapper,
            job,
        }
    }

    /// A waiter that writes in which state it found the job.
    fn next_waiter(&self) -> Running {
        let job = self.job;
        let script = format!("cat /proc/{job}/stat /proc/{job}/status > found; echo next >> log");
        let next = self.store.start(&["run", "job", "--", "sh", "-c", &script]);
        self.store.until_queued(1);
        next
    }

    /// The next one has run, found the job dead or killed, and nothing of the job came after it.
    #[track_caller]
    fn one_after_the_other(&self, next: Running) {
        next.end().gives(0);
        let found = self.store.read("found");
        assert!(runs_no_more(&found), "{found}");
        until("the end of the job", || !is_alive(self.job));
        let log = self.store.lines("log");
        assert_eq!(log.last().unwrap(), "next", "{found}");
    }

    fn last_beat(&self) -> f64 {
        let log = self.store.lines("log");
        let beat = log.iter().rev().find_map(|line| line.strip_prefix("beat "));
        seconds(beat.unwrap())
    }
}

#[test]
fn with_a_frozen_server_the_job_is_dead_before_its_lease_is_over() {
    let mut scene = Scene::set();
    // Half a second after a renewal, so that the lease ends well before the moment tested.
    until("a lease that is not quite new", || {
        let left = scene.store.server().cli(&["PTTL", "job"]).integer();
        left.unwrap() < 2_500
    });
    let frozen = scene.store.server().pause();
    let lease_over = uptime() + TTL;
    until("the end of the wrapper", || scene.wrapper.has_ended());
    assert!(!is_alive(scene.job));
    assert!(scene.last_beat() < lease_over);
    drop(frozen);
    let done = scene.wrapper.end().gives(79);
    let words = format!(
        "leaselock: lost `job`: no reply from {}0 for ",
        scene.store.url
    );
    assert!(done.err.starts_with(&words), "{done:?}");
    let measure = "s (timed out); sent SIGTERM to the job, SIGKILL follows in ";
    assert!(done.err.contains(measure), "{done:?}");
}

/// The connection is gone, and no other is to be had.
#[test]
fn a_loss_to_a_killed_server_names_it_and_its_error_and_no_password() {
    let store = Store::on(Server::builder().password("geheim").start());
    let job = "echo $$ > job; exec sleep 60";
    let wrapper = store.start(&["run", "--ttl", "3s", "job", "--", "sh", "-c", job]);
    store.line_in("job");
    store.server().kill();
    let done = wrapper.end().gives(79);
    let store_url = store.url.replace(":geheim@", "");
    let words = format!("leaselock: lost `job`: no reply from {store_url}0 for ");
    assert!(done.err.starts_with(&words), "{done:?}");
    let cause = "s (Connection refused (os error 111)); sent SIGTERM to the job";
    assert!(done.err.contains(cause), "{done:?}");
    assert!(!done.err.contains("geheim"), "{done:?}");
}

#[test]
fn a_loss_to_the_longest_hold_says_so() {
    for store in [Store::file(), Store::redis()] {
        let run = [
            "run",
            "--ttl",
            "1s",
            "--max-hold",
            "1s",
            "job",
            "--",
            "sleep",
            "60",
        ];
        let done = store.run(&run).gives(79);
        let words =
            "leaselock: lost `job`: the longest hold allowed is over; sent SIGTERM to the job";
        assert!(done.err.starts_with(words), "{done:?}");
    }
}

#[test]
fn a_stopped_wrapper_does_not_let_its_job_meet_the_next_holder() {
    let scene = Scene::set();
    let next = scene.next_waiter();
    scene.wrapper.stop();
    scene.one_after_the_other(next);
    scene.wrapper.signal(Signal::CONT);
    scene.wrapper.end().gives(79);
}

#[test]
fn a_wrapper_stopped_with_its_job_does_not_let_it_meet_the_next_holder() {
    let scene = Scene::set();
    let next = scene.next_waiter();
    scene.wrapper.stop();
    assert!(stop(scene.job));
    scene.one_after_the_other(next);
    scene.wrapper.signal(Signal::CONT);
    scene.wrapper.end().gives(79);
}

#[test]
fn a_killed_wrapper_does_not_let_its_job_meet_the_next_holder() {
    let mut scene = Scene::set();
    let next = scene.next_waiter();
    scene.wrapper.kill();
    scene.one_after_the_other(next);
}

#[test]
fn a_stopped_guardian_is_no_loss_while_the_wrapper_lives() {
    let scene = Scene::set();
    let guardian = children(scene.wrapper.pid())
        .into_iter()
        .find(|pid| *pid != scene.job);
    assert!(stop(guardian.unwrap()));
    let paused = scene.store.server().pause();
    // The wrapper itself ends the job, later than the guardian would have.
    let done = scene.wrapper.end().gives(79);
    assert!(!is_alive(scene.job), "{done:?}");
    drop(paused);
}

#[test]
fn a_job_without_its_guardian_is_ended() {
    let scene = Scene::set();
    let guardian = children(scene.wrapper.pid())
        .into_iter()
        .find(|pid| *pid != scene.job);
    assert!(signal(guardian.unwrap(), Signal::KILL));
    let done = scene.wrapper.end().gives(70);
    assert!(
        done.err
            .contains("the guardian process was killed: the job is ended, exit 70"),
        "{done:?}"
    );
    assert!(!is_alive(scene.job));
    assert_eq!(scene.store.status()["state"], "free");
}

#[test]
fn a_job_whose_guardian_was_killed_before_its_start_does_not_start() {
    crate::common::on_both(|store| {
        for flags in [&["-o"][..], &[]] {
            let holder = store.hold(&[]);
            let words = [&["run"], flags, &["job", "--", "touch", "ran"]].concat();
            let waits = store.start(&words);
            store.until_queued(1);
            let guardian = children(waits.pid());
            assert_eq!(guardian.len(), 1);
            assert!(signal(guardian[0], Signal::KILL));
            holder.end().gives(0);
            let said = "the guardian does not reply, so the job was not started";
            waits.end().refuses(70, said);
            assert!(!store.path("ran").exists());
        }
    });
}

#[test]
fn a_lock_deleted_or_taken_by_hand_ends_the_job() {
    let deleted = Scene::set();
    deleted.store.server().cli(&["DEL", "job"]);
    let done = deleted.wrapper.end().gives(79);
    assert!(
        done.err
            .starts_with("leaselock: lost `job`: it is gone from the store"),
        "{done:?}"
    );
    let url = &deleted.store.url;
    let confirmed = format!(" ({url}0, last confirmed ");
    assert!(done.err.contains(&confirmed), "{done:?}");
    assert!(
        done.err
            .contains(" ago); sent SIGTERM to the job, SIGKILL follows in ")
    );
    assert!(!is_alive(deleted.job));

    let taken = Scene::set();
    taken
        .store
        .server()
        .cli(&["SET", "job", "x", "PX", "600000"]);
    let done = taken.wrapper.end().gives(79);
    assert!(
        done.err
            .starts_with("leaselock: lost `job`: another holder has it"),
        "{done:?}"
    );
    let value = taken.store.server().cli(&["GET", "job"]);
    assert_eq!(
        value.text(),
        Some("x"),
        "what another put there is left alone"
    );
}

#[test]
fn a_broken_lock_ends_the_job() {
    for store in [Store::file(), Store::redis()] {
        let run = [
            "run", "--ttl", "1s", "--json", "job", "--", "sh", "-c", BEATS,
        ];
        let holder = store.start(&run);
        store.line_in("job");
        let fence = store.status()["holder"]["fence"].to_string();
        let broken = store.run(&["break", "--fence", &fence, "job"]).gives(0);
        assert!(
            broken
                .err
                .contains(&format!("`job` was taken from sh[{}]", holder.pid()))
        );
        let done = holder.end().gives(79);
        assert!(
            done.err.starts_with("{\"event\":\"lost\",\"name\":\"job\""),
            "{done:?}"
        );
    }
}

#[test]
fn that_a_job_of_another_user_cannot_be_ended_is_said() {
    if !getuid().is_root() {
        eprintln!("not root, so not tested");
        return;
    }
    let store = Store::redis();
    let folder = store.path(".");
    set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    // As sudo does: a program that every user may start, and that becomes root.
    let setpriv = "/usr/bin/setpriv";
    copy(setpriv, store.path("as-root")).unwrap();
    set_permissions(store.path("as-root"), Permissions::from_mode(0o4755)).unwrap();
    copy(env!("CARGO_BIN_EXE_leaselock"), store.path("leaselock")).unwrap();
    let script = "exec ./leaselock run --ttl 3s job -- ./as-root --reuid 0 sh -c 'echo $$ > job; exec sleep 600'";
    let user = ["--reuid", "12345", "--clear-groups", "sh", "-c", script];
    let wrapper = Running::start(store.command(setpriv, &user));
    let job: u32 = store.line_in("job").parse().unwrap();
    let frozen = store.server().pause();
    until("a word on the loss", || {
        wrapper.said().contains("lost `job`")
    });
    let said = wrapper.said();
    let words = "the job is another user's and cannot be ended: it may work on";
    assert!(said.contains(words), "{said}");
    drop(frozen);
    signal(job, Signal::KILL);
    wrapper.end_with_stdin_open().gives(79);
}
