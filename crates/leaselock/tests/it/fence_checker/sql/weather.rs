//! A server of SQL that goes down in the middle of a transaction, and tables that are not what they should be.

use super::mariadb::{self, MariaDb};
use super::postgresql::{self, Postgresql};
use super::server::{Database, Programs, error};
use super::trigger::Trigger;
use super::{Dialect, admitted, shown, with_balance};

/// What was committed is there again, and what was not is gone with its admission. The caller gets an error of its
/// connection: neither a row nor no row.
fn a_server_that_goes_down_forgets_no_holder<D: Dialect>(programs: &'static Programs) {
    let Some(mut database) = Database::start(programs) else {
        return; // not installed
    };
    let mut session = with_balance(&database);
    D::set_up(&mut session);
    assert!(admitted::<D>(&mut session, &shown(34, "b")));
    session.run("BEGIN");
    assert!(admitted::<D>(&mut session, &shown(35, "c")));
    session.run("UPDATE balance SET value = 35");
    database.crash();
    for statements in [vec!["COMMIT".to_owned()], D::admit(&shown(35, "c"))] {
        session.send(&statements);
        assert_eq!(session.try_reply(), None);
    }
    assert_eq!(connect(&database), None);

    database.restart();
    let mut session = database.session();
    D::set_up(&mut session);
    assert!(!admitted::<D>(&mut session, &shown(33, "a")));
    assert!(admitted::<D>(&mut session, &shown(34, "b")));
    assert_eq!(session.run("SELECT value FROM balance"), ["0"]);
    assert!(admitted::<D>(&mut session, &shown(35, "c")));
}

fn connect(database: &Database) -> Option<Vec<String>> {
    let mut session = database.session();
    session.send(&["SELECT 1".to_owned()]);
    session.try_reply()
}

#[test]
fn postgresql_that_goes_down_forgets_no_holder() {
    a_server_that_goes_down_forgets_no_holder::<Postgresql>(&postgresql::PROGRAMS);
}

#[test]
fn postgresql_with_the_trigger_that_goes_down_forgets_no_holder() {
    a_server_that_goes_down_forgets_no_holder::<Trigger>(&postgresql::PROGRAMS);
}

#[test]
fn mariadb_that_goes_down_forgets_no_holder() {
    a_server_that_goes_down_forgets_no_holder::<MariaDb>(&mariadb::PROGRAMS);
}

/// The error names what is missing. It is not taken for "no row", and nothing is written.
fn a_table_that_lacks_its_column_is_an_error<D: Dialect>(programs: &'static Programs) {
    let Some(database) = Database::start(programs) else {
        return; // not installed
    };
    let mut session = with_balance(&database);
    D::set_up(&mut session);
    assert!(admitted::<D>(&mut session, &shown(34, "b")));
    for (damage, missing) in [
        ("ALTER TABLE fence_checker DROP COLUMN owner", "owner"),
        ("DROP TABLE fence_checker", "fence_checker"),
    ] {
        session.run(damage);
        for shown in [shown(33, "a"), shown(34, "b"), shown(35, "c")] {
            session.send(&D::admit(&shown));
            let reply = session.reply();
            let said = error(&reply).expect(damage);
            assert!(said.contains(missing), "{damage}: {reply:?}");
        }
    }
}

#[test]
fn a_table_of_postgresql_that_lacks_its_column_is_an_error() {
    a_table_that_lacks_its_column_is_an_error::<Postgresql>(&postgresql::PROGRAMS);
}

#[test]
fn a_table_of_the_trigger_that_lacks_its_column_is_an_error() {
    a_table_that_lacks_its_column_is_an_error::<Trigger>(&postgresql::PROGRAMS);
}

#[test]
fn a_table_of_mariadb_that_lacks_its_column_is_an_error() {
    a_table_that_lacks_its_column_is_an_error::<MariaDb>(&mariadb::PROGRAMS);
}
