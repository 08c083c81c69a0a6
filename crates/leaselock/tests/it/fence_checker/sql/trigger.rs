//! The trigger of PostgreSQL: statements that know nothing of fences are checked.

use leaselock::Sequencer;
use leaselock_fence::sql::postgresql::{SHOW, TRIGGER_FUNCTION};

use super::postgresql::{
    PROGRAMS, Postgresql, other_isolation_levels_report_the_conflict, sqlstate, waiting,
};
use super::row::on_page;
use super::server::{Database, Session, error};
use super::{Dialect, Late, Resource, Sql, keeps_its_promises, shown};

/// A trigger on the table of the tests, for the holders of any name.
pub(super) struct Trigger;

fn show(shown: &Sequencer) -> String {
    let (name, fence, owner) = (shown.name(), shown.fence(), shown.owner());
    format!("EXECUTE show('{name}', {fence}, '{owner}')")
}

impl Dialect for Trigger {
    fn set_up(session: &mut Session) {
        Postgresql::set_up(session);
        session.run(TRIGGER_FUNCTION);
        session.run(
            "CREATE OR REPLACE TRIGGER fence_checker BEFORE UPDATE ON balance \
             FOR EACH STATEMENT EXECUTE FUNCTION fence_checker()",
        );
        session.run(&format!("PREPARE show AS {SHOW}"));
    }

    /// Both in one transaction, also where none was begun.
    fn admit(shown: &Sequencer) -> Vec<String> {
        vec![format!(
            "{}\\; UPDATE balance SET value = value",
            show(shown)
        )]
    }

    fn is_admitted(reply: &[String]) -> bool {
        let state = sqlstate(reply);
        assert!(matches!(state, None | Some("LK412")), "{reply:?}");
        state.is_none()
    }

    fn waiting(session: &mut Session) -> u64 {
        waiting(session)
    }

    fn promises_more(open: &mut dyn FnMut() -> Session) {
        other_isolation_levels_report_the_conflict::<Self>(open);
    }

    fn resource(mut session: Session) -> Box<dyn Resource> {
        session.run("SET session_replication_role = replica"); // no trigger
        session.run("UPDATE balance SET value = 0");
        session.run("DELETE FROM fence_checker");
        session.run("RESET session_replication_role");
        Box::new(Triggered(Sql::of(session)))
    }

    fn unchecked(mut session: Session) -> Box<dyn Resource> {
        session.run("ALTER TABLE balance DISABLE TRIGGER fence_checker");
        Self::resource(session)
    }
}

/// A balance that the trigger guards. A trigger sees no reads, so they begin with the statement that admits.
struct Triggered(Sql<Postgresql>);

impl Resource for Triggered {
    fn read(&mut self, shown: &Sequencer) -> Result<u64, Late> {
        self.0.read(shown)
    }

    fn write(&mut self, shown: &Sequencer, value: u64) -> Result<(), Late> {
        let work = format!("UPDATE balance SET value = {value}");
        in_transaction(&mut self.0.session, shown, &work).map_err(|reply| {
            assert_eq!(sqlstate(&reply), Some("LK412"), "{reply:?}");
            Late
        })
    }
}

/// A transaction that shows its fence and does this. When it is refused, the commit rolls back.
fn in_transaction(session: &mut Session, shown: &Sequencer, work: &str) -> Result<(), Vec<String>> {
    session.send(&["BEGIN", &show(shown), work, "COMMIT"].map(str::to_owned));
    let reply = session.reply();
    match error(&reply) {
        None => Ok(()),
        Some(_) => Err(reply),
    }
}

#[tokio::test]
async fn the_trigger_of_postgresql_refuses_whoever_is_late() {
    keeps_its_promises::<Trigger>(Database::start(&PROGRAMS)).await;
}

/// Each kind of statement that writes to a table.
const WRITES: [&str; 8] = [
    "INSERT INTO account VALUES (9)",
    "UPDATE account SET value = 9",
    "UPDATE account SET value = 9 WHERE false",
    "DELETE FROM account",
    "WITH moved AS (DELETE FROM account RETURNING value) SELECT * FROM moved",
    "MERGE INTO account USING (VALUES (9)) AS new (value) ON false WHEN NOT MATCHED THEN INSERT VALUES (9)",
    "COPY account FROM '/dev/null'",
    "TRUNCATE account",
];

#[test]
fn the_trigger_of_the_page_checks_every_statement_that_writes() {
    let Some(database) = Database::start(&PROGRAMS) else {
        return; // not installed
    };
    let open = &mut || {
        let mut session = database.session();
        Postgresql::set_up(&mut session);
        session.run(&format!("PREPARE show AS {SHOW}"));
        session
    };
    let mut session = open();
    session.run("CREATE TABLE account (value BIGINT NOT NULL)");
    session.run("INSERT INTO account VALUES (0)");
    session.run(TRIGGER_FUNCTION);
    session.run(on_page("-- the trigger"));
    what_shows_no_fence_is_refused(&mut session);
    what_is_late_is_refused(&mut session);
    what_is_no_fence_is_refused(&mut session);
    a_statement_that_has_waited_sees_no_other_rows_unless_it_was_admitted_before(open);
    what_no_trigger_sees_gets_through(&mut session);
}

fn state_of(session: &mut Session, statement: &str) -> Option<String> {
    session.send(&[statement.to_owned()]);
    sqlstate(&session.reply()).map(str::to_owned)
}

