//! A lock that an ancestor of the command holds: a wait for it could not end.

use testkit::process::Signal;

use crate::common::{Done, Running, Store, on_both, until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_leaselock");
const REASON: &str = "`job` is held by an ancestor of this process (";

/// Runs a script under `job`, in which `$LL` is the program.
fn under(store: &Store, script: &str) -> Done {
    let mut command = store.leaselock(&["run", "job", "--", "sh", "-c", script]);
    command.env("LL", PROGRAM);
    Running::start(command).end()
}

#[test]
fn waiting_for_a_lock_of_an_ancestor_ends_at_once_and_says_why() {
    on_both(|store| {
        for waiter in [
            "$LL run job -- touch ran",
            "$LL run -w 10m job -- touch ran",
            "$LL acquire job",
            "$LL wait job",
            "$LL -q run job -- touch ran",
            "$LL once job -- touch ran",
            "$LL once -w 10m job -- touch ran",
        ] {
            under(store, waiter).refuses(75, REASON);
        }
        let script = "$LL once job -- touch ran";
        let mut command = store.leaselock(&["once", "job", "-c", script]);
        command.env("LL", PROGRAM);
        Running::start(command).end().refuses(75, REASON);
        let done = under(store, "$LL run -E 9 job -- touch ran");
        let end = "); this wait cannot end\n";
        assert!(done.err.ends_with(end), "{done:?}");
        done.refuses(9, REASON);
        assert!(!store.path("ran").exists());
        assert_eq!(store.status()["state"], "free");
    });
}

#[test]
fn an_ancestor_is_found_through_other_programs_other_locks_and_an_empty_environment() {
    on_both(|store| {
        let url = &store.url;
        let deep = format!(
            "sh -c \"env -i $LL --url {url} run other -- \
             sh -c '$LL --url {url} run job -- touch ran; exit \\$?'; exit \\$?\"; exit $?"
        );
        let done = under(store, &deep);
        done.refuses(75, REASON);
        assert!(!store.path("ran").exists());
    });
}

#[test]
fn a_try_names_the_holder_as_ever_and_adds_that_it_is_an_ancestor() {
    on_both(|store| {
        for waiter in [
            "$LL run -n job -- touch ran",
            "$LL wait -n job",
            "$LL acquire -n job",
        ] {
            // A try reads once who holds it, and a holder writes that just after its grant.
            let known = "until $LL status --json job | grep -q '\"pid\"'; do :; done";
            let done = under(store, &format!("{known}; {waiter}"));
            let end = "; it is an ancestor of this process\n";
            assert!(done.err.ends_with(end), "{done:?}");
            done.refuses(75, "`job` is held by sh[");
        }
        assert_eq!(under(store, "$LL -q run -n job -- true").gives(75).err, "");
    });
}

#[test]
fn the_error_of_a_lock_of_an_ancestor_is_an_object_with_json() {
    let store = Store::file();
    let done = under(&store, "$LL --json run job -- true").gives(75);
    let said = crate::common::object(&done.err);
    assert_eq!(said["exit"], 75);
    assert!(said["error"].as_str().unwrap().starts_with(REASON));
}

#[test]
fn the_same_name_in_another_store_and_another_name_are_no_locks_of_an_ancestor() {
    on_both(|store| {
        let other = Store::file();
        let elsewhere = format!("$LL --url {} run job -- touch elsewhere", other.url);
        under(store, &elsewhere).gives(0);
        under(store, "$LL run other -- touch other").gives(0);
        assert!(store.path("elsewhere").exists() && store.path("other").exists());
    });
}

/// It has the environment of the job, and is no descendant of the holder any more.
#[test]
fn a_process_that_the_job_left_behind_waits_for_its_turn() {
    on_both(|store| {
        let script = "( $LL run job -- touch ran & echo $! > left ); read go; exit 3";
        let mut command = store.leaselock(&["run", "job", "--", "sh", "-c", script]);
        command.env("LL", PROGRAM);
        let holder = Running::start(command);
        store.line_in("left");
        store.until_queued(1);
        // Longer than it takes to find an ancestor, which has had its lock before.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        assert_eq!(store.status()["queue"].as_array().unwrap().len(), 1);
        holder.end().gives(3);
        until("its turn", || store.path("ran").exists());
    });
}

/// The number of the holder's process and the name of its host are those of another holder's record.
#[test]
fn a_holder_elsewhere_with_the_same_numbers_is_no_ancestor() {
    let store = Store::redis();
    let inner = Store::redis();
    // The record of a holder in the inner store becomes that of the outer one, as if its clock were another's.
    let holder = inner.hold(&[]);
    let script = "echo $PPID > outer; read go; $LL run -w 2s job -- touch ran";
    let mut command = store.leaselock(&["run", "job", "--", "sh", "-c", script]);
    command.env("LL", PROGRAM).env("LEASELOCK_URL", &store.url);
    let mut outer = Running::start(command);
    let pid = store.line_in("outer");
    // Written over in its own store: the same host, number and name, begun a day before.
    let record = || store.server().cli(&["KEYS", "*client*"]);
    until("the record", || {
        record().list().is_some_and(|keys| !keys.is_empty())
    });
    let keys = record();
    let key = keys.list().unwrap()[0].text().unwrap().to_owned();
    let about = store
        .server()
        .cli(&["GET", &key])
        .text()
        .unwrap()
        .to_owned();
    let mut lines: Vec<String> = about.lines().map(str::to_owned).collect();
    assert_eq!(lines[1], pid);
    let day_before = lines[3].parse::<u64>().unwrap() - 86_400_000;
    lines[3] = day_before.to_string();
    store
        .server()
        .cli(&["SET", &key, &lines.join("\n"), "KEEPTTL"]);
    outer.write("go\n");
    let done = outer.end().gives(75);
    assert!(!done.err.contains("ancestor"), "{done:?}");
    holder.signal(Signal::TERM);
}
