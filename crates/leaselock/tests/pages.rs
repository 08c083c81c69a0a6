//! What the pages in docs/ say, tried out: their code and their tables are read from the pages themselves.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::time::Duration;

use leaselock::Client;
use leaselock::inspect::BreakOptions;
use leaselock::limiter::Rate;
use leaselock_fence::{redis, sql};
use testkit::{Server, Value, wait_until};

const FENCING_SQL: &str = include_str!("../../../docs/fencing-sql.md");
const FENCING_RESOURCES: &str = include_str!("../../../docs/fencing-resources.md");
const KEYSPACE: &str = include_str!("../../../docs/keyspace.md");

/// The fenced code on a page that contains this text.
fn code<'a>(page: &'a str, containing: &str) -> &'a str {
    let blocks = page.split("```").skip(1).step_by(2);
    let mut bodies = blocks.filter_map(|block| block.split_once('\n').map(|(_, body)| body));
    bodies
        .find(|body| body.contains(containing))
        .unwrap_or_else(|| panic!("no code with {containing:?} on the page"))
}

fn texts(value: Value) -> Vec<Option<String>> {
    let Value::List(items) = value else {
        panic!("not an array: {value:?}")
    };
    items.into_iter().map(text).collect()
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::Bytes(bytes) => Some(String::from_utf8(bytes).unwrap()),
        Value::Status(text) => Some(text),
        _ => None,
    }
}

fn turns_stale_holders_away(resource: &InSql) {
    assert_eq!(resource.ask(33, "a", None), Ok("0".into()));
    // The next holder has only read, and the one before is out.
    assert_eq!(resource.ask(34, "b", None), Ok("0".into()));
    assert_eq!(resource.ask(33, "a", Some("100")), Err(()));
    assert_eq!(resource.ask(33, "a", None), Err(()));
    assert_eq!(resource.ask(34, "b", Some("7")), Ok("7".into()));
    assert_eq!(resource.ask(34, "b", Some("8")), Ok("8".into()));
    // The same number in other hands.
    assert_eq!(resource.ask(34, "twin", Some("0")), Err(()));
    assert_eq!(resource.ask(34, "twin", None), Err(()));
    // Numbers as large as they come.
    let (now, next) = (1_795_235_630_317_910, 1_795_235_630_317_911);
    assert_eq!(resource.ask(next, "d", None), Ok("8".into()));
    assert_eq!(resource.ask(now, "c", Some("0")), Err(()));
    assert_eq!(resource.ask(next, "d", None), Ok("8".into()));
}

#[test]
fn the_texts_of_the_fence_checkers_on_the_pages_are_those_of_the_library() {
    for text in [
        sql::postgresql::TABLE,
        sql::postgresql::ADMIT,
        sql::postgresql::TRIGGER_FUNCTION,
        sql::postgresql::SHOW,
        sql::sqlite::TABLE,
        sql::sqlite::ADMIT,
        sql::mysql::TABLE,
        sql::mysql::RAISE,
        sql::mysql::ADMIT,
    ] {
        assert!(FENCING_SQL.contains(text), "not on the page:\n{text}");
    }
    assert!(FENCING_RESOURCES.contains(redis::READ_OR_WRITE.trim_end()));
}

struct InSql(rusqlite::Connection);

impl InSql {
    /// `Ok` with the value, or `Err` when the caller is stale.
    fn ask(&self, fence: u64, owner: &str, value: Option<&str>) -> Result<String, ()> {
        let fence = i64::try_from(fence).unwrap();
        let column = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
        let row = match value {
            None => self.0.query_row(
                code(FENCING_SQL, "-- read"),
                rusqlite::named_params! {":fence": fence, ":owner": owner, ":id": 1},
                column,
            ),
            Some(value) => self.0.query_row(
                code(FENCING_SQL, "-- write"),
                rusqlite::named_params! {":fence": fence, ":owner": owner, ":id": 1, ":value": value},
                column,
            ),
        };
        row.map_err(|error| assert_eq!(error, rusqlite::Error::QueryReturnedNoRows))
    }
}

#[test]
fn a_row_with_a_fence_of_its_own_turns_stale_holders_away() {
    let database = rusqlite::Connection::open_in_memory().unwrap();
    let table =
        "CREATE TABLE account (id INTEGER PRIMARY KEY, value TEXT, fence BIGINT, owner TEXT);
                 INSERT INTO account VALUES (1, '0', 0, '')";
    database.execute_batch(table).unwrap();
    turns_stale_holders_away(&InSql(database));
}

