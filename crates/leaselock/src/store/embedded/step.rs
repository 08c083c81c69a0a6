//! One run of a script: its data, as commands and shortcuts read and write it, and its questions about the world outside.

use std::sync::Arc;

use super::entry::{Content, Entry};
use super::holds::{Life, Sessionless, shown_end_us};
use super::image::Image;
use super::packed::{Fields, Members};
use super::reply::wrong_type;
use crate::base::{Result, refusal, slots, token};
use crate::script::Call;
use crate::script::keyspace::{Keyspace, StreamId};

/// The world outside of the image, as commands see it.
pub(super) trait Surroundings: Send + Sync {
    /// True if a listener is on this channel.
    fn present(&self, channel: &[u8]) -> bool;
    /// True if this client has a session, so that its leases end with it.
    fn has_session(&self, client: &str) -> bool;
}

/// One run of a script: its data and its pending effects.
pub(super) struct Step {
    pub(super) image: Image,
    /// The store's time, read once.
    pub(super) now_us: u64,
    /// The keys that a script may touch.
    pub(super) keys: Vec<String>,
    pub(super) reads_only: bool,
    pub(super) surroundings: Arc<dyn Surroundings>,
    /// Channels and messages, sent once the image is committed.
    pub(super) outbox: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Returns the common slot tag of all keys of a call, which determines their file.
pub(super) fn one_tag(call: &Call) -> Result<&str> {
    let mut tags = call.parameters.keys().map(slots::tag);
    match tags.next() {
        Some(tag) if tags.all(|other| other == tag) => Ok(tag),
        _ => Err(refusal!(Internal: "{} needs keys that share one slot", call.script.name)),
    }
}

/// Returns the id after the last one: of the present millisecond when that is later.
fn id_after((ms, seq): StreamId, now_ms: u64) -> Option<StreamId> {
    if now_ms > ms {
        return Some((now_ms, 0));
    }
    match seq.checked_add(1) {
        Some(seq) => Some((ms, seq)),
        None => Some((ms.checked_add(1)?, 0)),
    }
}

impl Step {
    pub(super) fn new(
        call: &Call,
        image: Image,
        now_us: u64,
        surroundings: &Arc<impl Surroundings + 'static>,
    ) -> Self {
        Step {
            image,
            now_us,
            keys: Vec::new(),
            reads_only: call.script.reads_only,
            surroundings: Arc::clone(surroundings) as Arc<dyn Surroundings>,
            outbox: Vec::new(),
        }
    }

    fn typed<'a, T: ?Sized>(
        &'a self,
        key: &str,
        content: fn(&'a Content) -> Option<&'a T>,
    ) -> Result<Option<&'a T>> {
        let entry = self.image.find(key);
        let found = entry.map(|entry| content(&entry.content).ok_or_else(wrong_type));
        found.transpose()
    }

    /// Returns the fields of a hash; a hash without fields does not exist.
    pub(super) fn fields(&self, key: &str) -> Result<Option<&Fields>> {
        self.typed(key, Content::fields)
    }

    /// Returns the members of a sorted set; a set without members does not exist.
    pub(super) fn members(&self, key: &str) -> Result<Option<&Members>> {
        self.typed(key, Content::members)
    }

    /// Returns the entry of a key, created without an expiry when it does not exist.
    fn entry_or(&mut self, key: &str, empty: Content) -> &mut Entry {
        let image = &mut self.image;
        image.changed = true;
        let known = image.entries.iter().position(|entry| entry.key == key);
        let place = known.unwrap_or_else(|| {
            image.entries.push(Entry {
                key: key.to_owned(),
                ends_us: None,
                bound: false,
                sessionless: Sessionless::new(),
                life: Life::Ttl,
                content: empty,
            });
            image.entries.len() - 1
        });
        &mut image.entries[place]
    }

    /// Removes an item from the content of a key, and the key with its last item.
    fn remove_item(
        &mut self,
        key: &str,
        remove: impl FnOnce(&mut Entry) -> Option<(bool, bool)>,
    ) -> Result<bool> {
        let Some(entry) = self.image.find_mut(key) else {
            return Ok(false);
        };
        let (removed, is_empty) = remove(entry).ok_or_else(wrong_type)?;
        self.image.changed |= removed;
        if is_empty {
            self.image.remove(key);
        }
        Ok(removed)
    }

