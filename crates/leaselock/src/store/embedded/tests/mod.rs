//! The store as the layers above see it: calls of the real scripts, and of small ones that test one thing.

use std::time::Duration;

use leaselock_fence::Fence;

use super::EmbeddedStore;
use super::testing::{Job, Scratch};
use crate::base::clock::Clock;
use crate::base::error::StoreError;
use crate::base::fence;
use crate::base::token::{ClientId, Token};
use crate::client::views::Inspect;
use crate::engine::values::kind::Resource;
use crate::mutex::MUTEX;
use crate::script::{Answer, Call, Listed, Operation, Script, Value};
use crate::store::Store;

mod boots;
mod commands;
mod crashes;
mod crowds;
mod files;
mod holds;
mod lua;
mod neighbours;
mod sessions;
mod shortcuts;
mod speed;
mod waking;

const WITHIN: Duration = Duration::from_secs(5);

/// A process, from the view of the store: a client with a store of its own.
struct Peer {
    client: ClientId,
    store: EmbeddedStore,
}

impl Peer {
    fn on(scratch: &Scratch, clock: &Clock, session: bool) -> Self {
        let client = ClientId::random().unwrap();
        let store = EmbeddedStore::folder(
            &scratch.path().join("locks here"),
            clock.clone(),
            &client,
            session,
        );
        Peer { client, store }
    }

    fn token(&self) -> Token {
        Token::random(&self.client, true).unwrap()
    }

    async fn run(&self, call: &Call) -> Result<Answer, StoreError> {
        self.store.run(call, WITHIN).await
    }

    async fn tag(&self, call: &Call) -> String {
        self.run(call).await.unwrap().tag().to_owned()
    }

    /// Acquires `job` for so long; returns the fence, or `None` when it is busy.
    async fn take(&self, token: &Token, ttl_ms: u64) -> Option<u64> {
        let answer = self.run(&acquire("job", token, ttl_ms)).await.unwrap();
        match answer.tag() {
            "fenced" => fence::of_id(answer.text(0).unwrap()).map(Fence::get),
            "granted" => Some(answer.number(0).unwrap()),
            _ => None,
        }
    }

    /// Returns the names of the list of locks.
    async fn listed(&self) -> Vec<String> {
        let locks = pages(&self.store, "*").await.into_iter().flatten();
        locks.map(|(name, _)| name).collect()
    }

    /// Returns server time as a script sees it.
    async fn time(&self) -> u64 {
        let answer = self.run(&inspect("job")).await.unwrap();
        answer.number(0).unwrap()
    }
}

/// Returns the list of locks with what is known of each, page by page: one ends after some time.
async fn pages(store: &impl Store, pattern: &str) -> Vec<Vec<Listed>> {
    let (mut cursor, mut pages) = (0, Vec::new());
    loop {
        let page = store.scan(cursor, pattern, Some(inspect), WITHIN).await;
        let (next, locks) = page.unwrap();
        pages.push(locks);
        cursor = next;
        if cursor == 0 {
            return pages;
        }
    }
}

fn mutex_keys(name: &str) -> Resource {
    Resource::at(&MUTEX, name.into(), None)
}

fn call_on(script: &'static Script, name: &str, args: &[&dyn ToString]) -> Call {
    let keys = mutex_keys(name);
    let mut call = Call::of(script);
    call.key(&keys.lock)
        .key(keys.queue())
        .key(keys.waiters())
        .key(keys.fence());
    for arg in args {
        call.arg(arg.to_string());
    }
    call
}

fn acquire(name: &str, token: &Token, ttl_ms: u64) -> Call {
    let script = MUTEX.acquire.script(false);
    call_on(script, name, &[&token.secret(), &ttl_ms, &""])
}

fn enqueue(name: &str, token: &Token, ttl_ms: u64, channel: &str) -> Call {
    let script = MUTEX.acquire.script(false);
    call_on(
        script,
        name,
        &[&token.secret(), &ttl_ms, &format!("0 5000 1 {channel}")],
    )
}

fn release(name: &str, token: &Token) -> Call {
    call_on(MUTEX.release.script(false), name, &[&token.secret()])
}

fn inspect(name: &str) -> Call {
    let keys = &mutex_keys(name);
    Inspect { keys }.call()
}

/// Creates a script for a test.
fn made_up(body: &str, keys: &[&str], args: &[&str]) -> Call {
    call_of(body, keys, args, false)
}

fn call_of(body: &str, keys: &[&str], args: &[&str], reads_only: bool) -> Call {
    let source = Box::leak(body.to_owned().into_boxed_str());
    let script = Script::new("test/made-up", source);
    let script = if reads_only {
        script.reads_only()
    } else {
        script
    };
    let script = Box::leak(Box::new(script));
    let mut call = Call::of(script);
    call.keys(keys.iter());
    call.args(args.iter());
    call
}

fn bytes(text: &str) -> Value {
    Value::Bytes(text.as_bytes().to_vec())
}
