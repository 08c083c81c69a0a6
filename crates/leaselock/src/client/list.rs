//! Listing the locks that are held.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::future::join_all;
use leaselock_fence::Name;
use tokio::task::JoinSet;

use super::handle::Client;
use super::inspect::{Processes, shown};
use super::inspection::{Holding, Inspection};
use super::views::{INSPECT, Inspect, Inspected, Survey};
use crate::base::error::RequestError;
use crate::base::process::Process;
use crate::base::{ErrorKind, InvalidInput, StoreError, token};
use crate::engine::services::{Engine, OPERATOR_WITHIN};
use crate::quorum::executor::Executor;
use crate::script::{LockKeys, Operation, keys};

/// A survey reads so many for each name.
const KEYS_EACH: usize = 8;

impl Client {
    /// Lists every held lock of leaselock that matches a glob pattern, in no order.
    ///
    /// The pattern knows `*`, `?` and `[…]`. Locks of other libraries cannot be told from other keys; ask
    /// [`inspect`](Client::inspect) for them by name.
    ///
    /// Uses `SCAN`: a lock that is acquired or released meanwhile may or may not be in the list.
    ///
    /// # Errors
    /// [`RequestError`] when the store does not reply.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// for lock in client.list("invoices/*").await? {
    ///     println!("{}: {} wait", lock.name, lock.queue.len());
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn list(&self, pattern: &str) -> Result<Vec<Inspection>, RequestError> {
        let mut found = HashMap::new();
        let pages = self.list_pages(pattern, |page| {
            found.extend(page.into_iter().map(|lock| (lock.name.clone(), lock)));
            ControlFlow::Continue(())
        });
        pages.await?;
        Ok(found.into_values().collect())
    }

