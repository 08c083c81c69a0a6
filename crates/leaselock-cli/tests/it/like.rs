//! `--like`: the lock that another library has under this name.

use testkit::Value;

use crate::common::{Store, object, until};

/// What redis-py sends for a lock with a timeout of a minute.
fn take(store: &Store, key: &str) -> Value {
    store
        .server()
        .cli(&["SET", key, "5f0c0e9ecf6c11f0", "NX", "PX", "60000"])
}

#[test]
fn run_shares_its_lock_with_the_library() {
    let store = Store::redis();
    for (library, key) in [("redis-py", "job"), ("redis-semaphore", "mutex:job")] {
        let run = ["run", "-n", "--like", library, "job", "--", "touch", "ran"];
        assert_eq!(take(&store, key).text(), Some("OK"));
        let busy = store.run(&run);
        busy.refuses(75, &format!("`{key}` is held by another lock library"));
        assert!(!store.path("ran").exists());
        store.server().cli(&["DEL", key]);

        let holder = store.start(&[
            "run",
            "--like",
            library,
            "job",
            "--",
            "sh",
            "-c",
            "echo $LEASELOCK_NAME > held; cat",
        ]);
        assert_eq!(store.line_in("held"), key);
        assert_eq!(take(&store, key), Value::Nil, "{library}");
        holder.end().gives(0);
        assert_eq!(take(&store, key).text(), Some("OK"), "{library}");
        std::fs::remove_file(store.path("held")).unwrap();
    }
}

#[test]
fn a_waiter_gets_the_lock_when_the_library_lets_go() {
    let store = Store::redis();
    take(&store, "job:lock");
    let waiter = store.start(&["run", "--like", "warlock", "job", "--", "touch", "ran"]);
    let line = || {
        let status = store.run(&["status", "--json", "--like", "warlock", "job"]);
        object(&status.out)["queue"].as_array().unwrap().len()
    };
    until("it is queued", || line() == 1);
    store.server().cli(&["DEL", "job:lock"]);
    waiter.end().gives(0);
    assert!(store.path("ran").exists());
}

#[test]
fn every_verb_that_takes_a_name_knows_the_librarys_lock() {
    let store = Store::redis();
    let like = |verb: &[&str], name: &[&str]| {
        store.run(&[verb, &["--like", "pottery", "--json"], name].concat())
    };
    let taken = object(&like(&["acquire"], &["job"]).gives(0).out);
    assert_eq!(taken["name"], "redlock:job");
    assert_eq!(taken["ttl_ms"], 10_000);
    let seen = like(&["status"], &["job", "b{"]).gives(64);
    assert_eq!(object(&seen.out)["name"], "redlock:job");
    assert_eq!(object(&seen.out)["state"], "held");
    let waited = object(&like(&["wait", "-n"], &["job"]).gives(75).out);
    assert_eq!(
        (&waited["name"], &waited["held"]),
        (&"redlock:job".into(), &true.into())
    );
    let broken = object(&like(&["break", "--now", "-y"], &["job"]).gives(0).out);
    assert_eq!(broken["name"], "redlock:job");
    assert_eq!(
        object(&like(&["status"], &["job"]).gives(0).out)["state"],
        "free"
    );
    // The handle needs no library: it has the key.
    let taken = object(&like(&["acquire"], &["job"]).gives(0).out);
    let handle = taken["handle"].as_str().unwrap();
    store.run_with_input(&["extend"], handle).gives(0);
    store.run_with_input(&["release"], handle).gives(0);
}

#[test]
fn the_librarys_ttl_holds_unless_one_is_given() {
    let store = Store::redis();
    let ttl = |flags: &[&str]| {
        let line = [&["run"], flags, &["job", "-c", "echo $LEASELOCK_TTL_MS"]].concat();
        store.run(&line).gives(0).out
    };
    assert_eq!(ttl(&["--like", "guide"]), "30000\n");
    assert_eq!(ttl(&["--like", "guide", "--ttl", "5s"]), "5000\n");
    assert_eq!(ttl(&["--like", "redis-py"]), "10000\n");
}

#[test]
fn a_library_that_locks_in_its_own_way_is_shared_by_run_and_wait() {
    let store = Store::redis();
    let server = store.server();
    let hold = || server.cli(&["HSET", "job", "6ba7b810:1", "1"]);
    hold();
    server.cli(&["PEXPIRE", "job", "60000"]);
    let run = ["run", "-n", "--like", "redisson", "job", "--", "true"];
    store.run(&run).gives(75);
    let wait = ["wait", "-n", "--like", "redisson", "job"];
    store.run(&wait).gives(75);
    server.cli(&["DEL", "job"]);
    store.run(&run).gives(0);
    store.run(&wait).gives(0);
    let acquire = store.run(&["acquire", "--like", "redisson", "job"]);
    acquire.refuses(64, "has no handle; use run");
    let both = [
        "run",
        "--like",
        "redisson",
        "--protocol",
        "watch-multi",
        "job",
        "--",
        "true",
    ];
    store.run(&both).refuses(64, "leave watch-multi out");
}

#[test]
fn what_is_wrong_is_refused_with_what_would_be_right() {
    let store = Store::redis();
    let run = |flags: &[&str]| store.run(&[&["run"], flags, &["job", "--", "true"]].concat());
    let unknown = run(&["--like", "redispy"]).refuses(64, "bsm-redislock, ");
    assert!(unknown.err.contains("warlock"), "{unknown:?}");
    run(&["--like", "guide", "--ttl", "1.5s"]).refuses(64, "2 s would be right");
    let line = ["run", "--like", "guide", "", "--", "true"];
    store.run(&line).refuses(64, "at least one byte");
}

#[test]
fn in_a_folder_there_is_nobody_to_share_with() {
    let store = Store::file();
    for verb in [
        &["run", "-n"][..],
        &["acquire"],
        &["status"],
        &["wait"],
        &["break", "--now", "-y"],
    ] {
        let command: &[&str] = if verb[0] == "run" { &["true"] } else { &[] };
        let line = [verb, &["--like", "redsync", "job"], command].concat();
        store.run(&line).refuses(64, "give --url redis://");
    }
}
