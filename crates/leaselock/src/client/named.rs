//! The lock of one name: what the handles of all kinds of locks share, among it the state of their client.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use leaselock_fence::Name;
use tracing::Instrument;
use tracing::field::Empty;

use super::options::Options;
use crate::base::error::{AcquireError, NounFailure};
use crate::base::{InvalidInput, Moment, debug_as};
use crate::engine::guard::lease::Lease;
use crate::engine::services::{Acquiring, Engine, KindTotals, OPERATOR_WITHIN, broadcast};
use crate::engine::values::{AcquireRequest, AcquireTerms, Kind, LockMode, Resource, Wait};
use crate::engine::ways::ask::Ask;
use crate::engine::ways::local::groups::LocalGroups;
use crate::interop::protocol::custom::Custom;
use crate::quorum::tally::Votable;
use crate::script::LockKeys;

pub(crate) struct ClientState {
    pub(crate) engine: Arc<Engine>,
    pub(crate) groups: Arc<LocalGroups>,
    pub(crate) defaults: Options,
    /// The class of a name, for handles that do not set their own.
    pub(crate) class_of: Option<ClassOf>,
}

pub(crate) type ClassOf = Box<dyn Fn(&str) -> &str + Send + Sync>;

/// What remained to be cleaned up when a client was closed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CloseReport {
    /// What was taken back in the background, and confirmed: leases and queue entries, and what dropped waits had left,
    /// as the party of a barrier or the reservation of a limiter.
    pub released: usize,
    /// What was not confirmed; it ends by itself at its ttl.
    pub unconfirmed: usize,
}

impl ClientState {
    /// Checks an acquisition, and returns its keys and its request.
    pub(crate) fn request(
        &self,
        kind: &'static Kind,
        name: &Name,
        options: &Options,
    ) -> Result<(Resource, AcquireRequest), InvalidInput> {
        let (engine, foreign) = (&*self.engine, options.foreign());
        let prefix = &engine.ids.prefix;
        let ttl = options.check()?;
        engine.check_strict(ttl)?;
        if let Some(owner) = &options.owner {
            owner.check(&engine.ids.client)?;
        }
        let keys = match foreign {
            None => LockKeys::new(prefix, name)?,
            Some(protocol) => protocol.keys(prefix, name)?,
        };
        let keys = Resource::new(kind, keys.behind(engine.gate()));
        check_kind(kind, engine, options)?;
        foreign.map_or(Ok(()), |protocol| protocol.check(engine))?;
        (engine.store).check_limits(options.priority, ttl.as_duration())?;
        options.copies.map_or(Ok(()), |_| engine.check_replicas())?;
        let terms = AcquireTerms {
            ttl,
            priority: options.priority,
            renews: options.renews(),
            fences: options.fences(),
        };
        let request = AcquireRequest {
            terms,
            max_hold: options.max_hold,
            why: options.why.clone(),
            on_wait: options.on_wait.clone(),
            copies: options.copies,
            custom: foreign.map(|protocol| Custom::of(protocol, prefix)),
        };
        Ok((keys, request))
    }
}

/// Refuses what locks of this kind cannot have, before anything is sent.
fn check_kind(kind: &'static Kind, engine: &Engine, options: &Options) -> Result<(), InvalidInput> {
    let name = kind.name;
    // Another library's lock is one string that one client holds.
    let what = if options.foreign().is_some() && kind.no_majority.is_some() {
        "the protocol of another library"
    } else if options.why.is_some() && kind.note.is_none() {
        "a note"
    } else if options.copies.is_some() && kind.confirm.is_none() {
        "min_replicas or fsynced"
    } else if let Some(reason) = kind.no_majority {
        return engine.needs_one_server(name, reason);
    } else {
        return Ok(());
    };
    let refusal = format!("a {name} does not support {what}: leave it out");
    Err(InvalidInput::new(refusal))
}

debug_as!(ClientState, it => { id: it.engine.ids.client.as_str(), store: it.engine.store.describe() });

/// A name for an error is worth no longer wait.
const WHO_WITHIN: Duration = Duration::from_millis(250);

/// A name, the kind of lock that is meant, and the options. It holds nothing.
#[derive(Clone)]
pub(crate) struct Named {
    pub(crate) state: Arc<ClientState>,
    kind: &'static Kind,
    /// How it is held, for kinds with several ways.
    mode: Option<Arc<str>>,
    pub(crate) name: Result<Name, InvalidInput>,
    pub(crate) options: Options,
}

