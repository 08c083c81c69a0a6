//! One call of one script: its keys and arguments.

use std::fmt;

use super::arg::Arg;
use super::source::Script;

/// The keys and arguments of a call in one allocation, because a batch has hundreds.
#[derive(Clone)]
struct Words {
    /// All of them in sequence, each after its length.
    framed: Vec<u8>,
    count: usize,
}

impl Words {
    /// Reserves what nearly every call needs, so that the buffer does not grow step by step.
    fn with_room() -> Self {
        Words {
            framed: Vec::with_capacity(256),
            count: 0,
        }
    }

    fn push(&mut self, word: impl Arg) {
        let unknown = 0_usize.to_ne_bytes();
        let start = self.framed.len() + unknown.len();
        self.framed.extend_from_slice(&unknown);
        word.write_to(&mut self.framed);
        let length = (self.framed.len() - start).to_ne_bytes();
        self.framed[start - length.len()..start].copy_from_slice(&length);
        self.count += 1;
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let mut rest = self.framed.as_slice();
        std::iter::from_fn(move || {
            let (length, behind) = rest.split_first_chunk()?;
            let (word, left) = behind.split_at(usize::from_ne_bytes(*length));
            rest = left;
            Some(word)
        })
    }
}

/// One call of one script, for a store to run.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) script: &'static Script,
    words: Words,
    /// How many of the words are keys; the others are arguments.
    keys: usize,
    /// The script for the most important part, on the first key alone, when the keys are in several slots.
    pub(crate) alone: Option<&'static Script>,
}

/// Tokens are among the arguments, so `Debug` hides them.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Call({} {:?}, {} args)",
            self.script.name,
            self.all_keys().collect::<Vec<_>>(),
            self.count() - self.key_count()
        )
    }
}

impl Call {
    pub(crate) fn of(script: &'static Script) -> Self {
        Call {
            script,
            words: Words::with_room(),
            keys: 0,
            alone: None,
        }
    }

    /// Sets the script to run on the first key, with the same arguments, for keys in several slots.
    pub(crate) fn single_key_fallback(&mut self, script: &'static Script) {
        self.alone = Some(script);
    }

    /// Returns a call with the same arguments for a script that needs the first key only.
    #[cfg(feature = "redis")]
    pub(crate) fn on_first_key(&self, script: &'static Script) -> Call {
        let mut call = Call::of(script);
        self.all_keys().take(1).for_each(|key| {
            call.key(key);
        });
        call.args(self.all_args());
        call
    }

    /// Adds a key; keys precede arguments.
    pub(crate) fn key(&mut self, key: impl Arg) -> &mut Self {
        debug_assert_eq!(self.keys, self.words.count, "a key behind an argument");
        self.words.push(key);
        self.keys += 1;
        self
    }

    pub(crate) fn keys<W: Arg>(&mut self, keys: impl Iterator<Item = W>) {
        for key in keys {
            self.key(key);
        }
    }

    pub(crate) fn args<W: Arg>(&mut self, args: impl Iterator<Item = W>) {
        args.for_each(|arg| self.words.push(arg));
    }

    pub(crate) fn arg(&mut self, arg: impl Arg) -> &mut Self {
        self.words.push(arg);
        self
    }

    pub(crate) fn all_keys(&self) -> impl Iterator<Item = &str> + Clone {
        self.words.iter().take(self.keys).map(text)
    }

    #[cfg_attr(
        not(any(test, feature = "embedded", feature = "redis")),
        expect(dead_code, reason = "servers get all words")
    )]
    pub(crate) fn all_args(&self) -> impl Iterator<Item = &str> + Clone {
        self.words.iter().skip(self.keys).map(text)
    }

    /// Returns keys and arguments, as a server gets them.
    #[cfg_attr(
        not(any(test, feature = "redis")),
        expect(dead_code, reason = "for packing")
    )]
    pub(crate) fn words(&self) -> impl Iterator<Item = &[u8]> {
        self.words.iter()
    }

    pub(crate) fn key_count(&self) -> usize {
        self.keys
    }

    /// Returns the number of keys and arguments.
    pub(crate) fn count(&self) -> usize {
        self.words.count
    }

    /// Returns their total length, at most.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "for packing"))]
    pub(crate) fn bytes(&self) -> usize {
        self.words.framed.len()
    }
}

/// Reads a word; every word was written as text.
fn text(word: &[u8]) -> &str {
    std::str::from_utf8(word).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_arguments_are_told_apart_and_numbers_are_digits() {
        static SCRIPT: Script = Script::new("test", "").reads_only();
        let mut call = Call::of(&SCRIPT);
        call.key("one").key("");
        call.arg(0).arg(u64::MAX).arg(1_000).arg("ü");
        assert_eq!(call.all_keys().collect::<Vec<_>>(), ["one", ""]);
        let args: Vec<_> = call.all_args().collect();
        assert_eq!(args, ["0", "18446744073709551615", "1000", "ü"]);
        assert_eq!(
            (call.key_count(), call.count(), call.words().count()),
            (2, 6, 6)
        );
    }
}
