//! The keys and arguments of a call.

use super::arg::Arg;

/// Keys and arguments in one allocation, because a batch has hundreds.
#[derive(Clone)]
pub(crate) struct Parameters {
    /// All of them in sequence, each after its length.
    framed: Vec<u8>,
    count: usize,
    /// How many of them are keys; the others are arguments.
    keys: usize,
}

impl Parameters {
    /// Reserves what nearly every call needs, so that the buffer does not grow step by step.
    pub(super) fn with_room() -> Self {
        Parameters {
            framed: Vec::with_capacity(256),
            count: 0,
            keys: 0,
        }
    }

    pub(super) fn push(&mut self, word: impl Arg) {
        let unknown = 0_usize.to_ne_bytes();
        let start = self.framed.len() + unknown.len();
        self.framed.extend_from_slice(&unknown);
        word.write_to(&mut self.framed);
        let length = (self.framed.len() - start).to_ne_bytes();
        self.framed[start - length.len()..start].copy_from_slice(&length);
        self.count += 1;
    }

    pub(super) fn push_key(&mut self, key: impl Arg) {
        debug_assert_eq!(self.keys, self.count, "a key behind an argument");
        self.push(key);
        self.keys += 1;
    }

    /// Iterates over keys and arguments, as a server gets them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let mut rest = self.framed.as_slice();
        std::iter::from_fn(move || {
            let (length, behind) = rest.split_first_chunk()?;
            let (word, left) = behind.split_at(usize::from_ne_bytes(*length));
            rest = left;
            Some(word)
        })
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> + Clone {
        self.iter().take(self.keys).map(text)
    }

    /// Iterates over the arguments; one that is no text is empty here.
    pub(crate) fn args(&self) -> impl Iterator<Item = &str> + Clone {
        self.arg_bytes().map(text)
    }

    pub(crate) fn arg_bytes(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.iter().skip(self.keys)
    }

    pub(crate) fn key_count(&self) -> usize {
        self.keys
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns their total length, at most.
    pub(crate) fn bytes(&self) -> usize {
        self.framed.len()
    }
}

/// Reads a word that was written as text.
fn text(word: &[u8]) -> &str {
    std::str::from_utf8(word).unwrap_or_default()
}
