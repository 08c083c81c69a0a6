//! `leaselock cron`: a command at the ticks of a schedule, on one host of many.

mod crashed;
mod down;
mod guardian;
mod struck;
mod ticks;

use serde_json::json;
use testkit::process::Signal;

use crate::common::{Running, Store, object, on_both, until};

/// Begins a service with a tick in every second.
fn serve(store: &Store, flags: &[&str], script: &str) -> Running {
    store.start(&[&["cron"], flags, &["* * * * * *", "job", "-c", script]].concat())
}

#[test]
fn of_two_services_one_runs_each_tick_and_the_job_knows_when_it_was_due() {
    on_both(|store| {
        let script = "echo $LEASELOCK_TICK $LEASELOCK_FENCE >> ran";
        let services = [serve(store, &[], script), serve(store, &[], script)];
        until("three ticks", || store.lines("ran").len() >= 3);
        for service in &services {
            service.signal(Signal::TERM);
        }
        for service in services {
            let ended = service.end_with_stdin_open();
            // While it waits, and while its job runs.
            assert!([143, 0].contains(&ended.code), "{ended:?}");
        }
        let lines = store.lines("ran");
        let ran = lines.iter().map(|line| line.split_once(' ').unwrap());
        let (ticks, fences): (Vec<_>, Vec<_>) = ran.unzip();
        assert!(ticks.is_sorted_by(|one, next| one < next), "{ticks:?}");
        assert!(
            ticks
                .iter()
                .all(|tick| tick.len() == 20 && tick.ends_with('Z'))
        );
        let fences: Vec<u64> = fences.iter().map(|fence| fence.parse().unwrap()).collect();
        assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
    });
}

#[test]
fn a_job_that_fails_is_told_and_the_next_tick_comes() {
    on_both(|store| {
        let service = serve(store, &["--json"], "echo >> ran; exit 3");
        until("two runs", || store.lines("ran").len() >= 2);
        service.signal(Signal::TERM);
        let said = service.end_with_stdin_open().err;
        let first = object(said.lines().next().unwrap());
        assert_eq!(
            (&first["event"], &first["name"]),
            (&"job-failed".into(), &"job".into())
        );
        assert!(
            first["text"].as_str().unwrap().ends_with("exited 3"),
            "{first}"
        );
    });
}

#[test]
fn a_signal_is_passed_on_to_the_job_and_ends_the_service_as_the_job_ends() {
    on_both(|store| {
        let script = "trap 'exit 7' TERM; echo > held; while :; do sleep 0.05; done";
        let service = serve(store, &["-q"], script);
        store.line_in("held");
        service.signal(Signal::TERM);
        service.end_with_stdin_open().gives(7);
        let other = serve(store, &[], "echo > again");
        store.line_in("again");
        other.signal(Signal::TERM);
        other.end_with_stdin_open();
    });
}

#[test]
fn schedules_lists_what_runs_and_finds_the_one_that_does_not_run_any_more() {
    on_both(|store| {
        let none = store.run(&["schedules"]).gives(0);
        assert_eq!((none.out.as_str(), none.err.as_str()), ("", ""));
        let zone = ["--tz", "Europe/Berlin", "--late", "1s"];
        let service = serve(store, &zone, "echo >> ran");
        store.line_in("ran");
        store.run(&["schedules", "--overdue"]).gives(0);
        let listed = store.run(&["schedules"]).gives(0).out;
        assert_eq!(listed.lines().count(), 2, "{listed}");
        assert!(
            listed.starts_with("NAME  SCHEDULE     ZONE           LAST  "),
            "{listed}"
        );
        assert!(
            listed.contains("\njob   * * * * * *  Europe/Berlin  20"),
            "{listed}"
        );
        store.run(&["schedules", "other*"]).gives(0);
        let hosts = || object(&store.run(&["schedules", "--json"]).gives(0).out)["hosts"].clone();
        let here = rustix::system::uname();
        let here = here.nodename().to_string_lossy().into_owned();
        until("its record says whom it serves", || {
            hosts() == json!([here])
        });
        service.signal(Signal::TERM);
        service.end_with_stdin_open();
        assert_eq!(
            hosts(),
            json!([]),
            "a service that ends takes its record along"
        );
        until("nobody has run it", || {
            store.run(&["schedules", "--overdue", "--json"]).code == 1
        });
        let found = object(
            &store
                .run(&["schedules", "--overdue", "--json"])
                .gives(1)
                .out,
        );
        assert_eq!(
            (&found["name"], &found["overdue"]),
            (&"job".into(), &true.into())
        );
        assert_eq!(
            (&found["schedule"], &found["late_ms"]),
            (&"* * * * * *".into(), &1000.into())
        );
        let said = store.run(&["schedules", "--overdue"]).gives(1).out;
        assert!(said.contains("overdue"), "{said}");
    });
}

/// The ticks that come meanwhile wait for its end.
#[test]
fn a_schedule_whose_run_goes_on_is_not_overdue() {
    let store = Store::file();
    let flags = ["--overlap", "wait", "--late", "1s"];
    let service = serve(&store, &flags, "echo > held; read line");
    store.line_in("held");
    let listed = || object(&store.run(&["schedules", "--json"]).gives(0).out);
    let next: jiff::Timestamp = listed()["next"].as_str().unwrap().parse().unwrap();
    until("a run would be missing", || {
        jiff::Timestamp::now().as_second() > next.as_second() + 4
    });
    store.run(&["schedules", "--overdue"]).gives(0);
    let seen = listed();
    let expected = (&json!("running"), &json!(false));
    assert_eq!((&seen["state"], &seen["overdue"]), expected, "{seen}");
    service.signal(Signal::TERM);
    service.end();
}