impl Named {
    /// Creates it with the client's default options. The first operation reports a bad name.
    pub(crate) fn new(state: &Arc<ClientState>, kind: &'static Kind, name: String) -> Self {
        Named {
            state: Arc::clone(state),
            kind,
            mode: None,
            name: Name::new(name),
            options: state.defaults.clone(),
        }
    }

    pub(crate) fn with_mode(mut self, mode: impl Into<Arc<str>>) -> Self {
        self.mode = Some(mode.into());
        self
    }

    /// Returns the lock of this name and with these options as one of another kind, to be held in this way.
    pub(crate) fn as_kind(&self, kind: &'static Kind, mode: Option<&str>) -> Self {
        Named {
            kind,
            mode: mode.map(Arc::from),
            ..self.clone()
        }
    }

    pub(crate) fn rename(&mut self, name: impl FnOnce(&Name) -> Result<Name, InvalidInput>) {
        if let Ok(old) = &self.name {
            self.name = name(old);
        }
    }

    /// Returns the name; `None` for a malformed one.
    pub(crate) fn as_str(&self) -> Option<&str> {
        self.name.as_ref().ok().map(Name::as_str)
    }

    pub(crate) fn name(&self) -> Result<&Name, InvalidInput> {
        self.name.as_ref().map_err(Clone::clone)
    }

    /// Refuses what the first operation would refuse; nothing is sent.
    pub(crate) fn validate(&self) -> Result<(), InvalidInput> {
        self.resource().map(drop)
    }

    pub(crate) fn resource(&self) -> Result<Resource, InvalidInput> {
        let (resource, _) = self.state.request(self.kind, self.name()?, &self.options)?;
        Ok(resource.with_mode(self.mode.clone()))
    }

    /// Returns the lock of a run and the channel of its noun's broadcasts, unless a run cannot have these options.
    pub(crate) fn of_run(&self, noun: &str) -> Result<(Resource, String), InvalidInput> {
        self.options.check_run()?;
        let resource = self.resource()?;
        let channel = broadcast::channel_of(&self.state.engine, noun, &resource.lock);
        Ok((resource, channel))
    }

    pub(crate) async fn request<O, E>(&self, request: &O) -> Result<O::Reply, E>
    where
        O: Votable,
        E: From<InvalidInput> + From<NounFailure>,
    {
        let name = self.name()?.clone();
        let asked = self.state.engine.ask(request, OPERATOR_WITHIN).await;
        Ok(asked.map_err(|source| NounFailure { name, source })?)
    }

