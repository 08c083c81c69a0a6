//! The file of `--textfile`, as node_exporter reads it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;

use testkit::process::Signal;

use crate::common::{Store, fifo_in_place_of, object, on_both, until};

const ALL: [&str; 5] = [
    "start_time_seconds",
    "wait_seconds",
    "end_time_seconds",
    "duration_seconds",
    "exit_code",
];

/// One metric of the file, with what stands between the braces.
#[derive(Debug)]
struct Sample {
    metric: String,
    labels: String,
    /// Of seconds, which have three decimals, the milliseconds.
    value: u64,
}

/// Reads the text strictly: for each metric a line of help, one that says gauge, and one sample.
#[track_caller]
fn samples(store: &Store, file: &str) -> Vec<Sample> {
    let text = store.read(file);
    assert!(text.ends_with('\n'), "{text:?}");
    let lines: Vec<&str> = text.lines().collect();
    let (metrics, rest) = lines.as_chunks::<3>();
    assert_eq!(rest, &[] as &[&str]);
    let read = |[help, kind, sample]: &[&str; 3]| {
        let (metric, rest) = sample.split_once('{').unwrap();
        let (labels, value) = rest.rsplit_once("} ").unwrap();
        let words = help.strip_prefix(&format!("# HELP {metric} ")).unwrap();
        assert!(words.len() > 10, "{help}");
        assert_eq!(*kind, format!("# TYPE {metric} gauge"));
        Sample {
            metric: metric.strip_prefix("leaselock_run_").unwrap().to_owned(),
            labels: labels.to_owned(),
            value: value.replace('.', "").parse().unwrap(),
        }
    };
    let samples = metrics.iter().map(read).collect();
    testkit::promtool::accepts(&text, &[]);
    samples
}

/// The values of a run that has ended: start, wait, end, duration, exit code.
#[track_caller]
fn ended(store: &Store, file: &str) -> [u64; 5] {
    let samples = samples(store, file);
    let metrics: Vec<&str> = samples.iter().map(|one| one.metric.as_str()).collect();
    assert_eq!(metrics, ALL);
    let values: Vec<u64> = samples.iter().map(|one| one.value).collect();
    let [start, wait, end, duration, code] = values[..] else {
        panic!("{values:?}")
    };
    assert!(start > 1_700_000_000_000, "{values:?}");
    // A run without a job has the latest start of the job, and an end of its own.
    let is_without = duration == 0 && end >= start;
    assert!(
        is_without || end.abs_diff(start + duration) < 2,
        "{values:?}"
    );
    [start, wait, end, duration, code]
}

