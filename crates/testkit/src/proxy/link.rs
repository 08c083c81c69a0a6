//! One connection through the proxy: for each way a thread that reads and one that writes.
//!
//! Reading goes on whatever the fault is, so that bytes are stamped when they arrive; the writing
//! side is where faults happen.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use super::fault::{Cut, Fault, Way};
use super::traffic::Traffic;
use crate::{clock, resp};

/// How long the second delivery of a request may wait for its answer.
const DUPLICATE_LIMIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Link {
    traffic: Arc<Traffic>,
    /// Where each way leads: the server, the client.
    ends: [TcpStream; 2],
    forsaken: [AtomicBool; 2],
    /// Bytes of this way have vanished.
    holed: [AtomicBool; 2],
    /// The client has asked for messages.
    listener: AtomicBool,
    /// Set for each way that has ended, or for both by a cut.
    ended: [AtomicBool; 2],
}

/// Bytes and when they came; no bytes mean the end of the stream.
struct Chunk {
    at: Duration,
    bytes: Vec<u8>,
}

impl Link {
    pub(super) fn new(traffic: &Arc<Traffic>, client: TcpStream, server: TcpStream) -> Arc<Link> {
        // Without it the kernel glues small writes together, and slices with them.
        drop((client.set_nodelay(true), server.set_nodelay(true)));
        Arc::new(Link {
            traffic: Arc::clone(traffic),
            ends: [server, client],
            forsaken: Default::default(),
            holed: Default::default(),
            listener: AtomicBool::new(false),
            ended: Default::default(),
        })
    }

    pub(super) fn start(self: &Arc<Link>) {
        for way in 0..2 {
            if self.traffic.faults().of(way, false) == Some(Fault::HalfOpen) {
                self.forsaken[way].store(true, Ordering::SeqCst);
            }
            let (sender, receiver) = channel();
            let (reader, writer) = (Arc::clone(self), Arc::clone(self));
            thread::spawn(move || reader.read(way, &sender));
            thread::spawn(move || writer.write(way, &receiver));
        }
    }

    pub(super) fn forsake(&self, way: Way) {
        way.indices()
            .iter()
            .for_each(|way| self.forsaken[*way].store(true, Ordering::SeqCst));
    }

    pub(super) fn is_listener(&self) -> bool {
        self.listener.load(Ordering::SeqCst)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.ended.iter().all(|ended| ended.load(Ordering::SeqCst))
    }

    /// Ends the connection now. A reset leaves when the last thread lets go of the socket: so the
    /// threads are woken in a way that puts nothing on the wire.
    pub(super) fn cut(&self, how: Cut) {
        self.ended
            .iter()
            .for_each(|ended| ended.store(true, Ordering::SeqCst));
        for end in &self.ends {
            // An error means that the peer was faster; either way the connection is over.
            drop(match how {
                Cut::Close => end.shutdown(Shutdown::Both),
                Cut::Reset => rustix::net::sockopt::set_socket_linger(end, Some(Duration::ZERO))
                    .map_err(std::io::Error::from)
                    .and_then(|()| end.shutdown(Shutdown::Read)),
            });
        }
        // A waiting thread must see `ended`: the lock makes sure that none is between its check and its wait.
        drop(self.traffic.faults());
        self.traffic.changed.notify_all();
    }

    fn read(&self, way: usize, sender: &Sender<Chunk>) {
        let mut source = &self.ends[1 - way];
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let length = source.read(&mut buffer).unwrap_or(0);
            let chunk = Chunk {
                at: clock::now(),
                bytes: buffer[..length].to_vec(),
            };
            if way == 0 && subscribes(&chunk.bytes) {
                self.listener.store(true, Ordering::SeqCst);
            }
            if sender.send(chunk).is_err() || length == 0 {
                return;
            }
        }
    }

    fn write(&self, way: usize, receiver: &Receiver<Chunk>) {
        let mut partial = Vec::new();
        while let Ok(chunk) = receiver.recv() {
            if !self.pass(way, &chunk, &mut partial) {
                break;
            }
        }
        self.ended[way].store(true, Ordering::SeqCst);
    }

    /// Does to one chunk what the fault of its way says; `false` ends the way.
    fn pass(&self, way: usize, chunk: &Chunk, partial: &mut Vec<u8>) -> bool {
        let fault = self.wait_for_turn(way, chunk.at);
        if self.ended[way].load(Ordering::SeqCst) {
            return false;
        }
        if self.forsaken[way].load(Ordering::SeqCst) {
            return true;
        }
        if chunk.bytes.is_empty() {
            drop(self.ends[way].shutdown(Shutdown::Write));
            return false;
        }
        if fault == Some(Fault::Swallow) {
            self.holed[way].store(true, Ordering::SeqCst);
        }
        if self.holed[way].load(Ordering::SeqCst) {
            return true;
        }
        match fault {
            Some(Fault::Slice) => chunk.bytes.chunks(1).all(|byte| self.put(way, byte)),
            Some(Fault::Duplicate) => {
                self.put(way, &chunk.bytes) && {
                    partial.extend_from_slice(&chunk.bytes);
                    self.duplicate(partial);
                    true
                }
            }
            _ => self.put_counted(way, &chunk.bytes),
        }
    }

    /// Waits while bytes that came at `at` are held or delayed; says which fault then applies.
    fn wait_for_turn(&self, way: usize, at: Duration) -> Option<Fault> {
        let mut faults = self.traffic.faults();
        loop {
            let fault = faults.of(way, self.is_listener());
            let wait = match fault {
                Some(Fault::Hold) => Duration::from_secs(3600),
                Some(Fault::Delay(delay)) => (at + delay).saturating_sub(clock::now()),
                _ => Duration::ZERO,
            };
            if wait.is_zero() || self.ended[way].load(Ordering::SeqCst) {
                return fault;
            }
            self.traffic.held.fetch_add(1, Ordering::SeqCst);
            let woken = self.traffic.changed.wait_timeout(faults, wait);
            faults = woken.unwrap_or_else(PoisonError::into_inner).0;
            self.traffic.held.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn put_counted(&self, way: usize, bytes: &[u8]) -> bool {
        let cut = self
            .traffic
            .faults()
            .count_down(way, self.is_listener(), bytes.len());
        let Some((still, how)) = cut else {
            return self.put(way, bytes);
        };
        self.put(way, &bytes[..still]);
        self.cut(how);
        false
    }

    fn put(&self, way: usize, bytes: &[u8]) -> bool {
        let length = u64::try_from(bytes.len()).expect("a chunk is small");
        self.traffic.passed[way].fetch_add(length, Ordering::SeqCst);
        (&self.ends[way]).write_all(bytes).is_ok()
    }

    /// Delivers each whole request in `partial` again, and keeps the rest for the next chunk.
    fn duplicate(&self, partial: &mut Vec<u8>) {
        while let Some(length) = resp::command_len(partial) {
            let request: Vec<u8> = partial.drain(..length).collect();
            let answered = TcpStream::connect((Ipv4Addr::LOCALHOST, self.traffic.server()))
                .and_then(|mut server| {
                    server.set_read_timeout(Some(DUPLICATE_LIMIT))?;
                    server.write_all(&request)?;
                    server.read(&mut [0; 64])
                });
            if answered.is_ok() {
                self.traffic.duplicated.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}

/// A client sends its subscription in one piece.
fn subscribes(bytes: &[u8]) -> bool {
    let word = b"SUBSCRIBE\r\n";
    bytes
        .windows(word.len())
        .any(|window| window.eq_ignore_ascii_case(word))
}
