//! Queues of one client's tasks for a lock file that other processes keep busy: one of them tries.
//!
//! Thousands of tasks that all try take the processor from the one that has the file.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

use crate::base::sync::hold;

type WaitingTries = Arc<tokio::sync::Mutex<()>>;

/// The queues, by the names of the files.
#[derive(Debug, Default)]
pub(super) struct TryQueues(Mutex<HashMap<String, WaitingTries>>);

/// A task's place in a queue; the queue is removed with its last place.
#[derive(Debug)]
struct QueuePlace<'a> {
    queues: &'a TryQueues,
    name: &'a str,
    queue: Option<WaitingTries>,
}

/// The head of a queue, until dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    _head: OwnedMutexGuard<()>,
    /// Dropped after the head, so that a queue without a place has no head either.
    _place: QueuePlace<'a>,
}

impl TryQueues {
    /// True if a task of this client is already trying for the file.
    pub(super) fn has(&self, name: &str) -> bool {
        hold(&self.0).contains_key(name)
    }

    /// Waits for the turn to try; `None` when that takes longer than `within`.
    pub(super) async fn turn<'a>(&'a self, name: &'a str, within: Duration) -> Option<Turn<'a>> {
        let queue = Arc::clone(hold(&self.0).entry(name.to_owned()).or_default());
        let place = QueuePlace {
            queues: self,
            name,
            queue: Some(Arc::clone(&queue)),
        };
        let head = tokio::time::timeout(within, queue.lock_owned())
            .await
            .ok()?;
        Some(Turn {
            _head: head,
            _place: place,
        })
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        let mut queues = hold(&self.queues.0);
        drop(self.queue.take());
        if queues
            .get(self.name)
            .is_some_and(|queue| Arc::strong_count(queue) == 1)
        {
            queues.remove(self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn tasks_have_their_turns_in_order_and_an_empty_queue_is_forgotten() {
        let queues = TryQueues::default();
        let first = queues.turn("job", LONG).await.unwrap();
        let served = Mutex::new(Vec::new());
        let task = async |number| {
            let turn = queues.turn("job", LONG).await.unwrap();
            served.lock().unwrap().push(number);
            tokio::task::yield_now().await;
            drop(turn);
        };
        let others = async {
            assert!(queues.has("job") && !queues.has("other"));
            drop(queues.turn("other", LONG).await.unwrap());
            drop(first);
        };
        tokio::join!(task(1), task(2), task(3), others);
        assert_eq!(*served.lock().unwrap(), [1, 2, 3]);
        assert!(hold(&queues.0).is_empty());
    }

    #[tokio::test]
    async fn a_task_that_gives_up_leaves_the_queue() {
        let queues = TryQueues::default();
        let first = queues.turn("job", LONG).await.unwrap();
        assert!(queues.turn("job", Duration::ZERO).await.is_none());
        drop(first);
        assert!(!queues.has("job"));
        drop(queues.turn("job", LONG).await.unwrap());
        assert!(hold(&queues.0).is_empty());
    }
}
