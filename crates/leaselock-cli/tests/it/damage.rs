//! What lies under leaselock's own keys and was not written by it, or by another version of it.

use testkit::Value;

use crate::common::{Store, object, until};

/// A lock that is held and a waiter, on a server; then the record of their clients is spoiled.
fn with_spoiled_records(spoil: impl Fn(&Store, &str)) {
    let store = Store::redis();
    let holder = store.hold(&["--note", "nightly"]);
    let _waiter = store.start(&["run", "job", "--", "true"]);
    store.until_queued(1);
    store.run(&["acquire", "--ttl", "10m", "other"]).gives(0);
    let seen = store.status();
    let clients = [&seen["holder"]["client"], &seen["queue"][0]["client"]];
    for client in clients {
        spoil(&store, &format!("ll:client:{}", client.as_str().unwrap()));
    }
    let status = store.status();
    assert_eq!(status["holder"]["process"], serde_json::Value::Null);
    assert_eq!(status["queue"][0]["process"], serde_json::Value::Null);
    assert_eq!(status["holder"]["note"], "nightly");
    for verb in [&["status", "job", "other"][..], &["status"]] {
        let shown = store.run(verb).gives(0).out;
        let lines: Vec<&str> = shown.lines().collect();
        let holder = format!("job: held by client {} for ", clients[0].as_str().unwrap());
        assert!(lines[0].starts_with(&holder), "{shown}");
        assert!(lines[1].starts_with("  1. client "), "{shown}");
        assert!(
            lines[2].starts_with("other: held by leaselock acquire["),
            "{shown}"
        );
    }
    drop(holder);
}

#[test]
fn a_holder_whose_record_is_of_another_type_is_shown_without_it() {
    with_spoiled_records(|store, record| {
        store.server().cli(&["DEL", record]);
        store.server().cli(&["HSET", record, "a", "b"]);
    });
}

#[test]
fn a_holder_whose_record_is_no_text_is_shown_without_it() {
    with_spoiled_records(|store, record| {
        let script = "return redis.call('SET', KEYS[1], '\\255\\254\\n7\\nx\\n1')";
        store.server().cli(&["EVAL", script, "1", record]);
    });
}

#[test]
fn a_note_of_another_type_is_not_shown_and_hides_nothing() {
    let store = Store::redis();
    let _holder = store.hold(&["--note", "nightly"]);
    // The note is left in the background, after the grant.
    until("the note is there", || {
        store.status()["holder"]["note"] == "nightly"
    });
    store.server().cli(&["DEL", "{job}:ll:why"]);
    store.server().cli(&["HSET", "{job}:ll:why", "a", "b"]);
    assert_eq!(store.status()["holder"]["note"], serde_json::Value::Null);
    let shown = store.run(&["status"]).gives(0).out;
    assert!(shown.starts_with("job: held by sh["), "{shown}");
}

#[test]
fn a_damaged_fence_is_refused_with_65_and_what_mends_it_and_status_shows_it() {
    let store = Store::redis();
    let server = store.server();
    let advance = |id| server.cli(&["XADD", "{job}:ll:fence", "MAXLEN", "0", id, "-", "-"]);
    for damage in ["soon", "9000000000000-0"] {
        server.cli(&["DEL", "{job}:ll:fence"]);
        if damage == "soon" {
            server.cli(&["SET", "{job}:ll:fence", damage]);
        } else {
            advance(damage);
        }
        server.cli(&["PEXPIRE", "{job}:ll:fence", "60000"]);
        for verb in [
            &["run", "job", "--", "touch", "ran"][..],
            &["acquire", "-n", "job"],
        ] {
            let done = store.run(verb);
            done.refuses(65, "`{job}:ll:fence` is damaged");
        }
        let left = server.cli(&["PTTL", "{job}:ll:fence"]).integer().unwrap();
        assert!(left <= 60_000, "{left}: renewed");
    }
    assert!(!store.path("ran").exists());
    let shown = store.run(&["status", "job"]).gives(0).out;
    assert!(
        shown.starts_with("job: free\n  damaged: `{job}:ll:fence` is damaged"),
        "{shown}"
    );
    server.cli(&["DEL", "{job}:ll:fence"]);
    advance("8000000000000-0");
    let seen = object(&store.run(&["acquire", "--json", "job"]).gives(0).out);
    assert_eq!(seen["fence"], 8_000_000_000_000_001_u64);
}

#[test]
fn another_type_beside_a_lock_is_65_with_the_key_and_what_mends_it_and_status_shows_it() {
    let store = Store::redis();
    let touch = ["--", "touch", "ran"];
    let verbs: [(&str, &[&str], &[&str]); 8] = [
        ("usage", &["run", "--permits", "2", "job"], &touch),
        ("usage", &["permits", "job", "set", "3"], &[]),
        ("once", &["once", "job"], &touch),
        ("once", &["once", "--show", "job"], &[]),
        ("cron", &["cron", "--show", "* * * * *", "job"], &[]),
        (
            "latch",
            &["latch", "--count", "2", "--arrive", "a", "job"],
            &[],
        ),
        ("limiter", &["limit", "--rate", "1/s", "job"], &touch),
        ("counter", &["count", "job"], &[]),
    ];
    for (noun, verb, job) in verbs {
        let key = format!("{{job}}:ll:{noun}");
        store.server().cli(&["RPUSH", &key, "x"]);
        let damaged = format!("`{key}` is damaged: ");
        let done = store.run(&[verb, job].concat()).refuses(65, &damaged);
        assert!(done.err.contains("Delete the key"), "{done:?}");
        let shown = store.run(&["status", "job"]).gives(0).out;
        let line = format!("job: free\n  damaged: {damaged}");
        assert!(shown.starts_with(&line), "{shown}");
        let damages = store.status()["damaged"].as_array().unwrap().len();
        assert_eq!(damages, 1, "{noun}");
        assert_eq!(store.server().cli(&["DEL", &key]), Value::Integer(1));
    }
    assert!(!store.path("ran").exists());
}

