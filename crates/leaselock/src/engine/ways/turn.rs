//! The tasks of one client that wait for the same lock where there is no queue: one asks, and the others wait behind it.

use super::ask::Ask;
use super::patience::{NEVER_ANSWERED, Patience};
use super::run::WaitEnd;
use crate::base::Moment;
use crate::base::error::AcquireError;
use crate::base::keyed_mutex::KeyedMutexGuard;

impl Ask<'_> {
    /// Waits behind the tasks of this client that came before, unless the time is over first, or they have found that the
    /// store is not there. One that is not polled any more is left behind.
    pub(super) async fn wait_for_turn(
        &self,
        start: Moment,
        end: Option<Moment>,
    ) -> Result<KeyedMutexGuard, AcquireError> {
        let (clock, turns) = (&self.engine.clock, &self.engine.limits.poll_mutexes);
        loop {
            let interest = turns.interest(&self.resource.lock);
            let silence = async {
                clock.sleep_until(start.plus(NEVER_ANSWERED)).await;
                interest.given_up().await
            };
            let turn = tokio::select! {
                biased;
                turn = interest.turn() => Some(turn),
                source = silence => {
                    let name = self.name.clone();
                    return Err(AcquireError::Store { name, source });
                }
                () = clock.sleep_until_end(end) => return Err(self.still_busy(start, None)),
                () = interest.stalled(clock) => None,
            };
            if let Some(turn) = turn {
                return Ok(interest.enter(turn));
            }
        }
    }

    /// What a wait without a queue came to: the error of the latest request, or that the lock is still busy. `turn`: that
    /// of this task, if other tasks wait behind it.
    pub(super) fn without_queue<T>(
        &self,
        ended: WaitEnd<T>,
        turn: Option<&KeyedMutexGuard>,
        start: Moment,
        patience: &Patience,
    ) -> Result<T, AcquireError> {
        let source = match ended {
            WaitEnd::Granted(granted) => return Ok(granted),
            WaitEnd::Failed(source) => Some(source),
            WaitEnd::Over | WaitEnd::HandedOver | WaitEnd::NoTime => {
                let silence = patience.never_answered().cloned();
                if let Some(turn) = turn
                    && silence.is_some()
                    && self.now() >= start.plus(NEVER_ANSWERED)
                {
                    turn.report(silence);
                }
                patience.error.clone()
            }
        };
        Err(match source {
            Some(source) => self.error(source, false),
            None => self.still_busy(start, patience.seen.clone()),
        })
    }
}
