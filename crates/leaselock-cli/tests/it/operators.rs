//! What operators use: inspecting, waiting, breaking, examining.

use testkit::{Server, Value};

use crate::common::{Store, object, on_both, until};

#[test]
fn status_shows_free_and_held_locks_in_the_order_asked_for() {
    on_both(|store| {
        let holder = store.hold(&["--note", "nightly"]);
        let done = store.run(&["status", "other", "job"]).gives(0);
        let lines: Vec<_> = done.out.lines().collect();
        assert_eq!(lines[0], "other: free");
        assert!(lines[1].starts_with(&format!("job: held by sh[{}] on ", holder.pid())));
        assert!(
            lines[1].contains(": nightly; expires in ")
                && lines[1].contains(" unless renewed; fence "),
            "{done:?}"
        );
        let waiter = store.start(&["run", "--priority", "4", "job", "--", "true"]);
        store.until_queued(1);
        let waits = store.run(&["status", "job"]).gives(0).out;
        let expected = format!("  1. true[{}] on ", waiter.pid());
        assert!(
            waits.contains(&expected) && waits.ends_with(", priority 4\n"),
            "{waits}"
        );
    });
}

#[test]
fn one_lock_that_cannot_be_inspected_does_not_hide_the_others() {
    on_both(|store| {
        let done = store.run(&["status", "a", "b{", "c"]).gives(64);
        assert_eq!(done.out, "a: free\nc: free\n");
        assert!(done.err.contains("name `b{`"), "{done:?}");
    });
}

#[test]
fn a_value_set_by_hand_is_a_lock_of_another_library_and_a_hash_is_none() {
    let store = Store::redis();
    let server = store.server();
    server.cli(&["SET", "job", "by hand"]);
    let status = store.run(&["status", "job"]).gives(0);
    assert_eq!(
        status.out,
        "job: held by another lock library; without an end\n"
    );
    store
        .run(&["break", "--yes", "job"])
        .refuses(77, "--foreign breaks it all the same");
    store
        .run(&["break", "--yes", "--now", "--foreign", "job"])
        .gives(0);
    assert_eq!(server.cli(&["GET", "job"]), Value::Nil);

    server.cli(&["HSET", "job", "a", "b"]);
    let status = store.run(&["status", "job"]).gives(0);
    assert_eq!(status.out, "job: not a lock: a hash lies under this name\n");
    let seen = store.status();
    assert_eq!(
        (&seen["state"], &seen["found"]["type"]),
        (&"other".into(), &"hash".into())
    );
    store
        .run(&["run", "job", "--", "touch", "ran"])
        .refuses(65, "something that is no lock");
    store
        .run(&["acquire", "job"])
        .refuses(65, "something that is no lock");
    store
        .run(&["wait", "-n", "job"])
        .refuses(65, "a hash lies under this name");
    store
        .run(&["break", "--yes", "--now", "--foreign", "job"])
        .refuses(65, "something that is no lock");
    assert_eq!(server.cli(&["HGET", "job", "a"]), Value::from("b"));
    assert!(!store.path("ran").exists());
}

#[test]
fn a_plain_set_nx_px_and_a_run_exclude_each_other() {
    let store = Store::redis();
    let server = store.server();
    server.cli(&["SET", "job", "by hand", "NX", "PX", "600000"]);
    store
        .run(&["run", "-n", "job", "--", "touch", "ran"])
        .refuses(75, "another lock library");
    assert!(!store.path("ran").exists());
    server.cli(&["DEL", "job"]);

    let holder = store.hold(&[]);
    assert_eq!(server.cli(&["SET", "job", "by hand", "NX"]), Value::Nil);
    let token = server.cli(&["GET", "job"]);
    let other = store.run(&["acquire", "--ttl", "1m", "other"]).gives(0).out;
    store.run_with_input(&["release"], &other).gives(0);
    assert_eq!(
        server.cli(&["GET", "job"]),
        token,
        "no other handle touches it"
    );
    holder.end().gives(0);
    let answer = server.cli(&["SET", "job", "by hand", "NX"]);
    assert_eq!(answer, Value::Status("OK".into()));
}

#[test]
fn ls_lists_held_locks_that_match_and_nothing_is_no_error() {
    on_both(|store| {
        assert_eq!(store.run(&["ls"]).gives(0).out, "");
        for name in ["db:orders", "db:{users}", "report"] {
            store.run(&["acquire", "--ttl", "1m", name]).gives(0);
        }
        let names = |pattern: &[&str]| -> Vec<String> {
            let done = store.run(&[&["ls", "--json"], pattern].concat()).gives(0);
            let name = |line| object(line)["name"].as_str().unwrap().to_owned();
            done.out.lines().map(name).collect()
        };
        assert_eq!(names(&[]), ["db:orders", "db:{users}", "report"]);
        assert_eq!(names(&["db:*"]), ["db:orders", "db:{users}"]);
        assert_eq!(names(&["rep?r[a-z]"]), ["report"]);
        assert_eq!(names(&["nothing*"]), [""; 0]);
    });
}

