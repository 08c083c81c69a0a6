//! The event log: what `log` prints, and what the holder of a broken lock is told.

use serde_json::Value;
use testkit::process::Signal;

use crate::common::{Done, Running, Store, object, on_both, until};

/// In seconds.
const DAY: i64 = 24 * 60 * 60;

/// A lock that is broken for a reason while a job holds it; how the holder ended.
fn broken(store: &Store, flags: &[&str]) -> Done {
    let job = ["job", "--", "sh", "-c", "echo > began; exec sleep 600"];
    let holder = store.start(&[&["run", "--ttl", "1s"], flags, &job].concat());
    store.line_in("began");
    let fence = store.status()["holder"]["fence"].to_string();
    let why = ["--why", "stuck since 3"];
    store
        .run(&[&["break", "--fence", &fence, "job"], &why[..]].concat())
        .gives(0);
    holder.end().gives(79)
}

#[test]
fn a_break_with_a_reason_is_told_to_its_holder_and_is_in_the_log() {
    on_both(|store| {
        let done = broken(store, &[]);
        let lines: Vec<_> = done.err.lines().collect();
        assert!(lines[0].starts_with("leaselock: lost `job`: "), "{done:?}");
        assert!(lines[1].starts_with("leaselock: broken by "), "{done:?}");
        assert!(
            lines[1].contains('@') && lines[1].ends_with(": stuck since 3"),
            "{done:?}"
        );
        let log = store.run(&["log", "--kind", "broken", "job"]).gives(0).out;
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(
            log.contains("  broken            job  fence ") && log.contains("  stuck since 3\n"),
            "{log}"
        );
        // The holder has written down the loss before it ended.
        let lost = object(&store.run(&["log", "--json", "--kind", "lost"]).gives(0).out);
        assert_eq!(
            (&lost["name"], &lost["text"]),
            (&"job".into(), &"an operator broke it".into())
        );
        assert_eq!(store.run(&["log", "other"]).gives(0).out, "");
        assert_eq!(store.run(&["log", "--since", "0"]).gives(0).out, "");
    });
}

#[test]
fn a_name_with_unseen_characters_is_found_in_the_log() {
    on_both(|store| {
        let name = "a\u{202e}b";
        store.run(&["acquire", "--ttl", "10m", name]).gives(0);
        let by_one = ["break", "--yes", "--why", "stuck", name];
        store.run(&by_one).gives(0);
        let log = store.run(&["log", name]).gives(0).out;
        assert!(log.lines().count() == 1 && log.contains("stuck"), "{log}");
        let again = store.run(&["break", "--yes", name]).gives(0).err;
        assert!(again.contains(": stuck"), "{again}");
    });
}

#[test]
fn programs_are_told_by_whom_and_why_a_lock_was_broken() {
    let store = Store::redis();
    let done = broken(&store, &["--json"]);
    let events: Vec<Value> = done.err.lines().map(object).collect();
    assert_eq!(
        (&events[0]["event"], &events[1]["event"]),
        (&"lost".into(), &"broken".into())
    );
    assert_eq!(events[1]["why"], "stuck since 3");
    assert!(
        events[1]["by"].as_str().unwrap().contains('@'),
        "{events:?}"
    );
}

/// The second one finds a lease that ends already.
#[test]
fn of_two_breaks_of_one_lease_its_holder_is_told_the_first() {
    on_both(|store| {
        let job = ["job", "--", "sh", "-c", "echo > began; exec sleep 600"];
        let holder = store.start(&[&["run", "--ttl", "15s"], &job[..]].concat());
        store.line_in("began");
        let fence = store.status()["holder"]["fence"].to_string();
        holder.stop();
        for why in ["first", "second"] {
            store
                .run(&["break", "--fence", &fence, "--why", why, "job"])
                .gives(0);
        }
        holder.signal(Signal::CONT);
        let done = holder.end().gives(79);
        let told = done.err.lines().find(|line| line.contains("broken by "));
        assert!(
            told.is_some_and(|line| line.ends_with(": first")),
            "{done:?}"
        );
    });
}

#[test]
fn who_pins_a_number_of_permits_is_in_the_log() {
    on_both(|store| {
        let mut sudo = store.leaselock(&["permits", "pool", "set", "3"]);
        sudo.env("SUDO_USER", "carol").env("LOGNAME", "root");
        Running::start(sudo).end().gives(0);
        store.run(&["permits", "pool", "unset"]).gives(0);
        for (kind, text) in [("permits_pinned", "3 permits"), ("permits_unpinned", "")] {
            let log = ["log", "--json", "--kind", kind, "pool"];
            let entry = object(&store.run(&log).gives(0).out);
            assert_eq!(
                (&entry["name"], &entry["text"]),
                (&"pool".into(), &text.into())
            );
            let by = entry["by"].as_str().unwrap();
            let is_carol = by.starts_with("carol@");
            assert!(by.contains('@') && is_carol != text.is_empty(), "{entry}");
        }
    });
}

#[test]
fn an_empty_log_says_so_and_is_no_error() {
    on_both(|store| {
        let done = store.run(&["log"]).gives(0);
        assert_eq!(
            (&*done.out, &*done.err),
            ("", "leaselock: the log has no such entry\n")
        );
        assert_eq!(store.run(&["log", "-q"]).gives(0).err, "");
    });
}

