//! The stores that the suite runs on, each with what keeps it alive.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, Weak};

use leaselock::{Client, ClientBuilder};
use testkit::sentinels::{SERVICE, Sentinels};
#[cfg(feature = "tls")]
use testkit::tls::Authority;
use testkit::{Cluster, Server, TempDir};

use crate::support::LONG;
#[cfg(feature = "tls")]
use crate::{access, tls_front::Secured};

/// A cluster of several tests, none of which may break it.
pub(crate) fn shared_cluster() -> Arc<Cluster> {
    static SHARED: std::sync::Mutex<Weak<Cluster>> = std::sync::Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let cluster = Arc::new(Cluster::start());
        *shared = Arc::downgrade(&cluster);
        cluster
    })
}

/// One store of a test's own, with clients as many as the test wants.
pub(crate) struct Engine {
    target: Target,
    pub(crate) prefix: String,
    server: Option<Server>,
    /// It shows the names of locks that the test does not name.
    pub(crate) lists: bool,
    #[cfg(feature = "tls")]
    secured: Option<(Secured, Authority)>,
    _folder: Option<TempDir>,
    _sentinels: Option<Sentinels>,
    _cluster: Option<Arc<Cluster>>,
}

enum Target {
    Url(String),
    /// The test brings connections of its own; no client can listen on them.
    Handed(String),
    /// Several servers, some of which may be dead.
    Quorum(Vec<Server>),
}

impl Engine {
    fn on(target: Target, server: Option<Server>) -> Engine {
        Engine {
            target,
            prefix: String::new(),
            server,
            lists: true,
            #[cfg(feature = "tls")]
            secured: None,
            _folder: None,
            _sentinels: None,
            _cluster: None,
        }
    }

    pub(crate) fn mem() -> Engine {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let own = COUNT.fetch_add(1, Ordering::Relaxed);
        Engine::on(Target::Url(format!("mem:of-one-test-{own}")), None)
    }

    pub(crate) fn file() -> Engine {
        let folder = testkit::tempdir().unwrap();
        let url = format!("file://{}", folder.path().display());
        let mut engine = Engine::on(Target::Url(url), None);
        engine._folder = Some(folder);
        engine
    }

    pub(crate) fn redis() -> Engine {
        let server = Server::start();
        Engine::on(Target::Url(server.url()), Some(server))
    }

    pub(crate) fn redis_prefixed() -> Engine {
        let mut engine = Engine::redis();
        engine.prefix = "app{7}[*]:".to_owned(); // characters that patterns and hash tags are made of
        engine
    }

    pub(crate) fn redis_sentinel() -> Engine {
        let server = Server::start();
        let sentinels = Sentinels::builder(&server).count(1).start();
        let url = format!("redis+sentinel://{}/{SERVICE}", sentinels.addresses());
        let mut engine = Engine::on(Target::Url(url), Some(server));
        engine._sentinels = Some(sentinels);
        engine
    }

    pub(crate) fn redis_unix() -> Engine {
        let server = Server::builder().unix_socket().start();
        let socket = server.socket().unwrap().display().to_string();
        Engine::on(Target::Url(format!("redis+unix://{socket}")), Some(server))
    }

    pub(crate) fn redis_handed() -> Engine {
        let server = Server::start();
        Engine::on(Target::Handed(server.url()), Some(server))
    }

    /// One cluster for all tests that run at about the same time, because it takes seconds to start. Each has a prefix
    /// of its own.
    pub(crate) fn redis_cluster() -> Engine {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let own = COUNT.fetch_add(1, Ordering::Relaxed);
        let cluster = shared_cluster();
        let mut engine = Engine::on(Target::Url(cluster.url()), None);
        engine.prefix = format!("test{own}:");
        engine._cluster = Some(cluster);
        engine
    }

    #[cfg(feature = "tls")]
    pub(crate) fn redis_tls() -> Engine {
        let authority = Authority::new();
        let secured = Secured::start(&authority, &authority.pair("localhost"), false);
        let mut engine = Engine::on(Target::Url(secured.url()), None);
        engine.secured = Some((secured, authority));
        engine
    }

    /// The same under a user who may do no more than locks need.
    #[cfg(feature = "tls")]
    pub(crate) fn redis_tls_locker() -> Engine {
        let mut engine = Engine::redis_tls();
        let server = engine.server().unwrap();
        access::allow(server, "locker");
        let (secured, _) = engine.secured.as_ref().unwrap();
        engine.target = Target::Url(access::url_of(&secured.url(), "locker"));
        (engine.prefix, engine.lists) = (access::PREFIX.to_owned(), false);
        engine
    }

    /// The server, for tests that inspect it themselves.
    pub(crate) fn server(&self) -> Option<&Server> {
        #[cfg(feature = "tls")]
        if let Some((secured, _)) = &self.secured {
            return Some(&secured.server);
        }
        self.server.as_ref()
    }

    pub(crate) fn quorum_of_3() -> Engine {
        let servers = (0..3).map(|_| Server::start()).collect();
        Engine::on(Target::Quorum(servers), None)
    }

    pub(crate) fn quorum_of_5_with_2_dead() -> Engine {
        let servers: Vec<Server> = (0..5).map(|_| Server::start()).collect();
        servers[1].kill();
        servers[3].kill();
        Engine::on(Target::Quorum(servers), None)
    }

    /// A client to be, over connections that no other client uses.
    pub(crate) async fn builder(&self) -> ClientBuilder {
        let builder = Client::builder().prefix(&self.prefix);
        #[cfg(feature = "tls")]
        let builder = match &self.secured {
            Some((_, authority)) => {
                builder.tls(leaselock::options::TlsOptions::new().ca_pem(authority.pem()))
            }
            None => builder,
        };
        match &self.target {
            Target::Url(url) => builder.url(url),
            Target::Handed(url) => {
                let theirs = leaselock::interop::redis::Client::open(url.as_str()).unwrap();
                let connection = theirs.get_multiplexed_async_connection().await.unwrap();
                builder.redis_connection(connection)
            }
            Target::Quorum(_) => panic!("a quorum is built in another way"),
        }
    }

    pub(crate) async fn client(&self) -> Client {
        let Target::Quorum(servers) = &self.target else {
            return self.client_of_one_store().await;
        };
        let quorum = Client::builder()
            .urls(servers.iter().map(Server::url))
            .longest_ttl(4 * LONG);
        quorum.durable_nodes().open().unwrap() // these servers are young
    }

    /// For what a quorum cannot do.
    pub(crate) async fn client_of_one_store(&self) -> Client {
        self.builder().await.open().unwrap()
    }

    /// Whether waiters are woken by messages; otherwise they poll twice a second.
    pub(crate) fn wakes(&self) -> bool {
        !matches!(self.target, Target::Handed(_))
    }

    /// A client that waits for one name gets messages about each other name too. In a cluster it listens for its slot.
    pub(crate) fn hears_of_all(&self) -> bool {
        self.wakes() && self._cluster.is_none()
    }
}
