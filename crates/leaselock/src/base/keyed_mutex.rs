//! A mutex for each key: which task of this client tries next for a lock without a queue, or for a lock file.
//!
//! The task that has its turn may never be polled again. Who waits behind it may go on without it ([`Interest::turn_unless_stalled`]).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, OwnedMutexGuard, watch};

use super::clock::{Clock, Moment};
use super::error::StoreError;
use super::shorthand::hold;

/// A task that is polled tries more often than that, unless the request timeout was set to more.
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(15);

/// One mutex for each lock that a task waits for.
#[derive(Debug, Default)]
pub(crate) struct KeyedMutex(Arc<Mutex<HashMap<Arc<str>, Arc<KeyState>>>>);

#[derive(Debug, Default)]
struct KeyState {
    /// Fair: first come, first served.
    turn: Arc<tokio::sync::Mutex<()>>,
    released: Notify,
    /// When a task tried last, or was first waited for.
    tried: Mutex<Option<Moment>>,
    /// The error of the latest task that gave up a store that was never there.
    silence: watch::Sender<Option<StoreError>>,
}

/// The task that has it tries. The next one has it when this is dropped.
#[derive(Debug)]
pub(crate) struct KeyedMutexGuard {
    /// Ends first: a lock that is out of the table has no task that tries.
    _turn: OwnedMutexGuard<()>,
    interest: Interest,
}

/// A wait for the mutex. Keeps it in the table; the last one takes it out.
#[derive(Debug)]
pub(crate) struct Interest {
    table: KeyedMutex,
    lock: Arc<str>,
    state: Arc<KeyState>,
}

impl KeyedMutex {
    /// The task may pass when all that came before have passed.
    pub(crate) fn interest(&self, lock: &Arc<str>) -> Interest {
        let state = Arc::clone(hold(&self.0).entry(Arc::clone(lock)).or_default());
        Interest {
            table: KeyedMutex(Arc::clone(&self.0)),
            lock: Arc::clone(lock),
            state,
        }
    }

    /// True if a task tries, or waits for that.
    pub(crate) fn has(&self, lock: &str) -> bool {
        hold(&self.0).contains_key(lock)
    }

    /// This client has released the lock: the task that tries need not wait for the time to try again.
    pub(crate) fn notify(&self, lock: &str) {
        if let Some(state) = hold(&self.0).get(lock) {
            state.released.notify_one();
        }
    }
}

impl Interest {
    /// Waits for all that came before. A task that is dropped meanwhile is skipped.
    pub(crate) async fn turn(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.state.turn).lock_owned().await
    }

    /// Waits as `turn` does; `None` when it has stalled.
    pub(crate) async fn turn_unless_stalled(
        &self,
        clock: &Clock,
        after: Duration,
    ) -> Option<OwnedMutexGuard<()>> {
        tokio::select! {
            biased;
            turn = self.turn() => Some(turn),
            () = self.stalled(clock, after) => None,
        }
    }

    pub(crate) fn enter(self, turn: OwnedMutexGuard<()>) -> KeyedMutexGuard {
        KeyedMutexGuard {
            _turn: turn,
            interest: self,
        }
    }

    /// Ends when no task has tried for that long, because the one whose turn it is is not polled. Waits that begin then go
    /// on without it.
    async fn stalled(&self, clock: &Clock, after: Duration) {
        loop {
            let now = clock.now();
            let tried = *hold(&self.state.tried).get_or_insert(now);
            if now >= tried.plus(after) {
                return self.leave_table(&mut hold(&self.table.0));
            }
            clock.sleep_until(tried.plus(after)).await;
        }
    }

    fn leave_table(&self, table: &mut HashMap<Arc<str>, Arc<KeyState>>) {
        let listed = table.get(&self.lock);
        if listed.is_some_and(|state| Arc::ptr_eq(state, &self.state)) {
            table.remove(&self.lock);
        }
    }

    /// Ends when the task that tries has given up a store that was never there, with its error: the same would happen to
    /// the others, one after the other.
    pub(crate) async fn given_up(&self) -> StoreError {
        let mut silence = self.state.silence.subscribe();
        let source = silence.wait_for(Option::is_some).await;
        match source.ok().and_then(|source| source.clone()) {
            Some(source) => source,
            None => std::future::pending().await, // the state is ours too, so this is not reached
        }
    }
}

impl KeyedMutexGuard {
    /// The task tries now.
    pub(crate) fn tries(&self, now: Moment) {
        *hold(&self.interest.state.tried) = Some(now);
    }

