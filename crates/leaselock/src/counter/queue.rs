//! The changes that the tasks of one client ask of one counter: one request is in flight, the others wait.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use super::change::{Batch, Change, Pending, Told};
use super::send::{Ended, Sender};
use crate::base::error::StoreError;
use crate::base::sync::hold;
use crate::engine::core::Engine;
use crate::script::keys::LockKeys;

/// The queue of one counter of one client.
///
/// A task on the client's thread sends the changes. That task is no part of a caller's future: a caller may be dropped, or
/// never be polled again, while a request is in flight that others wait for.
#[derive(Debug)]
pub(super) struct ChangeQueue {
    pub(super) keys: LockKeys,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Pending>,
    /// What leaves before all others, under the number that it had: its reply was lost.
    unsettled: Option<Batch>,
    is_running: bool,
}

impl ChangeQueue {
    pub(super) fn new(keys: LockKeys) -> Self {
        ChangeQueue {
            keys,
            state: Mutex::default(),
        }
    }

    /// Asks for a change, and waits for what becomes of it.
    pub(super) async fn ask(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        change: Change,
        kept_ms: u64,
    ) -> Told {
        let (told, hears) = oneshot::channel();
        hold(&self.state).waiting.push_back(Pending {
            change,
            kept_ms,
            is_alone: false,
            told,
        });
        match self.start(engine) {
            Ok(()) => hears.await.unwrap_or(Told::Forgotten), // the client's thread has ended
            Err(error) => Told::Refused(error),
        }
    }

    /// Starts the task that sends, unless it runs.
    pub(super) fn start(self: &Arc<Self>, engine: &Arc<Engine>) -> Result<(), StoreError> {
        let background = engine.background()?;
        if std::mem::replace(&mut hold(&self.state).is_running, true) {
            return Ok(());
        }
        let sender = Sender::new(engine, background);
        drop(background.handle.spawn(Arc::clone(self).run(sender)));
        Ok(())
    }

    async fn run(self: Arc<Self>, sender: Sender) {
        while let Some(mut batch) = self.next(&sender) {
            match sender.send(&self.keys, &mut batch).await {
                Ended::Settled(settled) => {
                    let again = batch.settle(settled);
                    let waiting = &mut hold(&self.state).waiting;
                    again
                        .into_iter()
                        .rev()
                        .for_each(|one| waiting.push_front(one));
                }
                Ended::Refused(error) => batch.tell(|| Told::Refused(error.clone())),
                Ended::Forgotten => batch.tell(|| Told::Forgotten),
                Ended::Unknown(error) => return self.give_up(batch, &error),
            }
        }
    }

    fn next(&self, sender: &Sender) -> Option<Batch> {
        let mut state = hold(&self.state);
        let next = state.unsettled.take().or_else(|| {
            let number = sender.numbers.fetch_add(1, Ordering::SeqCst) + 1;
            Batch::take(&mut state.waiting, number)
        });
        state.is_running = next.is_some();
        next
    }

    /// The batch stays in front. No later change may leave before it is settled: the store remembers the latest only.
    fn give_up(&self, mut batch: Batch, error: &StoreError) {
        batch.tell_unknown(error);
        let mut state = hold(&self.state);
        let text = format!("an earlier change of this client is not settled: {error}");
        for pending in std::mem::take(&mut state.waiting) {
            let refused = StoreError::refused(error.kind(), text.clone());
            pending.told.send(Told::Refused(refused)).ok(); // its task may have gone away
        }
        state.unsettled = Some(batch);
        state.is_running = false;
    }
}
