//! The content of one lock file: a few keys, each a string, a hash or a sorted set, and their encoding.

use super::glob;
use super::packed::{Fields, Members};
use crate::base::token;

/// The keys of one slot tag, in memory while a script works on them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Image {
    pub(super) entries: Vec<Entry>,
    /// True if a script wrote something that must be committed.
    pub(super) changed: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    /// The last microsecond before expiry on the store's clock; `None` never expires.
    pub(super) ends_us: Option<u64>,
    /// True if the client in this token had a session at the write: then session and ttl decide together.
    pub(super) bound: bool,
    pub(super) life: Life,
    pub(super) content: Content,
}

/// The state of the holder's session, read anew by every call and never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Life {
    /// The ttl decides.
    #[default]
    Ttl,
    /// The process is dead and its job still runs: held until this point of the store's clock, whatever the ttl.
    Session { until_us: Option<u64> },
    /// Process and job have ended.
    Over,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content {
    Text(Vec<u8>),
    Hash(Fields),
    Sorted(Members),
}

impl Entry {
    pub(super) fn is_over(&self, now_us: u64) -> bool {
        match self.life {
            Life::Ttl => self.ends_us.is_some_and(|ends_us| now_us > ends_us),
            Life::Session { until_us } => until_us.is_some_and(|until_us| now_us > until_us),
            Life::Over => true,
        }
    }

    /// Returns the value, when it is a string; other types never hold a token.
    pub(super) fn text(&self) -> Option<&[u8]> {
        self.content.text()
    }
}

impl Content {
    pub(super) fn text(&self) -> Option<&[u8]> {
        match self {
            Content::Text(text) => Some(text),
            Content::Hash(_) | Content::Sorted(_) => None,
        }
    }

    pub(super) fn fields(&self) -> Option<&Fields> {
        match self {
            Content::Hash(fields) => Some(fields),
            Content::Text(_) | Content::Sorted(_) => None,
        }
    }

    pub(super) fn members(&self) -> Option<&Members> {
        match self {
            Content::Sorted(members) => Some(members),
            Content::Text(_) | Content::Hash(_) => None,
        }
    }

    /// Returns the number of the type in a file, the length that precedes the bytes, and the bytes.
    fn parts(&self) -> (u8, usize, &[u8]) {
        match self {
            Content::Text(text) => (0, text.len(), text),
            Content::Hash(fields) => (1, fields.len(), fields.bytes()),
            Content::Sorted(members) => (2, members.len(), members.bytes()),
        }
    }

    /// Returns the type's name, as `TYPE` does.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Content::Text(_) => "string",
            Content::Hash(_) => "hash",
            Content::Sorted(_) => "zset",
        }
    }
}

impl Image {
    pub(super) fn find(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub(super) fn find_mut(&mut self, key: &str) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.key == key)
    }

    pub(super) fn remove(&mut self, key: &str) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.key != key);
        self.changed |= self.entries.len() != before;
        self.entries.len() != before
    }

    /// Drops expired keys. Time stands still while a script runs, so nothing expires during it.
    pub(super) fn settle(&mut self, now_us: u64) {
        self.entries.retain(|entry| !entry.is_over(now_us));
    }

    /// Lists the keys that match the pattern and whose value is one of our tokens.
    pub(super) fn locks(&self, pattern: &str) -> Vec<String> {
        let shown = |entry: &&Entry| {
            entry.text().and_then(token::client_of).is_some()
                && glob::matches(pattern.as_bytes(), entry.key.as_bytes())
        };
        let locks = self.entries.iter().filter(shown);
        locks.map(|entry| entry.key.clone()).collect()
    }
}

const NO_END: u64 = u64::MAX;
const BOUND: u8 = 0x80;

/// Encodes an image.
///
/// Expiry times are stored on the machine's own clock (`anchor_us` is the distance), which no loss of the anchor can
/// move.
pub(super) fn encode(image: &Image, anchor_us: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(room(image));
    put_length(&mut out, image.entries.len());
    for entry in &image.entries {
        let (kind, length, bytes) = entry.content.parts();
        out.push(kind | if entry.bound { BOUND } else { 0 });
        let ends = entry
            .ends_us
            .map_or(NO_END, |ends_us| ends_us.saturating_sub(anchor_us));
        out.extend_from_slice(&ends.to_le_bytes());
        put_length(&mut out, entry.key.len());
        out.extend_from_slice(entry.key.as_bytes());
        put_length(&mut out, length);
        out.extend_from_slice(bytes);
    }
    out
}

