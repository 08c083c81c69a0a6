//! `leaselock break`: whom it hits.

use testkit::{Cut, Fault, Proxy, Way};

use crate::common::{Running, Store, object, on_both};

#[test]
fn break_takes_only_what_was_seen_and_asks_when_it_can() {
    on_both(|store| {
        store
            .run(&["break", "--yes", "job"])
            .refuses(79, "`job` is not held");
        store.run(&["acquire", "--ttl", "10m", "job"]).gives(0);
        let fence = store.status()["holder"]["fence"].as_u64().unwrap();
        store.run(&["break", "job"]).refuses(
            64,
            &format!(
                "no terminal to ask on; to break this grant give --fence {fence}; job: held by "
            ),
        );
        store
            .run(&["break", "free"])
            .refuses(79, "`free` is not held");
        let older = (fence - 1).to_string();
        store
            .run(&["break", "--fence", &older, "job"])
            .refuses(79, "see status for the present one");
        assert_eq!(store.status()["holder"]["fence"], fence);
        let seen = ["--fence", &fence.to_string(), "job"];
        let broken = store.run(&[&["break"], &seen[..]].concat()).gives(0);
        assert!(
            broken.err.contains("when its holder has released it, in 9"),
            "{broken:?}"
        );
        assert_eq!(store.status()["holder"]["broken"], true);
        let text = store.run(&["status", "job"]).gives(0).out;
        assert!(text.contains("; broken, free in "), "{text}");
        store
            .run(&["run", "-n", "job", "--", "true"])
            .refuses(75, "");
        let at_once = store
            .run(&[&["break", "--now"], &seen[..]].concat())
            .gives(0);
        assert!(at_once.err.contains("may work on"), "{at_once:?}");
        assert_eq!(store.status()["state"], "free");
        store.run(&["acquire", "--ttl", "10m", "job"]).gives(0);
        store
            .run(&["break", "--now", "-y", "-q", "job"])
            .refuses(0, "");
        assert_eq!(store.status()["state"], "free");
    });
}

#[test]
fn a_break_that_finds_the_lock_free_never_hits_the_one_who_comes_next() {
    let store = Store::redis();
    let script = "while [ ! -e stop ]; do \"$0\" run -q job -- true || exit; done";
    let sh = ["-c", script, env!("CARGO_BIN_EXE_leaselock")];
    let busy = Running::start(store.command("sh", &sh));
    for _ in 0..25 {
        let done = store.run(&["break", "--now", "job"]);
        assert!([64, 79].contains(&done.code), "{done:?}");
    }
    std::fs::write(store.path("stop"), "").unwrap();
    busy.end().gives(0);
}

#[test]
fn a_break_whose_reply_is_cut_says_that_the_holder_may_have_been_broken() {
    let store = Store::redis();
    let proxy = Proxy::to(store.server().port());
    let url = proxy.url();
    // A lock of its own for each, because a break of one that was broken before sends none.
    let broken = |name: &str| {
        store.run(&["acquire", "--ttl", "10m", name]).gives(0);
        store.run(&["--url", &url, "--json", "break", "--yes", name])
    };
    broken("first").gives(0);
    let before = proxy.bytes(Way::ToClient);
    broken("job-0000").gives(0);
    let length = usize::try_from(proxy.bytes(Way::ToClient) - before).unwrap();
    let (mut unknown, how) = (0, Cut::Close);
    for bytes in (1..length).step_by(4) {
        proxy.set(Way::ToClient, Fault::CutAfter { bytes, how });
        let done = broken(&format!("job-{bytes:04}"));
        assert!([0, 69].contains(&done.code), "cut after {bytes}: {done:?}");
        if done.code == 69 && object(&done.err)["kind"] == "unknown" {
            assert!(done.err.contains("may have been broken"), "{done:?}");
            unknown += 1;
        }
    }
    assert!(unknown > 0);
}

