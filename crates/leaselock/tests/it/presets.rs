//! Locks of other libraries, meant by name: key, defaults, and that each side keeps the other out.
//!
//! What the libraries send is sent here by hand, as their sources have it.

use std::collections::BTreeMap;
use std::time::Duration;

use leaselock::detached::Handle;
use leaselock::interop::{Preset, Protocol};
use leaselock::options::Options;
use leaselock::{AcquireError, Client, Wait};
use testkit::{Server, Value};

use crate::support::{LONG, calls, is_free, millis, pttl, soon};

const PAGE: &str = include_str!("../../../../docs/sharing.md");

/// Compare and delete, as nearly all of them release.
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// Under which key each of them keeps the lock that its user calls `job`.
const KEYS: [(&str, &str); 25] = [
    ("bsm-redislock", "job"),
    ("distributed-lock-rs", "distributed-lock:job"),
    ("guide", "lock:job"),
    ("ioredis-lock", "job"),
    ("madelson", "job"),
    ("node-redlock", "job"),
    ("pottery", "redlock:job"),
    ("python-redis-lock", "lock:job"),
    ("redis-exp-lock", "job"),
    ("redis-lock", "lock.job"),
    ("redis-lock-0.0", "lock.job"),
    ("redis-lock-rs", "redlock:job"),
    ("redis-py", "job"),
    ("redis-semaphore", "mutex:job"),
    ("redislock", "job"),
    ("redisson", "job"),
    ("redlock-net", "redlock:job"),
    ("redlock-rb", "job"),
    ("redlock-rs", "job"),
    ("redlock-universal", "job"),
    ("redsync", "job"),
    ("rslock", "job"),
    ("rueidislock", "rueidislock:0:job"),
    ("shedlock", "job-lock:default:job"),
    ("warlock", "job:lock"),
];

async fn rig() -> (Server, Client) {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    (server, client)
}

#[tokio::test]
async fn each_side_keeps_the_other_out_under_the_key_of_the_library() {
    let (server, client) = rig().await;
    assert_eq!(KEYS.len(), Preset::all().len());
    for (library, key) in KEYS {
        let preset: Preset = library.parse().unwrap();
        assert_eq!(preset.name_for("job").unwrap().as_str(), key, "{library}");
        if preset.protocol() != Protocol::Native {
            continue; // they have a test of their own
        }
        let mutex = client
            .mutex("job")
            .ttl(LONG)
            .wait(Wait::Never)
            .preset(preset);
        assert_eq!(mutex.name(), Some(key), "{library}");
        let set = |value| server.cli(&["SET", key, value, "NX", "PX", "60000"]);

        assert_eq!(set("theirs").text(), Some("OK"), "{library}");
        assert!(mutex.try_acquire().await.unwrap().is_none(), "{library}");
        assert!(
            mutex.holder().await.unwrap().unwrap().is_foreign(),
            "{library}"
        );
        let released = server.cli(&["EVAL", RELEASE, "1", key, "theirs"]);
        assert_eq!(released.integer(), Some(1), "{library}");

        let lease = mutex.try_acquire().await.unwrap().unwrap();
        assert_eq!(lease.name().as_str(), key, "{library}");
        assert_eq!(set("theirs"), Value::Nil, "{library}");
        let late = server.cli(&["EVAL", RELEASE, "1", key, "theirs"]);
        assert_eq!(late.integer(), Some(0), "{library}");
        lease.release().await.unwrap();
        assert_eq!(set("theirs").text(), Some("OK"), "{library}");
        server.cli(&["DEL", key]);
    }
}

#[tokio::test]
async fn a_preset_brings_the_protocol_of_its_library() {
    let (server, client) = rig().await;
    let cases: [(Preset, &str, &[&str]); 3] = [
        (
            Preset::REDIS_LOCK_0_0,
            "lock.job",
            &["SETNX", "lock.job", "9999999999999"],
        ),
        (
            Preset::PYTHON_REDIS_LOCK,
            "lock:job",
            &["SET", "lock:job", "theirs", "NX", "EX", "60"],
        ),
        (Preset::REDISSON, "job", &["HSET", "job", "6ba7b810:1", "1"]),
    ];
    for (preset, key, theirs) in cases {
        let mutex = client
            .mutex("job")
            .ttl(LONG)
            .wait(Wait::Never)
            .preset(preset);
        let held = server.cli(theirs);
        assert!(
            held.integer() == Some(1) || held.text() == Some("OK"),
            "{held:?}"
        );
        server.cli(&["PEXPIRE", key, "60000"]);
        assert!(mutex.try_acquire().await.unwrap().is_none(), "{preset}");
        assert!(mutex.holder().await.unwrap().is_some(), "{preset}");
        server.cli(&["DEL", key]);

        let lease = mutex.try_acquire().await.unwrap().unwrap();
        assert_eq!(lease.fence(), None, "{preset}");
        let expected = if preset == Preset::REDISSON {
            "hash"
        } else {
            "string"
        };
        assert_eq!(
            server.cli(&["TYPE", key]).text(),
            Some(expected),
            "{preset}"
        );
        if preset != Preset::REDISSON {
            let refused = server.cli(theirs);
            assert!(
                refused == Value::Nil || refused.integer() == Some(0),
                "{refused:?}"
            );
        }
        lease.release().await.unwrap();
        assert_eq!(server.cli(&["EXISTS", key]).integer(), Some(0), "{preset}");
    }
    let rung = server.cli(&["LLEN", "lock-signal:job"]);
    assert_eq!(rung.integer(), Some(1), "the release has rung");
}

