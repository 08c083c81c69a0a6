//! The tasks of one client that wait for the same lock where there is no queue: one asks, and the others wait behind it.

use super::ask::Ask;
use super::patience::{NEVER_ANSWERED, Patience};
use super::run::WaitEnd;
use crate::base::clock::Moment;
use crate::base::error::AcquireError;
use crate::base::keyed_mutex::KeyedMutexGuard;
use crate::engine::guard::lease::Lease;

impl Ask<'_> {
    /// Waits behind the tasks of this client that came before, unless the time is over first, or they have found that the
    /// store is not there.
    pub(super) async fn wait_for_turn(
        &self,
        start: Moment,
        end: Option<Moment>,
    ) -> Result<KeyedMutexGuard, AcquireError> {
        let clock = &self.engine.clock;
        let interest = self
            .engine
            .limits
            .poll_mutexes
            .interest(&self.resource.lock);
        let silence = async {
            clock.sleep_until(start.plus(NEVER_ANSWERED)).await;
            interest.given_up().await
        };
        let over = async {
            match end {
                Some(end) => clock.sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        let turn = tokio::select! {
            biased;
            turn = interest.turn() => turn,
            source = silence => {
                let name = self.name.clone();
                return Err(AcquireError::Store { name, source });
            }
            () = over => return Err(self.still_busy(start, None)),
        };
        Ok(interest.enter(turn))
    }

    /// What a wait without a queue came to: the error of the latest request, or that the lock is still busy.
    pub(super) fn without_queue(
        &self,
        ended: WaitEnd<Lease>,
        turn: &KeyedMutexGuard,
        start: Moment,
        patience: &Patience,
    ) -> Result<Lease, AcquireError> {
        let source = match ended {
            WaitEnd::Granted(lease) => return Ok(lease),
            WaitEnd::Failed(source) => Some(source),
            WaitEnd::Over | WaitEnd::HandedOver | WaitEnd::NoTime => {
                let silence = patience.never_answered().cloned();
                if silence.is_some() && self.now() >= start.plus(NEVER_ANSWERED) {
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
