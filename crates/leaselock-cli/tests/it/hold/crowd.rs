//! Many holds of one process.

use std::fs;
use std::io::Write as _;

use rustix::process::{Resource, getrlimit, setrlimit};
use testkit::{Server, rounds};

use super::{Running, Store, events, latest, until};

/// What a process has for itself, and its share of what it has with others, in kB.
fn memory_kb(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let number = line.unwrap().trim().strip_suffix(" kB").unwrap();
    number.trim().parse().unwrap()
}

/// Each has a pipe to its input.
fn allow_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

#[test]
fn a_thousand_holds_of_one_process_are_all_acquired_kept_and_released_when_their_input_ends() {
    let (count, ttl) = (
        rounds(200, 1_000),
        if rounds(0, 1) == 0 { "10s" } else { "30s" },
    );
    allow_descriptors();
    let store = Store::on(Server::builder().config("maxmemory", "64mb").start());
    let names: Vec<String> = (0..count).map(|number| format!("job-{number}")).collect();
    let begin = |name: &String| store.start(&["hold", "--ttl", ttl, name]);
    let holds: Vec<Running> = names.iter().map(begin).collect();
    for hold in &holds {
        until("the grant", || {
            latest(&hold.printed(), "acquired").is_some()
        });
    }
    // None is lost while so many are renewed.
    for hold in &holds {
        let renewals = |text: &str| text.matches("\"event\":\"renewed\"").count();
        until("the renewals", || renewals(&hold.printed()) > 0);
    }
    let held = store.run(&["ls", "--names"]).gives(0).out;
    assert_eq!(held.lines().count(), count);

    let mut memory: Vec<u64> = holds.iter().map(|hold| memory_kb(hold.pid())).collect();
    memory.sort_unstable();
    let server = store.server().info_number("memory", "used_memory_peak");
    let said = format!(
        "{count} holds of one process: {} kB each by the median, {} kB at most, {} kB together; the server {} kB\n",
        memory[count / 2],
        memory[count - 1],
        memory.iter().sum::<u64>(),
        server.unwrap() / 1024,
    );
    // Not by a macro, of which only a test that fails shows the output.
    std::io::stderr().write_all(said.as_bytes()).unwrap();
    assert!(memory[count / 2] < 16_000, "{said}");

    for (hold, name) in holds.into_iter().zip(&names) {
        let done = hold.end().gives(0);
        let told = events(&done.out);
        assert!(told.iter().all(|event| event["event"] != "lost"), "{name}");
        assert_eq!(told.last().unwrap()["event"], "released", "{name}");
    }
    assert_eq!(store.run(&["ls", "--names"]).gives(0).out, "");
}