/// That library takes a key over whose value begins with the 22 characters of its own token.
#[tokio::test]
async fn a_library_that_compares_the_first_22_characters_never_takes_ours() {
    const OBTAIN: &str = "
        if redis.call('MSETNX', KEYS[1], ARGV[1]) == 0
            and redis.call('GETRANGE', KEYS[1], 0, 21) ~= string.sub(ARGV[1], 1, 22) then
            return 0
        end
        redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
        return 1";
    let (server, client) = rig().await;
    let mutex = client.mutex("job").ttl(LONG).preset(Preset::BSM_REDISLOCK);
    let obtain = |value: &str| server.cli(&["EVAL", OBTAIN, "1", "job", value, "60000"]);
    let mut heads = Vec::new();
    for _ in 0..3 {
        let lease = mutex.acquire().await.unwrap();
        assert_eq!(obtain("AAAAAAAAAAAAAAAAAAAAAA and more").integer(), Some(0));
        let value = server.cli(&["GET", "job"]).text().unwrap().to_owned();
        heads.push(value[..22].to_owned());
        lease.release().await.unwrap();
    }
    heads.dedup();
    assert_eq!(heads.len(), 3, "what it compares is new for each lease");
    assert_eq!(obtain("AAAAAAAAAAAAAAAAAAAAAA and more").integer(), Some(1));
    assert!(mutex.try_acquire().await.unwrap().is_none());
}

#[tokio::test]
async fn the_librarys_ttl_and_wait_hold_where_nothing_else_is_set() {
    let (server, client) = rig().await;
    let lease = client.mutex("job").preset(Preset::GUIDE).acquire().await;
    assert_eq!(lease.as_ref().unwrap().ttl(), Duration::from_secs(30));
    assert!(pttl(&server, "lock:job") > 29_000);
    // In whatever order, and also when it is a default of the client.
    let own = millis(7_000);
    let defaults = Options::default().ttl(own);
    let builder = Client::builder().url(&server.url()).defaults(defaults);
    let careful = builder.open().unwrap();
    for (mutex, expected) in [
        (client.mutex("a").ttl(own).preset(Preset::GUIDE), own),
        (client.mutex("b").preset(Preset::GUIDE).ttl(own), own),
        (careful.mutex("c").preset(Preset::GUIDE), own),
        (
            client.mutex("d").preset(Preset::REDIS_PY),
            leaselock::options::DEFAULT_TTL,
        ),
    ] {
        assert_eq!(mutex.acquire().await.unwrap().ttl(), expected);
    }
    let busy = client.mutex("job").preset(Preset::GUIDE).wait(Wait::Never);
    assert_eq!(tries(busy.acquire().await), 1);
    drop(lease);
}

