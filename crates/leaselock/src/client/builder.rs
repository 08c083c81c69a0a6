//! Building a client: its store and its options.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::handle::Client;
use super::options::Options;
use super::settings;
use super::settings::{Settings, common_setters};
use crate::base::clock::Clock;
use crate::base::error::InvalidInput;
use crate::base::ttl::Ttl;
use crate::engine::values::gate::Strict;
use crate::quorum::executor::Executor;
use crate::script::quarantine_key::QuarantineKey;
use crate::store::RedisStore;

/// Builds a [`Client`] without contacting anything.
///
/// # Examples
/// ```
/// use leaselock::Client;
/// use leaselock::options::Options;
/// use std::time::Duration;
///
/// let client = Client::builder()
///     .url("redis://127.0.0.1/")
///     .prefix("billing:") // all clients that share a lock use the same
///     .request_timeout(Duration::from_millis(500))
///     .defaults(Options::default().ttl(Duration::from_secs(30)))
///     .build()?; // nothing is sent yet
/// # Ok::<_, leaselock::error::InvalidInput>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct ClientBuilder {
    pub(super) source: StoreSource,
    strict: Option<Duration>,
    pub(super) session: bool,
    pub(crate) settings: Settings,
}

pub(super) enum StoreSource {
    Url(String),
    Store(Result<Box<RedisStore>, InvalidInput>),
}

impl Default for ClientBuilder {
    fn default() -> Self {
        ClientBuilder {
            source: StoreSource::Url(String::new()),
            strict: None,
            session: true,
            settings: Settings::default(),
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
    ///
    /// # Examples
    /// ```
    /// let client = leaselock::Client::connect("redis://127.0.0.1/")?; // or file:, or mem: in tests
    /// # Ok::<_, leaselock::error::InvalidInput>(())
    /// ```
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
    /// `redis+sentinel://[user:password@]sentinel[:port],…/service[/database]`,
    /// `redis+cluster://[user:password@]host[:port],host[:port],…`, `file:` (the default folder), `file:///folder`,
    /// `mem:` (private) or `mem:name` (shared within this process).
    pub fn url(mut self, url: &str) -> Self {
        self.source = StoreSource::Url(url.to_owned());
        self
    }

    /// Sets the server of a client of the `redis` crate as the store; leaselock opens connections of its own.
    #[cfg(feature = "redis")]
    pub fn redis_client(mut self, client: &redis::Client) -> Self {
        self.source = StoreSource::Store(RedisStore::from_client(client).map(Box::new));
        self
    }

    /// Sets a connection of the `redis` crate that the program already has as the store.
    ///
    /// A client cannot subscribe over it, so waiters poll twice a second instead of being woken. The connection must
    /// reconnect by itself.
    #[cfg(feature = "redis")]
    pub fn redis_connection<C>(mut self, connection: C) -> Self
    where
        C: redis::aio::ConnectionLike + Clone + Send + Sync + 'static,
    {
        self.source = StoreSource::Store(Ok(Box::new(RedisStore::from_connection(connection))));
        self
    }

    common_setters!();

    /// Switches strict mode on: a restarted, promoted or emptied server is quarantined.
    ///
    /// During the quarantine the server grants no new lease, until every lease that an earlier server may have granted
    /// has expired. That takes `longest_ttl`, one percent (or [`drift_ppm`](ClientBuilder::drift_ppm)) of it, and 2 s.
    /// Leases that are held continue, and can be extended and released meanwhile. `acquire` waits until the quarantine
    /// ends; an acquisition that does not wait so long ends with
    /// [`AcquireError::Quarantined`](crate::AcquireError::Quarantined).
    ///
    /// **All clients that take locks on the server with this prefix must set the same `longest_ttl`.** So none of them
    /// may be without strict mode: such a client would be granted locks during a quarantine. A client that disagrees
    /// with the others
    /// is refused ([`ErrorKind::ConfigMismatch`](crate::ErrorKind::ConfigMismatch)). A lease with a longer ttl and a protocol
    /// other than the native one are refused too, as [`InvalidInput`]. Where no ttl was set, the default is the shorter
    /// of 10 s and `longest_ttl`.
    ///
    /// On a server that never knew strict mode the first acquisition begins a quarantine, unless an operator has opened
    /// it with [`Client::init_strict`]. Strict mode cannot detect a step of the clock of the same server process, and cannot
    /// stop a holder that works on after its deadline.
    pub fn strict(mut self, longest_ttl: Duration) -> Self {
        self.strict = Some(longest_ttl);
        self
    }

    /// Sets the clock; [`Clock::manual`] is for tests with `mem:`.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use leaselock::Client;
    /// use leaselock::clock::Clock;
    /// use std::time::Duration;
    ///
    /// let clock = Clock::manual();
    /// let client = Client::builder().url("mem:").clock(clock.clone()).build()?;
    /// let lease = client.mutex("invoices").renewal(false).acquire().await?;
    /// clock.advance(Duration::from_secs(11));
    /// assert!(!lease.is_held()); // its ttl was 10 s
    /// # Ok(()) }
    /// ```
    pub fn clock(mut self, clock: Clock) -> Self {
        self.settings.clock = clock;
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
        self.settings.defaults.longest = self.strict;
        self.settings.check()?;
        let id = settings::new_id()?;
        let store = self.store(&id)?;
        let strict = self.gate(&store)?.map(Strict::new);
        let state = self.settings.client(id, store, strict);
        Ok(Client { state })
    }

    /// Returns what strict mode needs, if it was asked for.
    fn gate(&self, store: &Executor) -> Result<Option<Arc<QuarantineKey>>, InvalidInput> {
        let Some(longest) = self.strict else {
            return Ok(None);
        };
        let unfit = |error: String| InvalidInput::new(format!("strict mode: {error}"));
        let longest = Ttl::new(longest).map_err(|error| unfit(error.to_string()))?;
        store
            .can_be_strict()
            .map_err(|error| unfit(error.to_string()))?;
        let (prefix, drift) = (&self.settings.prefix, self.settings.drift());
        let key = QuarantineKey::new(prefix, store.is_cluster(), longest, drift);
        Ok(Some(key))
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("settings", &self.settings)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}