#[test]
fn ls_is_a_table_of_who_holds_what_and_of_how_many_wait() {
    on_both(|store| {
        let holder = store.hold(&["--note", "July"]);
        store.run(&["acquire", "--ttl", "1h", "report"]).gives(0);
        let waiter = store.start(&["run", "job", "-c", "true"]);
        store.until_queued(1);
        until("the note is there", || {
            store.status()["holder"]["note"] == "July"
        });
        let rows = |flags: &[&str]| -> Vec<Vec<String>> {
            let out = store.run(&[&["ls"], flags].concat()).gives(0).out;
            let cells = |line: &str| {
                line.split("  ")
                    .filter(|it| !it.is_empty())
                    .map(|it| it.trim().to_owned())
                    .collect()
            };
            out.lines().map(cells).collect()
        };
        let all = rows(&[]);
        let headings = "NAME KIND HELD BY PID HOST WAITING EXPIRES NOTE";
        assert_eq!(all[0].join(" "), headings);
        let (job, pid) = (&all[1], holder.pid().to_string());
        assert_eq!(
            [&job[0], &job[1], &job[4], &job[6], &job[8]],
            ["job", "mutex", &*pid, "1", "July"]
        );
        let report = &all[2];
        assert_eq!([&report[0], &report[6], &report[8]], ["report", "0", "-"]);
        let names = |flags: &[&str]| {
            rows(flags)
                .into_iter()
                .skip(1)
                .map(|row| row[0].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&["--contended"]), ["job"]);
        assert_eq!(names(&["--sort", "expires"]), ["job", "report"]);
        assert_eq!(names(&["--sort", "expires", "--limit", "1"]), ["job"]);
        assert_eq!(names(&["--limit", "1"]).len(), 1);
        store.run(&["ls", "--limit", "0"]).gives(0);
        store
            .run(&["ls", "--sort", "age"])
            .refuses(64, "[possible values: name, held, waiting, expires]");
        holder.end().gives(0);
        waiter.end().gives(0);
    });
}

#[test]
fn in_a_pattern_a_question_mark_is_one_byte() {
    on_both(|store| {
        store.run(&["acquire", "--ttl", "10m", "ä"]).gives(0);
        let names = |pattern| store.run(&["ls", "--names", pattern]).gives(0).out;
        assert_eq!((names("?").as_str(), names("??").as_str()), ("", "ä\n"));
        let help = store.run(&["ls", "--help"]).gives(0).out;
        assert!(help.contains("? one byte (an ASCII character)"), "{help}");
    });
}

#[test]
fn wait_tells_free_from_held_and_never_takes() {
    on_both(|store| {
        store.run(&["wait", "-n", "job"]).gives(0);
        let holder = store.hold(&[]);
        // A holder writes who it is just after the grant, and on a busy machine after the start of its job.
        until("the holder's record", || {
            store.status()["holder"]["process"].is_object()
        });
        store
            .run(&["wait", "-n", "job"])
            .refuses(75, "`job` is held by sh[");
        store.run(&["wait", "-w", "50ms", "-q", "job"]).gives(75);
        let waiting = store.start(&["wait", "job"]);
        holder.end().gives(0);
        waiting.end().gives(0);
        store.run(&["run", "-n", "job", "--", "true"]).gives(0);
    });
}

#[test]
fn doctor_is_1_when_something_is_unfit_and_names_it() {
    let file = Store::file();
    let report = file.run(&["doctor"]).gives(0);
    let place = format!("the folder {}", file.path("locks").display());
    assert_eq!(report.out.lines().next(), Some(place.as_str()));

    let lru = Server::builder().config("maxmemory", "100mb");
    let store = Store::on(lru.config("maxmemory-policy", "allkeys-lru").start());
    let report = store.run(&["doctor"]).gives(1);
    assert!(
        report.out.contains("UNFIT  eviction policy  allkeys-lru\n"),
        "{report:?}"
    );
    assert!(
        report.out.contains("set maxmemory-policy noeviction"),
        "{report:?}"
    );
    let unfit = store.run(&["doctor", "--json"]).gives(1);
    let unfit: Vec<_> = unfit
        .out
        .lines()
        .map(object)
        .filter(|said| said["verdict"] == "unfit")
        .collect();
    assert_eq!(unfit.len(), 1);
    assert_eq!(unfit[0]["topic"], "eviction policy");
    store
        .server()
        .cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    store.run(&["doctor"]).gives(0);
}

