//! The statements for SQLite, in a database file.

use leaselock::Sequencer;
use leaselock_fence::sql::sqlite::{ADMIT, TABLE};
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};

use super::{Late, Resource, refuses_whoever_is_late, rounds, shown};

struct InSqlite(Connection);

const BALANCE: &str = "CREATE TABLE IF NOT EXISTS balance (value INTEGER NOT NULL)";

fn open(folder: &testkit::TempDir) -> Connection {
    let database = Connection::open(folder.path().join("database")).unwrap();
    database
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF")
        .unwrap();
    for table in [TABLE, BALANCE] {
        database.execute_batch(table).unwrap();
    }
    database
}

fn admit(database: &Connection, shown: &Sequencer) -> Result<(), Late> {
    let fence = i64::try_from(shown.fence().get()).unwrap();
    let row = params![shown.name().as_str(), fence, shown.owner()];
    let admitted = database.query_row(ADMIT, row, |row| row.get::<_, i64>(0));
    admitted.optional().unwrap().map(drop).ok_or(Late)
}

impl InSqlite {
    fn within<T>(
        &mut self,
        shown: &Sequencer,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Late> {
        let transaction = self
            .0
            .transaction_with_behavior(TransactionBehavior::Deferred)
            .unwrap();
        admit(&transaction, shown)?; // an error rolls back
        let outcome = work(&transaction).unwrap();
        transaction.commit().unwrap();
        Ok(outcome)
    }
}

impl Resource for InSqlite {
    fn read(&mut self, shown: &Sequencer) -> Result<u64, Late> {
        let sum = "SELECT coalesce(max(value), 0) FROM balance";
        self.within(shown, |database| {
            database.query_row(sum, [], |row| row.get(0))
        })
    }

    fn write(&mut self, shown: &Sequencer, value: u64) -> Result<(), Late> {
        self.within(shown, |database| {
            database.execute("DELETE FROM balance", [])?;
            database
                .execute("INSERT INTO balance VALUES (?1)", [value])
                .map(drop)
        })
    }
}

#[tokio::test]
async fn sqlite_refuses_whoever_is_late() {
    let folder = testkit::tempdir().unwrap();
    refuses_whoever_is_late(&mut InSqlite(open(&folder)), rounds(500, 10_000)).await;
}

#[test]
fn a_rollback_in_sqlite_takes_the_admission_back() {
    let folder = testkit::tempdir().unwrap();
    let mut database = open(&folder);
    let undone = database.transaction().unwrap();
    assert_eq!(admit(&undone, &shown(34, "b")), Ok(()));
    undone.rollback().unwrap();
    assert_eq!(admit(&database, &shown(33, "a")), Ok(()));
    assert_eq!(admit(&database, &shown(34, "b")), Ok(()));
    assert_eq!(admit(&database, &shown(33, "a")), Err(Late));
}

/// A transaction that has read before it asks is refused by SQLite itself, because its snapshot is old.
#[test]
fn a_transaction_of_sqlite_that_has_read_before_it_asks_cannot_write() {
    let folder = testkit::tempdir().unwrap();
    let (mut late, now) = (open(&folder), open(&folder));
    let reading = late.transaction().unwrap();
    let count = "SELECT count(*) FROM fence_checker";
    assert_eq!(reading.query_row(count, [], |row| row.get(0)), Ok(0));
    assert_eq!(admit(&now, &shown(34, "b")), Ok(()));
    let row = params!["account", 35, "c"];
    let refused = reading.query_row(ADMIT, row, |_| Ok(())).unwrap_err();
    let code = refused.sqlite_error_code();
    assert_eq!(code, Some(rusqlite::ErrorCode::DatabaseBusy), "{refused}");
}

#[test]
fn a_table_of_sqlite_that_lacks_its_column_is_an_error() {
    let database = Connection::open_in_memory().unwrap();
    let said = database.prepare(ADMIT).unwrap_err().to_string();
    assert!(said.contains("no such table: fence_checker"), "{said}");
    let other = "CREATE TABLE fence_checker (name TEXT PRIMARY KEY, fence INTEGER)";
    for table in [other, TABLE] {
        database.execute_batch(table).unwrap();
    }
    let said = database.prepare(ADMIT).unwrap_err().to_string();
    assert!(said.contains("no column named owner"), "{said}");
}
