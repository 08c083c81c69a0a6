//! Ending a lease by a request of its kind: a run whose end is recorded in the step that gives the name back.

use super::handle::Lease;
use crate::base::StoreError;
use crate::base::backoff::Backoff;
use crate::engine::values::Cancel;

/// Pauses between two attempts to record an end; the last one repeats.
const PAUSES_MS: &[u64] = &[20, 50, 100, 250];

impl<M> Lease<M> {
    /// Makes the request, and ends the lease if by this reply the store has given it back in the same step.
    pub(crate) async fn end_by<T, F: Future<Output = Result<T, StoreError>>>(
        mut self,
        request: impl Fn() -> F,
        is_recorded: impl FnOnce(&T) -> bool,
    ) -> Result<T, StoreError> {
        self.set_changing(true); // a renewal may come after the end
        let reply = self.repeat_until_over(request).await?;
        if is_recorded(&reply) {
            self.retire();
            let (engine, record, _) = self.parts();
            engine.erase_note(record);
            self.disown();
        }
        Ok(reply)
    }

    /// Asks until the store replies, the lease ends or its ttl has passed: the work is done, and an end that is lost would
    /// have it done again.
    async fn repeat_until_over<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        request: impl Fn() -> F,
    ) -> Result<T, StoreError> {
        let (engine, record, _) = self.parts();
        let (ttl, clock) = (record.ttl(), &engine.clock);
        let until = clock.now().plus(ttl.as_duration());
        let mut backoff = Backoff::new(PAUSES_MS);
        loop {
            let error = match request().await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let may_pass = error.is_transient() || error.maybe_applied();
            if !may_pass || !self.is_held() || clock.now() >= until {
                return Err(error);
            }
            clock.sleep(backoff.next()).await;
        }
    }

    /// Undoes the acquisition, as if the lease had never been granted. Without a reply that is repeated in the background.
    pub(crate) async fn undo(mut self) -> Result<(), StoreError> {
        self.expect_late_requests(); // the cleanup then cancels, and does not release
        let guard = self.give_up();
        let (engine, record, _) = self.parts();
        engine.erase_note(record);
        let cancel = Cancel {
            resource: &record.resource,
            token: &record.token,
        };
        let within = engine.request_timeout(record.ttl());
        engine.ask(&cancel, within).await?;
        guard.end();
        Ok(())
    }
}
