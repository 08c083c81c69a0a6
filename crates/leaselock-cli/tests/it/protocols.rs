//! `leaselock run --protocol`: a job under a lock that other programs take in their own way.

use std::time::Duration;

use testkit::{Fault, Proxy, Server, Way};

use crate::common::{Running, Store, object, until};

#[test]
fn a_job_runs_under_the_lock_of_its_fleet_and_gives_it_back() {
    let store = Store::redis();
    for (protocol, key, kind) in [
        ("setnx-getset", "job", "string"),
        ("setex-renamenx", "job:real_lock", "string"),
        ("watch-multi", "job:real_lock", "string"),
        ("setnx-pexpire", "job", "string"),
        ("python-redis-lock", "lock:job", "string"),
        ("redisson", "job", "hash"),
    ] {
        let run = ["run", "--protocol", protocol, "-n", "job", "--"];
        let holder = store.start(&[&run[..], &["sh", "-c", "echo > begun; cat"]].concat());
        store.line_in("begun");
        let server = store.server();
        assert_eq!(kind_of(server, key), kind, "{protocol}");
        store.run(&[&run[..], &["true"]].concat()).gives(75);
        holder.end().gives(0);
        assert_eq!(kind_of(server, key), "none", "{protocol}");
        std::fs::remove_file(store.path("begun")).unwrap();
    }
}

fn kind_of(server: &Server, key: &str) -> String {
    server.cli(&["TYPE", key]).text().unwrap().to_owned()
}

/// The lease is not renewed, so the guardian ends the job before the lock ends.
#[test]
fn a_job_whose_lock_cannot_be_renewed_is_ended_in_time() {
    let store = Store::redis();
    let run = [
        "run",
        "--protocol",
        "watch-multi",
        "--ttl",
        "2",
        "job",
        "--",
    ];
    let lost = store.run(&[&run[..], &["sleep", "60"]].concat());
    lost.refuses(79, "leaselock: lost `job`: it expired at redis://");
}

#[test]
fn what_a_protocol_cannot_do_is_a_usage_error() {
    let store = Store::redis();
    let run = |flags: &[&str]| store.run(&[&["run"][..], flags, &["job", "--", "true"]].concat());
    run(&["--protocol", "redisson", "--priority", "1"]).refuses(64, "does not support a priority");
    run(&["--protocol", "watch-multi", "--ttl", "1500ms"]).refuses(64, "leaselock: ttl 1.5 s");
    let unknown = run(&["--protocol", "setnx"]).gives(64);
    assert!(unknown.err.contains("setnx-pexpire"), "{unknown:?}");
    let folder = ["run", "--protocol", "redisson", "job", "--", "true"];
    Store::file()
        .run(&folder)
        .refuses(64, "leaselock: the protocol redisson is for locks in Redis");
}

#[test]
fn a_slow_grant_that_cannot_be_renewed_still_runs_the_job() {
    let store = Store::redis();
    let proxy = Proxy::to(store.server().port());
    proxy.set(Way::ToClient, Fault::Delay(Duration::from_millis(100)));
    let url = proxy.url();
    for protocol in ["setnx-getset", "setex-renamenx", "watch-multi"] {
        let run = ["--url", &url, "run", "--protocol", protocol, "--ttl", "3s"];
        store
            .run(&[&run[..], &["job", "--", "true"]].concat())
            .gives(0);
    }
}

const IN_ANOTHER_WAY: [&str; 3] = ["run", "--protocol", "python-redis-lock"];

/// A job that holds `lock:job` until its standard input is closed.
fn hold_in_another_way(store: &Store) -> Running {
    let job = ["job", "-c", "echo > theirs; exec cat"];
    let holder = store.start(&[&IN_ANOTHER_WAY[..], &job].concat());
    store.line_in("theirs");
    let known = || {
        let seen = store.run(&["status", "--json", "lock:job"]).out;
        object(&seen)["holder"]["process"].is_object()
    };
    until("the holder's record", known);
    holder
}

#[test]
fn who_waits_is_told_the_holder_of_the_lock_of_its_protocol() {
    let store = Store::redis();
    let (native, theirs) = (store.hold(&[]), hold_in_another_way(&store));
    let (right, wrong) = (
        format!("held by sh[{}]", theirs.pid()),
        native.pid().to_string(),
    );
    for flags in [&["-n"][..], &["-v", "-w", "1500ms"]] {
        let job = ["job", "--", "true"];
        let done = store.run(&[&IN_ANOTHER_WAY[..], flags, &job].concat());
        let done = done.refuses(75, &right);
        assert!(!done.err.contains(&wrong), "{done:?}");
        assert_eq!(
            done.err.matches(&right).count(),
            done.err.lines().count() - done.err.matches("gave up").count(),
            "{done:?}"
        );
    }
    native.end().gives(0);
    theirs.end().gives(0);
}

