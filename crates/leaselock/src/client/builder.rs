//! Building a client: its store and its options.

use std::sync::Arc;
use std::time::Duration;

use super::handle::Client;
use super::options::Options;
use super::settings::{self, Settings};
use super::target::{StoreSource, StoreTerms, urls_in};
use crate::base::error::RequestError;
use crate::base::{Clock, InvalidInput, Ttl, debug_as};
use crate::engine::values::Strict;
use crate::quorum::executor::Executor;
use crate::script::keys::QuarantineKey;
use crate::store::RedisStore;

/// Builds a [`Client`].
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
///     .open()?; // nothing is sent yet
/// # Ok::<_, leaselock::error::InvalidInput>(())
/// ```
#[derive(Default)]
#[must_use = "a builder does nothing until `open` or `connect` is called"]
pub struct ClientBuilder {
    store: StoreTerms,
    strict: Option<Duration>,
    pub(crate) settings: Settings,
}

impl Client {
    /// Creates a client without contacting anything, so it does not fail because a server is down.
    ///
    /// `urls` is one URL, which begins with `redis://`, `rediss://`, `redis+unix://`, `redis+sentinel://`,
    /// `redis+cluster://`, `file:` or `mem:`. Or it is an odd number from three of `redis://`, `rediss://` and
    /// `redis+unix://` URLs, separated by white space: independent servers, of which a majority grants a lock.
    ///
    /// # Errors
    /// [`InvalidInput`] says what is wrong with the URLs or their number.
    ///
    /// # Examples
    /// ```
    /// use leaselock::Client;
    ///
    /// let client = Client::open("redis://127.0.0.1/")?; // or file:, or mem: in tests
    /// let majority = Client::open("redis://one redis://two redis://three")?;
    /// # Ok::<_, leaselock::error::InvalidInput>(())
    /// ```
    pub fn open(urls: &str) -> Result<Client, InvalidInput> {
        Client::builder().url(urls).open()
    }

    /// As [`open`](Client::open), and asks whether the store replies.
    ///
    /// # Waiting
    /// For 2 s at most. A service that may start before its server uses [`open`](Client::open).
    ///
    /// # Errors
    /// [`RequestError::Invalid`] for the URLs; nothing was sent. [`RequestError::Store`] when the store, or a majority of
    /// the servers, does not reply or refuses the user.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = leaselock::Client::connect("mem:").await?;
    /// # Ok(()) }
    /// ```
    pub async fn connect(urls: &str) -> Result<Client, RequestError> {
        Client::builder().url(urls).connect().await
    }

    /// Returns a builder, for a client with options of its own.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }
}

impl ClientBuilder {
    /// Sets the store, or the servers of a majority, as [`Client::open`] reads them.
    ///
    /// One of `redis://[user:password@]host[:port][/database]`, `rediss://…`, `redis+unix:///path`,
    /// `redis+sentinel://[user:password@]sentinel[:port],…/service[/database]`,
    /// `redis+cluster://[user:password@]host[:port],host[:port],…`, `file:` (the default folder), `file:///folder`,
    /// `mem:` (private) or `mem:name` (shared within this process). `valkey` may stand for `redis`.
    pub fn url(mut self, urls: &str) -> Self {
        self.store.source = StoreSource::Urls(urls_in(urls));
        self
    }

