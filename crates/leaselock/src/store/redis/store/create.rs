//! Constructors of a store on servers: from a URL, a client, a connection or the nodes of a cluster.

use std::sync::Arc;

use redis::ConnectionAddr;
use redis::aio::ConnectionLike;

use crate::base::error::InvalidInput;
use crate::store::redis::cluster::Cluster;
use crate::store::redis::endpoint::Endpoint;
use crate::store::redis::external_connection::Theirs;
use crate::store::redis::link::RedisStore;
use crate::store::url::{Place, RedisUrl};

impl RedisStore {
    pub(crate) fn from_url(url: RedisUrl) -> Self {
        RedisStore::to(Endpoint::new(url))
    }

    pub(crate) fn from_nodes(seeds: Vec<RedisUrl>) -> Self {
        RedisStore::Cluster(Cluster::new(seeds))
    }

    /// Creates a store with connections of our own to the client's server.
    pub(crate) fn from_client(client: &redis::Client) -> Result<Self, InvalidInput> {
        let info = client.get_connection_info();
        let login = info.redis_settings();
        let tcp = |host: &String, port, tls| Place::Tcp {
            host: host.clone(),
            port,
            tls,
        };
        let place = match info.addr() {
            ConnectionAddr::Tcp(host, port) => tcp(host, *port, false),
            ConnectionAddr::Unix(path) => Place::Unix(path.clone()),
            ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            } if cfg!(feature = "tls") => tcp(host, *port, true),
            _ => {
                let message = "a client with TLS settings of its own cannot be copied: hand in one of its connections";
                return Err(InvalidInput::new(message));
            }
        };
        let db = u32::try_from(login.db())
            .map_err(|_| InvalidInput::new("the database of the client must not be negative"))?;
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Ok(Self::from_url(RedisUrl {
            user: owned(login.username()),
            password: owned(login.password()),
            db,
            ..RedisUrl::at(place)
        }))
    }

    /// Creates a store on the program's own connection, shared. It cannot subscribe: waiters poll only.
    pub(crate) fn from_connection(
        connection: impl ConnectionLike + Clone + Send + Sync + 'static,
    ) -> Self {
        RedisStore::External(Arc::new(Theirs(connection)))
    }
}
