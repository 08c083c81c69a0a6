//! Opening the shared connection, once for all of its tasks, with retries.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use super::{Connection, Live, Outage};
use crate::base::{CLOCK, Moment, Result, hold, refusal};

/// One pause and one attempt are shorter. A task that takes longer is on a runtime that is not driven any more.
const STUCK_AFTER: Duration = Duration::from_secs(5);

impl Connection {
    pub(super) async fn connected(self: &Arc<Self>, until: Moment) -> Result<Arc<Live>> {
        if let Some(live) = self.live() {
            return Ok(live);
        }
        match timeout(CLOCK.left(until), self.keep_dialling(until)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(hold(&self.state)
                .reason
                .clone()
                .unwrap_or_else(|| self.endpoint.silent())),
        }
    }

    /// Retries until success, until only an operator can help, or until the next try would be too late.
    async fn keep_dialling(self: &Arc<Self>, until: Moment) -> Result<Arc<Live>> {
        loop {
            let mut outage = self.gate().lock_owned().await;
            hold(&self.state).inside_since = Some(CLOCK.now());
            if let Some(live) = self.live() {
                return Ok(live);
            }
            if let Some(at) = outage.retry_at {
                let reason = hold(&self.state).reason.clone();
                if let Some(reason) = reason.filter(|_| at >= until) {
                    return Err(reason);
                }
                tokio::select! {
                    () = CLOCK.sleep_until(at) => {}
                    () = self.endpoint.moved() => {}
                }
                outage.retry_at = None;
            }
            // In a task of its own: a caller that is dropped early leaves a connection for the next one, which may have
            // as little time.
            match tokio::spawn(self.clone().dial(outage)).await {
                Ok(Err(error)) if error.is_transient() => {}
                Ok(outcome) => return outcome,
                Err(_) => return Err(refusal!(Internal: "the runtime is shutting down")),
            }
        }
    }

    async fn dial(self: Arc<Self>, mut outage: OwnedMutexGuard<Outage>) -> Result<Arc<Live>> {
        let outcome = self.connect().await;
        (self.trouble).tried(self.endpoint.address(), outcome.as_ref().err());
        let mut state = hold(&self.state);
        state.inside_since = None;
        match outcome {
            Ok(live) => {
                tracing::debug!(target: "leaselock", server = %self.endpoint, "connected");
                *outage = Outage::default();
                live.running.tells(&self.trouble);
                self.made.fetch_add(1, Ordering::SeqCst); // before any task can use it
                state.live = Some(live.clone());
                state.reason = None;
                Ok(live)
            }
            Err(error) => {
                tracing::debug!(target: "leaselock", server = %self.endpoint, %error, "not connected");
                outage.retry_at = Some(CLOCK.now().plus(outage.backoff.next_jittered()));
                state.reason = Some(error.clone());
                Err(error)
            }
        }
    }

    async fn connect(&self) -> Result<Arc<Live>> {
        if let Some(live) = self.connect_to_receive().await? {
            return Ok(live);
        }
        let raw = self.endpoint.for_requests().await?;
        Ok(Live::new(raw, None, self.push_mode.done_without()))
    }

    /// Opens a connection that receives messages, if a task has waited for some and the server permits it.
    async fn connect_to_receive(&self) -> Result<Option<Arc<Live>>> {
        let Some(receiver) = self.push_mode.receiver() else {
            return Ok(None);
        };
        match self.endpoint.for_both(&receiver).await {
            Ok(raw) => Ok(Some(Live::new(raw, Some(receiver), true))),
            Err(error) if self.push_mode.failed(&error) => {
                tracing::debug!(target: "leaselock", server = %self.endpoint, %error, "requests hear no messages");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) async fn replace_untried(self: &Arc<Self>) {
        let gate = self.gate().lock_owned().await;
        if self.live().is_some_and(|live| !live.tried) {
            hold(&self.state).inside_since = Some(CLOCK.now());
            drop(tokio::spawn(self.clone().replace(gate)).await); // an error when the runtime ends
        }
    }

    /// Replaces the connection, in a task of its own as `dial`. The present one stays when there is no better one.
    async fn replace(self: Arc<Self>, _gate: OwnedMutexGuard<Outage>) {
        let better = self.connect_to_receive().await;
        let mut state = hold(&self.state);
        state.inside_since = None;
        if let Ok(Some(live)) = better {
            live.running.tells(&self.trouble);
            self.made.fetch_add(1, Ordering::SeqCst); // before any task can use it
            state.live = Some(live);
            return;
        }
        self.push_mode.done_without();
        if let Some(live) = &mut state.live {
            Arc::make_mut(live).tried = true;
        }
    }

    /// Returns the gate; a new one when a task is stuck in the old one.
    fn gate(&self) -> Arc<tokio::sync::Mutex<Outage>> {
        let mut state = hold(&self.state);
        let is_stuck = |since| CLOCK.now().saturating_since(since) > STUCK_AFTER;
        if state.inside_since.is_some_and(is_stuck) {
            state.inside_since = None;
            state.gate = Arc::default();
        }
        state.gate.clone()
    }
}