    /// Lists the held locks that match page by page, for a store with very many: `each` says whether to go on.
    ///
    /// A page may be empty, and a lock may be on two of them.
    ///
    /// # Errors
    /// As [`list`](Client::list); `each` has had the pages before.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use std::ops::ControlFlow;
    ///
    /// let mut contended = 0;
    /// let each = |page: Vec<leaselock::inspect::Inspection>| {
    ///     contended += page.iter().filter(|lock| lock.waiter_count > 0).count();
    ///     match contended < 100 {
    ///         true => ControlFlow::Continue(()),
    ///         false => ControlFlow::Break(()),
    ///     }
    /// };
    /// client.list_pages("*", each).await?;
    /// # Ok(()) }
    /// ```
    pub async fn list_pages(
        &self,
        pattern: &str,
        mut each: impl FnMut(Vec<Inspection>) -> ControlFlow<()>,
    ) -> Result<(), RequestError> {
        let engine = self.engine();
        let whole: Arc<str> = checked(engine, pattern)?.into();
        // The client's thread reads the next page while the caller has this one; it stops when the caller does.
        let (background, mut reading) = (engine.own_background()?, JoinSet::new());
        let begin = |reading: &mut JoinSet<_>, from| {
            let (engine, store) = (Arc::clone(engine), background.store.clone());
            let whole = Arc::clone(&whole);
            let page = async move { Page::read(&engine, &store, &whole, from).await };
            reading.spawn_on(page, &background.handle);
        };
        begin(&mut reading, 0);
        let mut processes = Processes::of(engine);
        while let Some(page) = reading.join_next().await {
            let page =
                page.map_err(|gone| StoreError::refused(ErrorKind::Internal, gone.to_string()))??;
            if page.next != 0 {
                begin(&mut reading, page.next);
            }
            if each(page.shown(&mut processes).await?).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Lists the names that match a glob pattern and of which ticks are known, in no order; `Cron::state` reads each.
    ///
    /// Uses `SCAN`, and has the errors of [`list`](Client::list); in a folder also that of a file that cannot be read.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// for name in client.list_cron("*").await? {
    ///     println!("{name}: {:?}", client.cron(name.as_str()).state().await?);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn list_cron(&self, pattern: &str) -> Result<Vec<Name>, RequestError> {
        let engine = self.engine();
        let whole = checked(engine, pattern)?;
        let mut found = HashSet::new();
        // Names with a tag of their own have other keys beside them (script/keys.rs).
        for records in [format!("{{{whole}}}:ll:cron"), format!("{whole}:ll:t:cron")] {
            let keys = all_keys(engine, &records).await?;
            let locks = keys.iter().filter_map(|key| LockKeys::of_cron(key));
            let names = locks.filter_map(|lock| lock.strip_prefix(&engine.ids.prefix));
            found.extend(names.filter_map(|name| Name::new(name).ok()));
        }
        Ok(found.into_iter().collect())
    }

    /// Lists the clients that hold a lock, wait for one or run a schedule, in no order: those of this prefix that a minute
    /// ago did so are among them.
    ///
    /// Uses `SCAN`, has the errors of [`list_cron`](Client::list_cron), and reads what each client writes of itself.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// for process in client.list_clients().await? {
    ///     println!("{process} runs {} schedules", process.serves.len());
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn list_clients(&self) -> Result<Vec<Process>, RequestError> {
        let engine = self.engine();
        checked(engine, "*")?;
        let pattern = keys::client_record(&escaped(&engine.ids.prefix), "*");
        let found = all_keys(engine, &pattern).await?;
        let start = keys::client_record(&engine.ids.prefix, "");
        let clients = found.iter().filter_map(|key| key.strip_prefix(&start));
        let clients = clients.filter(|client| token::is_plain(client));
        let mut processes = Processes::of(engine);
        processes.learn(clients).await?;
        Ok(processes.all().filter(|it| it.pid.is_some()).collect())
    }
}

/// Returns the keys that match, some of them twice.
async fn all_keys(engine: &Engine, pattern: &str) -> Result<Vec<String>, StoreError> {
    let (mut found, mut cursor) = (Vec::new(), 0);
    loop {
        let scan = engine.store.scan(cursor, pattern, None, OPERATOR_WITHIN);
        let (next, keys) = scan.await?;
        found.extend(keys.into_iter().map(|(key, _)| key));
        cursor = next;
        if cursor == 0 {
            return Ok(found);
        }
    }
}

/// The pattern of keys, behind the prefix.
fn checked(engine: &Engine, pattern: &str) -> Result<String, InvalidInput> {
    engine.needs_one_server(
        "list",
        "each server knows other locks, and no majority agrees on a list",
    )?;
    let whole = format!("{}{pattern}", escaped(&engine.ids.prefix));
    if pattern.is_empty() || whole.len() > 1024 || whole.chars().any(char::is_control) {
        let message =
            "a pattern has 1 to 1024 bytes and no control characters; `*` is every lock".to_owned();
        return Err(InvalidInput::new(message));
    }
    Ok(whole)
}

/// The locks of a page as the store has them, and where the next page begins; 0 when this is the last.
struct Page {
    locks: Vec<(Name, Inspected)>,
    next: u64,
}

impl Page {
    async fn read(
        engine: &Engine,
        store: &Executor,
        pattern: &str,
        from: u64,
    ) -> Result<Self, StoreError> {
        let about = |key: &str| {
            let keys = &LockKeys::at(key.into());
            Inspect { keys }.call()
        };
        let found = store.scan(from, pattern, Some(about), OPERATOR_WITHIN);
        let (next, found) = found.await?;
        let prefix = &engine.ids.prefix;
        // Keys that cannot be names are left out before any request about them.
        let lock = |(key, answer): (String, _)| {
            let name = Name::new(key.strip_prefix(prefix)?).ok()?;
            Some((LockKeys::new(prefix, &name).ok()?, name, answer))
        };
        let (mut locks, mut asked) = (Vec::new(), Vec::new());
        for (keys, name, answer) in found.into_iter().filter_map(lock) {
            match answer {
                Some(answer) => locks.push((name, Inspect::read(&INSPECT, &answer)?)),
                None => asked.push((name, keys)),
            }
        }
        let (names, keys): (Vec<_>, Vec<_>) = asked.into_iter().unzip();

        let at_once = (store.capabilities().keys_per_call / KEYS_EACH).max(1);
        let survey = async |candidates| {
            let survey = Survey { candidates };
            engine.ask_over(store, &survey, OPERATOR_WITHIN).await
        };
        let surveys = join_all(keys.chunks(at_once).map(survey)).await;
        let mut held = Vec::new();
        for (chunk, locks) in surveys.into_iter().enumerate() {
            let locks = locks?.into_iter();
            held.extend(locks.map(|(at, state)| (chunk * at_once + at, state)));
        }
        held.retain(|(at, _)| *at < keys.len());
        let read = held.into_iter().map(async |(at, state)| {
            let inspect = Inspect { keys: &keys[at] };
            let seen = match state {
                Some(state) => state.into(),
                None => engine.ask_over(store, &inspect, OPERATOR_WITHIN).await?,
            };
            Ok::<_, StoreError>((names[at].clone(), seen))
        });
        for lock in join_all(read).await {
            locks.push(lock?);
        }
        Ok(Page { locks, next })
    }

    /// Names the processes of the clients; a lock that has become free meanwhile is left out.
    async fn shown(self, processes: &mut Processes<'_>) -> Result<Vec<Inspection>, RequestError> {
        let clients = self.locks.iter().flat_map(|(_, seen)| seen.clients());
        processes.learn(clients).await?;
        let locks = self.locks.into_iter();
        let page = locks.map(|(name, seen)| shown(&name, seen, processes));
        Ok(page.filter(|lock| lock.state != Holding::Free).collect())
    }
}

/// Escapes the prefix, which is text and not a pattern.
fn escaped(prefix: &str) -> String {
    let is_special = |c| matches!(c, '*' | '?' | '[' | ']' | '\\' | '^');
    let escape = |c| is_special(c).then_some('\\').into_iter().chain([c]);
    prefix.chars().flat_map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_never_a_pattern() {
        assert_eq!(escaped("a*b?[c]^\\:"), "a\\*b\\?\\[c\\]\\^\\\\:");
    }
}