/// Returns an upper bound of the encoded length.
fn room(image: &Image) -> usize {
    let entries = image.entries.iter();
    let each = entries.map(|entry| 32 + entry.key.len() + entry.content.parts().2.len());
    4 + each.sum::<usize>()
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
}

/// The most keys in one file, which names with a common slot tag share.
///
/// More keys take too long, because each may have a session to check.
pub(super) const MOST_KEYS: usize = 10_000;

/// Decodes an image; `None` for bytes that `encode` does not write.
pub(super) fn decode(bytes: &[u8], anchor_us: u64) -> Option<Image> {
    let mut rest = Rest(bytes);
    let mut image = Image::default();
    let keys = rest.length().filter(|keys| *keys <= MOST_KEYS)?;
    for _ in 0..keys {
        let kind = rest.take(1)?[0];
        let ends = rest.u64()?;
        let key = String::from_utf8(rest.bytes()?.to_vec()).ok()?;
        let content = match kind & !BOUND {
            0 => Content::Text(rest.bytes()?.to_vec()),
            1 => {
                let count = rest.length()?;
                Content::Hash(rest.all(|bytes| Fields::read(count, bytes))?)
            }
            2 => {
                let count = rest.length()?;
                Content::Sorted(rest.all(|bytes| Members::read(count, bytes))?)
            }
            _ => return None,
        };
        image.entries.push(Entry {
            key,
            ends_us: (ends != NO_END).then(|| ends.saturating_add(anchor_us)),
            bound: kind & BOUND != 0,
            life: Life::Ttl,
            content,
        });
    }
    rest.0.is_empty().then_some(image)
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(length)?;
        self.0 = tail;
        Some(head)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn length(&mut self) -> Option<usize> {
        self.take(4)?
            .try_into()
            .ok()
            .map(u32::from_le_bytes)
            .and_then(|n| usize::try_from(n).ok())
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    /// Reads items from the front with `read`.
    fn all<T>(&mut self, read: impl FnOnce(&'a [u8]) -> Option<(T, &'a [u8])>) -> Option<T> {
        let (found, rest) = read(self.0)?;
        self.0 = rest;
        Some(found)
    }
}

#[cfg(test)]
pub(super) fn sample() -> Image {
    let entry = |key: &str, ends_us, bound, content| Entry {
        key: key.to_owned(),
        ends_us,
        bound,
        life: Life::Ttl,
        content,
    };
    let members = [(-1.5, "b"), (0.0, "a")].into_iter().collect();
    let fields = [(b"field".to_vec(), b"value".to_vec()), (vec![0xff], vec![])];
    let fields = fields.into_iter().collect();
    Image {
        entries: vec![
            entry(
                "job",
                Some(5_000_000),
                true,
                Content::Text(b"token".to_vec()),
            ),
            entry("{job}:ll:queue", None, false, Content::Sorted(members)),
            entry(
                "{job}:ll:waiters",
                Some(9_000_000),
                false,
                Content::Hash(fields),
            ),
        ],
        changed: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_comes_back_from_its_bytes() {
        let image = sample();
        assert_eq!(decode(&encode(&image, 1000), 1000), Some(image));
        assert_eq!(
            decode(&encode(&Image::default(), 0), 0),
            Some(Image::default())
        );
    }

    #[test]
    fn bytes_cut_short_or_with_more_behind_are_not_an_image() {
        let bytes = encode(&sample(), 0);
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length], 0), None, "{length}");
        }
        assert_eq!(decode(&[&bytes[..], &[0]].concat(), 0), None);
    }

    #[test]
    fn more_keys_than_a_file_may_have_are_not_an_image() {
        let mut image = sample();
        image.entries = vec![image.entries[0].clone(); MOST_KEYS];
        assert!(decode(&encode(&image, 0), 0).is_some());
        image.entries.push(image.entries[0].clone());
        assert_eq!(decode(&encode(&image, 0), 0), None);
    }

    #[test]
    fn an_end_is_the_last_moment_of_life() {
        let mut image = sample();
        image.settle(5_000_000);
        assert!(image.find("job").is_some());
        image.settle(5_000_001);
        assert!(image.find("job").is_none() && image.find("{job}:ll:queue").is_some());
    }
}
