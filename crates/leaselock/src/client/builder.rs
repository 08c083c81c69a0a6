//! Building a client: its store and its options.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::handle::Client;
use super::options::{DEFAULT_DRIFT_PPM, Options};
use super::state::ClientState;
use crate::base::clock::Clock;
use crate::base::error::InvalidInput;
use crate::base::name;
use crate::base::token::ClientId;
use crate::base::ttl::{Drift, Ttl};
use crate::engine::core::{Engine, Settings};
use crate::engine::gate::Strict;
use crate::engine::identity::Process;
#[cfg(feature = "redis")]
use crate::engine::limits;
use crate::quorum::executor::Executor;
#[cfg(feature = "redis")]
use crate::script::library::Library;
use crate::script::quarantine_key::QuarantineKey;

/// The largest drift that can be set: a clock with more leaves little of a lease, and needs repair.
const DRIFT_PPM_MAX: u32 = 500_000;
const PROCESS_NAME_MAX: usize = 100;

/// Builds a [`Client`] without contacting anything.
#[must_use = "a builder does nothing until `build` is called"]
pub struct ClientBuilder {
    pub(super) source: Source,
    prefix: String,
    defaults: Options,
    drift_ppm: u32,
    request_timeout: Option<Duration>,
    strict: Option<Duration>,
    process_name: Option<String>,
    pub(super) clock: Clock,
    pub(super) session: bool,
    #[cfg(feature = "redis")]
    pub(crate) functions: Option<&'static Library>,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<Arc<crate::store::redis::TlsOptions>>,
}

pub(super) enum Source {
    Url(String),
    #[cfg(feature = "redis")]
    Store(Result<Box<crate::store::redis::RedisStore>, InvalidInput>),
    #[cfg(feature = "redis")]
    Quorum(crate::quorum::group::QuorumStore),
}

