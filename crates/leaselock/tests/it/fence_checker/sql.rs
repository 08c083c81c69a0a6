//! The statements for servers of SQL, on those that are installed. The tests start a server of their own in a folder.

mod mariadb;
mod postgresql;
mod row;
mod server;
mod trigger;
mod weather;

use std::marker::PhantomData;

use leaselock::Sequencer;

use self::server::{Database, Session, error};
use super::{Late, Resource, late_writes_accepted, refuses_whoever_is_late, rounds, shown};

/// The statements of one way to check, on one kind of server.
trait Dialect: Sized + 'static {
    /// Reads what the checker has seen.
    const SEEN: &str = "SELECT fence FROM fence_checker";

    /// Creates the tables and prepares the statements for this session.
    fn set_up(session: &mut Session);
    /// The statements that admit a holder.
    fn admit(shown: &Sequencer) -> Vec<String>;
    /// Does the reply to them admit it?
    fn is_admitted(reply: &[String]) -> bool {
        assert_eq!(error(reply), None);
        !reply.is_empty()
    }
    /// Returns how many sessions wait for a lock of another one.
    fn waiting(session: &mut Session) -> u64;
    /// What this dialect alone promises.
    fn promises_more(_open: &mut dyn FnMut() -> Session) {}
    /// A balance of 0 that no holder has used.
    fn resource(mut session: Session) -> Box<dyn Resource> {
        session.run("DELETE FROM fence_checker");
        session.run("UPDATE balance SET value = 0");
        Box::new(Sql::<Self>::of(session))
    }
    /// The same without the condition that refuses late holders.
    fn unchecked(session: Session) -> Box<dyn Resource>;
}

fn admitted<D: Dialect>(session: &mut Session, shown: &Sequencer) -> bool {
    session.send(&D::admit(shown));
    D::is_admitted(&session.reply())
}

/// A balance whose transactions begin with the statements of the checker.
struct Sql<D> {
    session: Session,
    dialect: PhantomData<D>,
}

impl<D: Dialect> Sql<D> {
    fn of(session: Session) -> Self {
        let dialect = PhantomData;
        Sql { session, dialect }
    }

    fn within(&mut self, shown: &Sequencer, work: &str) -> Result<Vec<String>, Late> {
        let begin = ["BEGIN".to_owned()].into_iter().chain(D::admit(shown));
        self.session.send(&begin.collect::<Vec<_>>());
        if !D::is_admitted(&self.session.reply()) {
            self.session.run("ROLLBACK");
            return Err(Late);
        }
        self.session.send(&[work.to_owned(), "COMMIT".to_owned()]);
        let reply = self.session.reply();
        assert_eq!(error(&reply), None, "{work}");
        Ok(reply)
    }
}

impl<D: Dialect> Resource for Sql<D> {
    fn read(&mut self, shown: &Sequencer) -> Result<u64, Late> {
        let reply = self.within(shown, "SELECT value FROM balance")?;
        Ok(reply[0].parse().unwrap())
    }

    fn write(&mut self, shown: &Sequencer, value: u64) -> Result<(), Late> {
        let work = format!("UPDATE balance SET value = {value}");
        self.within(shown, &work).map(drop)
    }
}

/// Creates the balance; returns the session that did.
fn with_balance(database: &Database) -> Session {
    let mut session = database.session();
    for statement in BALANCE {
        session.run(statement);
    }
    session
}

/// All promises of a dialect. One server serves them all, because its start takes longer than they do.
async fn keeps_its_promises<D: Dialect>(database: Option<Database>) {
    let Some(database) = database else {
        return; // not installed
    };
    drop(with_balance(&database));
    let open = &mut || {
        let mut session = database.session();
        D::set_up(&mut session);
        session
    };
    let mut session = open();
    names_are_compared_letter_by_letter::<D>(&mut session);
    a_rollback_takes_the_admission_back::<D>(&mut session);
    the_next_holder_waits_for_the_work_of_the_one_before::<D>(open);
    one_that_waits_for_the_next_holder_is_late::<D>(open);
    one_that_has_read_before_it_asks_is_late::<D>(open);
    D::promises_more(open);
    let rounds = rounds(100, 10_000);
    refuses_whoever_is_late(&mut *D::resource(open()), rounds).await;

    let accepted = late_writes_accepted(&mut *D::unchecked(open()), rounds).await;
    assert_eq!(accepted, rounds, "without its condition");
    println!("{rounds} late writes, all accepted without the condition");
}

/// What the transactions of all tests work on.
const BALANCE: [&str; 2] = [
    "CREATE TABLE balance (value BIGINT NOT NULL)",
    "INSERT INTO balance VALUES (0)",
];

fn names_are_compared_letter_by_letter<D: Dialect>(session: &mut Session) {
    for text in ["34.b.Name", "33.a.name", "33.a.name%20", "33.a.n%C3%A4me"] {
        let shown: Sequencer = text.parse().unwrap();
        assert!(admitted::<D>(session, &shown), "{text}");
        assert!(admitted::<D>(session, &shown), "{text}");
    }
    for text in ["33.a.Name", "32.z.name", "33.A.name"] {
        assert!(!admitted::<D>(session, &text.parse().unwrap()), "{text}");
    }
}

fn a_rollback_takes_the_admission_back<D: Dialect>(session: &mut Session) {
    session.run("BEGIN");
    assert!(admitted::<D>(session, &shown(3, "c")));
    session.run("ROLLBACK");
    assert!(admitted::<D>(session, &shown(2, "b")));
    assert!(admitted::<D>(session, &shown(3, "c")));
    assert!(!admitted::<D>(session, &shown(2, "b")));
}

fn the_next_holder_waits_for_the_work_of_the_one_before<D: Dialect>(
    open: &mut dyn FnMut() -> Session,
) {
    let [mut slow, mut next, mut observer] = [open(), open(), open()];
    slow.run("BEGIN");
    assert!(admitted::<D>(&mut slow, &shown(33, "a")));
    next.run("BEGIN");
    next.send(&D::admit(&shown(34, "b")));
    observer.wait_until("the next holder waits", |observer| {
        D::waiting(observer) == 1
    });
    slow.run("UPDATE balance SET value = 33");
    slow.run("COMMIT");
    assert!(D::is_admitted(&next.reply()));
    assert_eq!(next.run("SELECT value FROM balance"), ["33"]);
    next.run("COMMIT");
}

fn one_that_waits_for_the_next_holder_is_late<D: Dialect>(open: &mut dyn FnMut() -> Session) {
    let [mut late, mut next, mut observer] = [open(), open(), open()];
    assert!(admitted::<D>(&mut late, &shown(43, "a")));
    next.run("BEGIN");
    assert!(admitted::<D>(&mut next, &shown(44, "b")));
    late.run("BEGIN");
    late.send(&D::admit(&shown(43, "a")));
    observer.wait_until("the late one waits", |observer| D::waiting(observer) == 1);
    next.run("COMMIT");
    assert!(!D::is_admitted(&late.reply()));
    late.run("ROLLBACK");
}

/// The transaction has a snapshot in which it is the newest holder.
fn one_that_has_read_before_it_asks_is_late<D: Dialect>(open: &mut dyn FnMut() -> Session) {
    let [mut late, mut next] = [open(), open()];
    assert!(admitted::<D>(&mut late, &shown(53, "a")));
    late.run("BEGIN");
    late.run("SELECT value FROM balance");
    late.run(D::SEEN);
    assert!(admitted::<D>(&mut next, &shown(54, "b")));
    assert!(!admitted::<D>(&mut late, &shown(53, "a")));
    late.run("ROLLBACK");
}
