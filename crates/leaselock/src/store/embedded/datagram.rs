//! Wake-ups between processes: one Unix datagram socket per channel with a listener, in the folder `wake`.
//! A broadcast channel has one for each client that listens.
//!
//! The system itself knows whether a listener is alive: connecting to a socket whose process died is refused. A
//! datagram that does not fit is dropped, because listeners also poll (`engine/ways/schedule.rs`, `queue/entry.rs`).

use std::collections::HashMap;
use std::io::ErrorKind as IoKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustix::fs::{AtFlags, FileType, Mode, Stat, statat, unlinkat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::opening::Names;
use crate::base::hex::hex;
use crate::base::shorthand::hold;
use crate::script::keys::is_broadcast;

/// The longest message; a longer one is cut, and then not understood.
pub(super) const LONGEST: usize = 1024;

/// The sending half.
#[derive(Debug)]
pub(super) struct Datagrams {
    folder: Arc<OwnedFd>,
    sender: Mutex<Sender>,
}

/// A socket that is connected to one listener after the other.
///
/// Finding a listener costs more than sending to it, so a message to the last one needs no second search.
#[derive(Debug)]
struct Sender {
    socket: UnixDatagram,
    /// The channel of the connected listener.
    connected: Vec<u8>,
    /// The listeners' files, by channel: the name of each, and the entry as it was found last.
    listeners: HashMap<Vec<u8>, (String, Option<SenderSocket>)>,
}

/// How many files are kept, since each takes a hash and a search to find. Each may keep a descriptor open.
const FILES_KEPT: usize = 16;

pub(super) fn file_name(channel: &[u8]) -> String {
    hex(&Sha256::digest(channel)[..20])
}

/// Returns the name of one client's socket for a broadcast channel, which has one for each client that listens.
pub(super) fn broadcast_name(channel: &[u8], client: &str) -> String {
    format!("{}.{client}", file_name(channel))
}

/// Returns an address through the descriptor: an address has room for 107 bytes only, and paths may be long.
fn address(folder: &OwnedFd, name: &str) -> PathBuf {
    let descriptors = match cfg!(target_os = "linux") {
        true => "/proc/self/fd",
        false => "/dev/fd",
    };
    PathBuf::from(format!("{descriptors}/{}/{name}", folder.as_raw_fd()))
}

/// Opens the entry itself and follows no symbolic link, which may be another user's.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct SenderSocket(OwnedFd);

#[cfg(target_os = "linux")]
impl SenderSocket {
    fn search(folder: &OwnedFd, name: &str) -> std::io::Result<Self> {
        Ok(SenderSocket(super::opening::place(folder, name)?))
    }

    fn address(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    fn stat(&self) -> Result<Stat, Errno> {
        rustix::fs::fstat(&self.0)
    }

    /// False once its listener has removed it, or another one has taken the name.
    fn has_name(&self) -> bool {
        self.stat().is_ok_and(|stat| stat.st_nlink > 0)
    }
}

#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
struct SenderSocket(PathBuf, Stat);

#[cfg(not(target_os = "linux"))]
impl SenderSocket {
    fn search(folder: &OwnedFd, name: &str) -> std::io::Result<Self> {
        let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Socket => Ok(SenderSocket(address(folder, name), stat)),
            _ => Err(IoKind::ConnectionRefused.into()),
        }
    }

    fn address(&self) -> PathBuf {
        self.0.clone()
    }

    fn stat(&self) -> Result<Stat, Errno> {
        Ok(self.1)
    }

    fn has_name(&self) -> bool {
        false
    }
}

impl Sender {
    /// Connects; without a search as long as the entry has its name. The socket of a dead process refuses.
    fn connect(&mut self, folder: &OwnedFd, channel: &[u8]) -> std::io::Result<()> {
        self.connected.clear();
        let listeners = &mut self.listeners;
        if listeners.len() >= FILES_KEPT && !listeners.contains_key(channel) {
            listeners.clear();
        }
        let (name, known) = listeners
            .entry(channel.to_owned())
            .or_insert_with(|| (file_name(channel), None));
        let found = match known.take().filter(SenderSocket::has_name) {
            Some(found) => found,
            None => SenderSocket::search(folder, name)?,
        };
        self.socket.connect(found.address())?;
        *known = Some(found);
        self.connected.extend_from_slice(channel);
        Ok(())
    }

    fn send(&mut self, folder: &OwnedFd, channel: &[u8], message: &[u8]) -> std::io::Result<()> {
        if self.connected == channel {
            match self.socket.send(message) {
                // Another socket may have this name by now.
                Err(error) if is_absence(&error) => {}
                sent => return sent.map(drop),
            }
        }
        self.connect(folder, channel)?;
        self.socket.send(message).map(drop)
    }
}

impl Datagrams {
    pub(super) fn new(folder: Arc<OwnedFd>) -> std::io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        let sender = Mutex::new(Sender {
            socket,
            connected: Vec::new(),
            listeners: HashMap::new(),
        });
        Ok(Datagrams { folder, sender })
    }

    /// True if a listener is alive, or if that is unknown: a waiter taken for absent would be skipped for ever.
    pub(super) fn present(&self, channel: &[u8]) -> bool {
        if is_broadcast(channel) {
            return true; // found out when the message is sent
        }
        let connected = hold(&self.sender).connect(&self.folder, channel);
        !connected.is_err_and(|error| is_absence(&error))
    }

    pub(super) fn send(&self, channel: &[u8], message: &[u8]) {
        let sent = match is_broadcast(channel) {
            true => self.send_to_all(channel, message),
            false => hold(&self.sender).send(&self.folder, channel, message),
        };
        if let Err(error) = sent {
            // The receiver sees the change at its next poll.
            tracing::debug!(target: "leaselock", %error, "a wake-up was not delivered");
        }
    }

    /// Sends to every listener of a broadcast channel. One whose socket is full has a message to read already.
    fn send_to_all(&self, channel: &[u8], message: &[u8]) -> std::io::Result<()> {
        let beginning = broadcast_name(channel, "");
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        for name in Names::of(&self.folder)?.filter(|name| name.starts_with(&beginning)) {
            let listener = SenderSocket::search(&self.folder, &name);
            let sent = listener.and_then(|found| socket.send_to(message, found.address()));
            if sent.is_err_and(|error| is_absence(&error)) {
                self.sweep(&name);
            }
        }
        Ok(())
    }

    /// Removes a socket whose process is dead, unless another one has its name by now.
    pub(super) fn sweep(&self, name: &str) {
        let stat = || statat(&*self.folder, name, AtFlags::SYMLINK_NOFOLLOW);
        let identity = || stat().map(|stat| (stat.st_dev, stat.st_ino));
        let probe = || {
            let found = SenderSocket::search(&self.folder, name)?;
            UnixDatagram::unbound()?.connect(found.address())
        };
        let before = identity();
        let is_dead = || probe().is_err_and(|error| is_absence(&error));
        if before.is_ok() && is_dead() && identity() == before {
            unlinkat(&*self.folder, name, AtFlags::empty()).ok();
        }
    }
}