#[test]
fn what_became_of_the_latest_tick_is_shown() {
    on_both(|store| {
        let show = ["cron", "* * * * * *", "job", "--show"];
        let shown = store.run(&show).gives(0).out;
        assert!(
            shown.starts_with("job: no tick has begun\n  next      "),
            "{shown}"
        );
        let service = serve(store, &[], "echo > held; read line");
        store.line_in("held");
        let shown = store.run(&show).gives(0).out;
        assert!(
            shown.starts_with("job: running, run 1\n  latest    "),
            "{shown}"
        );
        service.signal(Signal::TERM);
        service.end_with_stdin_open();
        let printed = store.run(&[&show[..], &["--json"]].concat()).gives(0);
        let object = object(&printed.out);
        assert_eq!(
            (&object["state"], &object["attempt"]),
            (&"done".into(), &1.into())
        );
        assert!(
            object["tick"].as_str() < object["next"].as_str(),
            "{object}"
        );
    });
}

#[test]
fn a_command_that_cannot_start_ends_the_service() {
    on_both(|store| {
        let line = ["cron", "* * * * * *", "job", "--", "/no/such/command"];
        store.run(&line).refuses(127, "not found");
        assert_eq!(store.run(&["ls", "--names"]).gives(0).out, "");
    });
}

#[test]
fn while_the_lock_is_held_no_tick_runs() {
    on_both(|store| {
        let mut holder = store.hold(&[]);
        let service = serve(store, &[], "echo > ran");
        // Nothing says that a tick was left out, so two seconds pass, with a tick in each.
        let began = crate::common::uptime();
        until("two ticks", || crate::common::uptime() > began + 2.5);
        assert_eq!(store.read("ran"), "");
        holder.close_stdin();
        store.line_in("ran");
        holder.end().gives(0);
        service.signal(Signal::TERM);
        service.end_with_stdin_open();
    });
}

#[test]
fn the_next_ticks_are_printed_in_the_zone_and_in_utc() {
    let store = Store::file();
    let next = ["cron", "30 2 29 2 *", "--tz", "Pacific/Apia", "--next", "2"];
    let printed = store.run(&next).gives(0).out;
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 2);
    for line in lines {
        let (local, utc) = line.split_once("  ").unwrap();
        assert!(
            local.ends_with("-02-29T02:30:00+13:00[Pacific/Apia]"),
            "{line}"
        );
        assert!(utc.ends_with("-02-28T13:30:00Z"), "{line}");
    }
    let printed = store.run(&[&next[..], &["--json"]].concat()).gives(0).out;
    let first = object(printed.lines().next().unwrap());
    assert!(
        first["tick"]
            .as_str()
            .unwrap()
            .ends_with("-02-28T13:30:00Z")
    );
    assert!(!store.path("locks").exists());
}

#[test]
fn what_is_no_schedule_is_refused_with_what_would_be_right() {
    let store = Store::file();
    for (words, right) in [
        (
            &["0 24 * * *", "job", "true"][..],
            "hour: `24` is wrong: give 0 to 23",
        ),
        (&["0 2 * *", "job", "true"], "this one has 4"),
        (&["0 0 30 2 *", "job", "true"], "has no next time"),
        (
            &["--tz", "Berlin", "@daily", "job", "true"],
            "did you mean Europe/Berlin?",
        ),
        (
            &["--late", "500d", "@daily", "job", "true"],
            "at most 366 days late",
        ),
        (&["@daily"], "SPEC NAME -- COMMAND"),
        (&["@daily", "job"], "SPEC NAME -- COMMAND"),
        (&["@daily", "--", "true"], "say which name"),
        (
            &["30", "2", "*", "*", "*", "job", "true"],
            "put it in quotes",
        ),
        (&["@daily", "--next", "0"], "1..=65535"),
        (&["@daily", "--show"], "say which name"),
        (&["@daily", "job", "--show", "--", "true"], "--show"),
        (&["--late", "0", "@daily", "job", "true"], "at least 1s"),
        (&["-n", "@daily", "job", "true"], "or use run"),
    ] {
        store.run(&[&["cron"], words].concat()).refuses(64, right);
    }
    let several = [
        "--url",
        "redis://a",
        "--url",
        "redis://b",
        "cron",
        "@daily",
        "job",
        "true",
    ];
    store.run(&several).refuses(
        64,
        "cron is not available on a majority of servers (2 given): name one with --url",
    );
}

#[test]
fn a_tick_whose_lease_is_broken_gives_the_name_back_once_its_job_is_dead() {
    let store = Store::redis();
    let script = "[ -e held ] && exit; echo > held; exec sleep 600";
    let service = serve(&store, &["-q", "--ttl", "10m"], script);
    store.line_in("held");
    store.run(&["break", "--yes", "job"]).gives(0);
    // It asks for its lease again at once.
    store
        .server()
        .cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    until("a free name", || store.status()["state"] == "free");
    service.signal(Signal::TERM);
    service.end_with_stdin_open();
}