#[test]
fn what_is_no_name_or_kind_is_a_usage_error_and_a_store_that_is_down_is_none() {
    let store = Store::redis();
    store.run(&["log", "a{"]).refuses(64, "name `a{`");
    store
        .run(&["log", "--kind", "stolen"])
        .refuses(64, "clock_jumped");
    store.server().cli(&["SET", "ll:events", "x"]);
    store.run(&["log"]).refuses(65, "");
    let down = ["log", "--url", "redis://127.0.0.1:1"];
    store.run(&down).refuses(69, "");
}

#[test]
fn each_new_entry_follows_until_the_reader_has_gone() {
    let store = Store::redis();
    broken(&store, &[]);
    let mut following = store.start(&["log", "--follow", "--json", "--kind", "broken"]);
    until("the first", || following.printed().lines().count() == 1);
    std::fs::remove_file(store.path("began")).unwrap();
    broken(&store, &[]);
    until("the second", || following.printed().lines().count() == 2);
    let ids: Vec<_> = following
        .printed()
        .lines()
        .map(|line| object(line)["id"].clone())
        .collect();
    assert_ne!(ids[0], ids[1]);
    following.kill();
}

/// Writes an entry that is so many seconds old by the server's clock.
fn entry(store: &Store, id: &str, age: i64) {
    let script = "local now = redis.call('TIME')
        local at = (now[1] - ARGV[1]) * 1000000 + now[2]
        return redis.call('ZADD', KEYS[1], string.format('%.0f', at), ARGV[2])";
    let text = format!("{{\"id\":\"{id}\",\"kind\":\"lost\",\"text\":\"{id}\"}}");
    let entry = ["EVAL", script, "1", "ll:events", &age.to_string(), &text];
    assert!(!store.server().cli(&entry).is_error());
}

#[test]
fn since_goes_back_as_far_as_was_asked_and_a_week_at_most() {
    let store = Store::redis();
    for days in [9, 6, 2] {
        entry(&store, &format!("{days} days"), days * DAY - 60);
    }
    entry(&store, "tomorrow", -DAY); // before a step of the clock
    for (since, expected) in [
        (&[][..], 3),
        (&["--since", "400d"], 3),
        (&["--since", "2d"], 2),
        (&["--since", "40h"], 1),
    ] {
        let log = store.run(&[&["log"], since].concat()).gives(0).out;
        assert_eq!(log.lines().count(), expected, "{since:?} {log}");
    }
}

#[test]
fn a_follower_is_not_told_of_older_entries_than_it_asked_for() {
    let store = Store::redis();
    entry(&store, "older", 2);
    let mut following = store.start(&["log", "--follow", "--json", "--since", "1s"]);
    let mut count = 0;
    until("it follows", || {
        count += 1;
        entry(&store, &format!("newer {count}"), 0);
        following.printed().lines().count() > 0
    });
    entry(&store, "newest", 0);
    until("the newest", || following.printed().contains("newest"));
    following.kill();
    let printed = following.printed();
    assert!(!printed.contains("older"), "{printed}");
}

#[test]
fn a_follower_is_told_once_of_an_entry_that_is_always_found_again() {
    let store = Store::redis();
    entry(&store, "tomorrow", -DAY); // before a step of the clock
    let mut following = store.start(&["log", "--follow", "--json"]);
    // More than a follower remembers, of which the store has only the newest.
    let script = "local now = redis.call('TIME')
        redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now[1] * 1000000 + now[2])
        for i = 1, 900 do
            local text = '{\"kind\":\"lost\",\"id\":\"' .. ARGV[1] .. ' ' .. i .. '\"}'
            redis.call('ZADD', KEYS[1], now[1] * 1000000 + now[2], text)
        end";
    for round in 1..=5 {
        let eval = ["EVAL", script, "1", "ll:events", &format!("round {round}")];
        assert!(!store.server().cli(&eval).is_error());
        let last = format!("round {round} 900\"");
        until(&last, || following.printed().contains(&last));
    }
    following.kill();
    let printed = following.printed();
    let told = printed.lines().filter(|line| line.contains("tomorrow"));
    assert_eq!(told.count(), 1);
}

#[test]
fn entries_of_strangers_cannot_break_the_table() {
    let store = Store::redis();
    let huge = "x".repeat(1 << 20);
    let hostile = [
        "\u{1b}[2J\n\r\u{202e}",
        "{\"kind\":\"lost\",\"name\":\"a\\u001b\\nb\u{9b}\",\"by\":\"\u{1b}]0;x\",\"text\":\"\n\"}",
        "{\"kind\":\"\u{7}\"",
        &huge,
    ];
    for entry in hostile {
        store.server().cli(&["ZADD", "ll:events", "inf", entry]);
    }
    for format in [&["log"][..], &["log", "--json"]] {
        let done = store.run(format).gives(0);
        assert_eq!(done.out.lines().count(), hostile.len(), "{done:?}");
        assert!(
            done.out.chars().all(|c| c == '\n' || !c.is_control()),
            "{done:?}"
        );
        assert!(done.out.len() < 20_000);
    }
}
