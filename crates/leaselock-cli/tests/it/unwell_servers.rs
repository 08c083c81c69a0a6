//! Stores that do not serve: each trouble has its code, and none of them hangs or is taken for "busy".

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use testkit::{Cut, Fault, Proxy, Server, Value, Way};

use crate::common::{Store, on_both};

const JOB: [&str; 4] = ["job", "--", "touch", "ran"];

#[track_caller]
fn refuses(store: &Store, code: i32, words: &str) {
    let flags: [&[&str]; 3] = [&["-n"], &["-w", "1"], &[]];
    std::thread::scope(|scope| {
        for flags in flags {
            scope.spawn(move || {
                let run = [&["run"], flags, &JOB].concat();
                store.run(&run).refuses(code, words);
            });
        }
    });
    assert!(!store.path("ran").exists());
}

#[test]
fn a_server_that_is_down_is_69_by_itself() {
    let store = Store::redis();
    store.server().kill();
    refuses(&store, 69, "no connection to redis://127.0.0.1:");
    let others: [&[&str]; 5] = [
        &["status", "job"],
        &["ls"],
        &["wait", "job"],
        &["doctor"],
        &["acquire", "job"],
    ];
    std::thread::scope(|scope| {
        for other in others {
            let store = &store;
            scope.spawn(move || store.run(other).refuses(69, "Connection refused"));
        }
    });
}

#[test]
fn a_server_that_does_not_answer_is_69_by_itself() {
    let store = Store::redis();
    let _frozen = store.server().pause();
    refuses(&store, 69, "in time");
    store.run(&["doctor"]).refuses(69, "in time");
}

/// The end of a connection inside a reply is a lost reply: the command asks again, and cleans up.
#[test]
fn a_reply_that_is_cut_ends_no_command() {
    let store = Store::redis();
    let cut_each_reply = |verb: &str, job: &[&str]| {
        let proxy = Proxy::to(store.server().port());
        let run = |name: &str| {
            let url = proxy.url();
            store.run(&[&["--url", &url, verb, "-w", "30", name], job].concat())
        };
        run(&format!("{verb}-warm")).gives(0);
        let before = proxy.bytes(Way::ToClient);
        run(verb).gives(0);
        let length = usize::try_from(proxy.bytes(Way::ToClient) - before).unwrap();
        for bytes in (1..length).step_by(5) {
            let how = Cut::Close;
            proxy.set(Way::ToClient, Fault::CutAfter { bytes, how });
            let done = run(&format!("{verb}-{bytes}"));
            assert_eq!(done.code, 0, "{verb} cut after {bytes}: {done:?}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| cut_each_reply("run", &["--", "true"]));
        scope.spawn(|| cut_each_reply("once", &["--", "true"]));
        scope.spawn(|| cut_each_reply("acquire", &[]));
    });
}

#[test]
fn a_missing_or_wrong_password_is_77_and_says_where_it_belongs() {
    let store = Store::on(Server::builder().password("geheim").start());
    let port = store.server().port();
    let open = format!("redis://127.0.0.1:{port}");
    let run = ["run", "job", "--", "touch", "ran"];
    let hint = "put it into the URL as redis://user:password@host";
    store
        .run(&[&["--url", &open], &run[..]].concat())
        .refuses(77, hint);
    let wrong = format!("redis://:falsch@127.0.0.1:{port}");
    let done = store.run(&[&["-vvv", "--url", &wrong], &run[..]].concat());
    let done = done.refuses(77, "the user or password in the URL is wrong");
    assert!(!done.err.contains("falsch"), "{done:?}");
    assert!(!store.path("ran").exists());
    store.run(&run).gives(0);
}

#[test]
fn a_server_out_of_memory_is_69_and_still_lets_locks_go() {
    let store = Store::redis();
    let holder = store.hold(&[]);
    store.server().cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let other = ["run", "-w", "1", "other", "--", "touch", "ran"];
    store
        .run(&other)
        .refuses(69, "the server is over its memory limit (it said: OOM");
    holder.end().gives(0);
    assert_eq!(store.status()["state"], "free");
    assert!(!store.path("ran").exists());
}

#[test]
fn a_replica_is_69_and_says_so() {
    let store = Store::redis();
    store.server().cli(&["REPLICAOF", "127.0.0.1", "1"]);
    refuses(&store, 69, "name the primary in the URL (it said: READONLY");
    let report = store.run(&["doctor"]).gives(1);
    assert!(report.out.contains("UNFIT  role"), "{report:?}");
}

#[test]
fn a_foreign_type_under_the_key_or_beside_it_is_65_and_stays() {
    let no_lock = "`job`: something that is no lock lies under the key: choose another name or prefix, or delete the key if \
                   no program needs it (it said: WRONGTYPE";
    let no_queue = "`{job}:ll:queue` is damaged: what lies there is not the queue of the waiters. Delete the key";
    for (key, message) in [("job", no_lock), ("{job}:ll:queue", no_queue)] {
        let store = Store::redis();
        store.server().cli(&["HSET", key, "a", "b"]);
        refuses(&store, 65, message);
        assert_eq!(
            store.server().cli(&["HGET", key, "a"]),
            testkit::Value::from("b")
        );
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_73() {
    let mut store = Store::file();
    fs::write(store.path("a-file"), "").unwrap();
    store.url = format!("file://{}", store.path("a-file").display());
    refuses(&store, 73, "name another as file:///dir");
    store.url = "file:///proc/no/such".into();
    refuses(&store, 73, "name another as file:///dir");
}

#[test]
fn a_folder_that_may_not_be_used_is_77_or_73() {
    let mut store = Store::file();
    store.run(&["status", "job"]).gives(0);
    let folder = store.path("locked-up");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).unwrap();
    store.url = format!("file://{}", folder.display());
    let done = store.run(&["run", "-n", "job", "--", "true"]);
    // Root may do anything, so for root it is a folder like any other.
    let root = fs::File::create(folder.join("probe")).is_ok();
    assert!(
        if root {
            done.code == 0
        } else {
            [73, 77].contains(&done.code)
        },
        "{done:?}"
    );
}

#[test]
fn a_lock_survives_its_server_being_told_to_forget_every_script() {
    on_both(|store| {
        let holder = store.hold(&["--ttl", "1s"]);
        if let Some(server) = &store.server {
            server.cli(&["SCRIPT", "FLUSH"]);
        }
        store.run(&["run", "-n", "job", "--", "true"]).gives(75);
        holder.end().gives(0);
        assert_eq!(store.status()["state"], "free");
    });
}

/// Its user may do all that a grant needs, and not what detaching needs.
#[test]
fn an_acquire_whose_lease_cannot_be_detached_gives_it_back_before_it_ends() {
    let store = Store::redis();
    let server = store.server();
    server.cli(&["ACL", "SETUSER", "default", "-pttl"]);
    store
        .run(&["acquire", "--ttl", "1h", "-n", "job"])
        .refuses(77, "the user may not do this");
    assert_eq!(server.cli(&["GET", "job"]), Value::Nil);
    server.cli(&["ACL", "SETUSER", "default", "+pttl"]);
    store.run(&["acquire", "-n", "job"]).gives(0);
}
