//! `leaselock elect` and `leaselock leader`: a job that leads, and those who follow.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use testkit::process::{Signal, is_alive};

use crate::common::{Running, Store, object, on_both, until};

/// A job that leads until its standard input is closed. The file of this name has its number, term and fence.
const JOB: &str = "echo $$ $LEASELOCK_TERM $LEASELOCK_FENCE >> $FILE; exec cat";

fn start(store: &Store, file: &str, flags: &[&str]) -> Running {
    fs::remove_file(store.path(file)).ok();
    let mut command =
        store.leaselock(&[&["elect"], flags, &["job", "--", "sh", "-c", JOB]].concat());
    command.env("FILE", file);
    Running::start(command)
}

#[track_caller]
fn elect(store: &Store, file: &str, flags: &[&str]) -> Running {
    let running = start(store, file, flags);
    store.line_in(file);
    running
}

/// What line `at` of the file says: the number of the job, and its term.
fn told(store: &Store, file: &str, at: usize) -> (u32, u64) {
    let line = store.lines(file).remove(at);
    let mut words = line.split(' ');
    let (job, term) = (words.next().unwrap(), words.next().unwrap());
    assert_eq!(words.next(), Some(term));
    (job.parse().unwrap(), term.parse().unwrap())
}

#[test]
fn the_job_knows_its_term_and_everybody_reads_who_leads() {
    on_both(|store| {
        store
            .run(&["leader", "job"])
            .refuses(1, "leaselock: no client leads `job`");
        let nobody = object(&store.run(&["leader", "--json", "job"]).gives(1).out);
        assert_eq!(
            (&nobody["name"], &nobody["leader"]),
            (&"job".into(), &().into())
        );
        let leads = elect(store, "one", &["--value", "10.0.0.5:8080\u{7}"]);
        let (_, term) = told(store, "one", 0);
        let printed = store.run(&["leader", "job"]).gives(0).out;
        assert!(
            printed.starts_with("10.0.0.5:8080") && !printed.contains('\u{7}'),
            "{printed:?}"
        );
        let seen = object(&store.run(&["leader", "--json", "job"]).gives(0).out);
        let leader = &seen["leader"];
        assert_eq!(leader["value"], "10.0.0.5:8080\u{7}");
        assert_eq!(leader["term"].as_u64(), Some(term));
        assert_eq!(leader["client"].as_str().unwrap().len(), 8);
        // It is the lock of that name: `run` is kept out, and a list shows the lock alone.
        store.run(&["run", "-n", "job", "--", "true"]).gives(75);
        store.run(&["elect", "-n", "job", "--", "true"]).gives(75);
        assert_eq!(store.run(&["ls", "--names"]).gives(0).out, "job\n");
        leads.end().gives(0);
        store.run(&["leader", "-q", "job"]).gives(1);
        store.run(&["elect", "job", "-c", "exit 7"]).gives(7);
    });
}

