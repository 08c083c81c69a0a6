//! Stores to run scripts on, and short forms of the scripts' calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leaselock_fence::{Fence, Name};
use testkit::Server;

use crate::base::clock::{Clock, Ttl};
use crate::base::token::{ClientId, Token};
use crate::client::inspection::BreakOptions;
use crate::client::views::*;
use crate::engine::values::calls::*;
use crate::engine::values::calls_many::Item;
use crate::engine::values::calls_optional::*;
use crate::engine::values::grant::*;
use crate::engine::values::kind::{Held, Resource};
use crate::mutex::MUTEX;
use crate::quorum::executor::Executor;
use crate::quorum::tally::Votable;
use crate::script::keys::LockKeys;
use crate::script::{Answer, Call, Malformed, Operation, Script};
use crate::store::url::Target;
use crate::store::{EmbeddedStore, Event, RedisStore, url};

pub(super) const WITHIN: Duration = Duration::from_secs(5);

/// One store, with the server or folder that it runs on.
pub(super) struct Lab {
    pub(super) engine: &'static str,
    pub(super) store: Executor,
    pub(super) server: Option<Server>,
    _folder: Option<tempfile::TempDir>,
}

pub(super) fn redis() -> Lab {
    let server = Server::start();
    let Target::Redis(at) = url::parse(&server.url()).unwrap() else {
        panic!("a redis URL")
    };
    let store = Executor::redis(RedisStore::from_url(at));
    Lab {
        engine: "redis",
        store,
        server: Some(server),
        _folder: None,
    }
}

pub(super) fn memory() -> Lab {
    let store = Executor::embedded(EmbeddedStore::memory("", Clock::boot()));
    Lab {
        engine: "mem",
        store,
        server: None,
        _folder: None,
    }
}

pub(super) fn folder() -> Lab {
    let folder = tempfile::tempdir().unwrap();
    let client = ClientId::random().unwrap();
    let store = EmbeddedStore::folder(folder.path(), Clock::boot(), &client, false);
    Lab {
        engine: "file",
        store: Executor::embedded(store),
        server: None,
        _folder: Some(folder),
    }
}

pub(super) fn every_engine() -> Vec<Lab> {
    vec![memory(), folder(), redis()]
}

/// Runs the same test on every engine.
pub(super) fn on_every_engine(test: impl AsyncFn(&Lab)) {
    for lab in every_engine() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        println!("engine: {}", lab.engine);
        runtime.block_on(test(&lab));
    }
}

pub(super) fn keys(name: &str) -> Resource {
    Resource::new(
        &MUTEX,
        LockKeys::new("", &Name::new(name).unwrap()).unwrap(),
    )
}

/// A break as an operator's, whom no client hears.
pub(super) fn break_of(keys: &Resource, terms: BreakOptions) -> Break<'_> {
    Break {
        keys,
        terms,
        channel: "ll:wake:",
        ends: &[],
    }
}

/// The same, which frees it at once.
pub(super) fn break_now(keys: &Resource, only: Option<Fence>, foreign: bool) -> Break<'_> {
    let mut terms = BreakOptions::default().now();
    (terms.only_fence, terms.foreign) = (only, foreign);
    break_of(keys, terms)
}

pub(super) fn token() -> Token {
    Token::random(&ClientId::random().unwrap(), true).unwrap()
}

pub(super) fn unfenced_token() -> Token {
    Token::random(&ClientId::random().unwrap(), false).unwrap()
}

pub(super) fn ttl(ms: u64) -> Ttl {
    Ttl::new(Duration::from_millis(ms)).unwrap()
}

/// The item of a plain request for 30 s, which fences if its token does.
pub(super) fn item(resource: &Resource, token: &Token) -> Item {
    let terms = AcquireTerms {
        fences: token.is_fenced(),
        ..AcquireTerms::plain(ttl(30_000))
    };
    Item::of(&Held::of(resource, token), terms).unwrap()
}

