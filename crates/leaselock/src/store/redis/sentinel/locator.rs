//! Where the primary of a service is, as its Sentinels tell.
//!
//! Each new connection asks them, and `follow` hears of a switch. Whoever tells of an older configuration than was seen
//! before is not believed: it may be cut off, together with the server that was the primary.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::store::redis::driver::Driver;
use crate::store::redis::socket::SocketControl;
use crate::store::url::{Place, RedisUrl, Sentinels, address};

pub(super) type Address = (String, u16);

/// More than a service has; what tells of more is not one of them.
pub(super) const LEARNED_MOST: usize = 16;

/// What is known of a service.
pub(in crate::store::redis) struct PrimaryLocator {
    pub(super) sentinels: Sentinels,
    /// Those to ask, whoever answered last first.
    known: Mutex<Vec<Address>>,
    pub(super) named: watch::Sender<Named>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Named {
    pub(super) primary: Option<Address>,
    /// Of the configuration that named it: it grows with every switch.
    pub(super) epoch: u64,
    /// Changes whenever the connections so far are to be given up.
    turn: u64,
}

/// What one Sentinel tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) primary: Address,
    pub(super) epoch: u64,
    pub(super) others: Vec<Address>,
}

impl PrimaryLocator {
    pub(in crate::store::redis) fn of(url: &RedisUrl) -> Option<Self> {
        match &url.place {
            Place::Watched(sentinels) => Some(PrimaryLocator {
                known: Mutex::new(sentinels.known.clone()),
                sentinels: sentinels.clone(),
                named: watch::Sender::default(),
            }),
            _ => None,
        }
    }

    /// Where the primary was named last.
    #[cfg(feature = "tls")]
    pub(in crate::store::redis) fn host(&self) -> Option<String> {
        let named = self.named.borrow();
        named.primary.as_ref().map(|(host, _)| host.clone())
    }

    /// The same, as it is written.
    pub(in crate::store::redis) fn place(&self) -> Option<String> {
        let named = self.named.borrow();
        let primary = named.primary.as_ref();
        primary.map(|(host, port)| address(host, *port))
    }

    /// Ends when connections are to be made anew.
    pub(in crate::store::redis) async fn moved(&self) {
        let mut named = self.named.subscribe();
        drop(named.changed().await); // whoever asks has the sender
    }

    /// A server that refuses writes because it is a replica is the primary no more, whatever was heard before.
    pub(in crate::store::redis) fn hears_an_error(&self, line: &str) {
        if line.contains("READONLY") || line.contains("MASTERDOWN") {
            tracing::debug!(service = %self.sentinels, "the server is a replica; asking where the primary is");
            self.named.send_modify(|named| named.turn += 1);
        }
    }

    /// Believes what a Sentinel tells, unless it knows less than we do. False: it does.
    pub(super) fn told(&self, seen: &Seen) -> bool {
        let known = seen.epoch >= self.named.borrow().epoch;
        if known {
            self.believe(seen);
        }
        known
    }

    pub(super) fn believe(&self, seen: &Seen) {
        self.named.send_if_modified(|named| {
            named.epoch = seen.epoch;
            let moved = named.primary.as_ref() != Some(&seen.primary);
            if moved {
                let before = named.primary.replace(seen.primary.clone());
                if before.is_some() {
                    tracing::info!(service = %self.sentinels, primary = ?seen.primary, "the primary has changed");
                }
                named.turn += 1;
            }
            moved
        });
    }

    /// A connection to whoever is named from here on.
    pub(super) fn post(&self) -> Option<Located> {
        let heard = self.named.subscribe();
        let Named { primary, turn, .. } = heard.borrow().clone();
        let address = primary?;
        Some(Located {
            address,
            turn,
            heard,
        })
    }

    pub(super) fn in_turn(&self) -> Vec<Address> {
        self.known().clone()
    }

    /// It is asked first from here on, and those of whom it tells after all others.
    pub(super) fn answered(&self, first: &Address, others: &[Address]) {
        let mut known = self.known();
        known.retain(|address| address != first);
        known.insert(0, first.clone());
        for other in others {
            if known.len() < LEARNED_MOST && !known.contains(other) {
                known.push(other.clone());
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Vec<Address>> {
        // Nothing panics while it is held.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a connection goes, and how long it may stay.
pub(in crate::store::redis) struct Located {
    address: Address,
    turn: u64,
    heard: watch::Receiver<Named>,
}

impl Located {
    pub(in crate::store::redis) fn address(&self) -> (&str, u16) {
        (&self.address.0, self.address.1)
    }

    /// Ends when the primary is elsewhere.
    pub(in crate::store::redis) async fn is_left(&self) {
        let mut heard = self.heard.clone();
        while heard.borrow_and_update().turn == self.turn {
            if heard.changed().await.is_err() {
                return std::future::pending().await; // nobody is left to tell
            }
        }
    }

    /// Moves the bytes of a connection as long as it may stay. What is still queued then must not reach a server that
    /// was frozen and thinks that it is the primary.
    pub(in crate::store::redis) fn hold(
        self,
        mut driver: Driver,
        control: Arc<SocketControl>,
    ) -> Driver {
        Box::pin(async move {
            tokio::select! {
                biased;
                () = self.is_left() => control.abort(),
                () = &mut driver => {}
            }
        })
    }
}
