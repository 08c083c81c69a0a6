//! Listing the locks that are held.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use leaselock_fence::Name;

use super::handle::Client;
use super::inspect::{People, WITHIN, look};
use super::inspection::{Holding, Inspection};
use super::views::Survey;
use crate::base::error::{InvalidInput, RequestError, StoreError};
use crate::engine::services::core::Engine;
use crate::script::keys;
use crate::script::keys::LockKeys;

impl Client {
    /// Lists every held lock of leaselock that matches a glob pattern, in no order.
    ///
    /// The pattern knows `*`, `?` and `[…]`. Locks of other libraries cannot be told from other keys; ask
    /// [`inspect`](Client::inspect) for them by name.
    ///
    /// Uses `SCAN`: a lock that is acquired or released meanwhile may or may not be in the list.
    ///
    /// # Cancel safety
    /// Safe: the call only reads.
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
        list(self.engine(), pattern).await
    }

    /// Lists the names that match a glob pattern and of which ticks are known, in no order; `Cron::state` reads each.
    ///
    /// Uses `SCAN`, as [`list`](Client::list).
    ///
    /// # Cancel safety
    /// Safe: the call only reads.
    ///
    /// # Errors
    /// [`RequestError`] when the store does not reply.
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
        let (mut found, mut cursor) = (HashSet::new(), 0);
        // Names with a tag of their own have other keys beside them (script/keys.rs).
        for records in [format!("{{{whole}}}:ll:cron"), format!("{whole}:ll:t:cron")] {
            loop {
                let (next, keys) = engine.store.scan(cursor, &records, WITHIN).await?;
                let locks = keys.iter().filter_map(|key| LockKeys::of_cron(key));
                let names = locks.filter_map(|lock| lock.strip_prefix(&engine.ids.prefix));
                found.extend(names.filter_map(|name| Name::new(name).ok()));
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(found.into_iter().collect())
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

async fn list(engine: &Arc<Engine>, pattern: &str) -> Result<Vec<Inspection>, RequestError> {
    let whole = checked(engine, pattern)?;
    let mut people = People::of(engine);
    let mut found = HashMap::new();
    let mut cursor = 0;
    loop {
        let (next, candidates) = engine.store.scan(cursor, &whole, WITHIN).await?;
        for key in locks_among(engine, &candidates).await? {
            let name = key
                .strip_prefix(&engine.ids.prefix)
                .and_then(|name| Name::new(name).ok());
            let Some(name) = name.filter(|name| !found.contains_key(name.as_str())) else {
                continue;
            };
            let inspection = look(engine, &name, &mut people).await?;
            if inspection.state != Holding::Free {
                found.insert(inspection.name.clone(), inspection);
            }
        }
        cursor = next;
        if cursor == 0 {
            return Ok(found.into_values().collect());
        }
    }
}

/// Leaves out keys that cannot be names, before any request about them.
async fn locks_among(engine: &Engine, candidates: &[String]) -> Result<Vec<String>, StoreError> {
    let possible: Vec<String> = candidates
        .iter()
        .filter(|key| keys::check(key).is_ok())
        .cloned()
        .collect();
    let mut locks = Vec::new();
    for page in possible.chunks(engine.store.capabilities().keys_per_call.max(1)) {
        let places = engine.ask(&Survey { candidates: page }, WITHIN).await?;
        locks.extend(
            places
                .into_iter()
                .filter_map(|place| page.get(place).cloned()),
        );
    }
    Ok(locks)
}

/// Escapes the prefix, which is text and not a pattern.
fn escaped(prefix: &str) -> String {
    prefix
        .chars()
        .flat_map(|c| {
            matches!(c, '*' | '?' | '[' | ']' | '\\' | '^')
                .then_some('\\')
                .into_iter()
                .chain([c])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_never_a_pattern() {
        assert_eq!(escaped("a*b?[c]^\\:"), "a\\*b\\?\\[c\\]\\^\\\\:");
    }
}