/// Key and type of the rows of the keyspace page, the key as it is for this name and client.
fn keys_on_the_page(lock: &str, prefix: &str, client: &str) -> BTreeMap<String, String> {
    let rows = KEYSPACE.lines().filter(|line| line.starts_with("| "));
    let mut keys = BTreeMap::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let kind = cells[2];
        if !["string", "hash", "sorted set", "stream"].contains(&kind) {
            continue;
        }
        let key = cells[1].replace('`', "").replace('K', lock);
        let key = key.replace("*prefix*", prefix).replace("*id*", client);
        keys.insert(key, kind.replace("sorted set", "zset"));
    }
    keys
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keys_on_a_server_are_those_on_the_page() {
    let server = Server::start();
    let client = Client::builder()
        .url(&server.url())
        .prefix("app:")
        .open()
        .unwrap();
    let mutex = client.mutex("report").note("a note");
    let lease = mutex.acquire().await.unwrap();
    let waiter = tokio::spawn(async move { mutex.acquire_within(Duration::from_secs(20)).await });

    let mut expected = keys_on_the_page("app:report", "app:", client.id());
    // Only after an event; only on the node of a quorum, in strict mode, of a semaphore, of owners that wait, of an election, latch or barrier,
    // of a limiter, counter, once or cron.
    let others = [
        ":callers",
        ":gate",
        ":usage",
        ":owners:",
        ":leader",
        ":latch",
        ":barrier",
        ":passed",
        ":limiter",
        ":reserved",
        ":returned",
        ":counter",
        ":once",
        ":cron",
        ":events",
    ];
    expected.retain(|key, _| !others.iter().any(|other| key.contains(other)));
    assert_eq!(expected.len(), 6, "{expected:?}");
    let on_server = || texts(server.cli(&["KEYS", "*"])).len();
    wait_until(Duration::from_secs(10), "the note and the waiter", || {
        on_server() == expected.len()
    });
    for (key, kind) in &expected {
        assert_eq!(
            text(server.cli(&["TYPE", key])).as_ref(),
            Some(kind),
            "{key}"
        );
        let Value::Integer(pttl) = server.cli(&["PTTL", key]) else {
            panic!("{key}")
        };
        assert!(pttl > 0, "{key} has no ttl");
    }
    lease.release().await.unwrap();
    let lease = waiter.await.unwrap().unwrap();
    let terms = BreakOptions::default().now();
    client.break_lease("report", terms).await.unwrap();
    drop(lease);
    let events = "app:ll:events";
    let on_the_page = keys_on_the_page("app:report", "app:", client.id());
    assert_eq!(
        text(server.cli(&["TYPE", events])).as_ref(),
        on_the_page.get(events)
    );
    assert!(matches!(server.cli(&["PTTL", events]), Value::Integer(1..)));
}

#[tokio::test]
async fn the_record_of_a_once_is_that_on_the_page() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let once = client.once("mail");
    once.run(async |_| Ok::<_, String>("sent")).await.unwrap();
    let key = "{mail}:ll:once";
    let keys = keys_on_the_page("mail", "", client.id());
    assert_eq!(text(server.cli(&["TYPE", key])).as_ref(), keys.get(key));
}

#[tokio::test]
async fn the_record_of_a_cron_is_that_on_the_page() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let cron = client.cron("nightly");
    let now = cron.state().await.unwrap().now;
    let run = cron.claim(now).await.unwrap();
    let key = "{nightly}:ll:cron";
    let keys = keys_on_the_page("nightly", "", client.id());
    assert_eq!(text(server.cli(&["TYPE", key])).as_ref(), keys.get(key));
    drop(run);
}

#[tokio::test]
async fn the_keys_of_a_semaphore_are_those_on_the_page() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let permit = client.semaphore("pool", 2).acquire().await.unwrap();
    let keys = keys_on_the_page("pool", "", client.id());
    let usage = "{pool}:ll:usage";
    let on_page = [("pool", "zset"), (usage, keys[usage].as_str())];
    for (key, kind) in on_page {
        assert_eq!(text(server.cli(&["TYPE", key])).as_deref(), Some(kind));
        assert!(
            matches!(server.cli(&["PTTL", key]), Value::Integer(1..)),
            "{key}"
        );
    }
    permit.release().await.unwrap();
    assert_eq!(server.cli(&["EXISTS", "pool"]), Value::Integer(0));
}

