//! Incidents as an operator meets them: who, since when, until when, who was told what, and what to do, from the command
//! and the metrics of a job alone.

use serde_json::Value;
use testkit::process::Signal;

use crate::common::{Running, Store, object, until};

fn logged(store: &Store, kind: &str) -> Vec<Value> {
    let log = store.run(&["log", "--json", "--kind", kind]).gives(0).out;
    log.lines().map(object).collect()
}

/// A job under a short lease that says in this file that it began.
fn job(store: &Store, file: &str, flags: &[&str]) -> Running {
    let script = format!("echo > {file}; exec sleep 600");
    let job = ["job", "--", "sh", "-c", &script];
    store.start(&[&["run", "--ttl", "4s", "-k", "200ms"], flags, &job].concat())
}

/// Waits for a holder with this number, whose record is written.
fn holder(store: &Store, pid: u32) -> Value {
    until("it holds, and said who it is", || {
        store.status()["holder"]["process"]["pid"] == pid
    });
    store.status()["holder"].clone()
}

/// The row of `job` in one frame of `top`: its name, how many wait, and the rest with the holder's pid.
fn row(store: &Store) -> Vec<String> {
    let frame = store.run(&["top", "--once"]).gives(0).out;
    let row = frame.lines().find(|line| line.starts_with("job "));
    let row = row.unwrap_or_else(|| panic!("{frame}"));
    row.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn of_a_frozen_holder_the_next_one_is_shown_and_its_loss_is_told_as_soon_as_it_goes_on() {
    let store = Store::redis();
    let first = job(
        &store,
        "first",
        &["--note", "July", "--textfile", "first.prom"],
    );
    store.line_in("first");
    let before = holder(&store, first.pid());
    assert_eq!(
        (&before["note"], &before["process"]["name"]),
        (&"July".into(), &"sh".into())
    );
    let second = job(&store, "second", &[]);
    store.until_queued(1);
    first.stop();
    let frozen = row(&store);
    assert_eq!(frozen[..2], ["job", "1"], "one waits");
    assert!(frozen.contains(&first.pid().to_string()), "{frozen:?}");
    // Its guardian ends the job in time, and the next one is served when the lease is over.
    store.line_in("second");
    let after = holder(&store, second.pid());
    assert!(after["fence"].as_u64() > before["fence"].as_u64());
    let next = row(&store);
    assert_eq!(next[..2], ["job", "0"]);
    assert!(next.contains(&second.pid().to_string()), "{next:?}");
    assert!(after["since_unix_ms"].as_u64() > before["since_unix_ms"].as_u64());

    first.signal(Signal::CONT);
    let done = first.end();
    assert!([70, 79].contains(&done.code), "{done:?}");
    assert!(done.err.contains("`job`"), "{done:?}");
    let lost = logged(&store, "lost");
    assert!(lost.len() <= 1, "{lost:?}");
    for entry in &lost {
        assert_eq!(
            (&entry["name"], &entry["fence"]),
            (&"job".into(), &before["fence"])
        );
    }
    let metrics = store.read("first.prom");
    let code = format!("leaselock_run_exit_code{{name=\"job\"}} {}\n", done.code);
    assert!(metrics.contains(&code), "{metrics}");

    // The operator ends the second, says why, and a second operator comes too late.
    let line = ["break", "--now", "--why", "July again", "--fence"];
    let fence = after["fence"].to_string();
    store.run(&[&line[..], &[&fence, "job"]].concat()).gives(0);
    let told = second.end().gives(79);
    let who = logged(&store, "broken").remove(0);
    let (by, why) = (who["by"].as_str().unwrap(), who["text"].as_str().unwrap());
    assert_eq!((why, &who["fence"]), ("July again", &after["fence"]));
    let line = format!("broken by {by}: July again");
    assert!(told.err.contains(&line), "{told:?}");
    store.run(&["break", "--fence", &fence, "job"]).gives(79);
    assert_eq!(store.status()["holder"], Value::Null);
}

#[test]
fn a_restart_into_quarantine_is_in_the_log_and_says_for_how_long() {
    let store = Store::redis();
    store.run(&["strict", "init", "--longest", "2s"]).gives(0);
    let strict = [
        "run", "--strict", "2s", "--ttl", "2s", "-n", "job", "--", "true",
    ];
    store.run(&strict).gives(0);
    // As after a restart with the data: the gate is that of another server.
    let gate = ["SET", "ll:gate", "0123456789abcdef 0 2000"];
    store.server().cli(&gate);
    store
        .run(&strict)
        .refuses(69, "strict mode grants no lock for another ");
    let state = object(&store.run(&["strict", "status", "--json"]).gives(0).out);
    assert_eq!(state["strict"], "quarantined");
    assert!(state["remaining_ms"].as_u64().unwrap() <= 4_100, "{state}");
    assert_eq!(logged(&store, "quarantine_began").len(), 1);
    until("it is over", || store.run(&strict).code == 0);
}

#[test]
fn a_schedule_whose_host_died_is_overdue_until_another_takes_over_and_logs_what_was_missed() {
    let store = Store::redis();
    let serve = |file: &str| {
        let line = format!("echo >> {file}");
        store.start(&[
            "cron",
            "* * * * * *",
            "job",
            "--late",
            "1s",
            "--catch-up",
            "latest",
            "-c",
            &line,
        ])
    };
    let mut dead = serve("first");
    store.line_in("first");
    let pid = dead.pid();
    dead.kill();
    until("it is overdue", || {
        store.run(&["schedules", "--overdue"]).code == 1
    });
    let row = object(
        &store
            .run(&["schedules", "--overdue", "--json"])
            .gives(1)
            .out,
    );
    assert_eq!(
        (&row["name"], &row["overdue"]),
        (&"job".into(), &true.into())
    );
    assert!(row["tick"].is_string() && row["next"].is_string(), "{row}");
    let next = serve("second");
    store.line_in("second");
    until("it is in time again", || {
        store.run(&["schedules", "--overdue"]).code == 0
    });
    until("what was missed is told", || {
        !logged(&store, "tick_missed").is_empty()
    });
    assert!(
        logged(&store, "tick_missed")
            .iter()
            .all(|it| it["name"] == "job")
    );
    assert_ne!(next.pid(), pid);
    next.signal(Signal::TERM);
    next.end();
}

/// What each of several says of the same thing, in order.
fn sorted(values: impl Iterator<Item = Value>) -> Vec<u64> {
    let mut numbers: Vec<u64> = values.map(|one| one.as_u64().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_semaphore_whose_permits_belong_to_frozen_processes_names_each_and_goes_on_with_one_more() {
    let store = Store::redis();
    let flags = ["--permits", "2", "--ttl", "60s"];
    let holders: Vec<Running> = (0..2).map(|_| store.hold(&flags)).collect();
    store.until_known();
    let pids = sorted(holders.iter().map(|it| it.pid().into()));
    holders.iter().for_each(Running::stop);
    let job = ["job", "--", "touch", "ran"];
    let waiter = store.start(&[&["run", "--permits", "2"], &job[..]].concat());
    store.until_queued(1);

    // Who, since when, until when: each of them.
    let seen = store.status();
    let each = || seen["holders"].as_array().unwrap().iter();
    assert_eq!(sorted(each().map(|it| it["process"]["pid"].clone())), pids);
    for holder in each() {
        let (since, rest) = (&holder["since_unix_ms"], &holder["remaining_ms"]);
        assert!(
            since.as_u64().is_some() && rest.as_u64().unwrap() <= 60_000,
            "{holder}"
        );
    }
    let text = store.run(&["permits", "job"]).gives(0).out;
    assert!(text.starts_with("job: 2 of 2 permits are used\n"), "{text}");
    for pid in &pids {
        let line = text
            .lines()
            .find(|line| line.contains(&format!("[{pid}] on ")));
        let line = line.unwrap_or_else(|| panic!("{text}"));
        assert!(
            line.contains(": 1 permit for ") && line.contains("; expires in "),
            "{line}"
        );
    }
    assert!(
        text.contains("  1. ") && text.contains(", for 1 permit\n"),
        "{text}"
    );
    let row = row(&store);
    assert_eq!(row[..2], ["job", "1"], "one waits");
    assert!(row.join(" ").contains(" 2 holders "), "{row:?}");
    let blamed = store.run(&["blame", "--json"]).gives(0).out;
    let blamed: Vec<Value> = blamed.lines().map(object).collect();
    assert_eq!(
        sorted(blamed.iter().map(|it| it["process"]["pid"].clone())),
        pids
    );
    assert!(blamed.iter().all(|it| it["waiting"] == 1), "{blamed:?}");
    assert!(
        logged(&store, "lost").is_empty(),
        "they are frozen, and nothing is lost yet"
    );

    // What to do: one permit more, so that the work goes on beside them.
    store.run(&["permits", "job", "set", "3"]).gives(0);
    waiter.end().gives(0);
    assert!(store.path("ran").exists());
    let pinned = logged(&store, "permits_pinned").remove(0);
    assert_eq!(pinned["name"], "job");
    assert!(
        pinned["by"].is_string() && pinned["text"].as_str().unwrap().contains('3'),
        "{pinned}"
    );
    for holder in holders {
        holder.signal(Signal::CONT);
        holder.end().gives(0);
    }
    store.run(&["permits", "job", "unset"]).gives(0);
    assert_eq!(logged(&store, "permits_unpinned").len(), 1);
}

#[test]
fn a_once_that_died_between_charge_and_record_is_refused_until_an_operator_has_found_out() {
    let store = Store::redis();
    let charge = |file: &str| {
        let how = [
            "once",
            "--on-crash",
            "refuse",
            "--ttl",
            "10s",
            "--textfile",
            file,
        ];
        let script = "echo charged >> ledger; echo > charged; exec sleep 600";
        store.start(&[&how[..], &["job", "-c", script]].concat())
    };
    let mut first = charge("first.prom");
    store.line_in("charged");
    let ran = holder(&store, first.pid());
    first.kill();
    // Who, since when, until when, as long as the lease of the dead one lasts.
    let dead = store.status()["holder"].clone();
    for same in ["process", "since_unix_ms", "fence"] {
        assert_eq!(dead[same], ran[same], "{dead}");
    }
    assert!(dead["remaining_ms"].as_u64().unwrap() <= 10_000, "{dead}");
    assert!(row(&store).contains(&first.pid().to_string()));
    let running = store.run(&["once", "job", "--show"]).gives(0).out;
    assert!(running.starts_with("job: running: run 1, "), "{running}");

    // The next one is refused as soon as the lease is over, and says what to do.
    let line = "`leaselock once 'job' --forget` lets the next caller run";
    let refused = charge("second.prom").end().gives(77);
    assert!(refused.err.contains("run 1 crashed"), "{refused:?}");
    assert!(refused.err.trim_end().ends_with(line), "{refused:?}");
    let shown = store.run(&["once", "job", "--show"]).gives(0).out;
    let begin = format!("job: crashed: run 1, fence {}, began ", ran["fence"]);
    assert!(
        shown.starts_with(&begin) && shown.trim_end().ends_with(line),
        "{shown}"
    );
    let entry = logged(&store, "run_crashed").remove(0);
    let of = (&entry["name"], &entry["fence"], &entry["text"]);
    assert_eq!(
        of,
        (
            &"job".into(),
            &ran["fence"],
            &"attempt 1 did not end".into()
        )
    );
    // By the metrics of the jobs: one began and has no end, one was refused.
    let metrics = store.read("first.prom");
    assert!(
        metrics.contains("leaselock_run_start_time_seconds{"),
        "{metrics}"
    );
    assert!(
        !metrics.contains("leaselock_run_end_time_seconds{"),
        "{metrics}"
    );
    let code = "leaselock_run_exit_code{name=\"job\"} 77\n";
    assert!(
        store.read("second.prom").contains(code),
        "{}",
        store.read("second.prom")
    );

    // The ledger has the charge, so what is recorded in its place does not charge again.
    assert_eq!(store.lines("ledger"), ["charged"]);
    store.run(&["once", "job", "--forget"]).gives(0);
    let found = store
        .run(&["once", "job", "-c", "tail -n 1 ledger"])
        .gives(0);
    assert_eq!(found.out, "charged\n");
    assert_eq!(charge("third.prom").end().gives(0).out, "charged\n");
    assert_eq!(store.lines("ledger"), ["charged"]);
}