    /// The store has answered, or was never there: what the tasks behind need to know.
    pub(crate) fn report(&self, silence: Option<StoreError>) {
        self.interest.state.silence.send_replace(silence);
    }

    /// Ends when a task of this client gives the lock back.
    pub(crate) async fn released(&self) {
        self.interest.state.released.notified().await;
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut table = hold(&self.table.0);
        // The table's and this one.
        if Arc::strong_count(&self.state) == 2 {
            self.leave_table(&mut table);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn enter(locks: &KeyedMutex, lock: &Arc<str>) -> KeyedMutexGuard {
        let interest = locks.interest(lock);
        let turn = interest.turn().await;
        interest.enter(turn)
    }

    #[tokio::test]
    async fn one_at_a_time_passes_in_order_and_nothing_is_left_behind() {
        let locks = Arc::new(KeyedMutex::default());
        let lock: Arc<str> = "job".into();
        let first = enter(&locks, &lock).await;
        let (said, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let mut tasks = Vec::new();
        for number in 0..3 {
            let (locks, lock, said) = (Arc::clone(&locks), Arc::clone(&lock), said.clone());
            tasks.push(tokio::spawn(async move {
                let _turn = enter(&locks, &lock).await;
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
        assert!(hold(&locks.0).is_empty());
    }

    #[tokio::test]
    async fn tasks_have_their_turns_in_order_and_an_empty_queue_is_forgotten() {
        let (locks, lock) = (KeyedMutex::default(), "job".into());
        let first = enter(&locks, &lock).await;
        let served = Mutex::new(Vec::new());
        let task = async |number| {
            let turn = enter(&locks, &lock).await;
            hold(&served).push(number);
            tokio::task::yield_now().await;
            drop(turn);
        };
        let others = async {
            assert!(locks.has("job") && !locks.has("other"));
            drop(enter(&locks, &"other".into()).await);
            drop(first);
        };
        tokio::join!(task(1), task(2), task(3), others);
        assert_eq!(*hold(&served), [1, 2, 3]);
        assert!(hold(&locks.0).is_empty());
    }

    #[tokio::test]
    async fn a_task_that_gives_up_leaves_the_queue() {
        let (locks, lock) = (KeyedMutex::default(), "job".into());
        let first = enter(&locks, &lock).await;
        let waiter = locks.interest(&lock);
        let given_up = tokio::time::timeout(std::time::Duration::ZERO, waiter.turn());
        assert!(given_up.await.is_err());
        drop(waiter);
        drop(first);
        assert!(!locks.has("job"));
        drop(enter(&locks, &lock).await);
        assert!(hold(&locks.0).is_empty());
    }

    #[tokio::test]
    async fn the_task_that_tries_is_woken_by_a_release_of_its_own_client() {
        let locks = KeyedMutex::default();
        let turn = enter(&locks, &"job".into()).await;
        locks.notify("another");
        locks.notify("job"); // before it listens
        turn.released().await;
    }

    #[tokio::test]
    async fn a_wake_up_of_a_task_that_goes_away_reaches_the_next_one() {
        let (locks, lock) = (KeyedMutex::default(), "job".into());
        let first = enter(&locks, &lock).await;
        {
            let woken = std::pin::pin!(first.released());
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(woken.poll(&mut context).is_pending());
            locks.notify("job");
        }
        let interest = locks.interest(&lock);
        drop(first);
        let turn = interest.turn().await;
        interest.enter(turn).released().await;
    }

    #[tokio::test]
    async fn who_waits_behind_a_task_that_does_not_try_goes_on_without_it() {
        let (locks, lock, clock) = (KeyedMutex::default(), "job".into(), Clock::manual());
        let idle = enter(&locks, &lock).await;
        idle.tries(clock.now());
        let waiters = [(); 2].map(|()| locks.interest(&lock));
        let stalled = async || {
            let ended = waiters
                .each_ref()
                .map(|one| one.stalled(&clock, STALLED_AFTER));
            let both = futures_util::future::join_all(ended);
            tokio::time::timeout(Duration::ZERO, both).await.is_ok()
        };
        assert!(!stalled().await);
        clock.advance(STALLED_AFTER / 2);
        idle.tries(clock.now());
        clock.advance(STALLED_AFTER / 2);
        assert!(!stalled().await, "it has tried");
        clock.advance(STALLED_AFTER / 2);
        assert!(stalled().await);
        let next = enter(&locks, &lock).await;
        drop(idle);
        assert!(locks.has("job"), "those that go on are still there");
        drop(next);
        assert!(hold(&locks.0).is_empty());
    }
}