#[test]
fn doctor_ends_with_what_the_set_up_can_promise_and_what_not() {
    let store = Store::on(Server::builder().append_only().start());
    let said = |words: &str| {
        let report = store.run(&["doctor"]).gives(0).out;
        let (_, promises) = report.split_once("\nThis can promise:\n").unwrap();
        let (can, cannot) = promises.split_once("\nThis cannot prevent:\n").unwrap();
        (can.contains(words), cannot.contains(words))
    };
    assert_eq!(said("neither a restart nor a power failure"), (true, false));
    assert_eq!(said("fencing tokens grow"), (true, false));
    assert_eq!(said("a restart of a server forgets"), (false, false));
    store.server().cli(&["CONFIG", "SET", "appendonly", "no"]);
    assert_eq!(said("a restart of a server forgets"), (false, true));
    assert_eq!(
        said("neither a restart nor a power failure"),
        (false, false)
    );

    let file = Store::file().run(&["doctor"]).gives(0).out;
    assert!(file.contains("other machines are not excluded"), "{file}");
}

#[test]
fn doctor_finds_out_that_a_user_may_run_nothing() {
    let store = Store::redis();
    let rules = [
        "ACL", "SETUSER", "bob", "on", ">pass", "~*", "+get", "+ping",
    ];
    store.server().cli(&rules);
    let url = store.url.replace("://", "://bob:pass@");
    store
        .run(&["--url", &url, "run", "job", "--", "true"])
        .refuses(77, "NOPERM");
    let report = store.run(&["--url", &url, "doctor"]).gives(1);
    assert!(report.out.contains("not allowed: EVALSHA"), "{report:?}");
}

#[test]
fn functions_are_loaded_once_and_then_used() {
    let store = Store::redis();
    let printed = store.run(&["functions", "print"]).gives(0).out;
    let name = printed
        .lines()
        .next()
        .unwrap()
        .strip_prefix("#!lua name=")
        .unwrap();
    let loaded = store.run(&["functions", "load"]);
    if store.server().cli(&["FUNCTION", "LIST"]).is_error() {
        loaded.refuses(69, "Redis 7 or later");
        store
            .run(&["--functions", "ls"])
            .refuses(69, "Redis 7 or later");
        return;
    }
    assert_eq!(loaded.gives(0).out, format!("{name} is loaded\n"));
    assert_eq!(
        store.run(&["functions", "load"]).gives(0).out,
        format!("{name} was there\n")
    );
    let again = object(&store.run(&["functions", "load", "--json"]).gives(0).out);
    assert_eq!(
        (&again["library"], &again["was_there"]),
        (&name.into(), &true.into())
    );
    store.server().cli(&["CONFIG", "RESETSTAT"]);
    store
        .run(&["--functions", "run", "job", "--", "true"])
        .gives(0);
    let report = store.run(&["--functions", "doctor"]).gives(0).out;
    assert!(report.contains(name), "{report}");
    let stats = store.server().cli(&["INFO", "commandstats"]);
    assert!(!stats.text().unwrap().contains("cmdstat_eval"), "{stats:?}");
    store.server().cli(&["FUNCTION", "FLUSH"]);
    store
        .run(&["--functions", "run", "job", "--", "true"])
        .refuses(69, "leaselock functions load");
    store.run(&["--functions", "doctor"]).gives(1);
    store.run(&["functions", "load"]).gives(0);
    Store::file()
        .run(&["--functions", "ls"])
        .refuses(64, "redis://");
    Store::file()
        .run(&["functions", "load"])
        .refuses(64, "this is a folder");
}

#[test]
fn a_server_without_functions_is_69_because_others_may_have_been_changed() {
    let mut store = Store::file();
    let file = store.path("server.conf");
    std::fs::write(&file, "rename-command FUNCTION \"\"\n").unwrap();
    let without = Server::builder().config("include", file.to_str().unwrap());
    let servers = [Server::start(), Server::start(), without.start()];
    store.url = servers.each_ref().map(Server::url).join(" ");
    let part = store.run(&["functions", "load"]);
    part.refuses(69, " of 3 nodes; load it again");
    store.url = servers[2].url();
    store
        .run(&["functions", "load"])
        .refuses(69, "the server has no functions");
}