fn what_shows_no_fence_is_refused(session: &mut Session) {
    for write in WRITES {
        assert_eq!(
            state_of(session, write).as_deref(),
            Some("LK428"),
            "{write}"
        );
    }
    // Settings of a transaction that has ended are not NULL but empty.
    in_transaction(session, &shown(1, "a"), "DELETE FROM account WHERE false").unwrap();
    assert_eq!(session.run("SHOW leaselock.fence"), [""]);
    for write in WRITES {
        assert_eq!(
            state_of(session, write).as_deref(),
            Some("LK428"),
            "{write}"
        );
    }
    for missing in ["name", "fence", "owner"] {
        let forget = format!("SET LOCAL leaselock.{missing} = ''\\; DELETE FROM account");
        let reply = in_transaction(session, &shown(1, "a"), &forget).unwrap_err();
        assert_eq!(sqlstate(&reply), Some("LK428"), "{missing}: {reply:?}");
    }
    assert_eq!(session.run("SELECT * FROM account"), ["0"]);
}

fn what_is_late_is_refused(session: &mut Session) {
    in_transaction(session, &shown(34, "b"), "UPDATE account SET value = 7").unwrap();
    for (late, said) in [
        (
            shown(33, "a"),
            "token 33 of owner a is stale: the resource has seen 34 of owner b",
        ),
        (
            shown(34, "twin"),
            "token 34 of owner twin is stale: the resource has seen 34 of owner b",
        ),
    ] {
        for write in WRITES {
            let reply = in_transaction(session, &late, write).unwrap_err();
            assert_eq!(sqlstate(&reply), Some("LK412"), "{write}: {reply:?}");
            assert!(error(&reply).unwrap().ends_with(said), "{reply:?}");
        }
    }
    assert_eq!(session.run("SELECT * FROM account"), ["7"]);
    for write in WRITES {
        in_transaction(session, &shown(34, "b"), write).unwrap();
    }
    in_transaction(session, &shown(34, "b"), "INSERT INTO account VALUES (8)").unwrap();
}

/// What no lease has shown does not raise the bar.
fn what_is_no_fence_is_refused(session: &mut Session) {
    for fence in [
        "0",
        "-1",
        "034",
        "34.0",
        "34 ",
        "0x23",
        "x",
        "99999999999999999",
        "'; --",
    ] {
        let text = fence.replace('\'', "''");
        let set = format!("SET LOCAL leaselock.fence = '{text}'\\; DELETE FROM account");
        let reply = in_transaction(session, &shown(34, "b"), &set).unwrap_err();
        assert_eq!(sqlstate(&reply), Some("LK400"), "{fence}: {reply:?}");
        let said = format!("`account`: '{text}' is no fencing token");
        assert!(error(&reply).unwrap().ends_with(&said), "{reply:?}");
    }
    let other: Sequencer = "35.c.other".parse().unwrap();
    let reply = in_transaction(session, &other, "DELETE FROM account").unwrap_err();
    assert_eq!(sqlstate(&reply), Some("LK400"), "{reply:?}");
    let said = "`other` does not protect the table account: `account` does";
    assert!(error(&reply).unwrap().ends_with(said), "{reply:?}");
    in_transaction(session, &shown(34, "b"), "UPDATE account SET value = 8").unwrap();
    assert_eq!(
        session.run("SELECT name, fence FROM fence_checker"),
        ["account|34"]
    );
}

/// PostgreSQL takes a statement's snapshot before it calls the trigger. A late holder is refused all the same, but the
/// next one would work on what the one before had not committed yet.
fn a_statement_that_has_waited_sees_no_other_rows_unless_it_was_admitted_before(
    open: &mut dyn FnMut() -> Session,
) {
    let [mut before, mut next, mut observer] = [open(), open(), open()];
    before.run("CREATE TABLE total (value BIGINT)");
    before.run(&on_page("-- the trigger").replace("ON account", "ON total"));
    let sum = "INSERT INTO total SELECT sum(value) FROM account";
    for (fence, begins_with_admit, seen) in [(40, false, "8"), (50, true, "10")] {
        before.run("BEGIN");
        before.run(&show(&shown(fence, "a")));
        before.run("INSERT INTO account VALUES (1)");
        let holder = shown(fence + 1, "b");
        next.run("BEGIN");
        next.run(&show(&holder));
        if begins_with_admit {
            next.send(&[&Postgresql::admit(&holder)[..], &[sum.to_owned()]].concat());
        } else {
            next.send(&[sum.to_owned()]);
        }
        observer.wait_until("the next holder waits", |observer| waiting(observer) == 1);
        before.run("COMMIT");
        assert_eq!(error(&next.reply()), None);
        assert_eq!(next.run("SELECT value FROM total"), [seen]);
        next.run("ROLLBACK");
    }
}

/// The limits that the page names.
fn what_no_trigger_sees_gets_through(session: &mut Session) {
    let transaction = on_page("-- a transaction that shows its sequencer");
    session.run(transaction);
    let late = &shown(33, "a");
    in_transaction(session, late, "SELECT * FROM account").unwrap();
    session.run("SET session_replication_role = replica");
    in_transaction(session, late, "UPDATE account SET value = 0").unwrap();
    session.run("ALTER TABLE account ENABLE ALWAYS TRIGGER fence_checker");
    in_transaction(session, late, "UPDATE account SET value = 0").unwrap_err();
    session.run("RESET session_replication_role");
    session.run("ALTER TABLE account DISABLE TRIGGER fence_checker");
    in_transaction(session, late, "UPDATE account SET value = 0").unwrap();
    // The trigger of a partitioned table is not that of its partitions.
    session.run("CREATE TABLE parted (value BIGINT) PARTITION BY LIST (value)");
    session.run("CREATE TABLE part PARTITION OF parted DEFAULT");
    session.run(&on_page("-- the trigger").replace("ON account", "ON parted"));
    in_transaction(session, late, "INSERT INTO parted VALUES (0)").unwrap_err();
    in_transaction(session, late, "INSERT INTO part VALUES (0)").unwrap();
}