    /// Returns what is asked for from `start` on, with a token of its own; nothing is sent yet.
    pub(crate) fn ask_from(&self, start: Moment) -> Result<Ask<'_>, AcquireError> {
        let engine = &self.state.engine;
        if engine.is_closed() {
            return Err(AcquireError::Closed);
        }
        let name = self.name()?;
        let (resource, request) = self.state.request(self.kind, name, &self.options)?;
        let resource = resource.with_mode(self.mode.clone());
        let owner = self.options.owner.clone();
        Ask::new(engine, name, resource, request, owner, start)
    }

    /// The same from now on.
    pub(crate) fn ask(&self) -> Result<Ask<'_>, AcquireError> {
        self.ask_from(self.state.engine.clock.now())
    }

    fn totals(&self, label: Option<&'static str>) -> Option<&Arc<KindTotals>> {
        let own = match LockMode::of_mode(self.mode.as_deref()) {
            LockMode::Upgradable => "upgradable",
            _ => self.kind.label,
        };
        let state = &self.state;
        let named = || Some(state.class_of.as_ref()?(self.as_str()?));
        let class = self.options.class.as_deref().or_else(named);
        let totals = &state.engine.totals;
        totals.of(label.unwrap_or(own), class.unwrap_or_default())
    }

    /// Begins to count an acquisition, by this label in place of that of its kind.
    pub(crate) fn acquiring(&self, label: Option<&'static str>, wait: Wait) -> Acquiring<'_> {
        let (totals, options) = (self.totals(label), &self.options);
        let span = tracing::debug_span!(
            target: "leaselock", "acquire", lock = self.as_str().unwrap_or_default(),
            kind = totals.map(|it| it.kind), class = totals.map(|it| &*it.class),
            ttl_ms = options.length().as_millis(), priority = options.priority,
            wait_limit_ms = wait.limit().map(|limit| limit.as_millis()),
            outcome = Empty, waited_ms = Empty, position = Empty, fence = Empty, holder = Empty,
        );
        Acquiring::begin(&self.state.engine.clock, totals, span)
    }

    /// Follows the wait policy to its end.
    pub(crate) async fn wait(&self, wait: Wait) -> Result<Lease, AcquireError> {
        let acquiring = self.acquiring(None, wait);
        let mut waiting = pin!(self.wait_from(acquiring.began, wait)); // in place: `instrument` would copy it twice
        let in_span = |context: &mut Context<'_>| {
            (acquiring.span).in_scope(|| waiting.as_mut().poll(context))
        };
        let acquired = poll_fn(in_span).await;
        acquiring.end(acquired, Lease::counted)
    }

    /// The same for one of several names, which count as one acquisition.
    pub(crate) async fn wait_from(&self, start: Moment, wait: Wait) -> Result<Lease, AcquireError> {
        let mut ask = self.ask_from(start)?; // by itself: what the operator `?` takes would be kept beside it until the end
        ask.acquire(wait, &self.state.groups).await
    }

    /// One request; `None` when the lock is busy.
    pub(crate) async fn try_acquire(&self) -> Result<Option<Lease>, AcquireError> {
        unless_busy(self.wait(Wait::Never).await)
    }

    /// Waits as the options say.
    pub(crate) async fn acquire(&self) -> Result<Lease, AcquireError> {
        self.wait_or_who_holds(self.options.wait_policy()).await
    }

    /// Waits, and asks who it is that the error names by the id of its client.
    async fn wait_or_who_holds(&self, wait: Wait) -> Result<Lease, AcquireError> {
        match self.wait(wait).await {
            Err(busy @ AcquireError::TimedOut { own: false, .. }) => {
                Err(Box::pin(self.who_holds(busy)).await) // rare, and large
            }
            acquired => acquired,
        }
    }

    async fn who_holds(&self, mut busy: AcquireError) -> AcquireError {
        let engine = &self.state.engine;
        if let AcquireError::TimedOut { holder, .. } = &mut busy
            && let Some(holder) = holder
            && !engine.store.is_majority()
            && let Ok(process) = engine.who(&holder.client, WHO_WITHIN).await
        {
            **holder = process;
        }
        busy
    }

    /// Makes a lease of this name one of `into` with the same token, by a request of this kind. Without `wait`, it waits
    /// as the options say. The caller ends the lease that it was.
    pub(crate) async fn change<M>(
        &self,
        lease: &Lease<M>,
        into: &Named,
        wait: Option<Wait>,
    ) -> Result<Lease, AcquireError> {
        let wait = wait.unwrap_or_else(|| self.options.wait_policy());
        let acquiring = into.acquiring(None, wait);
        let (span, start) = (acquiring.span.clone(), acquiring.began);
        let acquired = async {
            let (into, (engine, record, _)) = (into.resource()?, lease.parts());
            let is_own_client = Arc::ptr_eq(engine, &self.state.engine);
            if !is_own_client || record.held.resource.lock != into.lock || record.custom.is_some() {
                let right = "a lease is changed by the lock of its own name, client and protocol";
                return Err(InvalidInput::new(right).into());
            }
            if let Some(lost) = record.lost_by_now() {
                return Err(AcquireError::Lost(lost));
            }
            if lease.is_shared() {
                let right = "the owner has other guards of this lease: release them before it is upgraded or downgraded";
                return Err(InvalidInput::new(right).into());
            }
            let token = record.held.token.clone();
            let mut ask = self.ask_from(start)?.changing(token, into);
            ask.acquire(wait, &self.state.groups).await
        };
        acquiring.end(acquired.instrument(span).await, Lease::counted)
    }

    pub(crate) async fn acquire_within(&self, limit: Duration) -> Result<Lease, AcquireError> {
        self.wait_or_who_holds(Wait::Timeout(limit)).await
    }
}

/// The outcome of one try; `None` when the lock is busy.
pub(crate) fn unless_busy<L>(tried: Result<L, AcquireError>) -> Result<Option<L>, AcquireError> {
    match tried {
        Ok(lease) => Ok(Some(lease)),
        Err(AcquireError::TimedOut { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

debug_as!(Named, it => { kind: it.kind, name: it.name, options: it.options });
