//! MariaDB, and with it MySQL's dialect.

use leaselock::Sequencer;
use leaselock::fence_checker::sql::mysql::{ADMIT, RAISE, TABLE};

use super::Dialect;
use super::keeps_its_promises;
use super::server::{Database, Programs, Session};

const PROGRAMS: Programs = Programs {
    name: "MariaDB",
    packages: "mariadb-server-core mariadb-client-core",
    places: &["/usr/sbin"],
    all: ["mariadb-install-db", "mariadbd", "mariadb"],
    create: |folder| {
        let data = format!("--datadir={}/data", folder.display());
        let rest = ["--auth-root-authentication-method=normal", "--skip-test-db"];
        let words = ["--no-defaults", &data].into_iter().chain(rest);
        words.map(str::to_owned).collect()
    },
    serve: |folder| {
        let words = format!(
            "--no-defaults --datadir={0}/data --socket={0}/socket --pid-file={0}/pid --skip-networking \
             --innodb-flush-log-at-trx-commit=0 --innodb-use-native-aio=0",
            folder.display()
        );
        words.split(' ').map(str::to_owned).collect()
    },
    talk: |folder| {
        let words = format!(
            "--no-defaults --socket={}/socket --user=root --batch --skip-column-names --unbuffered --force \
             --default-character-set=utf8mb4",
            folder.display()
        );
        words.split(' ').map(str::to_owned).collect()
    },
};

struct MariaDb;

impl Dialect for MariaDb {
    fn set_up(session: &mut Session) {
        session.run("CREATE DATABASE IF NOT EXISTS test");
        session.run("USE test");
        session.run(TABLE);
        for (name, text) in [("raise_fence", RAISE), ("admit_fence", ADMIT)] {
            session.run(&format!("PREPARE {name} FROM '{text}'"));
        }
    }

    fn admit(shown: &Sequencer) -> Vec<String> {
        let (name, fence, owner) = (shown.name(), shown.fence(), shown.owner());
        vec![
            format!("SET @name = '{name}', @fence = {fence}, @owner = '{owner}'"),
            "EXECUTE raise_fence USING @name, @fence, @owner".to_owned(),
            "EXECUTE admit_fence USING @name, @fence, @owner".to_owned(),
        ]
    }

    /// The table `innodb_trx` will not do: it is made anew only when it was not read for 100 ms.
    fn waiting(session: &mut Session) -> u64 {
        let waiting = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'";
        let reply = session.run(waiting);
        reply[0].split('\t').next_back().unwrap().parse().unwrap()
    }
}

#[tokio::test]
async fn mariadb_refuses_whoever_is_late() {
    keeps_its_promises::<MariaDb>(Database::start(&PROGRAMS)).await;
}