#[test]
fn a_follower_prints_each_change() {
    on_both(|store| {
        let follower = store.start(&["leader", "--follow", "job"]);
        let lines = || {
            follower
                .printed()
                .lines()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        until("that no client leads", || lines() == [""]);
        let first = elect(store, "one", &["--value", "one", "--ttl", "60s"]);
        until("the first leader", || lines() == ["", "one"]);
        let second = start(store, "two", &["--value", "two", "--ttl", "60s"]);
        store.until_queued(1);
        first.end().gives(0);
        store.line_in("two");
        until("the second leader", || {
            lines().last().is_some_and(|line| line == "two")
        });
        assert!(told(store, "two", 0).1 > told(store, "one", 0).1);
        second.end().gives(0);
        until("that no client leads again", || {
            lines().last().is_some_and(String::is_empty)
        });
    });
}

#[test]
fn after_a_loss_the_job_is_ended_and_the_command_campaigns_again_unless_it_is_to_lead_once() {
    on_both(|store| {
        let leads = elect(store, "one", &["--ttl", "1s", "-q"]);
        let (job, first) = told(store, "one", 0);
        store.run(&["break", "--yes", "job"]).gives(0);
        until("the next term", || store.lines("one").len() == 2);
        let (next, second) = told(store, "one", 1);
        assert!(!is_alive(job) && next != job && second > first);
        assert!(leads.said().contains("lost `job`"), "{}", leads.said());
        leads.end().gives(0);
        let once = elect(store, "two", &["--ttl", "1s", "--once"]);
        store.run(&["break", "--yes", "job"]).gives(0);
        once.end_with_stdin_open().gives(79);
        assert_eq!(store.lines("two").len(), 1);
    });
}

#[test]
fn when_the_server_is_away_the_command_waits_for_it_and_campaigns_again() {
    let store = Store::redis();
    let leads = elect(&store, "one", &["--ttl", "1s"]);
    let (job, _) = told(&store, "one", 0);
    let frozen = store.server().pause();
    until("the end of the job", || !is_alive(job));
    until("what it says", || {
        leads.said().contains("campaigning again")
    });
    drop(frozen);
    until("the next term", || store.lines("one").len() == 2);
    leads.end().gives(0);
}

#[test]
fn programs_are_told_of_another_campaign_too() {
    let store = Store::redis();
    let leads = elect(&store, "one", &["--ttl", "1s", "--json"]);
    store.run(&["break", "--yes", "job"]).gives(0);
    until("the next term", || store.lines("one").len() == 2);
    let said = leads.said();
    let told = said.lines().map(object);
    let again: Vec<_> = told.filter(|one| one["event"] == "retrying").collect();
    assert_eq!(again[0]["text"], "campaigning again", "{said}");
    assert_eq!(again[0]["name"], "job", "{said}");
    leads.end().gives(0);
}

/// No signal is read while the release waits for the server: this one is found between the campaigns.
#[test]
fn a_signal_between_two_campaigns_is_answered_with_its_exit_code() {
    let store = Store::redis();
    let leads = elect(&store, "one", &["--ttl", "4s"]);
    let (job, _) = told(&store, "one", 0);
    let frozen = store.server().pause();
    until("the end of the job", || !is_alive(job));
    leads.signal(Signal::TERM);
    let ended = leads.end_with_stdin_open().gives(143);
    assert!(ended.err.contains("campaigning again"), "{ended:?}");
    drop(frozen);
}

#[test]
fn a_signal_ends_the_job_and_the_campaign() {
    on_both(|store| {
        let leads = elect(store, "one", &[]);
        leads.signal(Signal::TERM);
        leads.end_with_stdin_open().gives(143);
        assert_eq!(store.lines("one").len(), 1);
        store.run(&["leader", "job"]).gives(1);
        let holds = store.hold(&[]);
        let waits = store.start(&["elect", "job", "--", "true"]);
        store.until_queued(1);
        waits.signal(Signal::INT);
        waits.end_with_stdin_open().gives(130);
        store.until_queued(0);
        holds.end().gives(0);
    });
}

/// No lease ends here for a minute: what happens is brought about by the end of the process.
#[test]
fn in_a_folder_a_killed_leader_is_replaced_at_once_and_followers_see_it() {
    let store = Store::file();
    let follower = store.start(&["leader", "--follow", "job"]);
    let last = || follower.printed().lines().last().map(str::to_owned);
    let minute = ["--ttl", "60s", "-o", "--value"];
    let mut first = elect(&store, "one", &[&minute[..], &["one"]].concat());
    until("the first leader", || last().as_deref() == Some("one"));
    let second = start(&store, "two", &[&minute[..], &["two"]].concat());
    store.until_queued(1);
    first.kill();
    store.line_in("two");
    until("the second leader", || last().as_deref() == Some("two"));
    let (job, _) = told(&store, "two", 0);
    second.signal(Signal::KILL);
    until("that no client leads", || last().as_deref() == Some(""));
    until("the end of the job", || !is_alive(job));
}

#[test]
fn a_leader_that_followers_cannot_see_says_so_as_the_flags_ask_and_leads() {
    let store = Store::redis();
    let rule = ["ACL", "SETUSER", "default", "resetkeys", "~ll:client:*"];
    let allowed = ["~*job", "~*:queue", "~*:waiters", "~*:fence"];
    store.server().cli(&[&rule[..], &allowed].concat());
    let said = |flags: &[&str]| {
        let words = ["elect", "--ttl", "1s", "job", "--", "true"];
        let said = store.run(&[flags, &words].concat()).gives(0).err;
        // The user may not resign either, so the lease ends at its ttl.
        let lines: Vec<_> = said.lines().map(str::to_owned).collect();
        let (last, before) = lines.split_last().unwrap();
        assert!(last.contains("could not be released"), "{said}");
        before.to_vec()
    };
    let plain = &said(&[])[0];
    let text = "leaselock: followers may not see who leads `job`: ";
    assert!(plain.starts_with(text), "{plain}");
    let told = said(&["--json"]);
    assert_eq!(object(&told[0])["event"], "not-proclaimed");
    assert_eq!(said(&["-q"]), [""; 0]);
}

#[test]
fn what_only_run_can_do_is_refused() {
    let store = Store::redis();
    for wrong in [&["-s"][..], &["--permits", "3"], &["--like", "guide"]] {
        store
            .run(&[&["elect"], wrong, &["job", "--", "true"]].concat())
            .refuses(64, "or use run");
    }
    let several = ["--url", "redis://a", "--url", "redis://b"];
    for verb in [&["leader", "job"][..], &["elect", "job", "--", "true"]] {
        store.run(&[&several[..], verb].concat()).refuses(
            64,
            "is not available on a majority of servers (2 given): name one with --url",
        );
    }
}

/// Nothing is printed after the first line, so a write alone would never tell.
#[test]
fn who_follows_ends_when_its_reader_has_gone() {
    on_both(|store| {
        for follow in [&["leader", "--follow", "job"][..], &["log", "--follow"]] {
            let mut command = store.leaselock(follow);
            let mut follower = command.stdout(Stdio::piped()).spawn().unwrap();
            let mut reader = BufReader::new(follower.stdout.take().unwrap());
            if follow[0] == "leader" {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                assert_eq!(line, "\n");
            }
            drop(reader);
            until("its end", || follower.try_wait().unwrap().is_some());
            assert_eq!(follower.wait().unwrap().code(), Some(0), "{follow:?}");
        }
    });
}
