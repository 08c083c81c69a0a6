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
/// again on the row that was committed, and gets none. Under REPEATABLE READ and SERIALIZABLE any holder whose
/// transaction waited for that of another may get the error 40001: repeat it, and a late one gets no row.
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

    /// Creates the function of a trigger, for statements that know nothing of fences. It needs the table.
    ///
    /// A trigger on a table refuses every statement that writes to it and is late, or shows no fencing token:
    /// ```sql
    /// CREATE TRIGGER fence_checker BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON account
    /// FOR EACH STATEMENT EXECUTE FUNCTION fence_checker('account');
    /// ```
    /// Its argument is the lock's name, because fences of different names cannot be compared. Without an argument the
    /// holder of any name is admitted.
    ///
    /// The transaction begins with [`SHOW`]. A trigger sees no reads, and the statement that it lets through works on
    /// what was committed before that statement began. So a transaction that reads, or that derives what it writes from
    /// rows, has [`ADMIT`] as its second statement.
    ///
    /// | SQLSTATE | the statement | do |
    /// |---|---|---|
    /// | `LK412` | of a holder that is late, or of another one with the same fence | stop |
    /// | `LK428` | without a fencing token | begin the transaction with [`SHOW`] |
    /// | `LK400` | with another lock's name, or with a fence that is no number of 1 to 16 digits | correct the program |
    ///
    /// Nothing was written, and the transaction can only be rolled back. The trigger sees no `SELECT`, and no
    /// statement on another table or on a partition that the statement names itself.
    pub const TRIGGER_FUNCTION: &str = "\
CREATE OR REPLACE FUNCTION fence_checker() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  lock_name TEXT := nullif(current_setting('leaselock.name', true), '');
  shown_fence TEXT := nullif(current_setting('leaselock.fence', true), '');
  shown_owner TEXT := nullif(current_setting('leaselock.owner', true), '');
  last RECORD;
BEGIN
  IF lock_name IS NULL OR shown_fence IS NULL OR shown_owner IS NULL THEN
    RAISE SQLSTATE 'LK428' USING MESSAGE = format('no fencing token is shown to the table %I', TG_TABLE_NAME);
  ELSIF lock_name <> TG_ARGV[0] THEN
    RAISE SQLSTATE 'LK400' USING MESSAGE =
      format('`%s` does not protect the table %I: `%s` does', lock_name, TG_TABLE_NAME, TG_ARGV[0]);
  ELSIF shown_fence !~ '^[1-9][0-9]{0,15}$' THEN
    RAISE SQLSTATE 'LK400' USING MESSAGE = format('`%s`: %L is no fencing token', lock_name, shown_fence);
  END IF;
  INSERT INTO fence_checker AS seen (name, fence, owner) VALUES (lock_name, shown_fence::BIGINT, shown_owner)
  ON CONFLICT (name) DO UPDATE SET fence = excluded.fence, owner = excluded.owner
  WHERE seen.fence < excluded.fence OR (seen.fence = excluded.fence AND seen.owner = excluded.owner);
  IF NOT FOUND THEN
    SELECT * INTO last FROM fence_checker WHERE name = lock_name;
    RAISE SQLSTATE 'LK412' USING MESSAGE =
      format('`%s`: the fencing token %s of owner %s is stale: the resource has seen %s of owner %s',
        lock_name, shown_fence, shown_owner, last.fence, last.owner);
  END IF;
  RETURN NULL;
END $$";

    /// Shows the holder `$1` (name), `$2` (fencing token), `$3` (owner) to the triggers, until the transaction ends.
    pub const SHOW: &str = "\
SELECT set_config('leaselock.name', $1, true), set_config('leaselock.fence', CAST($2 AS BIGINT)::TEXT, true),
  set_config('leaselock.owner', $3, true)";
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
/// its fencing token a second time would pass for a late one. The errors 1213 (deadlock) and 1020 (MariaDB with
/// `innodb_snapshot_isolation`, when the transaction has read before) have undone the transaction: repeat it.
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