#[tokio::test]
async fn the_key_of_an_election_is_that_on_the_page() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let leading = client.election("job").campaign().await.unwrap();
    leading.proclaimed().await.unwrap();
    let keys = keys_on_the_page("job", "", client.id());
    let leader = "{job}:ll:leader";
    assert_eq!(
        text(server.cli(&["TYPE", leader])).as_deref(),
        Some(keys[leader].as_str())
    );
    leading.release().await.unwrap();
    assert_eq!(server.cli(&["EXISTS", leader, "job"]), Value::Integer(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keys_of_latch_and_barrier_are_those_on_the_page() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    client.latch("job", 2).arrive("a").await.unwrap();
    client.barrier("job", 1).wait().await.unwrap();
    let waits = client.barrier("job", 2);
    let waits = tokio::spawn(async move { waits.wait().await });
    let keys = keys_on_the_page("job", "", client.id());
    for key in ["{job}:ll:latch", "{job}:ll:barrier", "{job}:ll:passed"] {
        wait_until(Duration::from_secs(10), key, || {
            server.cli(&["EXISTS", key]) == Value::Integer(1)
        });
        let kind = text(server.cli(&["TYPE", key]));
        assert_eq!(kind.as_ref(), Some(&keys[key]), "{key}");
        assert!(
            matches!(server.cli(&["PTTL", key]), Value::Integer(1..)),
            "{key}"
        );
    }
    client.barrier("job", 2).wait().await.unwrap();
    waits.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keys_of_limiter_and_counter_are_those_on_the_page() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let limiter = client.limiter("job", Rate::per_hour(1));
    limiter.acquire().await.unwrap();
    let waits = [0; 2].map(|_| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.acquire().await })
    });
    let reserved = || server.cli(&["ZCARD", "{job}:ll:reserved"]);
    wait_until(Duration::from_secs(10), "both wait", || {
        reserved() == Value::Integer(2)
    });
    client.counter("job").incr().await.unwrap();
    let keys = keys_on_the_page("job", "", client.id());
    let latest = format!("{{job}}:ll:counter:{}", client.id());
    for (key, has_ttl) in [
        ("{job}:ll:limiter", true),
        ("{job}:ll:reserved", true),
        ("{job}:ll:counter", false),
        (&latest, true),
    ] {
        let kind = text(server.cli(&["TYPE", key]));
        assert_eq!(kind.as_ref(), Some(&keys[key]), "{key}");
        let ttl = server.cli(&["PTTL", key]);
        assert_eq!(matches!(ttl, Value::Integer(1..)), has_ttl, "{key}");
    }
    assert_eq!(keys["{job}:ll:returned"], "zset");
    for waits in waits {
        waits.abort();
    }
}

#[tokio::test]
async fn the_key_of_an_owner_that_holds_and_waits_is_the_one_on_the_page() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let me = client.owner("import 42");
    let held = client.mutex("held").owner(&me).acquire().await.unwrap();
    let theirs = client.mutex("report").acquire().await.unwrap();
    let wanted = client.mutex("report").owner(&me);
    let waiter = tokio::spawn(async move { wanted.acquire().await });
    let key = format!("ll:owners:{}", client.id());
    let kind = keys_on_the_page("report", "", client.id())[&key].clone();
    let there = async || text(server.cli(&["TYPE", &key])) == Some(kind.clone());
    let published = async {
        while !there().await {
            tokio::time::sleep(Duration::from_millis(2)).await; // between two checks of the condition
        }
    };
    let published = tokio::time::timeout(Duration::from_secs(10), published);
    published.await.unwrap();
    assert!(matches!(server.cli(&["PTTL", &key]), Value::Integer(1..)));
    theirs.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    held.release().await.unwrap();
}

