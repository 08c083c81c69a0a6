//! MariaDB, and with it MySQL's dialect.

use leaselock::Sequencer;
use leaselock_fence::sql::mysql::{ADMIT, RAISE, TABLE};
use rustix::process::Signal;

use super::server::{Database, Programs, Session, error};
use super::{Dialect, Resource, admitted, keeps_its_promises, shown};

pub(super) const PROGRAMS: Programs = Programs {
    name: "MariaDB",
    packages: "mariadb-server-core mariadb-client-core",
    places: &["/usr/sbin"],
    all: ["mariadb-install-db", "mariadbd", "mariadb"],
    create: |folder| {
        // Servers that share a folder for temporary tables delete each other's when they start.
        let words = format!(
            "--no-defaults --datadir={0}/data --tmpdir={0} --auth-root-authentication-method=normal",
            folder.display()
        );
        words.split(' ').map(str::to_owned).collect()
    },
    serve: |folder| {
        let words = format!(
            "--no-defaults --datadir={0}/data --tmpdir={0} --socket={0}/socket --pid-file={0}/pid --skip-networking \
             --innodb-flush-log-at-trx-commit=2 --innodb-use-native-aio=0 \
             --loose-innodb-snapshot-isolation=OFF",
            folder.display()
        );
        words.split(' ').map(str::to_owned).collect()
    },
    talk: |folder| {
        let words = format!(
            "--no-defaults --socket={}/socket --user=root --batch --skip-column-names --unbuffered --force \
             --default-character-set=utf8mb4 test",
            folder.display()
        );
        words.split(' ').map(str::to_owned).collect()
    },
    print_end: "SELECT '-- end of the reply';\n",
    crash: Signal::KILL,
};

pub(super) struct MariaDb;

impl Dialect for MariaDb {
    fn set_up(session: &mut Session) {
        session.run(TABLE);
        prepare(session, RAISE, ADMIT);
    }

    fn admit(shown: &Sequencer) -> Vec<String> {
        let (name, fence, owner) = (shown.name(), shown.fence(), shown.owner());
        vec![
            format!("SET @name = '{name}', @fence = {fence}, @owner = '{owner}'"),
            "EXECUTE raise_fence USING @name, @fence, @owner".to_owned(),
            "EXECUTE admit_fence USING @name, @fence, @owner".to_owned(),
        ]
    }

    fn unchecked(mut session: Session) -> Box<dyn Resource> {
        let all_pass = ADMIT.replace("fence = ? AND owner = ?", "? > 0 AND ? IS NOT NULL");
        prepare(&mut session, RAISE, &all_pass);
        Self::resource(session)
    }

    fn waiting(session: &mut Session) -> u64 {
        waiting(session)
    }

    fn promises_more(open: &mut dyn FnMut() -> Session) {
        snapshot_isolation_reports_the_conflict(open);
    }
}

/// The late holder gets an error, its transaction is over, and the one that is repeated is refused.
fn snapshot_isolation_reports_the_conflict(open: &mut dyn FnMut() -> Session) {
    let [mut late, mut next] = [open(), open()];
    late.run("SET innodb_snapshot_isolation = ON");
    assert!(admitted::<MariaDb>(&mut late, &shown(63, "a")));
    late.run("BEGIN");
    late.run(MariaDb::SEEN);
    assert!(admitted::<MariaDb>(&mut next, &shown(64, "b")));
    late.send(&MariaDb::admit(&shown(63, "a")));
    let reply = late.reply();
    assert!(
        error(&reply).unwrap().starts_with("ERROR 1020"),
        "{reply:?}"
    );
    assert_eq!(late.run("SELECT @@in_transaction"), ["0"]);
    late.run("BEGIN");
    assert!(!admitted::<MariaDb>(&mut late, &shown(63, "a")));
    late.run("ROLLBACK");
}

/// The table `innodb_trx` will not do: it is made anew only when it was not read for 100 ms.
pub(super) fn waiting(session: &mut Session) -> u64 {
    let waiting = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'";
    let reply = session.run(waiting);
    reply[0].split('\t').next_back().unwrap().parse().unwrap()
}

fn prepare(session: &mut Session, raise: &str, admit: &str) {
    for (name, text) in [("raise_fence", raise), ("admit_fence", admit)] {
        session.run(&format!("PREPARE {name} FROM '{text}'"));
    }
}

#[tokio::test]
async fn mariadb_refuses_whoever_is_late() {
    keeps_its_promises::<MariaDb>(Database::start(&PROGRAMS)).await;
}
