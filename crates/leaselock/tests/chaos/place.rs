//! Where the locks of a scenario lie.

use std::fmt;

use leaselock::Client;
use testkit::{Cluster, Server, TempDir, tempdir};

pub(crate) enum Place {
    Server(Server),
    /// Three nodes, so that names lie on several of them.
    Cluster(Cluster),
    Folder(TempDir),
    /// Three nodes that vote.
    Quorum(Vec<Server>),
}

impl Place {
    pub(crate) fn server() -> Place {
        Place::Server(Server::start())
    }

    pub(crate) fn cluster() -> Place {
        Place::Cluster(Cluster::builder().replicas(0).start())
    }

    pub(crate) fn folder() -> Place {
        Place::Folder(tempdir().unwrap())
    }

    pub(crate) fn quorum() -> Place {
        Place::Quorum((0..3).map(|_| Server::start()).collect())
    }

    /// The URL, or several of them with spaces between.
    pub(crate) fn urls(&self) -> String {
        match self {
            Place::Server(server) => server.url(),
            Place::Cluster(cluster) => cluster.url(),
            Place::Folder(folder) => format!("file://{}/locks-here", folder.path().display()),
            Place::Quorum(servers) => {
                let urls: Vec<String> = servers.iter().map(Server::url).collect();
                urls.join(" ")
            }
        }
    }

    /// The servers that a witness reads behind the library's back.
    pub(crate) fn servers(&self) -> &[Server] {
        match self {
            Place::Server(server) => std::slice::from_ref(server),
            Place::Cluster(cluster) => cluster.nodes(),
            Place::Folder(_) => &[],
            Place::Quorum(servers) => servers,
        }
    }
}

/// A client of these URLs.
pub(crate) fn connect(urls: &str) -> Client {
    if !urls.contains(' ') {
        return Client::open(urls).unwrap();
    }
    let longest = std::time::Duration::from_secs(300);
    let builder = Client::builder().urls(urls.split(' ')).longest_ttl(longest);
    builder.durable_nodes().open().unwrap() // these servers are young
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Place::Server(_) => "server",
            Place::Cluster(_) => "cluster",
            Place::Folder(_) => "folder",
            Place::Quorum(_) => "quorum",
        })
    }
}
