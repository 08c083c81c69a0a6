//! What many tests need: waiting for something to be so, and checking what is left behind.

use std::future::Future;
use std::time::Duration;

use leaselock::{AcquireError, Client, Lease};
use testkit::{Server, clock};
use tokio::task::JoinHandle;

/// How long anything may take that happens at once on an idle machine. Shorter than [`LONG`], so that what is seen
/// within it was not brought about by an expiry.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// A lease that does not end by itself while a test runs, and that outlives every timer of a waiter.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Polls until the condition holds; panics with `what` when it does not in time.
#[track_caller]
pub(crate) fn eventually(
    what: &str,
    mut condition: impl AsyncFnMut() -> bool,
) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let end = clock::now() + PATIENCE;
        while !condition().await {
            assert!(
                clock::now() < end,
                "{caller}: not within {PATIENCE:?}: {what}"
            );
            tokio::time::sleep(Duration::from_millis(2)).await; // between two reads of the condition
        }
    }
}

/// Fails rather than hangs.
#[track_caller]
pub(crate) fn soon<T>(future: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(PATIENCE, future).await {
            Ok(value) => value,
            Err(_) => panic!("{caller}: not within {PATIENCE:?}"),
        }
    }
}

/// The head of a queue polls by timer after five seconds: what happens before that, a message has brought about.
pub(crate) const BEFORE_A_POLL: Duration = Duration::from_secs(4);

/// Fails when only a poll by timer brings it about.
#[track_caller]
pub(crate) fn by_message<T>(future: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(BEFORE_A_POLL, future).await {
            Ok(value) => value,
            Err(_) => panic!("{caller}: no message brought it about"),
        }
    }
}

/// Waits in the queue in a task of its own.
pub(crate) fn waiter(
    client: &Client,
    name: &str,
    ttl: Duration,
) -> JoinHandle<Result<Lease, AcquireError>> {
    let mutex = client.mutex(name).ttl(ttl);
    tokio::spawn(async move { mutex.acquire().await })
}

/// No client may hear over the connection of the requests, so messages have a connection of their own from the beginning.
pub(crate) fn apart(server: &testkit::Server) {
    // Eight characters of client, and nothing behind them.
    let channels = "&*ll:wake:????????";
    let set = server.cli(&["ACL", "SETUSER", "default", "resetchannels", channels]);
    assert!(!set.is_error());
}

/// The channels on which clients wait.
pub(crate) fn channels(server: &testkit::Server) -> Vec<String> {
    let channels = server.cli(&["PUBSUB", "CHANNELS", "*"]);
    let text = |channel: &testkit::Value| channel.text().unwrap().to_owned();
    channels.list().unwrap().iter().map(text).collect()
}

/// Waits until the queue of the name has this length.
pub(crate) async fn until_queued(client: &Client, name: &str, count: usize) {
    eventually("the waiters are in the queue", async || {
        client.inspect(name).await.unwrap().queue.len() == count
    })
    .await;
}

/// Taken, extended, and handed to the one who waits.
pub(crate) async fn goes_from_hand_to_hand(one: &Client, other: &Client, name: &str) {
    let lease = soon(one.mutex(name).ttl(LONG).acquire()).await.unwrap();
    let next = waiter(other, name, LONG);
    until_queued(one, name, 1).await;
    lease.extend(LONG).await.unwrap();
    lease.release().await.unwrap();
    let next = by_message(next).await.unwrap().unwrap();
    next.release().await.unwrap();
}

pub(crate) async fn is_free(client: &Client, name: &str) -> bool {
    let seen = client.inspect(name).await.unwrap();
    seen.state == leaselock::inspect::Holding::Free && seen.queue.is_empty()
}

/// Until a client's own thread, which starts with its first wait or lease, has said who the client is.
pub(crate) async fn introduced(server: &Server, client: &Client) {
    let record = format!("ll:client:{}", client.id());
    eventually("it has said who it is", async || {
        server.cli(&["EXISTS", &record]).integer() == Some(1)
    })
    .await;
}