#[test]
fn functions_of_several_servers_are_shown_one_by_one() {
    let servers = [0, 1, 2].map(|_| Server::start());
    if servers[0].cli(&["FUNCTION", "LIST"]).is_error() {
        return; // said by the test of one server
    }
    let mut store = Store::file();
    store.url = servers.each_ref().map(Server::url).join(" ");
    servers[1].kill();
    let half = store.run(&["functions", "load"]);
    half.refuses(69, "is on 2 of 3 nodes");
    servers[1].restart();
    let loaded = store.run(&["functions", "load"]).gives(0).out;
    for (server, how) in servers.iter().zip(["was there", "is loaded", "was there"]) {
        let line = loaded
            .lines()
            .find(|line| line.contains(&format!(":{}/", server.port())));
        assert!(line.is_some_and(|line| line.ends_with(how)), "{loaded}");
    }
    let again = object(&store.run(&["functions", "load", "--json"]).gives(0).out);
    assert_eq!(again["nodes"][2]["was_there"], true, "{again}");
    store
        .run(&["--durable-nodes", "--functions", "run", "job", "--", "true"])
        .gives(0);
}

#[test]
fn every_verb_has_its_page_and_every_shell_its_completions() {
    let store = Store::file();
    let page = store.run(&["man"]).gives(0).out;
    for verb in crate::json::VERBS {
        assert!(page.contains(verb), "{verb}");
        let page = store.run(&["man", verb]).gives(0).out;
        assert!(page.contains(".TH") && page.contains(verb), "{page}");
    }
    store
        .run(&["man", "fly"])
        .refuses(64, "there are run, hold, acquire, extend");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        assert!(
            store
                .run(&["completions", shell])
                .gives(0)
                .out
                .contains("acquire"),
            "{shell}"
        );
    }
}

/// What turns text round, hides a part of it or ends a line.
const UNSEEN: &str = "a\u{202e}b\u{2066}c\u{200b}d\u{feff}e\u{61c}f\u{ad}g\u{2028}h\u{e0041}i";

#[test]
fn what_would_turn_text_round_does_not_reach_the_terminal_and_json_escapes_it() {
    let store = Store::redis();
    store
        .run(&["acquire", "--ttl", "60s", "--note", UNSEEN, UNSEEN])
        .gives(0);
    let record = store.server().cli(&["KEYS", "ll:client:*"]);
    let Value::List(keys) = record else {
        panic!("{record:?}")
    };
    let about = format!("{UNSEEN}\n7\n{UNSEEN}\n0");
    let client = keys[0].text().unwrap();
    store.server().cli(&["SET", client, &about, "EX", "60"]);
    let shown = UNSEEN.replace(|c: char| !c.is_ascii(), "\u{fffd}");
    let is_clean = |text: &str| !text.contains(|c: char| UNSEEN.contains(c) && !c.is_ascii());
    let table = store.run(&["ls"]).gives(0).out;
    assert!(is_clean(&table), "{table:?}");
    assert_eq!(table.matches(&shown).count(), 4, "{table}");
    for words in [
        &["status"][..],
        &["ls", "--json"],
        &["status", UNSEEN],
        &["status", "--json", UNSEEN],
    ] {
        let done = store.run(words).gives(0);
        assert!(is_clean(&done.out), "{words:?}: {:?}", done.out);
        if words.contains(&"--json") {
            assert!(done.out.contains("a\\u202eb"), "{}", done.out);
            assert_eq!(object(&done.out)["name"], UNSEEN);
        } else {
            assert!(
                done.out
                    .starts_with(&format!("{shown}: held by {shown}[7] on {shown}")),
                "{}",
                done.out
            );
            let note = format!(": {shown}; ");
            assert!(done.out.contains(&note), "{}", done.out);
        }
    }
    for words in [
        &["wait", "-n", UNSEEN][..],
        &["acquire", "-n", UNSEEN],
        &["--json", "acquire", "-n", UNSEEN],
        &["run", "-n", UNSEEN, "--", "true"],
        &["break", "--fence", "1", UNSEEN],
        &["break", "--yes", UNSEEN],
    ] {
        let done = store.run(words);
        assert!(
            is_clean(&done.err) && is_clean(&done.out),
            "{words:?}: {done:?}"
        );
        assert!(!done.err.is_empty(), "{words:?}");
    }
}

/// No client polls for them: they have died, and no grant has found them gone yet.
#[test]
fn the_number_of_all_waiters_is_said_beyond_those_that_are_shown() {
    let store = Store::redis();
    let _holder = store.hold(&[]);
    for at in 0..130 {
        let entry = format!("{at:016}{at:022}.abcdefgh{at:016} 0 10000 1 ");
        store.server().cli(&["ZADD", "{job}:ll:queue", "0", &entry]);
    }
    for verb in [&["status", "job"][..], &["status"]] {
        let shown = store.run(verb).out;
        let (last, more) = shown.split_once("\n  and 2 more wait\n").unwrap();
        let last = last.lines().next_back().unwrap();
        assert!(last.starts_with("  128. client abcdefgh, waits "), "{last}");
        assert_eq!(more, "");
    }
    let seen = store.status();
    assert_eq!(seen["waiter_count"], 130);
    assert_eq!(seen["queue"].as_array().unwrap().len(), 128);
}
