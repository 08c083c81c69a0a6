//! The fence checkers of databases: statements that run in the transaction of the work.
//!
//! A table has one row for each name, with the largest fencing token that was shown and its owner. The transaction
//! begins with `ADMIT`. **A row in the reply: the holder is admitted. No row: it is late; roll back and stop.** The
//! row stays locked until the transaction ends, so the next holder is admitted after the work and not in its middle. A
//! rollback takes the admission back together with the work.
//!
//! Three rules, whatever the database:
//! - `ADMIT` comes first. What the transaction has read before it may be older than the work of the holder before.
//! - Reading is work too: a holder that only reads begins with `ADMIT` as well, and so shuts out the one before it.
//! - What is derived from a read is written in the same transaction, or in a later one that begins with `ADMIT`.
//!
//! The parameters of `ADMIT` are the name, the fencing token (a 64-bit integer) and the owner of the
//! [`Sequencer`](crate::Sequencer), in this order.

/// PostgreSQL.
///
/// READ COMMITTED, the default, is enough: a late holder that waits for the row of the next one checks the condition
/// again on the row that was committed, and gets none. Under REPEATABLE READ and SERIALIZABLE it gets the error 40001
/// there; the transaction that is then repeated gets no row.
pub mod postgresql {
    /// Creates the table.
    pub const TABLE: &str = "\
CREATE TABLE IF NOT EXISTS fence_checker (
  name TEXT PRIMARY KEY,
  fence BIGINT NOT NULL,
  owner TEXT NOT NULL
)";

    /// Admits the holder `$1` (name), `$2` (fencing token), `$3` (owner): one row, or no row for one that is late.
    pub const ADMIT: &str = "\
INSERT INTO fence_checker AS seen (name, fence, owner) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET fence = excluded.fence, owner = excluded.owner
WHERE seen.fence < excluded.fence OR (seen.fence = excluded.fence AND seen.owner = excluded.owner)
RETURNING fence";
}

/// SQLite from 3.35 on, the first with `RETURNING`.
///
/// Writers take turns, and a transaction sees no change of others while it lasts. `ADMIT` writes, so as the first
/// statement it makes the transaction a writer at once; `BEGIN IMMEDIATE` does the same.
pub mod sqlite {
    /// Creates the table.
    pub const TABLE: &str = "\
CREATE TABLE IF NOT EXISTS fence_checker (
  name TEXT PRIMARY KEY,
  fence INTEGER NOT NULL,
  owner TEXT NOT NULL
) WITHOUT ROWID";

    /// Admits the holder `?1` (name), `?2` (fencing token), `?3` (owner): one row, or no row for one that is late.
    pub const ADMIT: &str = "\
INSERT INTO fence_checker AS seen (name, fence, owner) VALUES (?1, ?2, ?3)
ON CONFLICT (name) DO UPDATE SET fence = excluded.fence, owner = excluded.owner
WHERE seen.fence < excluded.fence OR (seen.fence = excluded.fence AND seen.owner = excluded.owner)
RETURNING fence";
}

/// MySQL and MariaDB: two statements, [`RAISE`](mysql::RAISE) and then [`ADMIT`](mysql::ADMIT), each with the same
/// parameters.
///
/// Any isolation level: both statements read what is committed, and lock the row, also under REPEATABLE READ, the
/// default. Neither asks how many rows were changed: MySQL counts 0 for a row that is as it was, so a holder that shows
/// its fencing token a second time would pass for a late one. An error 1213 (deadlock) has undone the transaction:
/// repeat it.
pub mod mysql {
    /// Creates the table. Names are compared byte by byte, and the engine has transactions.
    pub const TABLE: &str = "\
CREATE TABLE IF NOT EXISTS fence_checker (
  name VARBINARY(512) PRIMARY KEY,
  fence BIGINT NOT NULL,
  owner VARBINARY(64) NOT NULL
) ENGINE = InnoDB";

    /// Keeps the larger fencing token, and locks the row. The owner comes first, while `fence` is the old one.
    pub const RAISE: &str = "\
INSERT INTO fence_checker (name, fence, owner) VALUES (?, ?, ?)
ON DUPLICATE KEY UPDATE
  owner = IF(fence < VALUES(fence), VALUES(owner), owner),
  fence = GREATEST(fence, VALUES(fence))";

    /// Admits the holder: one row, or no row for one that is late. `FOR UPDATE` reads past the transaction's snapshot.
    pub const ADMIT: &str = "\
SELECT fence FROM fence_checker WHERE name = ? AND fence = ? AND owner = ? FOR UPDATE";
}
