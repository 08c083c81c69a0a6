//! Who listens on which channel, as far as the stream shows it.

use std::collections::{HashMap, HashSet};

/// One connection that has subscribed.
#[derive(Debug)]
struct Connection {
    serial: u64,
    /// Of the server, once a marker has shown it.
    id: Option<u64>,
    channels: HashSet<String>,
}

/// By address.
#[derive(Debug, Default)]
pub(super) struct Connections {
    by_address: HashMap<String, Connection>,
    listeners: HashMap<String, HashSet<String>>,
    living: HashSet<u64>,
    next: u64,
}

impl Connections {
    /// A connection begins: another one had its address before.
    pub(super) fn begin(&mut self, address: &str) {
        self.end(address);
    }

    pub(super) fn subscribe<S: AsRef<str>>(&mut self, address: &str, channels: &[S]) {
        if !self.by_address.contains_key(address) {
            self.next += 1;
            self.living.insert(self.next);
            let new = Connection {
                serial: self.next,
                id: None,
                channels: HashSet::new(),
            };
            self.by_address.insert(address.to_owned(), new);
        }
        for channel in channels {
            let channel = channel.as_ref();
            let listeners = self.listeners.entry(channel.to_owned()).or_default();
            listeners.insert(address.to_owned());
            if let Some(connection) = self.by_address.get_mut(address) {
                connection.channels.insert(channel.to_owned());
            }
        }
    }

    /// From all channels when none is named.
    pub(super) fn unsubscribe<S: AsRef<str>>(&mut self, address: &str, channels: &[S]) {
        let Some(connection) = self.by_address.get_mut(address) else {
            return;
        };
        let gone: Vec<String> = if channels.is_empty() {
            connection.channels.drain().collect()
        } else {
            let named = channels.iter().map(|channel| channel.as_ref());
            named
                .filter_map(|channel| connection.channels.take(channel))
                .collect()
        };
        gone.iter().for_each(|channel| self.leave(channel, address));
    }

    /// Connections that have subscribed to it and were not seen to end.
    pub(super) fn listeners(&self, channel: &str) -> Vec<u64> {
        let addresses = self.listeners.get(channel).into_iter().flatten();
        addresses
            .filter_map(|address| Some(self.by_address.get(address)?.serial))
            .collect()
    }

    /// Whether one of these connections lives at this marker.
    pub(super) fn any_lives(&self, serials: &[u64]) -> bool {
        serials.iter().any(|serial| self.living.contains(serial))
    }

    /// What `CLIENT LIST` says at a marker: address to number. A connection that it lacks, or that has another number
    /// by now, has ended.
    pub(super) fn compare(&mut self, listed: &HashMap<String, u64>) {
        let mut ended = Vec::new();
        for (address, connection) in &mut self.by_address {
            match (listed.get(address), connection.id) {
                (Some(id), None) => connection.id = Some(*id),
                (Some(id), Some(known)) if *id == known => {}
                _ => ended.push(address.clone()),
            }
        }
        ended.iter().for_each(|address| self.end(address));
    }

    fn end(&mut self, address: &str) {
        if let Some(connection) = self.by_address.remove(address) {
            self.living.remove(&connection.serial);
            for channel in &connection.channels {
                self.leave(channel, address);
            }
        }
    }

    fn leave(&mut self, channel: &str, address: &str) {
        if let Some(listeners) = self.listeners.get_mut(channel) {
            listeners.remove(address);
            if listeners.is_empty() {
                self.listeners.remove(channel);
            }
        }
    }
}