#[test]
fn the_start_of_a_job_is_written_and_then_its_end() {
    on_both(|store| {
        let script = "cp run.prom running; sleep 0.3; exit 3";
        // The job waits for the file, which is written when the job runs.
        let script = format!("until [ -s run.prom ]; do sleep 0.01; done; {script}");
        let name = "nightly \"x\\y\"";
        let words = ["run", "--textfile", "run.prom", name, "-c", &script];
        store.run(&words).gives(3);
        let running = samples(store, "running");
        let metrics: Vec<&str> = running.iter().map(|one| one.metric.as_str()).collect();
        assert_eq!(metrics, ALL[..2]);
        assert_eq!(running[0].labels, r#"name="nightly \"x\\y\"""#);
        let [start, wait, _, duration, code] = ended(store, "run.prom");
        assert_eq!(code, 3);
        assert_eq!([start, wait], [running[0].value, running[1].value]);
        assert!((300..30_000).contains(&duration), "{duration}");
    });
}

#[test]
fn a_reader_has_the_old_text_or_the_new_one_and_nothing_else_is_left() {
    let store = Store::file();
    let words = ["run", "--textfile", "run.prom", "job", "--", "true"];
    store.run(&words).gives(0);
    let inode = |file| fs::metadata(store.path(file)).unwrap().ino();
    fs::hard_link(store.path("run.prom"), store.path("before")).unwrap();
    let before = store.read("before");
    store.run(&words).gives(0);
    assert_ne!(inode("run.prom"), inode("before"));
    assert_eq!(store.read("before"), before);
    let files = fs::read_dir(store.path("")).unwrap();
    assert_eq!(files.count(), 3, "run.prom, before, locks");
}

#[test]
fn a_run_without_a_lock_is_written_too() {
    on_both(|store| {
        let holder = store.hold(&[]);
        let words = [
            "run",
            "--textfile",
            "busy.prom",
            "-w",
            "200ms",
            "job",
            "--",
            "true",
        ];
        store.run(&words).gives(75);
        let [_, wait, _, duration, code] = ended(store, "busy.prom");
        assert_eq!([duration, code], [0, 75]);
        assert!((200..30_000).contains(&wait), "{wait}");
        let words = [
            "once",
            "--textfile",
            "once.prom",
            "-n",
            "-E",
            "5",
            "job",
            "--",
            "true",
        ];
        store.run(&words).gives(5);
        assert_eq!(ended(store, "once.prom")[4], 5);
        let waiter = store.start(&["run", "--textfile", "gone.prom", "job", "--", "true"]);
        store.until_queued(1);
        waiter.signal(Signal::TERM);
        waiter.end_with_stdin_open().gives(143);
        assert_eq!(ended(store, "gone.prom")[4], 143);
        holder.end().gives(0);
    });
    let store = Store::file();
    let words = [
        "--url",
        "redis://127.0.0.1:1",
        "run",
        "--textfile",
        "f",
        "-n",
        "job",
        "--",
        "true",
    ];
    store.run(&words).gives(69);
    assert_eq!(ended(&store, "f")[4], 69);
    store
        .run(&["run", "--textfile", "f", "job", "--", "no-such-command"])
        .gives(127);
    assert_eq!(ended(&store, "f")[4], 127);
}

#[test]
fn a_run_that_has_lost_its_lease_is_written_too() {
    on_both(|store| {
        let limits = [
            "--ttl",
            "500ms",
            "--max-hold",
            "500ms",
            "--textfile",
            "lost.prom",
        ];
        let job = ["job", "--", "sleep", "60"];
        store.run(&[&["run"], &limits[..], &job].concat()).gives(79);
        let [_, _, _, duration, code] = ended(store, "lost.prom");
        assert_eq!(code, 79);
        assert!((100..30_000).contains(&duration), "{duration}");
        store
            .run(&[&["once"], &limits[..], &job].concat())
            .gives(79);
        assert_eq!(ended(store, "lost.prom")[4], 79);
    });
}

#[test]
fn once_writes_the_run_and_each_replay_of_its_result() {
    let store = Store::file();
    let words = [
        "once",
        "--keep-failures",
        "--textfile",
        "f.prom",
        "key",
        "-c",
        "sleep 0.2; exit 4",
    ];
    store.run(&words).gives(4);
    let [began, _, _, duration, code] = ended(&store, "f.prom");
    assert!(duration >= 200 && code == 4, "{duration} {code}");
    store.run(&words).gives(4);
    let [start, _, _, duration, code] = ended(&store, "f.prom");
    assert_eq!([start, duration, code], [began, 0, 4]);
}

#[test]
fn a_schedule_writes_how_late_each_tick_began_and_how_it_ended() {
    let store = Store::file();
    let script = "echo x >> ran; exit 6";
    let flags = [
        "cron",
        "* * * * * *",
        "--textfile",
        "tick.prom",
        "job",
        "-c",
        script,
    ];
    let service = store.start(&flags);
    // After the second tick has begun, the end of the first was written.
    until("two ticks", || store.lines("ran").len() > 1);
    service.signal(Signal::TERM);
    service.end_with_stdin_open();
    let [_, wait, _, duration, code] = ended(&store, "tick.prom");
    assert_eq!(code, 6);
    // Ticks of a service begin within a minute, and on a busy machine not at once.
    assert!(wait < 60_000 && duration < 30_000, "{wait} {duration}");
}

#[test]
fn a_file_that_cannot_be_written_is_told_once_and_changes_nothing() {
    let store = Store::file();
    let words = [
        "run",
        "--textfile",
        "missing/run.prom",
        "job",
        "--",
        "sh",
        "-c",
        "echo ran; exit 3",
    ];
    let done = store.run(&words).gives(3);
    assert_eq!(done.out, "ran\n");
    let expected =
        "leaselock: --textfile: missing/run.prom cannot be written: No such file or directory";
    assert!(done.err.starts_with(expected), "{done:?}");
    assert_eq!(done.err.lines().count(), 1, "{done:?}");
    let done = store.run(&[&["-q"], &words[..]].concat()).gives(3);
    assert!(done.err.starts_with(expected), "an error: {done:?}");
    let said = object(&store.run(&[&["--json"], &words[..]].concat()).gives(3).err);
    assert_eq!(
        (&said["event"], &said["name"]),
        (&"textfile-failed".into(), &"job".into())
    );
}

/// Otherwise a job that hangs would seem to have been begun by each host that finds its lock busy.
#[test]
fn a_run_that_began_no_job_leaves_the_latest_start_as_it_was() {
    on_both(|store| {
        let run = |name, code| {
            let words = ["run", "--textfile", "f.prom", "-n", name, "--", "true"];
            store.run(&words).gives(code);
            ended(store, "f.prom")
        };
        let [began, _, end, _, _] = run("job", 0);
        let holder = store.hold(&[]);
        for _ in 0..2 {
            let [start, _, ended, duration, code] = run("job", 75);
            assert_eq!([start, duration, code], [began, 0, 75]);
            assert!(ended > end, "{ended} {end}");
        }
        holder.end().gives(0);
        let [again, ..] = run("job", 0);
        assert!(again > began);

        let hanging = store.hold(&["--textfile", "f.prom"]);
        until("its start", || !store.read("f.prom").contains("_end_time"));
        let [start, ..] = &samples(store, "f.prom")[..] else {
            panic!("no start")
        };
        assert_eq!(run("job", 75)[0], start.value);
        hanging.end().gives(0);
    });
}

#[test]
fn a_link_stays_and_the_file_behind_it_is_replaced() {
    let store = Store::file();
    fs::create_dir(store.path("there")).unwrap();
    symlink("there/run.prom", store.path("link.prom")).unwrap();
    for _ in 0..2 {
        let words = ["run", "--textfile", "link.prom", "job", "--", "true"];
        store.run(&words).gives(0);
        assert_eq!(ended(&store, "there/run.prom")[4], 0);
        assert!(store.path("link.prom").is_symlink());
    }
}

#[test]
fn what_is_no_regular_file_is_refused_before_anything_runs_and_stays_what_it_was() {
    let store = Store::file();
    fs::create_dir(store.path("folder")).unwrap();
    fifo_in_place_of(&store.path("pipe"));
    let _socket = UnixListener::bind(store.path("socket")).unwrap();
    symlink("pipe", store.path("link")).unwrap();
    let kind = |file| fs::symlink_metadata(store.path(file)).unwrap().file_type();
    for file in ["folder", "pipe", "socket", "link"] {
        let before = kind(file);
        for verb in ["run", "elect", "once"] {
            let words = [verb, "--textfile", file, "job", "-c", "echo > ran"];
            let words = store.run(&words);
            words.refuses(64, &format!("--textfile: {file} is no regular file"));
        }
        assert_eq!(kind(file), before);
    }
    assert_eq!(store.read("ran"), "");
}
