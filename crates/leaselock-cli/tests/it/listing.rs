//! As what a lock is held, and by whom.

use crate::common::{Running, object, on_both, until};

#[test]
fn ls_tells_leaders_and_runs_apart_and_lists_the_kinds_that_are_asked_for() {
    on_both(|store| {
        let job = |file: &str| format!("echo > {file}; exec cat");
        let start = |verb: &[&str], file: &str| {
            let running = store.start(&[verb, &["--", "sh", "-c", &job(file)]].concat());
            store.line_in(file);
            running
        };
        let leader = start(&["elect", "boss"], "leads");
        let once = start(&["once", "-o", "charge"], "runs");
        let reader = start(&["run", "-s", "config"], "reads");
        let kinds = |flags: &[&str]| {
            let listed = store.run(&[&["ls", "--json"], flags].concat()).gives(0).out;
            let kind = |line| {
                let lock = object(line);
                let word = |field: &str| lock[field].as_str().unwrap().to_owned();
                (word("name"), word("kind"))
            };
            listed.lines().map(kind).collect::<Vec<_>>()
        };
        let is = |name: &str, kind: &str| (name.to_owned(), kind.to_owned());
        until("it has proclaimed itself", || {
            kinds(&["--kind", "leader"]) == [is("boss", "leader")]
        });
        let [boss, charge] = [is("boss", "leader"), is("charge", "once")];
        let all = [boss.clone(), charge.clone(), is("config", "read")];
        assert_eq!(kinds(&[]), all);
        assert_eq!(kinds(&["--kind", "once,leader"]), [boss.clone(), charge]);
        assert_eq!(kinds(&["--kind", "cron", "--kind", "leader"]), [boss]);
        assert!(kinds(&["--kind", "mutex"]).is_empty());
        let table = store.run(&["ls", "--kind", "once"]).gives(0).out;
        assert!(table.contains("\ncharge  once  "), "{table}");
        store
            .run(&["ls", "--kind", "lock"])
            .refuses(64, "upgradable");
        let shown = object(&store.run(&["status", "--json", "boss"]).gives(0).out);
        assert_eq!(shown["kind"], "leader");
        for one in [leader, once, reader] {
            one.end().gives(0);
        }
    });
}

#[test]
fn status_names_the_user_of_each_holder() {
    on_both(|store| {
        let start = |flags: &[&str], file: &str| {
            let script = format!("echo > {file}; exec cat");
            let words = [&["run"], flags, &["--", "sh", "-c", &script]].concat();
            let mut command = store.leaselock(&words);
            command.env("LOGNAME", "alice");
            let running = Running::start(command);
            store.line_in(file);
            running
        };
        let alone = start(&["job"], "alone");
        let reader = start(&["-s", "config"], "reads");
        for (name, behind) in [("job", " for "), ("config", ": reads; ")] {
            let status = || store.run(&["status", name]).gives(0).out;
            let shown = format!(" (user alice){behind}");
            until(name, || status().contains(&shown));
        }
        for one in [alone, reader] {
            one.end().gives(0);
        }
    });
}