#[test]
fn another_type_under_the_queue_keeps_no_job_from_ending_and_its_waiters_are_told() {
    let store = Store::redis();
    let holder = store.hold(&["--ttl", "10m"]);
    let waiter = store.start(&["run", "--ttl", "10m", "job", "--", "touch", "ran"]);
    store.until_queued(1);
    let server = store.server();
    server.cli(&["DEL", "{job}:ll:queue"]);
    server.cli(&["SET", "{job}:ll:queue", "x"]);
    let damaged = store.status()["damaged"].clone();
    assert!(
        damaged[0]
            .as_str()
            .unwrap()
            .contains("`{job}:ll:queue` is damaged"),
        "{damaged}"
    );
    holder.end().gives(0);
    assert_eq!(server.cli(&["GET", "job"]), Value::Nil);
    store.run(&["run", "job", "--", "true"]).refuses(
        65,
        "`{job}:ll:queue` is damaged: what lies there is not the queue",
    );
    waiter.end().refuses(65, "`{job}:ll:queue` is damaged");
    server.cli(&["DEL", "{job}:ll:queue"]);
    store.run(&["run", "job", "--", "true"]).gives(0);
    assert!(!store.path("ran").exists());
}

#[test]
fn damaged_schedules_are_told_and_hide_no_other_one() {
    let store = Store::redis();
    let server = store.server();
    let state = format!("done {}.CLIENTID 1 1700000000000000", "T".repeat(22));
    let daily = ["schedule", "0 UTC 0 0 * * *"];
    let many = state.replace(" 1 ", " 99999999999 ");
    server.cli(&["HSET", "{a}:ll:cron", "state", &many]);
    server.cli(&["RPUSH", "{c}:ll:cron", "x"]);
    for name in ["b", "d"] {
        let record = format!("{{{name}}}:ll:cron");
        server.cli(&[&["HSET", &record, "state", &state][..], &daily].concat());
    }
    for flags in [&[][..], &["--overdue"]] {
        let done = store.run(&[&["schedules"], flags].concat()).gives(65);
        let names = done.out.lines().map(|line| line.split(' ').next().unwrap());
        let names: Vec<&str> = names.collect();
        assert_eq!(names, ["NAME", "b", "d"], "{done:?}");
        for name in ["`a`", "`c`"] {
            assert!(
                done.err.contains(&format!("leaselock: {name}: ")),
                "{done:?}"
            );
        }
    }
}

/// A fleet whose clients have several versions.
#[test]
fn the_record_of_an_older_and_of_a_newer_client_is_shown_as_far_as_it_is_known() {
    let store = Store::redis();
    let holder = store.hold(&["--note", "nightly"]);
    let seen = store.status();
    let client = seen["holder"]["client"].as_str().unwrap();
    let record = format!("ll:client:{client}");
    let (now, server) = (seen["holder"]["process"].clone(), store.server());
    let written = server.cli(&["GET", &record]).text().unwrap().to_owned();
    let pid = holder.pid();
    let line = |store: &Store| store.run(&["status", "job"]).gives(0).out;

    // As the first version wrote it: four lines.
    let older = format!("db1\n{pid}\nleaselock run report\n1700000000123");
    server.cli(&["SET", &record, &older, "KEEPTTL"]);
    let process = store.status()["holder"]["process"].clone();
    let known = (
        &process["host"],
        &process["pid"],
        &process["started_unix_ms"],
    );
    assert_eq!(
        known,
        (&"db1".into(), &pid.into(), &1_700_000_000_123_u64.into())
    );
    assert_eq!(process["name"], "leaselock run report");
    for later in ["user", "version", "via"] {
        assert_eq!(process[later], serde_json::Value::Null, "{process}");
    }
    let begin = format!("job: held by leaselock run report[{pid}] on db1 for ");
    assert!(line(&store).starts_with(&begin), "{}", line(&store));

    // As a later one may: lines of words that are not known here.
    let newer = format!("{written}\ncolour blue\nlonely\n\ntotals v1 mutex=1,2,3");
    server.cli(&["SET", &record, &newer, "KEEPTTL"]);
    assert_eq!(store.status()["holder"]["process"], now);
    let begin = format!("job: held by sh[{pid}] on ");
    assert!(line(&store).starts_with(&begin), "{}", line(&store));
    let row = store.run(&["ls"]).gives(0).out;
    assert!(row.contains(&pid.to_string()), "{row}");
    holder.end().gives(0);
}

#[test]
fn a_damaged_file_of_a_folder_could_have_a_schedule_so_no_list_of_them_is_well() {
    let store = Store::file();
    store.run(&["run", "job", "--", "true"]).gives(0);
    let listed = ["schedules", "--overdue"];
    store.run(&listed).gives(0);
    let files = std::fs::read_dir(store.path("locks/locks")).unwrap();
    for file in files {
        std::fs::write(file.unwrap().path(), [0x5a; 512]).unwrap();
    }
    store.run(&listed).refuses(65, "is damaged");
    store.run(&["ls"]).gives(0);
}

#[test]
fn what_is_no_semaphore_gets_no_number_of_permits() {
    let store = Store::redis();
    let server = store.server();
    server.cli(&["HSET", "job", "field", "value"]);
    store
        .run(&["permits", "job", "set", "3"])
        .refuses(65, "that is no lock lies under the key");
    assert_eq!(
        server.cli(&["DBSIZE"]).integer(),
        Some(1),
        "nothing was written"
    );
}
