//! PostgreSQL.

use leaselock::Sequencer;
use leaselock_fence::sql::postgresql::{ADMIT, TABLE};
use rustix::process::Signal;

use super::server::{Database, Programs, Session};
use super::{Dialect, Resource, admitted, error, keeps_its_promises, shown};

pub(super) const PROGRAMS: Programs = Programs {
    name: "PostgreSQL",
    packages: "postgresql",
    places: &[],
    all: ["initdb", "postgres", "psql"],
    create: |folder| {
        let data = format!("--pgdata={}/data", folder.display());
        let rest = [
            "--username=test",
            "--auth=trust",
            "--no-sync",
            "--locale=C",
            "--encoding=UTF8",
        ];
        [data].into_iter().chain(rest.map(str::to_owned)).collect()
    },
    serve: |folder| {
        let folder = folder.display();
        let settings = [
            format!("unix_socket_directories={folder}"),
            "listen_addresses=".to_owned(),
            "fsync=off".to_owned(),
            "statement_timeout=60s".to_owned(),
        ];
        let settings = settings
            .into_iter()
            .flat_map(|setting| ["-c".to_owned(), setting]);
        ["-D".to_owned(), format!("{folder}/data")]
            .into_iter()
            .chain(settings)
            .collect()
    },
    talk: |folder| {
        let words = format!(
            "-h {} -U test -d postgres --no-psqlrc --quiet --no-align --tuples-only --set=VERBOSITY=verbose",
            folder.display()
        );
        words.split(' ').map(str::to_owned).collect()
    },
    print_end: "\\warn -- end of the reply\n", // to the standard error, which no buffer holds back
    crash: Signal::QUIT,
};

pub(super) struct Postgresql;

impl Dialect for Postgresql {
    fn set_up(session: &mut Session) {
        session.run("SET client_min_messages = error"); // the table may be there
        session.run(TABLE);
        session.run(&format!("PREPARE admit (text, bigint, text) AS {ADMIT}"));
    }

    fn admit(shown: &Sequencer) -> Vec<String> {
        let (name, fence, owner) = (shown.name(), shown.fence(), shown.owner());
        vec![format!("EXECUTE admit('{name}', {fence}, '{owner}')")]
    }

    fn waiting(session: &mut Session) -> u64 {
        waiting(session)
    }

    fn promises_more(open: &mut dyn FnMut() -> Session) {
        other_isolation_levels_report_the_conflict::<Self>(open);
    }

    fn unchecked(mut session: Session) -> Box<dyn Resource> {
        let (before, condition) = ADMIT.split_once("\nWHERE ").unwrap();
        let (_, after) = condition.split_once('\n').unwrap();
        session.run("DEALLOCATE admit");
        session.run(&format!(
            "PREPARE admit (text, bigint, text) AS {before}\n{after}"
        ));
        Self::resource(session)
    }
}

pub(super) fn waiting(session: &mut Session) -> u64 {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    session.run(waiting)[0].parse().unwrap()
}

/// The late holder gets an error, and the transaction that is repeated is refused.
pub(super) fn other_isolation_levels_report_the_conflict<D: Dialect>(
    open: &mut dyn FnMut() -> Session,
) {
    for (round, level) in (1..).zip(["REPEATABLE READ", "SERIALIZABLE"]) {
        let [mut late, mut next, mut observer] = [open(), open(), open()];
        let (before, after) = (shown(60 + 10 * round, "a"), shown(61 + 10 * round, "b"));
        assert!(admitted::<D>(&mut late, &before));
        next.run("BEGIN");
        assert!(admitted::<D>(&mut next, &after));
        late.run(&format!("BEGIN ISOLATION LEVEL {level}"));
        late.send(&D::admit(&before));
        observer.wait_until("the late one waits", |observer| waiting(observer) == 1);
        next.run("COMMIT");
        let reply = late.reply();
        assert_eq!(sqlstate(&reply), Some("40001"), "{level}: {reply:?}");
        late.run("ROLLBACK");
        late.run(&format!("BEGIN ISOLATION LEVEL {level}"));
        assert!(!admitted::<D>(&mut late, &before));
    }
}

/// The code of the error in a reply.
pub(super) fn sqlstate(reply: &[String]) -> Option<&str> {
    let (code, _) = error(reply)?.strip_prefix("ERROR:  ")?.split_once(':')?;
    Some(code)
}

#[tokio::test]
async fn postgresql_refuses_whoever_is_late() {
    keeps_its_promises::<Postgresql>(Database::start(&PROGRAMS)).await;
}
