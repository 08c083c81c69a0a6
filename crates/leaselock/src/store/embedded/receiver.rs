//! The receiver of a listener's socket, read by the runtime of the task that waits.
//!
//! So a message wakes its waiter without a detour through the client's own thread. That thread reads as long as no task
//! waits in a multi-threaded runtime. A single-threaded runtime stands still between two calls, while a task elsewhere
//! may wait for a message. The client's thread continues to check whether senders still find the socket, and reads
//! again when the runtime ends.

#[cfg(test)]
mod tests;

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UnixDatagram;
use tokio::runtime::{Handle, Id, RuntimeFlavor};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::datagram::{LONGEST, Listener, capacity};
use crate::base::{CLOCK, Moment, debug_as, hold};
use crate::store::{Event, Sink};

/// With so many messages at once, more may have been dropped.
const MANY: usize = 64;
/// How often the receiver checks whether senders still find the socket.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// How long it stays at home: waiters of both kinds may alternate, and a move costs more than a detour.
const HOME_FOR: Duration = Duration::from_millis(100);

pub(super) struct Receiver {
    listener: Listener,
    channel: String,
    sink: Arc<Sink>,
    /// The client's own thread.
    home: Id,
    many: usize,
    /// Messages are passed on under this lock, and none once it is `false`.
    open: Mutex<bool>,
    place: Mutex<ReceiverPlace>,
    moved: Notify,
}

/// Which runtime reads the messages.
#[derive(Debug, Default)]
struct ReceiverPlace {
    away: Option<Away>,
    /// How often it left home.
    times: u64,
    home_until: Option<Moment>,
    /// A runtime in which it did not work, or that has ended.
    unfit: Option<Id>,
}

#[derive(Debug)]
struct Away {
    runtime: Id,
    time: u64,
    reader: Option<AbortHandle>,
}

debug_as!(Receiver, it => { channel: it.channel, place: it.place });

impl Receiver {
    /// Creates the receiver; called on the thread that is its home.
    pub(super) fn new(listener: Listener, channel: &str, sink: Arc<Sink>) -> Self {
        Receiver {
            listener,
            channel: channel.to_owned(),
            sink,
            home: Handle::current().id(),
            many: capacity().min(MANY),
            open: Mutex::new(true),
            place: Mutex::default(),
            moved: Notify::new(),
        }
    }

    pub(super) fn can_hear(&self) -> bool {
        self.listener.register().is_ok()
    }

    pub(super) fn channel(&self) -> &str {
        &self.channel
    }

    /// Moves the receiver to the caller's runtime.
    pub(super) fn follow(self: &Arc<Self>) {
        let Ok(here) = Handle::try_current() else {
            return; // another kind of executor
        };
        let mut place = hold(&self.place);
        let there = place.away.as_ref().map_or(self.home, |away| away.runtime);
        if there == here.id() {
            return;
        }
        let now = CLOCK.now();
        if here.id() == self.home {
            place.home_until = Some(now.plus(HOME_FOR));
            place.come_home();
            drop(place);
            self.moved.notify_one();
            return;
        }
        let fit =
            here.runtime_flavor() == RuntimeFlavor::MultiThread && place.unfit != Some(here.id());
        if !fit || place.home_until.is_some_and(|until| now < until) {
            return;
        }
        place.come_home();
        place.times += 1;
        let time = place.times;
        place.away = Some(Away {
            runtime: here.id(),
            time,
            reader: None,
        });
        drop(place); // a runtime that is about to end drops the reader at once
        let reader = AwayReader {
            receiver: Arc::clone(self),
            time,
        };
        let reader = here.spawn(reader.read()).abort_handle();
        self.moved.notify_one();
        match &mut hold(&self.place).away {
            Some(away) if away.time == time => away.reader = Some(reader),
            _ => reader.abort(),
        }
    }

    /// Reads while it is at home. Ends when senders cannot find the socket any more.
    pub(super) async fn attend(&self) {
        loop {
            let is_home = hold(&self.place).away.is_none();
            let socket = is_home.then(|| self.listener.register());
            let Ok(socket) = socket.transpose() else {
                return;
            };
            let readable = async || match &socket {
                Some(socket) => socket.readable().await,
                None => pending().await,
            };
            loop {
                tokio::select! {
                    biased;
                    () = self.moved.notified() => break,
                    heard = tokio::time::timeout(CHECK_EVERY, readable()) => match heard {
                        Err(_) if self.listener.is_linked() => {}
                        Err(_) | Ok(Err(_)) => return,
                        Ok(Ok(())) => drop(socket.as_ref().map(|socket| self.drain(socket))),
                    },
                }
            }
        }
    }

    /// Passes on the messages that have arrived; false once it is closed.
    fn drain(&self, socket: &UnixDatagram) -> bool {
        let open = hold(&self.open);
        if !*open {
            return false;
        }
        let mut message = [0; LONGEST];
        let mut received = 0;
        while let Ok(length) = socket.try_recv(&mut message) {
            (self.sink)(Event::Message(message[..length].to_vec()));
            received += 1;
            if received == self.many {
                // The queue may have been full, so messages may have been dropped.
                (self.sink)(Event::Gap);
                (self.sink)(Event::Ready);
                break;
            }
        }
        true
    }

    /// Closes it: once this has returned, no message is passed on, and senders do not find the socket.
    pub(super) fn close(&self) {
        self.listener.unlink();
        *hold(&self.open) = false;
        hold(&self.place).come_home();
    }
}

impl ReceiverPlace {
    fn come_home(&mut self) {
        if let Some(reader) = self.away.take().and_then(|away| away.reader) {
            reader.abort();
        }
    }
}

/// The task that reads away from home. When it ends unasked, home reads again.
struct AwayReader {
    receiver: Arc<Receiver>,
    time: u64,
}

impl AwayReader {
    async fn read(self) {
        let Ok(socket) = self.receiver.listener.register() else {
            return;
        };
        while socket.readable().await.is_ok() && self.receiver.drain(&socket) {}
    }
}

impl Drop for AwayReader {
    fn drop(&mut self) {
        let mut place = hold(&self.receiver.place);
        let ended = place.away.take_if(|away| away.time == self.time);
        if let Some(away) = ended {
            place.unfit = Some(away.runtime);
            drop(place);
            self.receiver.moved.notify_one();
        }
    }
}
