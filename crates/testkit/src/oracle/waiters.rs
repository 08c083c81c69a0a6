//! The queue of a lock.

use std::collections::HashMap;

use super::held::{Held, How};

/// Digits and token of an entry: they stay when its waiter polls.
const IDENTITY: usize = 47;
const TICKET: usize = 16;
const POLLED_END: usize = 63;

/// One waiter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Smaller goes first.
    pub(super) score: i64,
    pub(super) member: String,
}

impl Entry {
    /// What decides the order among equal scores, and whose entry it is.
    fn identity(&self) -> &str {
        self.member.get(..IDENTITY).unwrap_or(&self.member)
    }

    pub(super) fn token(&self) -> &str {
        self.member.get(TICKET..IDENTITY).unwrap_or_default()
    }

    /// ` priority passed_ms kind channel`.
    fn wish(&self, at: usize) -> &str {
        let wish = self.member.get(POLLED_END..).unwrap_or_default();
        wish.split(' ').nth(at).unwrap_or_default()
    }

    pub(super) fn kind(&self) -> &str {
        self.wish(3)
    }

    pub(super) fn channel(&self) -> &str {
        self.wish(4)
    }

    pub(super) fn is_same(&self, other: &Entry) -> bool {
        self.score == other.score && self.identity() == other.identity()
    }

    pub(super) fn is_ahead_of(&self, other: &Entry) -> bool {
        (self.score, self.identity()) < (other.score, other.identity())
    }

    /// Whether it surely fits beside what is held: the holds that are over count too, and unknown permits fit nothing.
    pub(super) fn fits(&self, held: &Held, permits: Option<u64>) -> bool {
        let holds = held.each();
        let others = |how: fn(&How) -> bool| holds.iter().all(|hold| how(&hold.how));
        match self.kind() {
            "s" => others(|how| matches!(how, How::Reads | How::Upgradable)),
            "u" => others(|how| *how == How::Reads),
            "x" => {
                holds.len() == 1
                    && holds[0].how == How::Upgradable
                    && holds[0].token == self.token()
            }
            kind => match kind.strip_prefix('w') {
                None => holds.is_empty(),
                Some(weight) => {
                    let (count, used) = held.weighed();
                    let weight = weight.parse().unwrap_or(u64::MAX);
                    count == holds.len() as u64
                        && permits.is_some_and(|permits| used.saturating_add(weight) <= permits)
                }
            },
        }
    }
}

/// The two keys.
#[derive(Debug, Clone, Default)]
pub(super) struct Waiters {
    entries: Vec<Entry>,
    known: HashMap<String, String>,
}

impl Waiters {
    pub(super) fn add(&mut self, entry: Entry) {
        self.remove(&entry.member);
        let at = self
            .entries
            .partition_point(|other| other.is_ahead_of(&entry));
        self.entries.insert(at, entry);
    }

    pub(super) fn remove(&mut self, member: &str) -> Option<Entry> {
        let at = self
            .entries
            .iter()
            .position(|entry| entry.member == member)?;
        Some(self.entries.remove(at))
    }

    /// Returns the waiter of this member, unless it has left.
    pub(super) fn find(&self, member: &str) -> Option<Entry> {
        self.waiting().find(|entry| entry.member == member).cloned()
    }

    pub(super) fn clear_queue(&mut self) {
        self.entries.clear();
    }

    pub(super) fn know(&mut self, token: &str, member: &str, only_new: bool) {
        if !(only_new && self.known.contains_key(token)) {
            self.known.insert(token.to_owned(), member.to_owned());
        }
    }

    pub(super) fn forget(&mut self, token: &str) {
        self.known.remove(token);
    }

    pub(super) fn forget_all(&mut self) {
        self.known.clear();
    }

    /// Those in the queue that have not left, in order.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Entry> {
        let known = &self.known;
        self.entries
            .iter()
            .filter(|entry| known.contains_key(entry.token()))
    }
}

/// Returns the member from before, for that of a waiter that is set aside: until its own poll, by which it joins again.
pub(super) fn set_aside(member: &str) -> Option<&str> {
    member.strip_suffix('~')
}

/// The score as the server writes it.
pub(super) fn score(text: &str) -> i64 {
    if text == "-inf" {
        i64::MIN
    } else {
        text.parse().unwrap_or_default()
    }
}