/// Keys that belong to a lease or a queue entry. Fences, the event log and what clients say about
/// themselves may stay.
pub(crate) fn leftovers(server: &Server) -> Vec<String> {
    let keys = server.cli(&["SCAN", "0", "COUNT", "100000"]);
    let text = |key: &testkit::Value| key.text().unwrap().to_owned();
    let mut left: Vec<String> = keys.list().unwrap()[1]
        .list()
        .unwrap()
        .iter()
        .map(text)
        .collect();
    let stays = |key: &str| key.ends_with(":fence") || key.ends_with("ll:events");
    left.retain(|key| !stays(key) && !key.contains("ll:client:"));
    left
}

/// The latest fencing token of the name; `None` without its key.
pub(crate) fn latest_fence(server: &Server, name: &str) -> Option<u64> {
    let info = server.cli(&["XINFO", "STREAM", &format!("{{{name}}}:ll:fence")]);
    let fields = info.list()?;
    let field = |pair: &&[testkit::Value]| pair[0].text() == Some("last-generated-id");
    let (ms, count) = fields.chunks(2).find(field)?[1].text()?.split_once('-')?;
    Some(ms.parse::<u64>().unwrap() * 1_000 + count.parse::<u64>().unwrap())
}

/// As if the latest grant had this number, which is larger than all before it.
pub(crate) fn set_fence(server: &Server, name: &str, number: u64) {
    let key = format!("{{{name}}}:ll:fence");
    let id = format!("{}-{}", number / 1_000, number % 1_000);
    let set = server.cli(&["XADD", &key, "MAXLEN", "0", &id, "-", "-"]);
    assert_eq!(set.text(), Some(&*id));
}

/// The server's `TIME` in microseconds.
pub(crate) fn time_us(server: &Server) -> u64 {
    let time = server.cli(&["TIME"]);
    let part = |at: usize| -> u64 { time.list().unwrap()[at].text().unwrap().parse().unwrap() };
    part(0) * 1_000_000 + part(1)
}

/// How far the first fencing token of a new key is ahead of the server's clock, and none is further.
pub(crate) const FENCE_AHEAD_US: u64 = 2_000;

/// Of the versions that are tested this one lets scripts write whatever `min-replicas-to-write` says.
pub(crate) fn lets_scripts_write(server: &Server) -> bool {
    let info = server.cli(&["INFO", "server"]);
    info.text().unwrap().contains("redis_version:6.2.5\r")
}

/// Milliseconds until the key ends; negative as `PTTL` has it.
pub(crate) fn pttl(server: &Server, key: &str) -> i64 {
    server.cli(&["PTTL", key]).integer().unwrap()
}

pub(crate) fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Calls of this command since the last `CONFIG RESETSTAT`.
pub(crate) fn calls(server: &Server, command: &str) -> usize {
    let stats = server.cli(&["INFO", "commandstats"]);
    calls_in(stats.text().unwrap(), command)
}

fn calls_in(stats: &str, command: &str) -> usize {
    let head = format!("cmdstat_{command}:calls=");
    let count = stats.lines().find_map(|line| line.strip_prefix(&head));
    count.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

/// How often waiters of a mutex have joined the queue, polled in vain, or left it. All ask for their rank but who joins
/// by the plain wait, which adds an entry with no `HSET`. Entries of the event log are added so too, and do not count.
pub(crate) fn polls_sent(server: &Server) -> usize {
    const COUNTED: &str = "
        local logged = 0
        for db = 0, 15 do
          if redis.pcall('SELECT', db).err then break end
          for _, events in ipairs(redis.call('KEYS', '*ll:events')) do logged = logged + redis.call('ZCARD', events) end
        end
        return { logged, redis.call('INFO', 'commandstats') }";
    let counted = server.cli(&["EVAL", COUNTED, "0"]); // at one moment
    let [logged, stats] = counted.list().unwrap() else {
        panic!("{counted:?}")
    };
    let logged: usize = logged.integer().unwrap().try_into().unwrap();
    let calls = |command| calls_in(stats.text().unwrap(), command);
    calls("zrank") + calls("zadd") - calls("hset") - logged
}
