//! A row with a fence of its own, by the statements of docs/fencing-sql.md.

use std::marker::PhantomData;

use leaselock::Sequencer;

use super::mariadb::{self, MariaDb};
use super::postgresql::{self, Postgresql};
use super::server::{Database, Session, error};
use super::{Dialect, Late, Resource, keeps_its_promises};

const PAGE: &str = include_str!("../../../../../../docs/fencing-sql.md");
const CONDITION: &str = "(fence < :fence OR (fence = :fence AND owner = :owner))";

/// The statement below this comment on the page.
pub(super) fn on_page(comment: &str) -> &'static str {
    let (_, text) = PAGE.split_once(comment).unwrap();
    text.split_once(";\n```").unwrap().0
}

/// What differs from server to server.
trait Server: Dialect {
    const TABLE: &str;
    const NEW_ROW: &str;
    const HAS_RETURNING: bool;
}

impl Server for Postgresql {
    const TABLE: &str = "CREATE TABLE IF NOT EXISTS account \
        (id TEXT PRIMARY KEY, value BIGINT NOT NULL, fence BIGINT NOT NULL, owner TEXT NOT NULL)";
    const NEW_ROW: &str = "INSERT INTO account VALUES (:id, 0, 0, '') ON CONFLICT DO NOTHING";
    const HAS_RETURNING: bool = true;
}

impl Server for MariaDb {
    const TABLE: &str = "CREATE TABLE IF NOT EXISTS account \
        (id VARBINARY(512) PRIMARY KEY, value BIGINT NOT NULL, fence BIGINT NOT NULL, owner VARBINARY(64) NOT NULL)";
    const NEW_ROW: &str = "INSERT IGNORE INTO account VALUES (:id, 0, 0, '')";
    const HAS_RETURNING: bool = false;
}

struct Row<S> {
    session: Session,
    is_checked: bool,
    server: PhantomData<S>,
}

/// The statements with the values of a holder. The row's key is the lock's name.
fn for_holder<S: Server>(texts: &[&str], shown: &Sequencer) -> Vec<String> {
    let (id, owner) = (
        format!("'{}'", shown.name()),
        format!("'{}'", shown.owner()),
    );
    let fence = shown.fence().to_string();
    let fill = |text: &&str| {
        text.replace(":id", &id)
            .replace(":fence", &fence)
            .replace(":owner", &owner)
    };
    texts.iter().map(fill).collect()
}

/// Reads or writes, and returns the value where the holder is admitted.
fn update<S: Server>(comment: &str) -> Vec<&'static str> {
    let update = on_page(comment);
    if S::HAS_RETURNING {
        return vec![update];
    }
    let (update, _) = update.split_once("RETURNING").unwrap();
    vec![update, on_page("-- instead of RETURNING")]
}

impl<S: Server> Row<S> {
    fn of(mut session: Session, is_checked: bool) -> Box<Self> {
        session.run("UPDATE account SET value = 0, fence = 0, owner = ''");
        let server = PhantomData;
        Box::new(Row {
            session,
            is_checked,
            server,
        })
    }

    fn ask(&mut self, shown: &Sequencer, comment: &str, value: u64) -> Result<u64, Late> {
        let statements = [vec!["BEGIN"], update::<S>(comment), vec!["COMMIT"]].concat();
        let mut statements = statements
            .into_iter()
            .map(|text| text.replace(":value", &value.to_string()))
            .collect::<Vec<_>>();
        if !self.is_checked {
            statements[1] = statements[1].replace(CONDITION, "TRUE");
        }
        let texts: Vec<&str> = statements.iter().map(String::as_str).collect();
        self.session.send(&for_holder::<S>(&texts, shown));
        let reply = self.session.reply();
        assert_eq!(error(&reply), None);
        reply
            .first()
            .map(|value| value.parse().unwrap())
            .ok_or(Late)
    }
}

impl<S: Server> Resource for Row<S> {
    fn read(&mut self, shown: &Sequencer) -> Result<u64, Late> {
        self.ask(shown, "-- read", 0)
    }

    fn write(&mut self, shown: &Sequencer, value: u64) -> Result<(), Late> {
        assert_eq!(self.ask(shown, "-- write", value)?, value);
        Ok(())
    }
}

impl<S: Server> Dialect for Row<S> {
    const SEEN: &str = "SELECT fence FROM account";

    /// The rows are there before a holder comes, as those of an application are.
    fn set_up(session: &mut Session) {
        session.run(S::TABLE);
        for row in ["account", "Name", "name", "name%20", "n%C3%A4me"] {
            let row = format!("1.a.{row}").parse().unwrap();
            session.run(&for_holder::<S>(&[S::NEW_ROW], &row)[0]);
        }
    }

    fn admit(shown: &Sequencer) -> Vec<String> {
        for_holder::<S>(&update::<S>("-- read"), shown)
    }

    fn waiting(session: &mut Session) -> u64 {
        S::waiting(session)
    }

    fn resource(session: Session) -> Box<dyn Resource> {
        Row::<S>::of(session, true)
    }

    fn unchecked(session: Session) -> Box<dyn Resource> {
        Row::<S>::of(session, false)
    }
}

#[tokio::test]
async fn a_row_of_postgresql_refuses_whoever_is_late() {
    keeps_its_promises::<Row<Postgresql>>(Database::start(&postgresql::PROGRAMS)).await;
}

#[tokio::test]
async fn a_row_of_mariadb_refuses_whoever_is_late() {
    keeps_its_promises::<Row<MariaDb>>(Database::start(&mariadb::PROGRAMS)).await;
}