/// Calls of this command since the last `CONFIG RESETSTAT`.
fn calls(server: &Server, command: &str) -> u64 {
    let stats = text(server.cli(&["INFO", "commandstats"])).unwrap();
    let prefix = format!("cmdstat_{command}:calls=");
    let line = stats.lines().find_map(|line| line.strip_prefix(&prefix));
    let digits = line.and_then(|rest| rest.split(',').next());
    digits.map_or(0, |digits| digits.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn round_trips_are_as_few_as_the_page_about_the_mutex_says() {
    const TIMES: u64 = 20;
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let mutex = client.mutex("report");
    // The first use sends the scripts and says who the client is; the first wait subscribes.
    let lease = mutex.acquire().await.unwrap();
    let first = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.acquire().await.unwrap().release().await }
    });
    wait_until(Duration::from_secs(10), "the first wait", || {
        server.cli(&["ZCARD", "{report}:ll:queue"]) == Value::Integer(1)
    });
    lease.release().await.unwrap();
    first.await.unwrap().unwrap();
    wait_until(Duration::from_secs(10), "the client's record", || {
        text(server.cli(&["GET", &format!("ll:client:{}", client.id())])).is_some()
    });

    server.cli(&["CONFIG", "RESETSTAT"]);
    for _ in 0..TIMES {
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
    assert_eq!(calls(&server, "evalsha"), 2 * TIMES);

    let lease = mutex.acquire().await.unwrap();
    server.cli(&["CONFIG", "RESETSTAT"]);
    // Without renewal each stands by itself, as if it were of a client of its own.
    let waiters: Vec<_> = (0..TIMES)
        .map(|_| {
            let mutex = mutex.clone().renewal(false);
            tokio::spawn(async move { mutex.acquire().await.unwrap().release().await })
        })
        .collect();
    wait_until(Duration::from_secs(10), "everybody is in line", || {
        server.cli(&["ZCARD", "{report}:ll:queue"]) == Value::Integer(20)
    });
    lease.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
    // Ours is the one release more.
    assert_eq!(calls(&server, "evalsha"), 2 * TIMES + 1);
    // On a machine so busy that one has waited for long, the client asks whether it may publish.
    let told = calls(&server, "publish");
    assert!(told == TIMES || told == TIMES + 1, "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_wait_of_a_client_costs_one_request_more() {
    let server = Server::start();
    let [holder, waiter] = [0, 1].map(|_| Client::open(&server.url()).unwrap());
    let lease = holder.mutex("report").acquire().await.unwrap();
    let said = |client: &Client| {
        let record = format!("ll:client:{}", client.id());
        wait_until(Duration::from_secs(10), "a client's record", || {
            text(server.cli(&["GET", &record])).is_some()
        });
    };
    said(&holder);
    server.cli(&["CONFIG", "RESETSTAT"]);
    let mutex = waiter.mutex("report");
    let served = tokio::spawn(async move { mutex.acquire().await.unwrap().release().await });
    wait_until(Duration::from_secs(10), "the first wait", || {
        server.cli(&["ZCARD", "{report}:ll:queue"]) == Value::Integer(1)
    });
    lease.release().await.unwrap();
    served.await.unwrap().unwrap();
    said(&waiter);
    // A try, and then as always: queued, release. Beside them the holder's release, and who the waiter is.
    assert_eq!(calls(&server, "evalsha"), 3 + 2);
}

/// The bytes that the table of memory gives for the row that begins so.
fn bytes_on_the_page(row: &str) -> i64 {
    let line = KEYSPACE.lines().find(|line| line.starts_with(row));
    let cell = line.unwrap().trim_end_matches('|').rsplit('|').next();
    let numbers = cell.unwrap().split('+').map(str::trim);
    numbers.map(|number| number.parse::<i64>().unwrap()).sum()
}

/// Servers differ in how they store a value: the page may say up to a third too little, or twice too much.
#[tokio::test(flavor = "multi_thread")]
async fn keys_take_about_as_much_memory_as_the_page_says() {
    const NAME: &str = "nightly-report";
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let used = |key: &str| server.cli(&["MEMORY", "USAGE", key]).integer().unwrap();
    let is_about = |row: &str, seen: i64| {
        let said = bytes_on_the_page(row);
        assert!(
            seen * 3 <= said * 4 && said <= seen * 2,
            "{row} {said}: {seen} seen"
        );
    };
    let fence = format!("{{{NAME}}}:ll:fence");
    let note = format!("{{{NAME}}}:ll:why");
    let noted = client.mutex(NAME).note("a note of 20 letters");
    let lease = noted.acquire().await.unwrap();
    wait_until(Duration::from_secs(10), "the note", || {
        server.cli(&["EXISTS", &note]) == Value::Integer(1)
    });
    is_about("| a lock that is held", used(NAME) + used(&fence));
    is_about("| a name that was used", used(&fence));
    is_about("| a note of 20", used(&note));
    let [queue, waiting] = ["queue", "waiters"].map(|key| format!("{{{NAME}}}:ll:{key}"));
    let mut waiters = tokio::task::JoinSet::new();
    let mut queue_of = |length: usize| {
        while waiters.len() < length {
            let mutex = client.mutex(NAME).renewal(false); // an entry of its own
            waiters.spawn(async move { mutex.acquire().await.map(drop) });
        }
        let length = i64::try_from(length).unwrap();
        wait_until(Duration::from_secs(10), "the waiters are in line", || {
            server.cli(&["ZCARD", &queue]) == Value::Integer(length)
        });
        used(&queue) + used(&waiting)
    };
    let (one, hundred) = (queue_of(1), queue_of(100));
    is_about("| a queue of 1 waiter", one);
    is_about("| each further waiter", (hundred - one) / 99);
    drop(lease);

    let once = client.once("mail");
    once.run(async |_| Ok::<_, String>("sent")).await.unwrap();
    let record = used("{mail}:ll:once");
    assert!(record <= 512, "docs/once.md says 0.4 KiB: {record}");
}