/// The options of an acquire request; all others have defaults.
pub(super) struct How<'a> {
    pub(super) ttl_ms: u64,
    pub(super) waits: bool,
    pub(super) priority: i32,
    pub(super) channel: &'a str,
    pub(super) fencing: bool,
    pub(super) range: u64,
}

pub(super) const TRY: How<'static> = How {
    ttl_ms: 30_000,
    waits: false,
    priority: 0,
    channel: "",
    fencing: true,
    range: 1,
};
pub(super) const WAIT: How<'static> = How { waits: true, ..TRY };

/// Changes keys as an operator, an eviction or time may do, and as no script of ours does.
#[derive(Debug)]
pub(super) struct Meddle<'a>(
    pub(super) &'static Script,
    pub(super) &'a str,
    pub(super) &'a [&'a str],
);

impl Operation for Meddle<'_> {
    type Reply = Vec<crate::script::Value>;

    fn script(&self) -> &'static Script {
        self.0
    }

    fn encode(&self, call: &mut Call) {
        call.key(self.1);
        for arg in self.2 {
            call.arg(arg);
        }
    }
    fn decode(answer: &Answer) -> Result<Self::Reply, Malformed> {
        Ok(answer.values().to_vec())
    }
    fn read(_: &Script, answer: &Answer) -> Result<Self::Reply, crate::base::error::StoreError> {
        Ok(Self::decode(answer).unwrap_or_default())
    }
}

impl Votable for Meddle<'_> {}

macro_rules! meddling {
    ($name:ident, $source:literal) => {
        pub(super) static $name: Script = Script::new(stringify!($name), $source);
    };
}
meddling!(DELETE, "redis.call('DEL', KEYS[1]) return {'ok'}");
meddling!(EXPIRE, "redis.call('PEXPIRE', KEYS[1], 0) return {'ok'}");
meddling!(
    SET,
    "redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000) return {'ok'}"
);
meddling!(
    ADD_HASH,
    "redis.call('HSET', KEYS[1], 'a', 'b') return {'ok'}"
);
// A fence whose latest id is this one, and the latest number of a fence; 0 without one.
meddling!(
    ADVANCE,
    "redis.call('XADD', KEYS[1], 'MAXLEN', '0', ARGV[1], '-', '-') redis.call('PEXPIRE', KEYS[1], 60000) return {'ok'}"
);
meddling!(
    LATEST,
    "local info = redis.pcall('XINFO', 'STREAM', KEYS[1])
     for i = 1, #info, 2 do
       if info[i] == 'last-generated-id' then
         local ms, count = string.match(info[i + 1], '(%d+)-(%d+)')
         return {'ok', ms .. string.sub('00' .. count, -3)}
       end
     end
     return {'ok', '0'}"
);
// Bytes that are not text.
meddling!(
    SET_BYTES,
    "redis.call('SET', KEYS[1], '\\255\\254', 'PX', 60000) return {'ok'}"
);
meddling!(
    ADD_MEMBER,
    "redis.call('ZADD', KEYS[1], '0', ARGV[1]) return {'ok'}"
);
meddling!(
    ADD_ENTRY,
    "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) return {'ok'}"
);
meddling!(GET, "return {'ok', redis.call('GET', KEYS[1])}");
meddling!(
    SHORTEN,
    "redis.call('PEXPIRE', KEYS[1], ARGV[1]) return {'ok'}"
);
meddling!(TTL_OF, "return {'ok', redis.call('PTTL', KEYS[1])}");
meddling!(
    TYPE_OF,
    "local t = redis.call('TYPE', KEYS[1]) return {'ok', type(t) == 'table' and t.ok or t}"
);