impl Default for ClientBuilder {
    fn default() -> Self {
        ClientBuilder {
            source: Source::Url(String::new()),
            prefix: String::new(),
            defaults: Options::default(),
            drift_ppm: DEFAULT_DRIFT_PPM,
            request_timeout: None,
            strict: None,
            process_name: None,
            clock: Clock::boot(),
            session: true,
            #[cfg(feature = "redis")]
            functions: None,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

impl Client {
    /// Creates a client for a URL.
    ///
    /// The URL begins with `redis://`, `rediss://`, `redis+unix://`, `redis+sentinel://`, `redis+cluster://`, `file:`
    /// or `mem:`.
    ///
    /// # Errors
    /// [`InvalidInput`] says what is wrong with the URL. Servers are not contacted.
    pub fn connect(url: &str) -> Result<Client, InvalidInput> {
        Client::builder().url(url).build()
    }

    /// Returns a builder, for a client with options of its own.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }
}

impl ClientBuilder {
    /// Sets the store.
    ///
    /// One of `redis://[user:password@]host[:port][/database]`, `rediss://…`, `redis+unix:///path`,
    /// `redis+sentinel://sentinel[:port],…/service[/database]` (feature `sentinel`),
    /// `redis+cluster://[user:password@]host[:port],host[:port],…` (feature `cluster`), `file:` (the default folder),
    /// `file:///folder`, `mem:` (private) or `mem:name` (shared within this process).
    pub fn url(mut self, url: &str) -> Self {
        self.source = Source::Url(url.to_owned());
        self
    }

    /// Sets the server that a redis client points to; leaselock opens connections of its own.
    #[cfg(feature = "redis")]
    pub fn redis_client(mut self, client: &redis::Client) -> Self {
        self.source =
            Source::Store(crate::store::redis::RedisStore::from_client(client).map(Box::new));
        self
    }

    /// Sets a connection that the program already has.
    ///
    /// Nothing can be subscribed to over it, so waiters poll twice a second instead of being woken. The connection must
    /// reconnect by itself.
    #[cfg(feature = "redis")]
    pub fn redis_connection<C>(mut self, connection: C) -> Self
    where
        C: redis::aio::ConnectionLike + Clone + Send + Sync + 'static,
    {
        self.source = Source::Store(Ok(Box::new(
            crate::store::redis::RedisStore::from_connection(connection),
        )));
        self
    }

    /// Sets what TLS connections trust and present.
    ///
    /// Applies to a URL that begins with `rediss`, Sentinels and nodes of a cluster included. With any other store,
    /// [`build`](ClientBuilder::build) refuses it, so that no user takes plain text for TLS.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, options: crate::store::redis::TlsOptions) -> Self {
        self.tls = Some(Arc::new(options));
        self
    }

    /// Sets the servers of a quorum.
    #[cfg(feature = "redis")]
    pub(crate) fn quorum(mut self, quorum: crate::quorum::group::QuorumStore) -> Self {
        self.source = Source::Quorum(quorum);
        self
    }

    /// Sets what precedes every name; empty by default. All clients that share a lock use the same prefix.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.to_owned();
        self
    }

    /// Sets the options of every lock that does not set its own.
    pub fn defaults(mut self, options: Options) -> Self {
        self.defaults = options;
        self
    }

    /// Sets how far the clocks of this machine and the server may drift apart.
    ///
    /// In millionths; 10 000 (1 %) by default.
    pub fn drift_ppm(mut self, drift: u32) -> Self {
        self.drift_ppm = drift;
        self
    }

    /// Sets how long one request may take.
    ///
    /// A second by default, or a quarter of the ttl when that is less.
    pub fn request_timeout(mut self, longest: Duration) -> Self {
        self.request_timeout = Some(longest);
        self
    }

    /// Switches strict mode on: a restarted, promoted or emptied server is quarantined.
    ///
    /// During the quarantine the server grants no new lease, until every lease that an earlier server may have granted
    /// has expired. That takes `longest_ttl`, one percent (or [`drift_ppm`](ClientBuilder::drift_ppm)) of it, and 2 s.
    /// Leases that are held continue, and can be extended and released meanwhile. `acquire` waits until the quarantine
    /// ends; an acquisition that does not wait so long ends with
    /// [`AcquireError::Quarantined`](crate::AcquireError::Quarantined).
    ///
    /// **All clients that take locks on the server with this prefix must set the same `longest_ttl`.** So none of them
    /// may be without strict mode: such a client grants and hands over as ever. A client that disagrees with the others
    /// is refused ([`ErrorKind::ConfigMismatch`](crate::ErrorKind::ConfigMismatch)). A lease with a longer ttl and a protocol
    /// other than the native one are refused too, as [`InvalidInput`]. Where no ttl was set, the default is the shorter
    /// of 10 s and `longest_ttl`.
    ///
    /// On a server that never knew strict mode the first acquisition begins a quarantine, unless an operator has opened
    /// it with [`Client::init_strict`]. See docs/strict.md for the cost, and for what strict mode cannot detect: a step
    /// of the clock of the same server process is one.
    pub fn strict(mut self, longest_ttl: Duration) -> Self {
        self.strict = Some(longest_ttl);
        self
    }

    /// Sets the name of this process in `inspect`; the program's file name by default. Not a secret.
    pub fn process_name(mut self, name: &str) -> Self {
        self.process_name = Some(name.to_owned());
        self
    }

    /// Sets the clock; [`Clock::manual`] is for tests with `mem:`.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets whether leases in a folder store end with this process.
    ///
    /// `true` by default. With `false` only their ttl ends them.
    pub fn session(mut self, on: bool) -> Self {
        self.session = on;
        self
    }

    /// Builds the client.
    ///
    /// # Errors
    /// [`InvalidInput`]: an option or the URL is not well-formed. A server that is down is not an error here.
    pub fn build(mut self) -> Result<Client, InvalidInput> {
        self.defaults.longest = self.longest();
        self.check()?;
        let no_random =
            |error| InvalidInput::new(format!("the system gives no random numbers: {error}"));
        let id = ClientId::random().map_err(no_random)?;
        let store = self.store(&id)?;
        let drift = Drift {
            ppm: self.drift_ppm,
        };
        let strict = self.gate(&store, drift)?.map(Strict::new);
        let engine = Engine::new(Settings {
            id,
            prefix: self.prefix,
            about: Process::this(self.process_name),
            drift,
            request_timeout: self.request_timeout,
            clock: self.clock,
            store,
            strict,
        });
        Ok(Client {
            state: Arc::new(ClientState {
                engine: Arc::new(engine),
                groups: Arc::default(),
                defaults: self.defaults,
            }),
        })
    }

    /// Returns the longest ttl that leases of this client may have, when its store has such a limit.
    fn longest(&self) -> Option<Duration> {
        #[cfg(feature = "redis")]
        if let Source::Quorum(quorum) = &self.source {
            return Some(quorum.longest());
        }
        self.strict
    }

    /// Returns what strict mode needs, if it was asked for.
    fn gate(
        &self,
        store: &Executor,
        drift: Drift,
    ) -> Result<Option<Arc<QuarantineKey>>, InvalidInput> {
        let Some(longest) = self.strict else {
            return Ok(None);
        };
        let unfit = |error: String| InvalidInput::new(format!("strict mode: {error}"));
        let longest = Ttl::new(longest).map_err(|error| unfit(error.to_string()))?;
        store
            .can_be_strict()
            .map_err(|error| unfit(error.to_string()))?;
        let by_slot = store.is_cluster();
        Ok(Some(QuarantineKey::new(
            &self.prefix,
            by_slot,
            longest,
            drift,
        )))
    }

    fn check(&self) -> Result<(), InvalidInput> {
        name::check_prefix(&self.prefix)?;
        self.defaults.check()?;
        #[cfg(feature = "redis")]
        if let Source::Quorum(quorum) = &self.source {
            limits::check_limits(quorum, self.defaults.priority, self.defaults.length())?;
        }
        if self.drift_ppm > DRIFT_PPM_MAX {
            return Err(InvalidInput::new(format!(
                "drift of {} millionths is out of range: at most {DRIFT_PPM_MAX}; 10000 is the default",
                self.drift_ppm
            )));
        }
        if self
            .request_timeout
            .is_some_and(|timeout| timeout.is_zero())
        {
            return Err(InvalidInput::new(
                "a request time-out of zero leaves no time for an answer".to_owned(),
            ));
        }
        if self
            .process_name
            .as_ref()
            .is_some_and(|name| name.chars().count() > PROCESS_NAME_MAX)
        {
            return Err(InvalidInput::new(format!(
                "process name: at most {PROCESS_NAME_MAX} characters"
            )));
        }
        Ok(())
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("prefix", &self.prefix)
            .field("defaults", &self.defaults)
            .field("drift_ppm", &self.drift_ppm)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}
