//! A lease that is lost: the program is told in time, or finds it by the clock.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use testkit::{Fault, Proxy, Way};

use super::{deadline_ms, events, holding, until_told};
use crate::common::{Store, on_both, until, uptime};

#[test]
fn a_frozen_server_is_told_before_the_deadline() {
    let store = Store::redis();
    let mut hold = holding(&store, &["--ttl", "3s", "-k", "1s"]);
    let frozen = store.server().pause();
    let lost = until_told(&hold, "lost");
    let deadline = Duration::from_millis(deadline_ms(&hold.printed()));
    let now = || Duration::from_secs_f64(uptime());
    assert!(now() < deadline);
    assert!(
        (1..=1_000).contains(&lost["deadline_in_ms"].as_u64().unwrap()),
        "{lost}"
    );
    let reason = lost["reason"].as_str().unwrap();
    assert!(
        ["store_unreachable", "not_renewed"].contains(&reason),
        "{lost}"
    );
    // Until then no other may have the lock, because the program may still be at work.
    until("the end at the deadline", || hold.has_ended());
    // What the test reads is rounded down to a hundredth of a second.
    assert!(now() + Duration::from_millis(10) >= deadline);
    drop(frozen);
    hold.end().gives(79);
}

#[test]
fn an_operators_break_is_told_with_its_reason() {
    on_both(|store| {
        for (now, reasons) in [(false, &["broken"][..]), (true, &["broken", "key_missing"])] {
            let hold = holding(store, &["--ttl", "1s"]);
            let fence = until_told(&hold, "acquired")["fence"].to_string();
            let line = ["break", "--why", "stuck", "--fence", &fence, "job", "--now"];
            store.run(&line[..line.len() - usize::from(!now)]).gives(0);
            let done = hold.end_with_stdin_open().gives(79);
            let mut told = events(&done.out);
            let broken = told.pop().unwrap();
            assert_eq!(
                (&broken["event"], &broken["why"]),
                (&"broken".into(), &"stuck".into())
            );
            assert!(broken["by"].as_str().unwrap().contains('@'), "{broken}");
            let lost = told.pop().unwrap();
            assert_eq!(lost["event"], "lost");
            if lost["reason"] == "key_missing" {
                assert_eq!(lost["deadline_in_ms"], 0);
            }
            assert!(
                reasons.contains(&lost["reason"].as_str().unwrap()),
                "{lost}"
            );
            assert_eq!(lost["fence"].to_string(), fence);
        }
    });
}

#[test]
fn the_end_of_the_longest_hold_is_told_before_it_comes_and_the_lock_is_kept_until_then() {
    on_both(|store| {
        let hold = holding(store, &["--ttl", "2s", "--max-hold", "2s", "-k", "900ms"]);
        let lost = until_told(&hold, "lost");
        assert_eq!(lost["reason"], "max_hold_reached");
        if lost["deadline_in_ms"].as_u64().unwrap() > 700 {
            assert_eq!(store.status()["state"], "held");
        }
        let done = hold.end_with_stdin_open().gives(79);
        assert_eq!(
            events(&done.out).pop().unwrap()["event"],
            "lost",
            "nothing follows"
        );
    });
}

#[test]
fn in_a_folder_the_lock_of_a_killed_hold_is_free_at_once() {
    let store = Store::file();
    let mut hold = holding(&store, &["--ttl", "10m"]);
    hold.kill();
    store.run(&["run", "-n", "job", "--", "true"]).gives(0);
}

#[test]
fn a_grant_that_nobody_reads_is_given_back() {
    on_both(|store| {
        // Full, with a reader that does not read; and closed.
        let (full, mut rest) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&rest, true).unwrap();
        while rest.write(&[b' '; 512]).is_ok() {}
        rustix::io::ioctl_fionbio(&rest, false).unwrap();
        let (reader, closed) = std::io::pipe().unwrap();
        drop(reader);
        for output in [rest, closed] {
            let mut hold = store.leaselock(&["hold", "job"]);
            hold.stdin(Stdio::piped())
                .stdout(output)
                .stderr(Stdio::piped());
            let mut hold = hold.spawn().unwrap();
            let input = hold.stdin.take();
            let done = hold.wait_with_output().unwrap();
            drop(input);
            let said = String::from_utf8(done.stderr).unwrap();
            assert_eq!(done.status.code(), Some(74), "{said}");
            assert!(said.ends_with("; the lock was released\n"), "{said}");
            assert_eq!(store.status()["state"], "free");
        }
        drop(full);
    });
}

#[test]
fn a_lock_that_is_broken_is_kept_until_the_program_says_that_it_has_stopped() {
    on_both(|store| {
        let mut hold = holding(store, &["--ttl", "30s"]);
        let next = store.start(&["run", "job", "--", "touch", "next"]);
        store.until_queued(1);
        store.run(&["break", "--yes", "job"]).gives(0);
        let lost = until_told(&hold, "lost");
        assert_eq!(lost["reason"], "broken");
        assert!(lost["deadline_in_ms"].as_u64().unwrap() > 0, "{lost}");
        until_told(&hold, "broken");
        assert_eq!(store.status()["holder"]["broken"], true);
        assert!(!store.path("next").exists());
        hold.write("release\n");
        hold.end_with_stdin_open().gives(79);
        next.end().gives(0);
        std::fs::remove_file(store.path("next")).unwrap();
    });
}

#[test]
fn when_one_of_several_names_is_lost_the_others_are_kept_until_the_program_has_stopped() {
    on_both(|store| {
        let mut hold = holding(store, &["--ttl", "30s", "--also", "other"]);
        store.run(&["break", "--yes", "--now", "other"]).gives(0);
        until_told(&hold, "lost");
        until_told(&hold, "broken");
        assert_eq!(store.status()["state"], "held");
        hold.write("release\n");
        hold.end_with_stdin_open().gives(79);
        assert_eq!(store.status()["state"], "free");
    });
}

#[test]
fn a_program_that_stops_at_once_is_told_who_broke_its_lock_too() {
    let store = Store::redis();
    let proxy = Proxy::to(store.server().port());
    let url = proxy.url();
    let mut hold = holding(&store, &["--url", &url, "--ttl", "3s"]);
    store.run(&["break", "--yes", "job"]).gives(0);
    // The log's answer comes when the program has stopped.
    proxy.set(Way::ToClient, Fault::Delay(Duration::from_millis(30)));
    until_told(&hold, "lost");
    hold.write("release\n");
    let done = hold.end_with_stdin_open().gives(79);
    assert_eq!(events(&done.out).pop().unwrap()["event"], "broken");
}