// The holds of a name, in one text.
meddling!(
    MEMBERS,
    "local all = redis.pcall('ZRANGE', KEYS[1], '0', '-1')
     return {'ok', all.err and 'no set' or table.concat(all, ' ')}"
);
// The end of a hold, in server microseconds, and its fencing token.
meddling!(
    ENDS_AT,
    "return {'ok', redis.call('ZSCORE', KEYS[1], ARGV[1])}"
);
meddling!(
    END_LONG_AGO,
    "redis.call('ZADD', KEYS[1], 'XX', '1', ARGV[1]) return {'ok'}"
);
meddling!(
    FENCE_OF,
    "return {'ok', redis.call('HGET', KEYS[1], ARGV[1])}"
);

// A waiter's entry, and both copies of an entry as if the waiter had polled long ago.
meddling!(
    ENTRY_OF,
    "return {'ok', redis.call('HGET', KEYS[1], ARGV[1])}"
);
meddling!(
    AGE_ENTRY,
    "local entry = redis.call('HGET', KEYS[1], ARGV[1])
     redis.call('HSET', KEYS[1], ARGV[1], string.sub(entry, 1, 47) .. '1000000000000000' .. string.sub(entry, 64))
     return {'ok'}"
);
meddling!(
    AGE_MEMBER,
    "local member = redis.call('ZRANGE', KEYS[1], '0', '0')[1]
     redis.call('ZREM', KEYS[1], member)
     redis.call('ZADD', KEYS[1], '0', string.sub(member, 1, 47) .. '1000000000000000' .. string.sub(member, 64))
     return {'ok'}"
);
// The first waiter that is set aside polled long ago, by its score.
meddling!(
    AGE_ASIDE,
    "redis.call('ZADD', KEYS[1], '4503599627370496', redis.call('ZRANGE', KEYS[1], '0', '0')[1]) return {'ok'}"
);
// So many waiters that no message reaches, in front of all others: in the queue, or in the hash of its entries.
meddling!(
    ADD_DEAD,
    "for i = 1, tonumber(ARGV[1]) do
       local token = string.format('%022d.DEADDEAD', i)
       local member = string.format('%016d%s9999999999999999 0 5000 1 away', i, token)
       if ARGV[2] == 'queue' then redis.call('ZADD', KEYS[1], '0', member) else redis.call('HSET', KEYS[1], token, member) end
     end
     return {'ok'}"
);

// Of the event log: entries with this score and text, how many there are, and all with their times.
meddling!(
    OF_STRANGERS,
    "for i = 1, tonumber(ARGV[3]) do redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2] .. i) end return {'ok'}"
);
meddling!(COUNT, "return {'ok', redis.call('ZCARD', KEYS[1])}");
meddling!(
    SCORES,
    "return {'ok', table.concat(redis.call('ZRANGE', KEYS[1], '0', '-1', 'WITHSCORES'), ' ')}"
);

impl Lab {
    pub(super) async fn ask<O: Operation>(&self, operation: &O) -> O::Reply {
        self.store.ask_one(operation, WITHIN).await.unwrap()
    }

    pub(super) async fn meddle(
        &self,
        script: &'static Script,
        key: &str,
        args: &[&str],
    ) -> Vec<crate::script::Value> {
        self.ask(&Meddle(script, key, args)).await
    }

    pub(super) async fn acquire(&self, keys: &Resource, token: &Token, how: &How<'_>) -> Acquired {
        self.ask(&acquire(&Held::of(keys, token), how)).await
    }

    /// Acquires a lock that must be free, and returns its fence.
    pub(super) async fn granted(
        &self,
        keys: &Resource,
        token: &Token,
        how: &How<'_>,
    ) -> Option<Fence> {
        match self.acquire(keys, token, how).await {
            Acquired::Granted { fence, .. } => fence,
            other => panic!("{}: {other:?}", self.engine),
        }
    }

    pub(super) async fn waiting(&self, keys: &Resource, token: &Token, how: &How<'_>) -> u64 {
        match self.acquire(keys, token, how).await {
            Acquired::Waiting { position, .. } => position,
            other => panic!("{}: {other:?}", self.engine),
        }
    }

