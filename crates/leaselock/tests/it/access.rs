//! The users of docs/access.md: each may do what its role needs, and nothing else.

use leaselock::error::{BreakError, RequestError};
use leaselock::inspect::{BreakOptions, Holding};
use leaselock::report::Verdict;
use leaselock::{Client, ErrorKind};
use testkit::resp::Connection;
use testkit::{Server, Value};

use crate::quorum::Nodes;
use crate::support::{
    LONG, by_message, calls, channels, eventually, polls_sent, soon, until_queued, waiter,
};

const PAGE: &str = include_str!("../../../../docs/access.md");
/// The one on the page.
pub(crate) const PREFIX: &str = "app:";
const PASSWORD: &str = "PASSWORD";

/// Makes the user of this role as the page says.
#[track_caller]
pub(crate) fn allow(server: &Server, role: &str) {
    allow_less(server, role, &[]);
}

/// The same, but without these words.
#[track_caller]
fn allow_less(server: &Server, role: &str, without: &[&str]) {
    let begin = format!("ACL SETUSER {role} ");
    let line = PAGE.lines().find(|line| line.starts_with(&begin));
    let words = line.expect("a line on the page").split(' ');
    let words: Vec<&str> = words.filter(|word| !without.contains(word)).collect();
    assert_eq!(server.cli(&words), Value::Status("OK".into()), "{role}");
}

/// The URL with the login of this role.
pub(crate) fn url_of(url: &str, role: &str) -> String {
    url.replace("://", &format!("://{role}:{PASSWORD}@"))
}

struct Site(Server);

impl Site {
    fn with(roles: &[&str]) -> Site {
        let server = Server::start();
        roles.iter().for_each(|role| allow(&server, role));
        Site(server)
    }

    fn client(&self, role: &str) -> Client {
        let url = url_of(&self.0.url(), role);
        Client::builder().url(&url).prefix(PREFIX).open().unwrap()
    }

    fn connection(&self, role: &str) -> Connection {
        let mut connection = self.0.connect().unwrap();
        let login = connection.call(&["AUTH", role, PASSWORD]).unwrap();
        assert_eq!(login, Value::Status("OK".into()));
        connection
    }

    /// What was refused so far, to any user.
    fn log(&self) -> Vec<Value> {
        match self.0.cli(&["ACL", "LOG"]) {
            Value::List(entries) => entries,
            other => panic!("{other:?}"),
        }
    }

    /// Each is refused for want of rights, and what lies on the server stays as it is.
    fn refuses(&self, role: &str, beyond: &[&[&str]]) {
        let own = ["app:job", "other:job"];
        for key in own {
            self.0.cli(&["SET", key, "untouched"]);
        }
        for request in beyond {
            // One of its own each: a subscriber that was let in could not go on.
            match self.connection(role).call(request).unwrap() {
                // Servers have different words for it; that it is about rights they all say.
                Value::Error(refusal) => {
                    let words = ["permi", "can't access", "can't run"];
                    let about_rights = words.iter().any(|word| refusal.contains(word));
                    assert!(about_rights, "{role} {request:?}: {refusal}");
                }
                other => panic!("{role} {request:?}: {other:?}"),
            }
        }
        for key in own {
            assert_eq!(
                self.0.cli(&["GET", key]).text(),
                Some("untouched"),
                "{role}"
            );
        }
        assert!(
            self.log().len() >= beyond.len().min(10),
            "the server took note"
        );
    }

    fn is_seven(&self) -> bool {
        !self.0.cli(&["ACL", "DRYRUN", "default", "PING"]).is_error()
    }
}

/// Only the superuser may do these.
const FOR_NOBODY: &[&[&str]] = &[
    &["FLUSHALL"],
    &["FLUSHDB"],
    &["KEYS", "*"],
    &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"],
    &["SCRIPT", "FLUSH"],
    &["SCRIPT", "KILL"],
    &["ACL", "SETUSER", "default", "on"],
    &["ACL", "LIST"],
    &["SHUTDOWN", "NOSAVE"],
    &["REPLICAOF", "127.0.0.1", "1"],
    &["SWAPDB", "0", "1"],
    &["MONITOR"],
    &["CLIENT", "KILL", "TYPE", "normal"],
    &["RENAME", "app:job", "app:gone"],
    &["PERSIST", "app:job"],
    &["GET", "other:job"],
    &["DEL", "other:job"],
    &["XINFO", "STREAM", "{other:job}:ll:fence"],
    &["XADD", "{other:job}:ll:fence", "*", "x", "y"],
    &["EVAL", "return redis.call('GET', 'other:job')", "0"],
    &[
        "EVAL",
        "return redis.call('DEL', KEYS[1])",
        "1",
        "other:job",
    ],
    &["EVAL", "return redis.call('FLUSHALL')", "0"],
    &["EVAL", "return redis.call('KEYS', '*')", "0"],
    &["SUBSCRIBE", "other"],
    &["SUBSCRIBE", "ll:wake:12345678"],
    &["PSUBSCRIBE", "*"],
    &["PUBLISH", "other", "x"],
];