fn is_absence(error: &std::io::Error) -> bool {
    matches!(error.kind(), IoKind::ConnectionRefused | IoKind::NotFound)
}

/// The receiving half. Dropping it removes its socket.
#[derive(Debug)]
pub(super) struct Listener {
    folder: Arc<OwnedFd>,
    name: String,
    inode: u64,
    socket: UnixDatagram,
}

impl Listener {
    /// Creates the socket, which keeps messages from now on. It replaces one that a dead process left under this name.
    pub(super) fn bind(folder: Arc<OwnedFd>, name: String, mode: Mode) -> std::io::Result<Self> {
        match unlinkat(&*folder, name.as_str(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let socket = UnixDatagram::bind(address(&folder, &name))?;
        socket.set_nonblocking(true)?;
        // Not by its name, which may be another user's link to a file of ours that they want to read.
        let found = SenderSocket::search(&folder, &name)?;
        let stat = found.stat()?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
            return Err(IoKind::AddrInUse.into());
        }
        rustix::fs::chmod(found.address(), mode)?;
        let inode = stat.st_ino;
        Ok(Listener {
            folder,
            name,
            inode,
            socket,
        })
    }

    pub(super) fn is_linked(&self) -> bool {
        let stat = statat(&*self.folder, self.name.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| stat.st_ino == self.inode)
    }

    pub(super) fn register(&self) -> std::io::Result<tokio::net::UnixDatagram> {
        tokio::net::UnixDatagram::from_std(self.socket.try_clone()?)
    }

    /// Removes the socket's name, so that senders do not find it any more.
    pub(super) fn unlink(&self) {
        if self.is_linked() {
            unlinkat(&*self.folder, self.name.as_str(), AtFlags::empty()).ok();
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.unlink();
    }
}

/// Returns how many datagrams the system keeps for a receiver.
pub(super) fn capacity() -> usize {
    let text = std::fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").unwrap_or_default();
    text.trim().parse().unwrap_or(10).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::testing::Scratch;

    const PRIVATE: Mode = Mode::from_raw_mode(0o600);

    #[test]
    fn messages_arrive_even_in_a_folder_with_a_long_path() {
        let scratch = Scratch::new();
        let deep = scratch.path().join("d".repeat(200)).join("e".repeat(200));
        std::fs::create_dir_all(&deep).unwrap();
        let folder = Arc::new(super::super::testing::descriptor(&deep));
        let wake = Datagrams::new(Arc::clone(&folder)).unwrap();
        assert!(!wake.present(b"channel"));
        let listener = Listener::bind(folder, file_name(b"channel"), PRIVATE).unwrap();
        assert!(wake.present(b"channel") && !wake.present(b"another"));
        wake.send(b"channel", b"hello");
        wake.send(b"another", b"nobody hears this");
        let mut heard = [0; 8];
        assert_eq!(listener.socket.recv(&mut heard).unwrap(), 5);
        drop(listener);
        assert!(!wake.present(b"channel"));
        assert_eq!(std::fs::read_dir(&deep).unwrap().count(), 0);
    }

    #[test]
    fn a_message_finds_the_listener_that_came_in_place_of_another() {
        let scratch = Scratch::new();
        let folder = Arc::new(scratch.descriptor());
        let wake = Datagrams::new(Arc::clone(&folder)).unwrap();
        let first = Listener::bind(Arc::clone(&folder), file_name(b"channel"), PRIVATE).unwrap();
        assert!(wake.present(b"channel"));
        first.unlink();
        assert!(!wake.present(b"channel")); // though its socket is open
        let second = Listener::bind(Arc::clone(&folder), file_name(b"channel"), PRIVATE).unwrap();
        wake.send(b"channel", b"hello");
        let mut heard = [0; 8];
        assert_eq!(second.socket.recv(&mut heard).unwrap(), 5);
        assert!(first.socket.recv(&mut heard).is_err());
        drop(second);
        assert!(!wake.present(b"channel"));
    }

    #[test]
    fn every_client_that_listens_hears_a_broadcast_and_what_the_dead_left_is_swept() {
        let scratch = Scratch::new();
        let folder = Arc::new(scratch.descriptor());
        let wake = Datagrams::new(Arc::clone(&folder)).unwrap();
        let channel = b"ll:broadcast:election:{job}".as_slice();
        let listen = |channel: &[u8], client: &str| {
            Listener::bind(
                Arc::clone(&folder),
                broadcast_name(channel, client),
                PRIVATE,
            )
            .unwrap()
        };
        let listeners = ["client01", "client02"].map(|client| listen(channel, client));
        let other = listen(b"ll:broadcast:election:{other}", "client01");
        let dead = address(&folder, &broadcast_name(channel, "client03"));
        drop(UnixDatagram::bind(&dead).unwrap());
        wake.send(channel, b"news");
        let mut heard = [0; 8];
        for listener in &listeners {
            assert_eq!(listener.socket.recv(&mut heard).unwrap(), 4);
        }
        assert!(other.socket.recv(&mut heard).is_err() && !dead.exists());
    }

    #[test]
    fn the_socket_of_a_dead_process_is_nobody_and_is_swept() {
        let scratch = Scratch::new();
        let folder = Arc::new(scratch.descriptor());
        let wake = Datagrams::new(Arc::clone(&folder)).unwrap();
        let path = address(&folder, &file_name(b"channel"));
        drop(UnixDatagram::bind(&path).unwrap());
        assert!(path.exists() && !wake.present(b"channel"));
        let alive = Listener::bind(Arc::clone(&folder), file_name(b"alive"), PRIVATE).unwrap();
        wake.sweep(&file_name(b"channel"));
        wake.sweep(&file_name(b"alive"));
        assert!(!path.exists() && alive.is_linked());
    }
}
