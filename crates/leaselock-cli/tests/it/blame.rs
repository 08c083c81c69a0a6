//! Who makes others wait.

use serde_json::Value;

use crate::common::{Running, Store, object, on_both, until};

/// A job that holds a lock until its standard input is closed.
fn hold(store: &Store, name: &str, flags: &[&str]) -> Running {
    let script = format!("echo > 'held {name}'; exec cat");
    let job = [name, "--", "sh", "-c", &script];
    let running = store.start(&[&["run"], flags, &job].concat());
    store.line_in(&format!("held {name}"));
    std::fs::remove_file(store.path(&format!("held {name}"))).unwrap();
    running
}

fn rows(store: &Store, flags: &[&str]) -> Vec<Value> {
    let done = store.run(&[&["blame", "--json"], flags].concat()).gives(0);
    done.out.lines().map(object).collect()
}

/// Waits until so many wait for all locks together.
fn until_waiting(store: &Store, count: u64) {
    until(&format!("{count} waiters"), || {
        let locks = store.run(&["ls", "--json"]).gives(0).out;
        let waiters = locks.lines().map(object);
        waiters
            .map(|lock| lock["waiter_count"].as_u64().unwrap())
            .sum::<u64>()
            == count
    });
}

#[test]
fn a_holder_has_the_waits_of_all_its_locks_and_the_longest_sum_is_at_the_top() {
    on_both(|store| {
        let both = hold(store, "first", &["--also", "second"]);
        let small = hold(store, "third", &[]);
        let mut waiters = Vec::new();
        for (index, name) in ["first", "first", "second", "third"].iter().enumerate() {
            waiters.push(store.start(&["run", name, "--", "true"]));
            until_waiting(store, index as u64 + 1);
        }
        until("the records of the holders", || {
            rows(store, &[])
                .iter()
                .all(|row| row["process"].is_object())
        });
        let found = rows(store, &[]);
        let figures = |row: &Value| (row["locks"].clone(), row["waiting"].clone());
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(figures(&found[0]), (2.into(), 3.into()));
        assert_eq!(figures(&found[1]), (1.into(), 1.into()));
        assert_eq!(found[0]["process"]["pid"], both.pid());
        assert_eq!(found[1]["process"]["pid"], small.pid());
        assert_eq!(found[0]["longest_name"], "first");
        let ms = |row: &Value, field: &str| row[field].as_u64().unwrap();
        assert!(ms(&found[0], "waited_ms") > ms(&found[0], "longest_ms"));
        assert!(ms(&found[0], "longest_ms") > ms(&found[1], "longest_ms"));
        assert_eq!(found[1]["waited_ms"], found[1]["longest_ms"]);

        let table = store.run(&["blame"]).gives(0).out;
        let lines: Vec<&str> = table.lines().collect();
        let headings: Vec<&str> = lines[0].split_whitespace().collect();
        let expected = "HOLDER PID HOST LOCKS WAITING WAITED LONGEST";
        assert_eq!(headings.join(" "), expected);
        let begins: Vec<&str> = lines[1].split_whitespace().take(2).collect();
        assert_eq!(begins, ["sh", &both.pid().to_string()], "{table}");
        assert!(lines[1].ends_with(" for first"), "{table}");
        assert_eq!(lines.len(), 3, "{table}");
        assert_eq!(rows(store, &["--limit", "1"]).len(), 1);
        assert_eq!(rows(store, &["th*"])[0]["process"]["pid"], small.pid());
        for holder in [both, small] {
            holder.end().gives(0);
        }
        for waiter in waiters {
            waiter.end().gives(0);
        }
    });
}

#[test]
fn all_who_share_a_lock_have_the_whole_wait_each() {
    on_both(|store| {
        let readers = [
            hold(store, "config", &["-s"]),
            hold(store, "config", &["-s"]),
        ];
        let writer = store.start(&["run", "config", "--", "true"]);
        until_waiting(store, 1);
        until("the records of the holders", || {
            rows(store, &[])
                .iter()
                .all(|row| row["process"].is_object())
        });
        let found = rows(store, &[]);
        let mut pids: Vec<_> = found
            .iter()
            .map(|row| row["process"]["pid"].as_u64().unwrap())
            .collect();
        let mut expected = readers.each_ref().map(|reader| u64::from(reader.pid()));
        pids.sort();
        expected.sort();
        assert_eq!(pids, expected);
        assert_eq!(found[0]["waited_ms"], found[1]["waited_ms"]);
        for reader in readers {
            reader.end().gives(0);
        }
        writer.end().gives(0);
    });
}

#[test]
fn when_nobody_waits_it_says_so_and_is_no_error() {
    on_both(|store| {
        let said = store.run(&["blame"]).gives(0);
        assert_eq!(said.out, "");
        assert!(
            said.err
                .starts_with("leaselock: nobody waits for a lock that is held by leaselock in ")
        );
        let said = store.run(&["blame", "a*"]).gives(0).err;
        assert!(said.contains(" that matches `a*` and is held "), "{said}");
        let holder = store.hold(&[]);
        let said = store.run(&["blame"]).gives(0);
        assert!(said.out.is_empty() && said.err.contains("nobody waits"));
        for silent in [&["blame", "-q"][..], &["blame", "--json"]] {
            let done = store.run(silent).gives(0);
            assert_eq!((done.out, done.err), (String::new(), String::new()));
        }
        holder.end().gives(0);
    });
}

#[test]
fn of_a_queue_that_is_longer_than_what_is_read_the_sum_is_said_to_be_too_small() {
    let store = Store::redis();
    let holder = hold(&store, "job", &[]);
    let waiter = store.start(&["run", "job", "--", "true"]);
    until_waiting(&store, 1);
    // Entries as they are, of clients that never were, behind the one that waits.
    let server = store.server();
    let entry = server.cli(&["ZRANGE", "{job}:ll:queue", "0", "0"]);
    let testkit::Value::List(entries) = entry else {
        panic!("{entry:?}");
    };
    let entry = entries[0].text().unwrap();
    for index in 0..140 {
        let ticket: u64 = entry[..16].parse::<u64>().unwrap() + index + 1;
        let token = format!("{}{index:03}", &entry[16..44]);
        let other = format!("{ticket:016}{token}{}", &entry[47..]);
        server.cli(&["ZADD", "{job}:ll:queue", "0", &other]);
    }
    let found = rows(&store, &[]);
    assert_eq!(
        (&found[0]["waiting"], &found[0]["counted"]),
        (&141.into(), &128.into())
    );
    let table = store.run(&["blame"]).gives(0).out;
    assert!(table.contains("  141      over "), "{table}");
    server.cli(&["DEL", "{job}:ll:queue"]);
    holder.end().gives(0);
    waiter.end().gives(0);
}
