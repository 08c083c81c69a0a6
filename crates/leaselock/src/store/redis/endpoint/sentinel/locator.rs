//! The address of a service's primary, as its Sentinels report it.
//!
//! Each new connection asks them, and `follow` detects a switch. A Sentinel that reports an older configuration than
//! was seen before is not believed. It may be cut off, together with the server that was the primary.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::base::shorthand::hold;
use crate::store::redis::driver::Driver;
use crate::store::redis::socket::SocketControl;
use crate::store::url::{Place, RedisUrl, Sentinels};

pub(crate) type Address = (String, u16);

/// The most addresses to learn: more than a service has; a server that names more is not a Sentinel of it.
pub(super) const LEARNED_MOST: usize = 16;

/// What is known of a service.
pub(crate) struct PrimaryLocator {
    pub(crate) sentinels: Sentinels,
    /// The Sentinels to ask, the latest one that replied first.
    known: Mutex<Vec<Address>>,
    pub(crate) named: watch::Sender<NamedPrimary>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct NamedPrimary {
    pub(crate) primary: Option<Address>,
    /// The epoch of the configuration that named it: it grows with every switch.
    pub(crate) epoch: u64,
    /// Changes whenever the existing connections must be given up.
    turn: u64,
}

/// The report of one Sentinel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SentinelAnswer {
    pub(crate) primary: Address,
    pub(crate) epoch: u64,
    pub(crate) others: Vec<Address>,
}

impl PrimaryLocator {
    pub(crate) fn of(url: &RedisUrl) -> Option<Self> {
        match &url.place {
            Place::Watched(sentinels) => Some(PrimaryLocator {
                known: Mutex::new(sentinels.known.clone()),
                sentinels: sentinels.clone(),
                named: watch::Sender::default(),
            }),
            _ => None,
        }
    }

    /// Returns the latest named address.
    pub(crate) fn primary(&self) -> Option<Address> {
        self.named.borrow().primary.clone()
    }

    /// Waits until connections must be opened anew.
    pub(crate) async fn moved(&self) {
        let mut named = self.named.subscribe();
        drop(named.changed().await); // the caller owns the sender
    }

    /// Notes an error: a server that refuses writes as a replica is not the primary any more, whatever was reported.
    pub(crate) fn note_error(&self, line: &str) {
        if line.contains("READONLY") || line.contains("MASTERDOWN") {
            tracing::debug!(target: "leaselock", server = %self.sentinels, "the server is a replica; asking where the primary is");
            self.named.send_modify(|named| named.turn += 1);
        }
    }

    /// Accepts a Sentinel's report; false when it is older than ours.
    pub(crate) fn told(&self, seen: &SentinelAnswer) -> bool {
        let known = seen.epoch >= self.named.borrow().epoch;
        if known {
            self.believe(seen);
        }
        known
    }

    pub(crate) fn believe(&self, seen: &SentinelAnswer) {
        self.named.send_if_modified(|named| {
            named.epoch = seen.epoch;
            let moved = named.primary.as_ref() != Some(&seen.primary);
            if moved {
                let before = named.primary.replace(seen.primary.clone());
                if before.is_some() {
                    tracing::info!(target: "leaselock", server = %self.sentinels, primary = ?seen.primary, "the primary has changed");
                }
                named.turn += 1;
            }
            moved
        });
    }

    /// Returns the named server, for a connection from here on.
    pub(crate) fn located(&self) -> Option<Located> {
        let heard = self.named.subscribe();
        let NamedPrimary { primary, turn, .. } = heard.borrow().clone();
        let address = primary?;
        Some(Located {
            address,
            turn,
            heard,
        })
    }

    pub(crate) fn in_turn(&self) -> Vec<Address> {
        hold(&self.known).clone()
    }

    /// Moves this Sentinel to the front, and adds those that it names at the end.
    pub(crate) fn answered(&self, first: &Address, others: &[Address]) {
        let mut known = hold(&self.known);
        known.retain(|address| address != first);
        known.insert(0, first.clone());
        learn(&mut known, others);
    }
}

/// Adds those that are not known yet.
pub(crate) fn learn(known: &mut Vec<Address>, others: &[Address]) {
    for other in others {
        if known.len() < LEARNED_MOST && !known.contains(other) {
            known.push(other.clone());
        }
    }
}

/// The address for a connection, and how long the connection may stay.
pub(crate) struct Located {
    address: Address,
    turn: u64,
    heard: watch::Receiver<NamedPrimary>,
}

impl Located {
    pub(crate) fn address(&self) -> (&str, u16) {
        (&self.address.0, self.address.1)
    }

    /// Waits until the primary is elsewhere.
    pub(crate) async fn is_left(&self) {
        let mut heard = self.heard.clone();
        let is_elsewhere = |named: &NamedPrimary| named.turn != self.turn;
        if heard.wait_for(is_elsewhere).await.is_err() {
            std::future::pending().await // no locator is left
        }
    }

    /// Drives a connection as long as it may stay.
    ///
    /// A request that is still queued then must not reach a server that was frozen and takes itself for the primary.
    pub(crate) fn hold(self, mut driver: Driver, control: Arc<SocketControl>) -> Driver {
        Box::pin(async move {
            tokio::select! {
                biased;
                () = self.is_left() => control.abort(),
                () = &mut driver => {}
            }
        })
    }
}
