//! A TCP proxy in front of a server that can do to a connection what networks do.
//!
//! ```no_run
//! use testkit::{Cut, Fault, Proxy, Server, Way};
//!
//! let server = Server::start();
//! let proxy = Proxy::to(server.port());
//! // The request arrives and takes effect, its answer does not come back:
//! proxy.set(Way::ToClient, Fault::CutAfter { bytes: 0, how: Cut::Reset });
//! ```

mod fault;
mod link;
mod traffic;

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use self::fault::Faults;
pub use self::fault::{Aim, Cut, Fault, Way};
use self::link::Link;
use self::traffic::Traffic;
use crate::server::free_port;

/// Forwards to a port of this machine, with faults that can be set and healed while it runs.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

/// What the proxy and its acceptor have in common.
#[derive(Debug)]
struct Shared {
    traffic: Arc<Traffic>,
    stopping: AtomicBool,
    links: Mutex<Vec<Weak<Link>>>,
    accepted: AtomicU64,
}

impl Proxy {
    /// A faultless proxy in front of 127.0.0.1:`server`.
    pub fn to(server: u16) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port exists");
        let port = listener
            .local_addr()
            .expect("a bound socket has an address")
            .port();
        let shared = Arc::new(Shared {
            traffic: Arc::new(Traffic::to(server)),
            stopping: AtomicBool::new(false),
            links: Mutex::default(),
            accepted: AtomicU64::new(0),
        });
        let acceptor = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Proxy {
            port,
            shared,
            acceptor: Some(acceptor),
        }
    }

    /// The proxy's own port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:PORT/`; put the password in by hand if the server wants one.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Sets the fault of one way, or of both, in place of the one before.
    pub fn set(&self, way: Way, fault: Fault) {
        self.shared.traffic.faults().set(way, fault);
        if fault == Fault::HalfOpen {
            let aim = self.shared.traffic.faults().aim;
            self.shared
                .links()
                .iter()
                .filter(|link| aim.hits(link.is_listener()))
                .for_each(|link| link.forsake(way));
        }
        self.shared.traffic.changed.notify_all();
    }

    /// Faults, those of now and those to come, are for these connections only, until [`Proxy::heal`].
    pub fn aim(&self, aim: Aim) {
        self.shared.traffic.faults().aim = aim;
        self.shared.traffic.changed.notify_all();
    }

    /// Takes all faults away; bytes that were held or delayed leave at once, in order.
    pub fn heal(&self) {
        *self.shared.traffic.faults() = Faults::default();
        self.shared.traffic.changed.notify_all();
    }

    /// Leads new connections to another server from now on; those of this moment are cut.
    pub fn lead_to(&self, server: u16) {
        self.shared.traffic.server.store(server, Ordering::SeqCst);
        self.cut(Cut::Reset);
    }

    /// Leads new connections to where no server listens; those of this moment are cut.
    pub fn lead_nowhere(&self) {
        self.lead_to(free_port());
    }

    /// Cuts every connection of this moment.
    pub fn cut(&self, how: Cut) {
        self.shared.links().iter().for_each(|link| link.cut(how));
    }

    /// Connections taken so far.
    pub fn connections(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Connections open now.
    pub fn open(&self) -> usize {
        self.shared
            .links()
            .iter()
            .filter(|link| !link.is_closed())
            .count()
    }

    /// Bytes that came through so far.
    pub fn bytes(&self, way: Way) -> u64 {
        way.indices()
            .iter()
            .map(|way| self.shared.traffic.passed[*way].load(Ordering::SeqCst))
            .sum()
    }

    /// Pieces that [`Fault::Hold`] or [`Fault::Delay`] holds back now.
    pub fn held(&self) -> usize {
        self.shared.traffic.held.load(Ordering::SeqCst)
    }

    /// Requests that [`Fault::Duplicate`] has delivered a second time and got an answer for.
    pub fn duplicates(&self) -> u64 {
        self.shared.traffic.duplicated.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // The acceptor sleeps in `accept`; a connection of our own wakes it.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
        if let Some(acceptor) = self.acceptor.take() {
            drop(acceptor.join());
        }
        self.cut(Cut::Close);
    }
}

impl Shared {
    fn links(&self) -> Vec<Arc<Link>> {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.iter().filter_map(Weak::upgrade).collect()
    }

    fn register(&self, link: &Arc<Link>) {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|link| link.strong_count() > 0);
        links.push(Arc::downgrade(link));
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok(client) = client else { continue };
        shared.accepted.fetch_add(1, Ordering::SeqCst);
        // With the server away, the client's connection closes, as at a port that refuses.
        if let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, shared.traffic.server())) {
            let link = Link::new(&shared.traffic, client, server);
            // First: a fault that is set from now on finds the link, and the link reads the one that was set before.
            shared.register(&link);
            link.start();
        }
    }
}

#[cfg(test)]
mod tests;