/// Of an acquisition that was refused.
fn tries(outcome: Result<leaselock::Lease, AcquireError>) -> u32 {
    match outcome {
        Err(AcquireError::TimedOut { retries, .. }) => retries + 1,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_recipe_of_the_guide_tries_ten_times_and_says_so() {
    let (server, client) = rig().await;
    server.cli(&["SET", "lock:job", "theirs", "PX", "60000"]);
    server.cli(&["CONFIG", "RESETSTAT"]);
    let refused = soon(client.mutex("job").preset(Preset::GUIDE).acquire()).await;
    match &refused {
        Err(AcquireError::TimedOut { waited, .. }) => assert!(*waited >= millis(9 * 200)),
        other => panic!("{other:?}"),
    }
    assert_eq!(tries(refused), 10);
    assert_eq!(calls(&server, "evalsha"), 10);
}

#[tokio::test]
async fn what_the_locks_of_a_library_cannot_have_is_refused_and_nothing_is_sent() {
    let (server, client) = rig().await;
    let guide = || client.mutex("job").preset(Preset::GUIDE);
    let too_long = "x".repeat(510);
    let redisson = || client.mutex("job").preset(Preset::REDISSON);
    for (mutex, says) in [
        (
            redisson().protocol(Protocol::WatchMulti),
            "taken by the protocol redisson; leave watch-multi out",
        ),
        (
            client
                .mutex("job")
                .protocol(Protocol::Redisson)
                .preset(Preset::GUIDE),
            "taken by the protocol native; leave redisson out",
        ),
        (redisson().fencing(true), "does not support a fencing token"),
        (guide().ttl(millis(1_500)), "2 s would be right"),
        (
            client.mutex("job").ttl(millis(999)).preset(Preset::GUIDE),
            "1 s would be right",
        ),
        (
            guide().preset(Preset::REDSYNC),
            "is a lock of guide already",
        ),
        (client.mutex(too_long).preset(Preset::GUIDE), "at most 512"),
        (client.mutex("").preset(Preset::GUIDE), "at least one byte"),
    ] {
        let refusal = mutex.acquire().await.unwrap_err();
        assert!(matches!(refusal, AcquireError::Invalid(_)), "{refusal:?}");
        assert!(refusal.to_string().contains(says), "{refusal}");
        assert!(mutex.holder().await.is_err());
    }
    assert_eq!(calls(&server, "evalsha") + calls(&server, "eval"), 0);
    assert!(guide().ttl(millis(2_000)).acquire().await.is_ok());
    let old_way = client.mutex("old").protocol(Protocol::SetnxPexpire);
    assert!(
        old_way
            .preset(Preset::REDIS_EXP_LOCK)
            .acquire()
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn inspect_break_and_handles_know_the_lock_by_the_librarys_key() {
    let (_server, client) = rig().await;
    let mutex = client.mutex("job").ttl(LONG).preset(Preset::WARLOCK);
    let key = Preset::WARLOCK.name_for("job").unwrap();
    let handle = mutex.acquire().await.unwrap().detach().await.unwrap();
    let read: Handle = handle.to_secret_string().parse().unwrap();
    assert_eq!(client.attach(read).handle().name(), &key);
    assert_eq!(client.inspect(key.as_str()).await.unwrap().name, "job:lock");
    assert_eq!(client.list("*:lock").await.unwrap().len(), 1);
    let terms = leaselock::inspect::BreakOptions::default().now();
    client.break_lease(key.as_str(), terms).await.unwrap();
    assert!(is_free(&client, "job:lock").await);
}

fn seconds(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => format!("{} s", duration.as_secs()),
        _ => format!("{} ms", duration.as_millis()),
    }
}

fn waits(preset: Preset) -> String {
    match preset.wait() {
        Wait::Poll { count: Some(0), .. } => "1 try".to_owned(),
        Wait::Poll {
            count: Some(more),
            delay,
            jitter_percent,
        } => {
            let span = delay * u32::from(jitter_percent) / 100;
            let (from, to) = (delay - span, delay + span);
            match span.is_zero() {
                true => format!("{} tries, {} apart", more + 1, seconds(delay)),
                false => format!(
                    "{} tries, {} to {} apart",
                    more + 1,
                    from.as_millis(),
                    seconds(to)
                ),
            }
        }
        Wait::Timeout(limit) => format!("{}, queued", seconds(limit)),
        Wait::Forever => "for ever, queued".to_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_table_of_the_page_is_what_the_presets_are() {
    let (_, presets) = PAGE.split_once("\n## The presets\n").unwrap();
    let (presets, _) = presets.split_once("\n## ").unwrap();
    let rows = presets.lines().filter(|line| line.starts_with("| `"));
    let rows: BTreeMap<String, Vec<&str>> = rows
        .filter(|row| row.matches(" | ").count() == 5)
        .map(|row| {
            row.trim_matches('|')
                .split(" | ")
                .map(str::trim)
                .collect::<Vec<_>>()
        })
        .map(|cells| (cells[0].trim_matches('`').to_owned(), cells))
        .collect();
    assert_eq!(rows.len(), Preset::all().len());
    for preset in Preset::all() {
        let key = preset.name_for("NAME").unwrap();
        let ttl = preset.ttl().map_or("10 s, ours".to_owned(), seconds);
        let [_, read, found @ ..] = &rows[preset.library()][..] else {
            panic!("{preset}")
        };
        let expected = [
            format!("`{key}`"),
            ttl,
            waits(*preset),
            preset.note().to_owned(),
        ];
        assert_eq!(found, expected, "{preset}");
        assert!(
            read.chars().any(|c| c.is_ascii_digit()),
            "{preset}: no version"
        );
    }
}
