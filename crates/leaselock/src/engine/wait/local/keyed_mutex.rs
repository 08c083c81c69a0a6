//! Which task of this client tries next for a lock behind which there is no line.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedMutexGuard, watch};

use crate::base::error::StoreError;

/// One gate for each lock that somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct KeyedMutex(Arc<Mutex<HashMap<Arc<str>, Arc<KeyGuard>>>>);

#[derive(Debug, Default)]
struct KeyGuard {
    /// Fair: whoever came first is first.
    turn: Arc<tokio::sync::Mutex<()>>,
    released: Notify,
    /// What the latest one met who gave up on a store that never answered.
    silence: watch::Sender<Option<StoreError>>,
}

/// Whoever has it is the one who tries. The next has it when this is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    interest: Interest,
    _turn: OwnedMutexGuard<()>,
}

/// A place before the gate. Keeps it in the table; the last one takes it out.
#[derive(Debug)]
pub(crate) struct Interest {
    gates: KeyedMutex,
    lock: Arc<str>,
    passage: Arc<KeyGuard>,
}

impl KeyedMutex {
    fn table(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<KeyGuard>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever has it may pass when all who came before have.
    pub(crate) fn before(&self, lock: &Arc<str>) -> Interest {
        let passage = Arc::clone(self.table().entry(Arc::clone(lock)).or_default());
        Interest {
            gates: KeyedMutex(Arc::clone(&self.0)),
            lock: Arc::clone(lock),
            passage,
        }
    }

    /// Somebody tries, or waits for that.
    pub(crate) fn has(&self, lock: &str) -> bool {
        self.table().contains_key(lock)
    }

    /// This client has given the lock back: whoever is at its gate need not wait for the time to try again.
    pub(crate) fn notify(&self, lock: &str) {
        let passage = self.table().get(lock).cloned();
        if let Some(passage) = passage {
            passage.released.notify_one();
        }
    }
}

impl Interest {
    /// Waits for all who came before. Whoever is dropped meanwhile is skipped.
    pub(crate) async fn turn(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.passage.turn).lock_owned().await
    }

    pub(crate) fn passes(self, turn: OwnedMutexGuard<()>) -> Entry {
        Entry {
            interest: self,
            _turn: turn,
        }
    }

    /// Ends when whoever tries has given up on a store that never answered, with what it met: the same would happen to
    /// the others, one after the other.
    pub(crate) async fn given_up(&self) -> StoreError {
        let mut silence = self.passage.silence.subscribe();
        loop {
            if let Some(source) = silence.borrow_and_update().clone() {
                return source;
            }
            if silence.changed().await.is_err() {
                std::future::pending::<()>().await; // the passage is ours too, so this is not reached
            }
        }
    }
}

impl Entry {
    /// The store has answered, or has not: what those behind need to know.
    pub(crate) fn says(&self, silence: Option<StoreError>) {
        self.interest.passage.silence.send_replace(silence);
    }

    /// Ends when a task of this client gives the lock back.
    pub(crate) async fn released(&self) {
        self.interest.passage.released.notified().await;
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut table = self.gates.table();
        // The table's and this one.
        if Arc::strong_count(&self.passage) == 2 {
            table.remove(&self.lock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn enter(gates: &KeyedMutex, lock: &Arc<str>) -> Entry {
        let interest = gates.before(lock);
        let turn = interest.turn().await;
        interest.passes(turn)
    }

    #[tokio::test]
    async fn one_at_a_time_passes_in_order_and_nothing_is_left_behind() {
        let gates = Arc::new(KeyedMutex::default());
        let lock: Arc<str> = "job".into();
        let first = enter(&gates, &lock).await;
        let (said, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let mut tasks = Vec::new();
        for number in 0..3 {
            let (gates, lock, said) = (Arc::clone(&gates), Arc::clone(&lock), said.clone());
            tasks.push(tokio::spawn(async move {
                let _gate = enter(&gates, &lock).await;
                said.send(number).unwrap();
            }));
            tokio::task::yield_now().await;
        }
        tasks.remove(1).abort(); // one goes away while it waits
        tokio::task::yield_now().await;
        assert!(heard.try_recv().is_err());
        drop(first);
        assert_eq!((heard.recv().await, heard.recv().await), (Some(0), Some(2)));
        for task in tasks {
            task.await.unwrap();
        }
        assert!(gates.table().is_empty());
    }

    #[tokio::test]
    async fn whoever_tries_hears_of_a_release_by_its_own_client() {
        let gates = KeyedMutex::default();
        let gate = enter(&gates, &"job".into()).await;
        gates.notify("another");
        gates.notify("job"); // before it listens
        gate.released().await;
    }
}