    /// Sets the store by one URL, or the servers of a majority by an odd number of them, from three.
    pub fn urls(mut self, urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.store.source = StoreSource::Urls(urls.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the server of a client of the `redis` crate as the store; leaselock opens connections of its own.
    ///
    /// The type is that of [`interop::redis`](crate::interop::redis), which follows redis-rs.
    #[cfg(feature = "redis-connection")]
    pub fn redis_client(mut self, client: &redis::Client) -> Self {
        self.store.source = StoreSource::Store(RedisStore::from_client(client).map(Box::new));
        self
    }

    /// Sets a connection of the `redis` crate that the program already has as the store.
    ///
    /// A client cannot subscribe over it, so waiters poll twice a second instead of being woken. The connection must
    /// reconnect by itself. Its type is one of [`interop::redis`](crate::interop::redis), which follows redis-rs.
    #[cfg(feature = "redis-connection")]
    pub fn redis_connection<C>(mut self, connection: C) -> Self
    where
        C: redis::aio::ConnectionLike + Clone + Send + Sync + 'static,
    {
        self.store.source =
            StoreSource::Store(Ok(Box::new(RedisStore::from_connection(connection))));
        self
    }

    /// Sets what precedes every name; empty by default. All clients that share a lock use the same prefix.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use leaselock::Client;
    ///
    /// let billing = Client::builder().url("mem:").prefix("billing:").open()?;
    /// let lease = billing.mutex("invoices").acquire().await?;
    /// assert_eq!(lease.name().as_str(), "invoices"); // the store has `billing:invoices`
    /// # Ok(()) }
    /// ```
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.settings.prefix = prefix.to_owned();
        self
    }

    /// Sets the options of every lock that does not set its own.
    pub fn defaults(mut self, options: Options) -> Self {
        self.settings.defaults = options;
        self
    }

    /// Sets how far the clocks of this machine and of the servers may drift apart.
    ///
    /// In millionths; 10 000 (1 %) by default.
    pub fn drift_ppm(mut self, drift: u32) -> Self {
        self.settings.drift_ppm = Some(drift);
        self
    }

    /// Sets how long one request may take, on a majority to all servers together.
    ///
    /// A second by default, or a quarter of the ttl when that is less.
    pub fn request_timeout(mut self, longest: Duration) -> Self {
        self.settings.request_timeout = Some(longest);
        self
    }

    /// Sets the name of this process in `inspect`; the program's file name by default. Not a secret.
    pub fn process_name(mut self, name: &str) -> Self {
        self.settings.process_name = Some(name.to_owned());
        self
    }

    /// Sets what holds the leases for this process, for a program that wraps others; unset by default.
    ///
    /// Others read it beside [`process_name`](Self::process_name), as [`Process::via`](crate::inspect::Process::via).
    pub fn process_via(mut self, wrapper: &str) -> Self {
        self.settings.process_via = Some(wrapper.to_owned());
        self
    }

    /// Sets what TLS connections trust and present.
    ///
    /// Applies to URLs that begin with `rediss`, Sentinels and nodes of a cluster included. With any other store,
    /// [`open`](Self::open) refuses it, so that no user takes plain text for TLS.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, options: crate::store::tls_options::TlsOptions) -> Self {
        self.settings.tls = Some(std::sync::Arc::new(options));
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
    /// may be without strict mode: such a client would be granted locks during a quarantine. A client that disagrees
    /// with the others
    /// is refused ([`ErrorKind::Mismatch`](crate::ErrorKind::Mismatch)). A lease with a longer ttl and a protocol
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
    /// let client = Client::builder().url("mem:").clock(clock.clone()).open()?;
    /// let lease = client.mutex("invoices").renewal(false).acquire().await?;
    /// clock.advance(Duration::from_secs(11));
    /// assert!(!lease.is_held()); // its ttl was 10 s
    /// # Ok(()) }
    /// ```
    pub fn clock(mut self, clock: Clock) -> Self {
        self.settings.clock = Some(clock);
        self
    }

    /// Sets how a lock's name says its class, for locks that do not [set](crate::Mutex::class) it; an empty one is none.
    ///
    /// [`stats`](Client::stats) counts by class. The function is called for each acquisition, and must not block.
    ///
    /// # Examples
    /// ```
    /// let builder = leaselock::Client::builder().url("mem:");
    /// let builder = builder.class_of(|name| name.split('/').next().unwrap_or_default());
    /// # builder.open()?;
    /// # Ok::<_, leaselock::error::InvalidInput>(())
    /// ```
    pub fn class_of(mut self, class: impl Fn(&str) -> &str + Send + Sync + 'static) -> Self {
        self.settings.class_of = Some(Box::new(class));
        self
    }

    /// Lets leases in a folder store outlive this process: only their ttl ends them.
    ///
    /// Without it they end with the process.
    pub fn outlive_process(mut self) -> Self {
        self.store.outlives_process = true;
        self
    }

    /// Sets how long one server of a majority may take, connecting included.
    ///
    /// Half a second by default, and never longer than the request. A request waits for a server only while its reply
    /// could change the outcome.
    pub fn node_timeout(mut self, longest: Duration) -> Self {
        self.store.majority.node_timeout = Some(longest);
        self
    }

    /// Sets the longest ttl that any client uses on the servers of this majority; a minute by default.
    ///
    /// **All clients that share them must agree on it**: a server stays out of votes for this long after it has started,
    /// because it may have forgotten what it granted. A longer ttl is refused. Where no ttl was set, the default is the
    /// shorter of 10 s and this.
    pub fn longest_ttl(mut self, longest: Duration) -> Self {
        self.store.majority.longest_ttl = Some(longest);
        self
    }

    /// Lets a server of the majority vote at once after its start.
    ///
    /// Only when every server syncs each write before it replies (`appendfsync always`). Without that, one that restarts
    /// empty lets a second client acquire a held lock; so by default it stays out of votes for
    /// [`longest_ttl`](ClientBuilder::longest_ttl).
    pub fn durable_nodes(mut self) -> Self {
        self.store.majority.durable_nodes = true;
        self
    }

    /// Creates the client without contacting anything.
    ///
    /// # Errors
    /// [`InvalidInput`]: an option or a URL is not well-formed, the servers of a majority are too few, an even number or
    /// not different, or an option does not go with the store. A server that is down is not an error here.
    pub fn open(mut self) -> Result<Client, InvalidInput> {
        let id = settings::new_id()?;
        let store = self.store.store(&self.settings, &id)?;
        let defaults = &mut self.settings.defaults;
        defaults.longest = self.strict;
        if let Some(majority) = store.majority() {
            defaults.longest = Some(majority.longest());
            store.check_limits(defaults.priority, defaults.length())?;
        }
        self.settings.check()?;
        let strict = self.gate(&store)?.map(Strict::new);
        let state = self.settings.client(id, store, strict);
        Ok(Client { state })
    }

    /// Creates the client, and asks whether the store replies, as [`Client::connect`] does.
    ///
    /// # Errors
    /// [`RequestError::Invalid`] as [`open`](Self::open); otherwise as [`Client::connect`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use leaselock::Client;
    ///
    /// let client = Client::builder().url("mem:").prefix("billing:").connect().await?;
    /// # Ok(()) }
    /// ```
    pub async fn connect(self) -> Result<Client, RequestError> {
        let client = self.open()?;
        client.ping().await?;
        Ok(client)
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

debug_as!(ClientBuilder, it => { settings: it.settings, session: !it.store.outlives_process });