#[test]
fn an_ancestor_is_in_the_way_under_its_own_protocol_alone() {
    let store = Store::redis();
    let under = |outer: &[&str], script: &str| {
        let line = [outer, &["job", "-c", script]].concat();
        let mut command = store.leaselock(&line);
        command.env("LL", env!("CARGO_BIN_EXE_leaselock"));
        Running::start(command).end()
    };
    let inner = "$LL run --protocol python-redis-lock -w 10m job -- touch ran";
    let same = under(&IN_ANOTHER_WAY, inner);
    same.refuses(75, "`job` is held by an ancestor of this process (");
    assert!(!store.path("ran").exists());

    let theirs = hold_in_another_way(&store);
    let other = under(&["run"], &inner.replace("10m", "2s"));
    let done = other.refuses(75, &format!("is held by sh[{}]", theirs.pid()));
    assert!(!done.err.contains("ancestor"), "{done:?}");
    theirs.end().gives(0);
    under(&["run"], inner).gives(0);
    assert!(store.path("ran").exists());
}

#[test]
fn status_knows_a_lock_that_a_library_keeps_in_its_own_way() {
    let store = Store::redis();
    let run = ["run", "--like", "redisson", "job", "-c", "echo > x; cat"];
    let holder = store.start(&run);
    store.line_in("x");
    let status = ["status", "--like", "redisson", "job"];
    let said = store.run(&status).gives(0).out;
    assert!(said.starts_with("job: held by another lock library; expires in "));
    let seen = object(&store.run(&[&["--json"], &status[..]].concat()).gives(0).out);
    assert_eq!(
        (&seen["state"], &seen["holder"]["foreign"]),
        (&"held".into(), &true.into())
    );
    holder.end().gives(0);
    assert_eq!(store.run(&status).gives(0).out, "job: free\n");
    let free = object(&store.run(&[&["--json"], &status[..]].concat()).gives(0).out);
    let native = object(&store.run(&["--json", "status", "job"]).gives(0).out);
    assert_eq!(free, native);
    store.server().cli(&["LPUSH", "job", "x"]);
    let other = "job: not a lock: a list lies under this name\n";
    assert_eq!(store.run(&status).gives(0).out, other);
}

/// It shows as a hash, and is no lock of ours.
#[test]
fn a_lock_of_redisson_is_broken_by_its_protocol_and_only_when_that_is_confirmed() {
    let store = Store::redis();
    let server = store.server();
    for protocol in [["--protocol", "redisson"], ["--like", "redisson"]] {
        server.cli(&["HSET", "job", "2f1c:1", "1"]);
        server.cli(&["PEXPIRE", "job", "60000"]);
        let run = |more: &[&str]| {
            let words = [&["break"], &protocol[..], more, &["job"]].concat();
            store.run(&words)
        };
        run(&["--yes"]).refuses(77, "held by another library");
        let asked = run(&["--now", "--foreign"]).refuses(64, "give --yes");
        let who = "job: held by another lock library; expires in ";
        assert!(asked.err.contains(who), "{asked:?}");
        assert_eq!(kind_of(server, "job"), "hash", "{protocol:?}");
        run(&["--now", "--foreign", "--yes"]).gives(0);
        assert_eq!(kind_of(server, "job"), "none", "{protocol:?}");
        server.cli(&["RPUSH", "job", "no lock"]);
        run(&["--now", "--foreign"]).refuses(65, "a list lies under this name");
        server.cli(&["DEL", "job"]);
    }
}

#[test]
fn break_and_run_hit_the_same_lock_by_the_same_words() {
    let store = Store::redis();
    let native = store.hold(&[]);
    for (protocol, key) in [
        ("python-redis-lock", "lock:job"),
        ("setex-renamenx", "job:real_lock"),
    ] {
        let words = ["--protocol", protocol, "job"];
        let run = |more: &[&str]| store.run(&[&["break", "--now"], more, &words].concat());
        run(&["--yes"]).refuses(79, &format!("`{key}` is not held"));
        let holder = store.start(&[&["run"], &words[..], &["-c", "echo > begun; cat"]].concat());
        store.line_in("begun");
        run(&[]).refuses(64, &format!("{key}: held by "));
        run(&["--yes"]).refuses(0, &format!("`{key}` was taken from "));
        assert_eq!(kind_of(store.server(), key), "none");
        holder.end();
        std::fs::remove_file(store.path("begun")).unwrap();
        let both = [&["break", "-y", "--like", "guide"], &words[..]].concat();
        store
            .run(&both)
            .refuses(64, &format!("leave {protocol} out"));
    }
    assert_eq!(store.status()["state"], "held");
    native.end().gives(0);
}