    /// As if the latest grant had this number.
    pub(super) async fn set_fence(&self, keys: &Resource, number: u64) {
        let fence = keys.fence().to_string();
        self.meddle(&DELETE, &fence, &[]).await;
        let id = format!("{}-{}", number / 1000, number % 1000);
        self.meddle(&ADVANCE, &fence, &[&id]).await;
    }

    /// The number of the latest grant, 0 without one.
    pub(super) async fn latest_fence(&self, keys: &Resource) -> u64 {
        match &self.meddle(&LATEST, &keys.fence().to_string(), &[]).await[0] {
            crate::script::Value::Bytes(text) => {
                std::str::from_utf8(text).unwrap().parse().unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn release(&self, keys: &Resource, token: &Token) -> ReleaseAnswer {
        self.ask(&Release {
            held: &Held::of(keys, token),
            was_queued: false,
        })
        .await
    }

    pub(super) async fn cancel(&self, keys: &Resource, token: &Token) -> CancelAnswer {
        self.ask(&Cancel {
            held: &Held::of(keys, token),
        })
        .await
    }

    pub(super) async fn extend(&self, keys: &Resource, token: &Token, ms: u64) -> ExtendAnswer {
        self.ask(&Extend {
            held_for: Held::of(keys, token).for_ttl(ttl(ms)),
        })
        .await
    }

    pub(super) async fn confirm(&self, keys: &Resource, token: &Token, ms: u64) -> StepReply {
        let held = Held::of(keys, token);
        self.ask(&Confirm::of(held.for_ttl(ttl(ms))).unwrap()).await
    }

    pub(super) async fn inspect(&self, keys: &Resource) -> Inspected {
        self.ask(&Inspect { keys }).await
    }

    /// Returns true if this token holds the lock.
    pub(super) async fn holds(&self, keys: &Resource, token: &Token) -> bool {
        matches!(self.inspect(keys).await.state,
            InspectedState::Held(SeenHold { value, .. }) if value == token.secret().as_bytes())
    }

    pub(super) async fn queue_length(&self, keys: &Resource) -> usize {
        self.inspect(keys).await.queue.len()
    }

    /// Subscribes to a channel until the value is dropped; returns once it is subscribed.
    pub(super) async fn listen(&self, channel: &str) -> Listener {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (ready, mut is_ready) = tokio::sync::mpsc::unbounded_channel();
        let task = tokio::spawn({
            let (store, channel, heard) = (
                self.store.unshared(),
                channel.to_owned(),
                Arc::clone(&heard),
            );
            async move {
                let sink = move |event| match event {
                    Event::Ready => drop(ready.send(())),
                    Event::Gap | Event::Ended => {}
                    Event::Message(message) => heard
                        .lock()
                        .unwrap()
                        .push(String::from_utf8(message).unwrap()),
                };
                store.listen(&channel, Box::new(sink)).await;
            }
        });
        is_ready.recv().await.unwrap();
        Listener { heard, task }
    }
}

pub(super) fn acquire<'a>(held: &'a Held, how: &How<'a>) -> Acquire<'a> {
    let terms = AcquireTerms {
        ttl: ttl(how.ttl_ms),
        priority: how.priority,
        renews: true,
        fences: how.fencing,
    };
    Acquire {
        held,
        terms,
        waits: how.waits,
        channel: how.channel,
        range: how.range,
    }
}

/// A subscriber in the test itself.
pub(super) struct Listener {
    heard: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Listener {
    /// Waits for a message that names this token, and returns how many messages came in all.
    pub(super) async fn heard(&self, token: &Token) -> String {
        for _ in 0..5_000 {
            let found = self
                .heard
                .lock()
                .unwrap()
                .iter()
                .find(|m| m.ends_with(token.secret()))
                .cloned();
            if let Some(message) = found {
                return message;
            }
            tokio::time::sleep(Duration::from_millis(1)).await; // the condition is checked each millisecond
        }
        panic!("no grant was heard for {token:?}");
    }

    pub(super) fn count(&self) -> usize {
        self.heard.lock().unwrap().len()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}