#[test]
fn a_second_operator_is_told_who_broke_it_before_and_writes_no_entry() {
    on_both(|store| {
        store.run(&["acquire", "--ttl", "10m", "job"]).gives(0);
        let fence = store.status()["holder"]["fence"].to_string();
        let by = |user: &str, flags: &[&str]| {
            let words = [&["break", "--fence", &fence, "job"], flags].concat();
            let mut command = store.leaselock(&words);
            command.env_remove("SUDO_USER").env("LOGNAME", user);
            Running::start(command).end()
        };
        by("alice", &["--why", "stuck"]).gives(0);
        let second = by("bob", &["--why", "stuck too"]).gives(0).err;
        let begin = "leaselock: `job` was taken from leaselock acquire[";
        assert!(second.starts_with(begin), "{second}");
        let (_, why) = second.split_once(" before, broken by alice@").unwrap();
        assert!(why.contains(": stuck; it is free in 9 min "), "{second}");
        let told = object(&by("bob", &["--json"]).gives(0).out);
        assert_eq!(told["before"]["why"], "stuck");
        assert_eq!(told["broken"]["fence"].to_string(), fence);
        let log = || store.run(&["log", "--kind", "broken"]).gives(0).out;
        assert_eq!(log().lines().count(), 1, "{}", log());

        // A break that ends it at once is another one.
        let at_once = by("bob", &["--now", "--why", "it has stopped"])
            .gives(0)
            .err;
        assert!(at_once.contains("may work on"), "{at_once}");
        let entries = log();
        assert_eq!(entries.lines().count(), 2, "{entries}");
        assert!(entries.contains("by bob@"), "{entries}");
        by("alice", &[]).refuses(79, "`job` is not held");
    });
}

#[test]
fn without_a_terminal_a_break_says_first_how_to_take_it_from_one_and_from_all() {
    on_both(|store| {
        let holders = [0, 1].map(|_| store.hold(&["--permits", "2"]));
        let _waiter = store.start(&["run", "--permits", "2", "job", "--", "true"]);
        store.until_queued(1);
        let said = store.run(&["break", "job"]).gives(64).err;
        let remedy = "to break one grant give --fence N, to take it from all give --yes";
        let begin = format!("leaselock: no terminal to ask on; {remedy}; job: held by 2 holders");
        assert!(said.starts_with(&begin), "{said}");
        let lines = said.contains("; - ") && said.contains("; 1. ");
        assert!(lines && !said.contains('\u{fffd}'), "{said}");
        for holder in holders {
            holder.end().gives(0);
        }
    });
}

#[test]
fn of_several_holders_the_one_that_was_not_broken_is_broken_by_the_next() {
    on_both(|store| {
        let holders = [0, 1].map(|_| store.hold(&["--permits", "2", "--ttl", "5m"]));
        let fence = store.status()["holders"][0]["fence"].to_string();
        let broken = || {
            let seen = store.status();
            let holders = seen["holders"].as_array().unwrap();
            holders.iter().filter(|one| one["broken"] == true).count()
        };
        let stopped = |holder: &Running| assert!(testkit::process::stop(holder.pid()));
        holders.iter().for_each(stopped); // they would end
        let line = ["break", "--fence", &fence, "job"];
        store.run(&line).gives(0);
        assert_eq!(broken(), 1);
        assert!(
            store
                .run(&line)
                .gives(0)
                .err
                .contains(" before, broken by ")
        );
        let rest = store.run(&["break", "--yes", "job"]).gives(0).err;
        assert!(!rest.contains(" before"), "{rest}");
        assert_eq!(broken(), 2);
        let all = store.run(&["break", "--yes", "job"]).gives(0).err;
        assert!(all.contains("from 2 holders before"), "{all}");
    });
}

#[test]
fn a_break_of_readers_who_were_broken_before_names_the_latest_break() {
    on_both(|store| {
        let read = || store.hold(&["-s", "--ttl", "5m"]);
        let broken = |why: &str, user: &str| {
            let mut command = store.leaselock(&["break", "--yes", "--why", why, "job"]);
            command.env_remove("SUDO_USER").env("LOGNAME", user);
            Running::start(command).end().gives(0).err
        };
        let first = read();
        assert!(testkit::process::stop(first.pid())); // it would end
        broken("one", "alice");
        // Beside one whose lease ends another may read, and has the same fencing token.
        let second = read();
        assert!(testkit::process::stop(second.pid()));
        broken("two", "bob");
        let third = broken("three", "carol");
        assert!(
            third.contains("from 2 holders before, broken by bob@"),
            "{third}"
        );
    });
}
