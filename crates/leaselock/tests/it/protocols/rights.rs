//! What a user must be allowed to do, as `docs/protocols.md` has it.

use leaselock::Client;
use leaselock::interop::Protocol;
use testkit::Server;

use super::job;
use crate::support::{LONG, soon};

const ALL: &str = "+ping +eval +evalsha +get +del";
const RIGHTS: [(Protocol, &str); 6] = [
    (Protocol::SetnxGetset, "+setnx +getset"),
    (
        Protocol::setex_renamenx(),
        "+multi +exec +setex +renamenx +pttl",
    ),
    (
        Protocol::WatchMulti,
        "+multi +exec +setex +renamenx +pttl +watch +unwatch",
    ),
    (Protocol::SetnxPexpire, "+setnx +pttl +pexpire +time"),
    (
        Protocol::PythonRedisLock,
        "+setnx +pttl +pexpire +time +lpush +blpop +multi +exec +client|id +client|unblock",
    ),
    (
        Protocol::Redisson,
        "+exists +hexists +hset +pttl +pexpire +time +publish +spublish +subscribe +unsubscribe &redisson_lock__channel:*",
    ),
];

#[tokio::test]
async fn a_user_with_the_commands_of_a_way_takes_waits_for_extends_and_gives_back_its_locks() {
    for (protocol, rights) in RIGHTS {
        let server = Server::start();
        let user = "ACL SETUSER locker on >secret resetchannels ~* -@all";
        let known = server.cli(&["COMMAND", "INFO", "spublish"]);
        let has_spublish = known.list().is_some_and(|all| all[0].list().is_some()); // since 7.0
        let words: Vec<&str> = [user, ALL, rights]
            .iter()
            .flat_map(|part| part.split(' '))
            .filter(|word| *word != "+spublish" || has_spublish)
            .collect();
        let set = server.cli(&words);
        assert!(!set.is_error(), "{protocol}: {set:?}");
        let url = server.url().replace("redis://", "redis://locker:secret@");
        let [ours, theirs] = [0, 1].map(|_| Client::open(&url).unwrap());
        let lease = job(&ours, protocol).acquire().await.unwrap();
        let lock = job(&theirs, protocol);
        let waiting = tokio::spawn(async move { lock.acquire().await });
        if !matches!(
            protocol,
            Protocol::SetnxGetset | Protocol::SetexRenamenx { .. } | Protocol::WatchMulti
        ) {
            lease.extend(2 * LONG).await.unwrap();
        }
        lease.release().await.unwrap();
        drop(soon(waiting).await.unwrap().unwrap()); // cleaned up
        let next = soon(job(&ours, protocol).acquire()).await.unwrap();
        next.release().await.unwrap();
        let closed = theirs.close().await;
        assert_eq!(closed.unconfirmed, 0, "{protocol}: {closed:?}");
    }
}
