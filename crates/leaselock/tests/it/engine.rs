//! The stores that the suite runs on, each with what keeps it alive.

use std::sync::atomic::{AtomicUsize, Ordering};

use leaselock::{Client, ClientBuilder};
use testkit::{Server, TempDir};

/// One store of a test's own, with clients as many as the test wants.
pub(crate) struct Engine {
    target: Target,
    pub(crate) prefix: &'static str,
    pub(crate) server: Option<Server>,
    _folder: Option<TempDir>,
}

enum Target {
    Url(String),
    /// The test brings connections of its own; nobody can listen on them.
    Handed(String),
}

impl Engine {
    fn on(target: Target, server: Option<Server>) -> Engine {
        let (prefix, _folder) = ("", None);
        Engine {
            target,
            prefix,
            server,
            _folder,
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
        engine.prefix = "app{7}[*]:"; // characters that patterns and hash tags are made of
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

    /// A client to be, over connections that no other client uses.
    pub(crate) async fn builder(&self) -> ClientBuilder {
        let builder = Client::builder().prefix(self.prefix);
        match &self.target {
            Target::Url(url) => builder.url(url),
            Target::Handed(url) => {
                let theirs = leaselock::redis::Client::open(url.as_str()).unwrap();
                let connection = theirs.get_multiplexed_async_connection().await.unwrap();
                builder.redis_connection(connection)
            }
        }
    }

    pub(crate) async fn client(&self) -> Client {
        self.builder().await.build().unwrap()
    }

    /// Whether waiters are woken by messages; otherwise they look twice a second.
    pub(crate) fn wakes(&self) -> bool {
        matches!(self.target, Target::Url(_))
    }
}
