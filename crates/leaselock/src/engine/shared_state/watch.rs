//! Waiting for a state that others change: read it, pause until there is a reason to read again, and read again.
//!
//! A message is a reason; where messages do not arrive, time is. What is read, and when the wait is over, says the caller.

use std::sync::Arc;
use std::time::Duration;

use crate::base::Moment;
use crate::base::error::NounFailure;
use crate::engine::services::{BroadcastListener, Engine, broadcast};

/// One wait.
#[derive(Debug)]
pub(crate) struct Watch {
    engine: Arc<Engine>,
    listener: BroadcastListener,
    until: Option<Moment>,
    has_replied: bool,
    /// How long the next pause is at most.
    pause: Duration,
    /// When the next read is due without a message; `None`: now.
    next: Option<Moment>,
}

impl Watch {
    /// Watches what this noun broadcasts of a name, until this moment or without a limit.
    pub(crate) fn new(
        engine: &Arc<Engine>,
        noun: &'static str,
        lock: &Arc<str>,
        until: Option<Moment>,
    ) -> Self {
        Watch {
            engine: Arc::clone(engine),
            listener: BroadcastListener::new(engine, noun, lock),
            until,
            has_replied: false,
            pause: Duration::ZERO,
            next: None,
        }
    }

    /// To be called before each request: what changes from then on is heard.
    pub(crate) async fn listens(&mut self, within: Duration) {
        let within = within.min(broadcast::SUBSCRIBED_WITHIN);
        let heard = self.listener.listens(within).await;
        self.pause = broadcast::read_every(heard);
    }

    /// The store has replied: from now on it is asked again when it does not.
    pub(crate) fn has_reply(&mut self) {
        self.has_replied = true;
    }

    /// What a failed request means: the error when the wait is over by it, and nothing when it goes on.
    pub(crate) fn goes_on_after(&mut self, failure: NounFailure) -> Result<(), NounFailure> {
        self.pause = self.pause.min(broadcast::read_every(false));
        match self.has_replied && failure.source.is_transient() {
            true => Ok(()),
            false => Err(failure),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.until
            .is_some_and(|until| self.engine.clock.now() >= until)
    }

    /// Waits for a change, at most for `longest`, and not beyond the end.
    pub(crate) async fn pause(&mut self, longest: Duration) {
        self.reads_within(longest);
        self.due().await;
    }

    /// Sets the next read, which is due after `longest` at the latest.
    pub(crate) fn reads_within(&mut self, longest: Duration) {
        let next = self.engine.clock.now().plus(self.pause.min(longest));
        self.next = Some(self.until.map_or(next, |until| until.min(next)));
    }

    /// Waits for the next reason to read.
    ///
    /// # Cancel safety
    /// Safe: a reason stays until a read was answered.
    pub(crate) async fn due(&mut self) {
        if let Some(next) = self.next {
            self.listener.told_or(next).await;
            self.next = None;
        }
    }
}
