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

#[test]
fn a_semaphore_whose_permits_belong_to_frozen_processes_names_each_of_them() {
    let store = Store::redis();
    let flags = ["--permits", "2", "--ttl", "60s"];
    let holders: Vec<Running> = (0..2).map(|_| store.hold(&flags)).collect();
    holders.iter().for_each(Running::stop);
    store
        .run(&["run", "--permits", "2", "-n", "job", "--", "true"])
        .gives(75);
    store.until_known();
    let seen = store.status();
    let mut shown: Vec<u64> = seen["holders"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["process"]["pid"].as_u64().unwrap())
        .collect();
    let mut pids: Vec<u64> = holders.iter().map(|it| it.pid().into()).collect();
    shown.sort_unstable();
    pids.sort_unstable();
    assert_eq!(shown, pids);
    assert!(row(&store).join(" ").contains(" 2 holders "));
    let text = store.run(&["status", "job"]).gives(0).out;
    assert!(
        pids.iter().all(|pid| text.contains(&format!("[{pid}]"))),
        "{text}"
    );
    for holder in holders {
        holder.signal(Signal::CONT);
        holder.end().gives(0);
    }
}