/// Only the superuser may do these, where they exist.
const FOR_NOBODY_SINCE_SEVEN: &[&[&str]] = &[
    &["FUNCTION", "FLUSH"],
    &["FUNCTION", "DELETE", "x"],
    &["SSUBSCRIBE", "other"],
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locker_may_take_wait_and_give_back_and_nothing_else() {
    let site = Site::with(&["locker"]);
    let [one, two] = [0, 1].map(|_| site.client("locker"));
    let mutex = one.mutex("job").ttl(LONG).note("a note");
    let lease = mutex.acquire().await.unwrap();
    let next = waiter(&two, "job", LONG);
    until_queued(&two, "job", 1).await;
    lease.extend(LONG).await.unwrap();
    lease.release().await.unwrap();
    let handle = by_message(next)
        .await
        .unwrap()
        .unwrap()
        .detach()
        .await
        .unwrap();
    let detached = one.attach(handle);
    detached.extend(LONG).await.unwrap();
    detached.release().await.unwrap();
    let many = (0..100).map(|number| one.mutex(format!("many/{number}")).ttl(LONG));
    let many: Vec<_> = many
        .map(|mutex| tokio::spawn(async move { mutex.acquire().await }))
        .collect();
    for lease in many {
        soon(lease).await.unwrap().unwrap().release().await.unwrap();
    }
    for client in [one, two] {
        client.close().await;
    }
    assert_eq!(site.log(), [], "nothing that it needs was refused");

    let own: &[&[&str]] = &[
        &["SCAN", "0"],
        &["CONFIG", "GET", "requirepass"],
        &["INFO"],
        &["ACL", "GETUSER", "default"],
        &["SELECT", "1"],
        &[
            "FUNCTION",
            "LOAD",
            "#!lua name=x\nredis.register_function('x', function() return 1 end)",
        ],
    ];
    let own = if site.is_seven() {
        own
    } else {
        &own[..own.len() - 1]
    };
    site.refuses("locker", &[FOR_NOBODY, own].concat());
}

#[tokio::test]
async fn a_fence_that_a_user_may_not_read_is_a_missing_right_and_no_damage() {
    let site = Site::with(&["locker", "observer"]);
    let holder = site.client("locker");
    let _lease = holder.mutex("job").ttl(LONG).acquire().await.unwrap();
    site.0.cli(&["ACL", "SETUSER", "observer", "-xinfo"]);
    let observer = site.client("observer");
    for error in [
        observer.inspect("job").await.unwrap_err(),
        observer.list("*").await.unwrap_err(),
    ] {
        let RequestError::Store(error) = error else {
            panic!("{error}")
        };
        assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_sees_every_lock_of_its_prefix_and_changes_none() {
    let site = Site::with(&["locker", "observer"]);
    let (holder, observer) = (site.client("locker"), site.client("observer"));
    let lease = holder
        .mutex("job")
        .ttl(LONG)
        .note("a note")
        .acquire()
        .await
        .unwrap();
    let _waiting = waiter(&site.client("locker"), "job", LONG);
    until_queued(&observer, "job", 1).await;
    assert_eq!(observer.list("*").await.unwrap().len(), 1);
    assert!(observer.mutex("job").holder().await.unwrap().is_some());
    let report = observer.doctor().await.unwrap();
    assert!(report.is_fit(), "{report:#?}");
    let unread: Vec<_> = report
        .findings
        .iter()
        .filter(|check| check.verdict == Verdict::Warn)
        .collect();
    assert!(
        unread.iter().any(|check| check.topic == "CONFIG"),
        "{unread:#?}"
    );

    let reading = holder.rwlock("read").ttl(LONG).read().await.unwrap();
    let permit = holder
        .semaphore("pool", 2)
        .ttl(LONG)
        .acquire()
        .await
        .unwrap();
    for name in ["read", "pool"] {
        let seen = observer.inspect(name).await.unwrap();
        assert!(
            matches!(seen.state, Holding::Held { count: 1, .. }),
            "{seen:?}"
        );
    }
    assert_eq!(observer.list("*").await.unwrap().len(), 3);
    drop((reading, permit));

    let refused = soon(observer.mutex("free").ttl(LONG).try_acquire()).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("the user may not do this"), "{refused}");
    let broken = observer.break_lease("job", BreakOptions::default()).await;
    // What the server refuses within a script may come behind a write.
    let Err(BreakError::Unknown { source, .. }) = broken else {
        panic!("{broken:?}")
    };
    assert_eq!(source.kind(), ErrorKind::Forbidden, "{source}");
    let seen = observer.inspect("job").await.unwrap();
    assert!(seen.state.exclusive().is_some(), "{seen:?}");
    assert!(lease.is_held());
    drop(lease);

    let own: &[&[&str]] = &[
        &["SET", "app:free", "x", "PX", "1000"],
        &["DEL", "app:job"],
        &["PEXPIRE", "app:job", "1"],
        &["XADD", "{app:job}:ll:fence", "*", "x", "y"],
        &["EVAL", "return redis.call('DEL', KEYS[1])", "1", "app:job"],
        &["PUBLISH", "app:ll:wake:12345678", "x"],
        &["SUBSCRIBE", "app:ll:wake:12345678"],
        &["CONFIG", "GET", "requirepass"],
        &["ACL", "GETUSER", "default"],
    ];
    site.refuses("observer", &[FOR_NOBODY, own].concat());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admin_breaks_locks_and_is_told_all_that_the_doctor_asks() {
    let site = Site::with(&["locker", "admin"]);
    let (holder, admin) = (site.client("locker"), site.client("admin"));
    let _lease = holder.mutex("job").ttl(LONG).acquire().await.unwrap();
    assert_eq!(admin.list("*").await.unwrap().len(), 1);
    for terms in [BreakOptions::default(), BreakOptions::default().now()] {
        admin.break_lease("job", terms).await.unwrap(); // the first would have the next wait for the ttl
    }
    admin
        .mutex("job")
        .ttl(LONG)
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let report = admin.doctor().await.unwrap();
    assert!(report.is_fit(), "{report:#?}");
    for unread in ["INFO", "CONFIG"] {
        assert!(
            report.findings.iter().all(|check| check.topic != unread),
            "{report:#?}"
        );
    }
    for client in [holder, admin] {
        client.close().await;
    }
    if site.is_seven() {
        assert_eq!(site.log(), [], "nothing that it needs was refused");
    }
    site.refuses("admin", FOR_NOBODY);
    if site.is_seven() {
        site.refuses("admin", FOR_NOBODY_SINCE_SEVEN);
    }
}

/// They hear messages, and none of them may send one: a release wakes no waiter, so they poll as if they heard nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_who_may_subscribe_but_cannot_be_woken_poll_as_those_without_wake_ups() {
    for without in ["+publish", "+pubsub|numsub"] {
        let site = Site(Server::start());
        allow_less(&site.0, "locker", &[without]);
        let [one, two] = [0, 1].map(|_| site.client("locker"));
        let lease = one.mutex("job").ttl(LONG).acquire().await.unwrap();
        let next = waiter(&two, "job", LONG);
        until_queued(&two, "job", 1).await;
        eventually("it listens", async || channels(&site.0).len() == 1).await;
        // With wake-ups it would poll after five seconds, and nothing but a poll repeats its request.
        let before = polls_sent(&site.0);
        by_message(async {
            eventually("it polls", async || polls_sent(&site.0) >= before + 3).await;
        })
        .await;
        lease.release().await.unwrap();
        let lease = by_message(next).await.unwrap().unwrap();
        lease.release().await.unwrap();
    }
}

/// The same on the nodes of a quorum, which publish without asking who is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_quorum_a_waiter_that_nobody_may_tell_finds_a_release_by_its_polls() {
    let nodes = Nodes::start(3);
    for server in &nodes.0 {
        allow_less(server, "locker", &["+publish"]);
    }
    let urls: Vec<String> = nodes
        .urls()
        .iter()
        .map(|url| url_of(url, "locker"))
        .collect();
    let quorum = || {
        let builder = leaselock::Client::builder()
            .urls(&urls)
            .prefix(PREFIX)
            .durable_nodes();
        builder.open().unwrap()
    };
    let (one, two) = (quorum(), quorum());
    let lease = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    let next = waiter(&two, "job", LONG);
    eventually("it listens everywhere and asks to be told", async || {
        nodes.0.iter().all(|server| {
            let asked = server.cli(&["ZCARD", "{app:job}:ll:callers"]).integer();
            asked == Some(1) && channels(server).len() == 1
        })
    })
    .await;
    // Each node may have made it vote once more when it began to listen there, and after that it would poll every five
    // seconds. A vote that finds the lock held writes its caller down.
    let votes = || calls(&nodes.0[0], "zadd");
    // So many votes would take longer than the patience of this test then, and take about three seconds here.
    let before = votes();
    eventually("it polls", async || votes() >= before + 5).await;
    lease.release().await.unwrap();
    by_message(next)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

/// The line of an earlier version may name the keys of locks one by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_may_not_write_to_the_event_log_goes_on_and_asks_once() {
    let site = Site::with(&["locker", "admin"]);
    let keys = ["resetkeys", "~{app:*", "~app:job*", "~app:ll:client:*"];
    let narrower = [&["ACL", "SETUSER", "locker"][..], &keys].concat();
    assert_eq!(site.0.cli(&narrower), Value::Status("OK".into()));
    let (locker, admin) = (site.client("locker"), site.client("admin"));
    for _ in 0..2 {
        let lease = locker.mutex("job").ttl(LONG).acquire().await.unwrap();
        let terms = BreakOptions::default().now();
        admin.break_lease("job", terms).await.unwrap();
        soon(lease.lost()).await;
        assert_eq!(
            soon(lease.view().broken_by()).await,
            None,
            "it may not read it either"
        );
        eventually("it was refused", async || !site.log().is_empty()).await;
    }
    let log = admin.log(LONG).await.unwrap();
    assert!(log.iter().all(|entry| entry.kind == "broken"), "{log:?}");
    locker.close().await;
}