    fn after_us(&self, ttl_ms: u64) -> u64 {
        self.now_us.saturating_add(ttl_ms.saturating_mul(1000))
    }

    /// `HGET key field`.
    pub(super) fn hash_get(&self, key: &str, field: &[u8]) -> Result<Option<&[u8]>> {
        Ok(self.fields(key)?.and_then(|fields| fields.get(field)))
    }

    /// `HSET key field value`; true when the field is new.
    pub(super) fn hash_set(&mut self, key: &str, field: &[u8], value: &[u8]) -> Result<bool> {
        match &mut self.entry_or(key, Content::Hash(Fields::default())).content {
            Content::Hash(fields) => Ok(fields.insert(field, value)),
            _ => Err(wrong_type()),
        }
    }

    /// `HDEL key field`; false when the field does not exist.
    pub(super) fn hash_delete(&mut self, key: &str, field: &[u8]) -> Result<bool> {
        self.remove_item(key, |entry| match &mut entry.content {
            Content::Hash(fields) => Some((fields.remove(field), fields.is_empty())),
            _ => None,
        })
    }

    /// `ZADD key score member`; true when the member is new.
    pub(super) fn sorted_add(&mut self, key: &str, score: f64, member: &[u8]) -> Result<bool> {
        let session = |(client, _): (&str, &[u8])| self.surroundings.has_session(client);
        let has_session = token::leading(member).map(session);
        let entry = self.entry_or(key, Content::Sorted(Members::default()));
        let added = entry.add_member(score, member, has_session);
        added.ok_or_else(wrong_type)
    }

    /// `ZREM key member`; false when the member does not exist.
    pub(super) fn sorted_remove(&mut self, key: &str, member: &[u8]) -> Result<bool> {
        self.remove_item(key, |entry| entry.remove_member(member))
    }
}

impl Keyspace for Step {
    fn now_us(&self) -> u64 {
        self.now_us
    }

    fn exists(&self, key: &str) -> bool {
        self.image.find(key).is_some()
    }

    fn remaining_ms(&self, key: &str) -> i64 {
        let Some(entry) = self.image.find(key) else {
            return -2;
        };
        let left = |ends_us: u64| ends_us.saturating_sub(self.now_us) / 1000;
        let ms = match (entry.life, entry.ends_us) {
            (Life::Session { until_us }, _) => left(shown_end_us(until_us, self.now_us)),
            (_, Some(ends_us)) => left(ends_us),
            (_, None) => return -1,
        };
        i64::try_from(ms).unwrap_or(i64::MAX)
    }

    fn expire(&mut self, key: &str, ttl_ms: u64) -> bool {
        let ends_us = self.after_us(ttl_ms);
        let Some(entry) = self.image.find_mut(key) else {
            return false;
        };
        entry.ends_us = Some(ends_us);
        self.image.changed = true;
        true
    }

    fn delete(&mut self, key: &str) -> bool {
        self.image.remove(key)
    }

    fn get(&self, key: &str) -> Result<Option<&[u8]>> {
        self.typed(key, Content::text)
    }

    fn set(&mut self, key: &str, value: &[u8], ttl_ms: u64) {
        let session = |client| self.surroundings.has_session(client);
        let bound = token::client_of(value).is_some_and(session);
        let ends_us = Some(self.after_us(ttl_ms));
        let entry = self.entry_or(key, Content::Text(Vec::new()));
        (entry.ends_us, entry.bound, entry.life) = (ends_us, bound, Life::Ttl);
        entry.put_text(value);
    }

    fn stream_last(&self, key: &str) -> Result<Option<StreamId>> {
        let last = self.typed(key, Content::stream)?;
        Ok(last.map(|last| last.map(u64::from_le_bytes).into()))
    }

    fn stream_add(&mut self, key: &str, id: Option<StreamId>) -> Result<Option<StreamId>> {
        let last = self.stream_last(key)?.unwrap_or_default();
        let id = id.or_else(|| id_after(last, self.now_us / 1000));
        let id = id.filter(|id| *id > last);
        if let Some(id) = id {
            let bytes = <[u64; 2]>::from(id).map(u64::to_le_bytes);
            self.entry_or(key, Content::Stream(bytes)).content = Content::Stream(bytes);
        }
        Ok(id)
    }
}
