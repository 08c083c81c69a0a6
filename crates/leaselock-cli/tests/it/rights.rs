//! Each verb as each user of docs/access.md: it does what its role needs, and is refused the rest.

use testkit::{Server, Value};

use crate::common::Store;
use crate::json::VERBS;

const PAGE: &str = include_str!("../../../../docs/access.md");

/// What a step needs beyond the rights of a locker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Not even those: it changes nothing.
    Reading,
    /// It finds names, and changes nothing.
    Scanning,
    Locking,
    Loading,
}

/// A verb with its arguments; `NAME` stands for a name of the step's own.
const STEPS: &[(Needs, &[&str])] = &[
    (Needs::Reading, &["status", "NAME"]),
    (Needs::Scanning, &["ls"]),
    (Needs::Scanning, &["top"]),
    (Needs::Scanning, &["blame"]),
    (Needs::Scanning, &["schedules"]),
    (Needs::Reading, &["log", "NAME"]),
    (Needs::Reading, &["wait", "-n", "NAME"]),
    (Needs::Reading, &["permits", "NAME"]),
    (Needs::Reading, &["leader", "NAME"]),
    (Needs::Reading, &["once", "--show", "NAME"]),
    (Needs::Reading, &["cron", "--show", "* * * * *", "NAME"]),
    (Needs::Reading, &["latch", "--count", "2", "NAME"]),
    (Needs::Reading, &["count", "--get", "NAME"]),
    (Needs::Locking, &["run", "NAME", "--", "true"]),
    (Needs::Locking, &["run", "-s", "NAME", "--", "true"]),
    (
        Needs::Locking,
        &["run", "--permits", "2", "NAME", "--", "true"],
    ),
    (Needs::Locking, &["acquire", "NAME"]),
    (Needs::Locking, &["permits", "NAME", "set", "2"]),
    (Needs::Locking, &["elect", "NAME", "--", "true"]),
    (Needs::Locking, &["once", "NAME", "--", "true"]),
    (
        Needs::Locking,
        &["latch", "--count", "2", "--arrive", "a", "NAME"],
    ),
    (
        Needs::Locking,
        &["limit", "--rate", "9/s", "NAME", "--", "true"],
    ),
    (Needs::Locking, &["count", "NAME"]),
    (Needs::Loading, &["functions", "load"]),
];

/// What the page says of a role, and a user without limits.
fn may(role: &str, needs: Needs) -> bool {
    match role {
        "default" => true,
        "admin" => needs != Needs::Loading,
        "observer" => matches!(needs, Needs::Reading | Needs::Scanning),
        "locker" | "hardened" => matches!(needs, Needs::Reading | Needs::Locking),
        "loader" => needs == Needs::Loading,
        other => panic!("docs/access.md has a role {other}: say here what it may do"),
    }
}

/// One server, and all users of the page on it.
struct Site(Store);

impl Site {
    fn start() -> (Site, Vec<&'static str>) {
        let server = Server::start();
        let mut roles = vec!["default"];
        for line in PAGE.lines() {
            if let Some(user) = line.strip_prefix("ACL SETUSER ") {
                let words: Vec<&str> = line.split(' ').collect();
                assert_eq!(server.cli(&words), Value::Status("OK".into()), "{line}");
                roles.extend(user.split(' ').next());
            }
        }
        (Site(Store::on(server)), roles)
    }

    /// The exit code of a verb as this user.
    fn code(&self, role: &str, words: &[&str], input: &str) -> i32 {
        let url = match role {
            "default" => self.0.url.clone(),
            role => self.0.url.replace("://", &format!("://{role}:PASSWORD@")),
        };
        let mut command = self.0.leaselock(&[&["--prefix", "app:"], words].concat());
        command.env("LEASELOCK_URL", url);
        if role == "hardened" {
            command.env("LEASELOCK_FUNCTIONS", "1");
        }
        let mut running = crate::common::Running::start(command);
        running.write(input);
        let done = running.end();
        let is_about_rights = done.err.contains("the user may not do this");
        assert_eq!(
            done.code == 77,
            is_about_rights,
            "{role} {words:?}: {done:?}"
        );
        done.code
    }
}

#[test]
fn each_verb_does_as_each_user_of_the_page_what_the_role_needs_and_is_refused_the_rest() {
    let (site, roles) = Site::start();
    assert_eq!(site.code("loader", &["functions", "load"], ""), 0);
    for (needs, step) in STEPS {
        let code = |role: &str| {
            let name = format!("{}-{role}", step.join("-").replace([' ', '*', '/'], "_"));
            let words: Vec<&str> = step
                .iter()
                .map(|word| if *word == "NAME" { &name } else { *word })
                .collect();
            site.code(role, &words, "")
        };
        let expected = code("default");
        let code = &code;
        std::thread::scope(|scope| {
            for role in &roles {
                let expected = if may(role, *needs) { expected } else { 77 };
                scope.spawn(move || assert_eq!(code(role), expected, "{role}: {step:?}"));
            }
        });
    }
    for role in &roles {
        let expected = if may(role, Needs::Locking) { 0 } else { 77 };
        let handle = site
            .0
            .run(&["--prefix", "app:", "acquire", "held"])
            .gives(0)
            .out;
        assert_eq!(site.code(role, &["extend"], &handle), expected, "{role}");
        assert_eq!(site.code(role, &["release"], &handle), expected, "{role}");
        site.0
            .run(&["--prefix", "app:", "acquire", "broken"])
            .gives(0);
        let broken = ["break", "-y", "broken"];
        assert_eq!(site.code(role, &broken, ""), expected, "{role}");
        for left in ["app:held", "app:broken"] {
            site.0.server().cli(&["DEL", left]);
        }
    }
}

/// What needs no store, what runs until it is told to stop, and what other tests run as these users.
#[test]
fn no_verb_is_left_out() {
    let elsewhere = [
        "hold",
        "extend",
        "release",
        "break",
        "doctor",
        "strict",
        "bench",
        "completions",
        "man",
    ];
    for verb in VERBS {
        let is_here = STEPS.iter().any(|(_, step)| step[0] == verb);
        assert!(is_here || elsewhere.contains(&verb), "{verb}");
    }
}
