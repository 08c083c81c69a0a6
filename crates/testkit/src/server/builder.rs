//! What a test may want different about its server.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use super::launch::Launch;
use super::running::Server;
use super::{binary, shifted, shim, slow_disk};
use crate::tls::{Authority, Pair};

/// Another process may take a free port before the server does; ten times in a row it will not.
const ATTEMPTS: usize = 10;

/// A server to be. See [`Server::builder`].
#[derive(Debug, Default)]
#[must_use = "a builder does nothing before `start`"]
pub struct Builder {
    binary: Option<PathBuf>,
    config: Vec<String>,
    unix_socket: bool,
    password: Option<String>,
    primary: Option<u16>,
    sentinel: Option<String>,
    cluster_node: bool,
    shifted: bool,
    slow_disk: bool,
    tls: Option<Tls>,
}

/// What a server shows, whom it trusts, and whether clients must show something too.
#[derive(Debug)]
struct Tls {
    authority: String,
    pair: Pair,
    clients: bool,
    /// Servers reach each other this way too.
    among: bool,
}

impl Server {
    /// Starts a server that keeps nothing on disk.
    pub fn start() -> Server {
        Server::builder().start()
    }

    /// Starts one that differs.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Builder {
    /// Runs this program rather than the one that [`super::find_binary`] finds.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Builder {
        self.binary = Some(path.into());
        self
    }

    /// One directive of redis.conf, such as `config("maxmemory", "2mb")`.
    pub fn config(mut self, directive: &str, value: &str) -> Builder {
        self.config
            .extend([format!("--{directive}"), value.to_owned()]);
        self
    }

    /// Listens on a unix socket too; see [`Server::socket`].
    pub fn unix_socket(mut self) -> Builder {
        self.unix_socket = true;
        self
    }

    /// Asks every client for this password. Letters and digits only: it goes into a URL as it is.
    pub fn password(mut self, password: &str) -> Builder {
        assert!(
            password.bytes().all(|byte| byte.is_ascii_alphanumeric()),
            "letters and digits"
        );
        self.password = Some(password.to_owned());
        self
    }

    /// Follows another server, and is in step with it when [`Builder::start`] returns. It has the other's password
    /// unless it was given one: all servers of a group have the same.
    pub fn replica_of(mut self, primary: &Server) -> Builder {
        self.primary = Some(primary.reached_at());
        self.password = self.password.or_else(|| primary.password());
        self
    }

    /// Runs as a Sentinel, with these lines in its configuration file, which it rewrites as it learns.
    pub(crate) fn sentinel(mut self, lines: String) -> Builder {
        self.sentinel = Some(lines);
        self
    }

    /// Its wall clock can be moved while it runs; see [`Server::set_clock_offset_ms`].
    pub fn shifted_clock(mut self) -> Builder {
        self.shifted = true;
        self
    }

    /// Its disk can be made slow while it runs; see [`Server::set_disk_delay`].
    pub fn slow_disk(mut self) -> Builder {
        self.slow_disk = true;
        self
    }

    /// Speaks TLS on a port of its own, with this certificate; see [`Server::tls_port`]. With `clients` every client
    /// must show a certificate of the authority.
    pub fn tls(mut self, authority: &Authority, pair: Pair, clients: bool) -> Builder {
        let authority = authority.pem();
        self.tls = Some(Tls {
            authority,
            pair,
            clients,
            among: false,
        });
        self
    }

    /// As [`Builder::tls`], and the other servers of its set-up reach it over TLS and announce that port: replicas,
    /// nodes of a cluster, Sentinels. The other port stays, for the test's own questions.
    pub fn tls_among(mut self, authority: &Authority, pair: Pair) -> Builder {
        self = self.tls(authority, pair, false);
        if let Some(tls) = &mut self.tls {
            tls.among = true;
        }
        self
    }

    /// Keeps an append-only file, so that [`Server::restart`] finds the keys again.
    /// Each write is on disk before its answer leaves.
    pub fn append_only(self) -> Builder {
        self.config("appendonly", "yes")
            .config("appendfsync", "always")
    }

    /// Allows the `DEBUG` command, which version 6 always does and later ones only when asked.
    pub fn debug_commands(self) -> Builder {
        let binary = self.binary.clone().unwrap_or_else(binary::find);
        if binary::is_version_6(&binary) {
            return self;
        }
        self.config("enable-debug-command", "yes")
    }

    /// A node of a cluster that is yet to be made; see [`crate::Cluster`]. A server that has not heard of another for
    /// so long takes it for dead.
    pub fn cluster_node(mut self, node_timeout: Duration) -> Builder {
        self.cluster_node = true;
        let timeout = node_timeout.as_millis().to_string();
        self.config("cluster-enabled", "yes")
            .config("cluster-node-timeout", &timeout)
            // A replica is named by `CLUSTER SLOTS` after the first of these, if nothing else is written.
            .config("repl-ping-replica-period", "1")
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Panics
    ///
    /// With the server's log, when it does not come up.
    pub fn start(self) -> Server {
        let dir = tempfile::tempdir().expect("a temporary folder can be made");
        let mut config = self.config;
        if let Some(tls) = &self.tls {
            config.extend(tls.written_to(dir.path()));
        }
        let mut launch = Launch {
            binary: self.binary.unwrap_or_else(binary::find),
            config,
            tls_port: None,
            tls_among: self.tls.as_ref().is_some_and(|tls| tls.among),
            socket: self.unix_socket.then(|| dir.path().join("server.sock")),
            password: self.password,
            sentinel: self.sentinel,
            shifted: self.shifted,
            slow_disk: self.slow_disk,
        };
        if self.shifted || self.slow_disk {
            assert!(
                shim::can_be(&launch.binary),
                "{} is linked statically, so its clock and its disk stay as they are: run this test with another server",
                launch.binary.display()
            );
            let folder = "the server's folder can be written";
            shifted::set(dir.path(), 0).expect(folder);
            slow_disk::set(dir.path(), Duration::ZERO).expect(folder);
        }
        let mut problem = String::new();
        for _ in 0..ATTEMPTS {
            let found = if self.cluster_node {
                port_with_bus
            } else {
                free_port
            };
            let port = found();
            launch.tls_port = self.tls.is_some().then(found);
            match launch.spawn(port, dir.path()) {
                Ok(child) => {
                    let server = Server {
                        launch,
                        port,
                        dir,
                        child: Mutex::new(child),
                    };
                    if let Some(primary) = self.primary {
                        server.replica_of(primary);
                    }
                    return server;
                }
                Err(reason) => problem = reason,
            }
        }
        panic!("{} does not start: {problem}", launch.binary.display());
    }
}

