//! A name of a client at which something waits or counts, and waiting there for a state that others change.

use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::Name;

use crate::base::error::NounFailure;
use crate::base::{InvalidInput, Moment, StoreError, Token};
use crate::engine::services::{BroadcastListener, Engine, OPERATOR_WITHIN, broadcast};
use crate::quorum::tally::Votable;
use crate::script::LockKeys;

/// Why a majority of servers has none of them.
const NO_MAJORITY: &str = "the sums of several servers are not one sum";

/// What the handle of such a primitive has in any case.
#[derive(Debug, Clone)]
pub(crate) struct Noun {
    pub(crate) engine: Arc<Engine>,
    /// What it is called, in channels and in what the tasks of a client share.
    word: &'static str,
    name: Result<Name, InvalidInput>,
}

/// A noun whose name is valid, and what is asked about it.
#[derive(Debug, Clone)]
pub(crate) struct ValidNoun {
    pub(crate) engine: Arc<Engine>,
    pub(crate) word: &'static str,
    pub(crate) name: Name,
    pub(crate) keys: LockKeys,
}

impl Noun {
    /// The first operation reports a bad name.
    pub(crate) fn new(engine: &Arc<Engine>, word: &'static str, name: impl Into<String>) -> Self {
        Noun {
            engine: Arc::clone(engine),
            word,
            name: Name::new(name),
        }
    }

    /// Returns the name; `None` for a malformed one.
    pub(crate) fn as_str(&self) -> Option<&str> {
        self.name.as_ref().ok().map(Name::as_str)
    }

    /// Refuses a bad name, and a majority of servers.
    pub(crate) fn valid(&self) -> Result<ValidNoun, InvalidInput> {
        let name = self.name.clone()?;
        self.engine.needs_one_server(self.word, NO_MAJORITY)?;
        Ok(ValidNoun {
            engine: Arc::clone(&self.engine),
            word: self.word,
            keys: LockKeys::new(&self.engine.ids.prefix, &name)?,
            name,
        })
    }
}

impl ValidNoun {
    /// Returns the channel on which its changes are published.
    pub(crate) fn channel(&self) -> String {
        broadcast::channel_of(&self.engine, self.word, &self.keys.lock)
    }

    /// Watches its changes, until this moment or without a limit.
    pub(crate) fn watch(&self, until: Option<Moment>) -> Watch {
        Watch::new(&self.engine, self.word, &self.keys.lock, until)
    }

    pub(crate) fn failure(&self, source: StoreError) -> NounFailure {
        let name = self.name.clone();
        NounFailure { name, source }
    }

    pub(crate) async fn ask<O: Votable>(&self, request: &O) -> Result<O::Reply, NounFailure> {
        let asked = self.engine.ask(request, OPERATOR_WITHIN).await;
        asked.map_err(|source| self.failure(source))
    }

    /// Asks until `found` returns a value for a reply. It learns whether the time is over: then it returns one or an error.
    ///
    /// # Cancel safety
    /// As safe as the request.
    pub(crate) async fn wait_for<O: Votable, T, E: From<NounFailure>>(
        &self,
        request: &O,
        until: Option<Moment>,
        found: impl Fn(O::Reply, bool) -> Result<Option<T>, E>,
    ) -> Result<T, E> {
        let mut watch = self.watch(until);
        loop {
            watch.listens(OPERATOR_WITHIN).await;
            let asked = self.ask(request).await;
            let is_over = watch.is_over();
            match asked {
                Ok(reply) => {
                    if let Some(found) = found(reply, is_over)? {
                        return Ok(found);
                    }
                    watch.has_reply();
                }
                Err(failure) if is_over => return Err(failure.into()),
                Err(failure) => watch.goes_on_after(failure)?,
            }
            watch.pause(Duration::MAX).await;
        }
    }

    /// Returns a token for something that a dropped future may leave, and starts the thread that then takes it back.
    pub(crate) fn new_token(&self) -> Result<Token, NounFailure> {
        let engine = &self.engine;
        let token = engine
            .own_background()
            .and_then(|_| engine.ids.token(false, engine.clock.now()));
        token.map_err(|source| self.failure(source))
    }
}

/// Writes what every handle says of its name. `$check` refuses what the first operation would refuse.
macro_rules! name_and_validate {
    ($named:ident, $check:ident) => {
        name_and_validate!($named, $check, "name", ".");
    };
    ($named:ident, $($check:ident).+, $name:literal, $what:literal) => {
        #[doc = concat!("Returns the ", $name, "; `None` for a malformed one, which the first operation reports.")]
        pub fn name(&self) -> Option<&str> {
            self.$named.as_str()
        }

        #[doc = concat!("Checks now what the first operation would refuse", $what)]
        ///
        /// # Errors
        /// [`InvalidInput`] says what would be valid. Nothing is sent.
        pub fn validate(self) -> Result<Self, InvalidInput> {
            self.$($check).+()?;
            Ok(self)
        }
    };
}
pub(crate) use name_and_validate;

// Waiting for a state that others change: read it, pause until there is a reason to read again, and read again.
//
// A message is a reason; where messages do not arrive, time is. What is read, and when the wait is over, says the caller.

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
            tokio::select! {
                () = self.listener.told() => {}
                () = self.engine.clock.sleep_until(next) => {}
            }
            self.next = None;
        }
    }
}
