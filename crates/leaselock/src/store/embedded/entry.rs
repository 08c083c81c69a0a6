//! One key in a lock file: its value, when it expires, and which of it ends with a session.

use super::holds::{self, Life, Sessionless, SettledHold};
use super::packed::{Fields, Members};
use crate::base::token;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    /// The last microsecond before expiry on the store's clock; `None` never expires.
    pub(super) ends_us: Option<u64>,
    /// True if the client in this token had a session at the write: then session and ttl decide together.
    ///
    /// Of a sorted set of holds it says so for each of them, other than the sessionless.
    pub(super) bound: bool,
    /// Of a bound sorted set, and empty in any other entry.
    pub(super) sessionless: Sessionless,
    pub(super) life: Life,
    pub(super) content: Content,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content {
    Text(Vec<u8>),
    Hash(Fields),
    Sorted(Members),
    /// The last id of a stream that stays empty: milliseconds and sequence number, as bytes in a file.
    Stream([[u8; 8]; 2]),
}

impl Entry {
    pub(super) fn is_over(&self, now_us: u64) -> bool {
        self.life.is_over(self.ends_us, now_us)
    }

    pub(super) fn put_text(&mut self, value: &[u8]) {
        self.content = Content::Text(value.to_vec());
        self.sessionless.clear();
    }

    /// Adds a member to a sorted set; true when it is new. `has_session` is about the client of a hold.
    pub(super) fn add_member(
        &mut self,
        score: f64,
        name: &[u8],
        has_session: Option<bool>,
    ) -> Option<bool> {
        let Content::Sorted(members) = &mut self.content else {
            return None;
        };
        if has_session == Some(true) && !self.bound {
            let all = members.iter().map(|member| member.name.to_vec());
            (self.bound, self.sessionless) = (true, all.collect());
        }
        match has_session {
            Some(false) if self.bound => drop(self.sessionless.insert(name.to_vec())),
            _ => drop(self.sessionless.remove(name)),
        }
        Some(members.insert(score, name))
    }

    /// Removes a member of a sorted set. Returns whether it was there, and whether none is left.
    pub(super) fn remove_member(&mut self, name: &[u8]) -> Option<(bool, bool)> {
        let Content::Sorted(members) = &mut self.content else {
            return None;
        };
        self.sessionless.remove(name);
        Some((members.remove(name), members.is_empty()))
    }

    /// Takes over what sessions say about its holds. The key lives as long as one of them.
    pub(super) fn take(&mut self, settled: SettledHold) {
        if settled.members.is_empty() {
            self.life = Life::Over;
        }
        self.content = Content::Sorted(settled.members);
        let held_until_us = settled.held_until_us.unwrap_or(0);
        self.ends_us = self.ends_us.map(|ends_us| ends_us.max(held_until_us));
    }

    /// True if `next`, which follows in a file, has the sessionless holds of this set.
    pub(super) fn is_continued_by(&self, next: &Entry) -> bool {
        let both_sets = self.content.members().and(next.content.members()).is_some();
        self.key == next.key && self.bound && !next.bound && both_sets
    }

    /// Takes up the sessionless holds; `None` if one of them is there already.
    pub(super) fn continue_with(&mut self, next: &Entry) -> Option<()> {
        let (bound, sessionless) = (self.content.members()?, next.content.members()?);
        let (all, sessionless) = holds::join(bound, sessionless)?;
        self.content = Content::Sorted(all);
        self.sessionless.extend(sessionless);
        Some(())
    }

    /// True if one of our tokens, or a set of them, lies here.
    pub(super) fn is_lock(&self) -> bool {
        match &self.content {
            Content::Text(text) => token::client_of(text).is_some(),
            Content::Sorted(members) => holds::are_holds(members),
            Content::Hash(_) | Content::Stream(_) => false,
        }
    }
}

/// Declares how the value of each type is read; a value of another type has none.
macro_rules! values {
    ($($name:ident: $Type:ident -> $Value:ty),+ $(,)?) => {
        $(
            pub(super) fn $name(&self) -> Option<&$Value> {
                match self {
                    Content::$Type(value) => Some(value),
                    _ => None,
                }
            }
        )+
    };
}

impl Content {
    values! {
        text: Text -> [u8],
        fields: Hash -> Fields,
        members: Sorted -> Members,
        stream: Stream -> [[u8; 8]; 2],
    }

    /// Returns the number of the type in a file, the length that precedes the bytes, and the bytes.
    pub(super) fn parts(&self) -> (u8, usize, &[u8]) {
        match self {
            Content::Text(text) => (0, text.len(), text),
            Content::Hash(fields) => (1, fields.len(), fields.bytes()),
            Content::Sorted(members) => (2, members.len(), members.bytes()),
            Content::Stream(last) => (3, 2, last.as_flattened()),
        }
    }

    /// Returns the type's name, as `TYPE` does.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Content::Text(_) => "string",
            Content::Hash(_) => "hash",
            Content::Sorted(_) => "zset",
            Content::Stream(_) => "stream",
        }
    }
}