impl Tls {
    /// Writes the files, and says what names them.
    fn written_to(&self, dir: &Path) -> Vec<String> {
        let files = [
            ("tls-ca-cert-file", "ca.pem", &self.authority),
            ("tls-cert-file", "cert.pem", &self.pair.certificate),
            ("tls-key-file", "key.pem", &self.pair.key),
        ];
        let mut config = Vec::new();
        for (directive, name, text) in files {
            let path = dir.join(name);
            std::fs::write(&path, text).expect("a file in our own folder");
            config.extend([format!("--{directive}"), path.display().to_string()]);
        }
        let clients = if self.clients { "yes" } else { "no" };
        config.extend(["--tls-auth-clients".to_owned(), clients.to_owned()]);
        if self.among {
            config.extend(["--tls-replication".to_owned(), "yes".to_owned()]);
        }
        config
    }
}

/// A port on which no process listens at this moment. The kernel picks it from the ephemeral range.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port exists");
    listener
        .local_addr()
        .expect("a bound socket has an address")
        .port()
}

/// Nodes of a cluster speak to each other on a second port, which is this much higher.
const BUS: u16 = 10_000;

/// A port whose neighbour for the bus is free too.
fn port_with_bus() -> u16 {
    let bus_is_free = |port: &u16| {
        let bus = port.checked_add(BUS);
        bus.is_some_and(|bus| TcpListener::bind((Ipv4Addr::LOCALHOST, bus)).is_ok())
    };
    std::iter::repeat_with(free_port)
        .take(1000)
        .find(bus_is_free)
        .expect("two free ports exist")
}
