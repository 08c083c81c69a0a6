//! One value per `.lua` file: its text, what goes in, what comes out.

pub(crate) mod arg;
pub(crate) mod damage;
pub(crate) mod keys;

use std::fmt;
use std::sync::OnceLock;

pub(crate) use self::arg::Arg;
use crate::base::error::{ErrorKind, StoreError};
#[cfg(feature = "redis")]
use crate::quorum::tally::{Verdict, Votes};

/// A script: one file under `lua/`, joined with the fragments it uses.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) source: &'static str,
    /// Changes nothing, so a folder runs it without its lock and a server takes it for a function that does not write.
    pub(crate) reads_only: bool,
    /// The SHA-1 by which a Redis server knows it, computed on first use.
    #[cfg_attr(
        not(feature = "redis"),
        expect(dead_code, reason = "only servers cache scripts")
    )]
    pub(crate) sha1: OnceLock<String>,
}

/// Joins `prelude.lua`, the named fragments and the script itself at compile time.
///
/// Making the functions of its fragments costs a script more than the plain case of an acquisition, so a script that is
/// `first` stands before all of them and answers that case; every other is served behind them, by its other half
/// `.rest.lua`.
///
/// One that is `strict` has its part for strict mode in front of it, `.strict.lua`, and is another script to a server.
macro_rules! script {
    ($name:literal strict first $(, with $fragment:literal)*) => {
        $crate::script::script!(@of concat!($name, ".strict"), false,
            "gate" concat!($name, ".strict") $name "prelude" $($fragment)* concat!($name, ".rest"))
    };
    ($name:literal strict $(, with $fragment:literal)*) => {
        $crate::script::script!(@of concat!($name, ".strict"), false,
            "prelude" $($fragment)* "gate" concat!($name, ".strict") $name)
    };
    ($name:literal first $(, with $fragment:literal)*) => {
        $crate::script::script!(@of $name, false, $name "prelude" $($fragment)* concat!($name, ".rest"))
    };
    ($name:literal $(, with $fragment:literal)*) => {
        $crate::script::script!(@of $name, false, "prelude" $($fragment)* $name)
    };
    ($name:literal $(, with $fragment:literal)*; reads_only) => {
        $crate::script::script!(@of $name, true, "prelude" $($fragment)* $name)
    };
    (@of $name:expr, $reads_only:literal, $($file:expr)+) => {{
        static SCRIPT: $crate::script::Script = $crate::script::Script {
            name: $name,
            source: concat!($(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/lua/", $file, ".lua")),)+),
            reads_only: $reads_only,
            sha1: std::sync::OnceLock::new(),
        };
        &SCRIPT
    }};
}
pub(crate) use script;

/// The keys and arguments of a call in one piece of memory, because a call that combines requests has hundreds.
#[derive(Clone)]
struct Words {
    /// One behind the other, each behind its length.
    framed: Vec<u8>,
    count: usize,
}

impl Words {
    /// Room for what nearly every call has, so that it does not grow piece by piece.
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

/// One call of one script: what a store gets to run.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) script: &'static Script,
    words: Words,
    /// So many of the words are keys; the others are arguments.
    keys: usize,
    /// What does the most important of it on the first key alone, where the keys cannot be had together.
    pub(crate) alone: Option<&'static Script>,
}

/// Arguments hold tokens, so they are not shown.
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

    /// When the keys cannot be had together, this script is run on the first of them, with the same arguments.
    pub(crate) fn single_key_fallback(&mut self, script: &'static Script) {
        self.alone = Some(script);
    }

    /// The same arguments for a script that needs the first key only.
    #[cfg(feature = "cluster")]
    pub(crate) fn on_first_key(&self, script: &'static Script) -> Call {
        let mut call = Call::of(script);
        self.all_keys().take(1).for_each(|key| {
            call.key(key);
        });
        call.args(self.all_args());
        call
    }

    /// Keys come before arguments.
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
        not(any(test, feature = "embedded", feature = "cluster")),
        expect(dead_code, reason = "servers get all words")
    )]
    pub(crate) fn all_args(&self) -> impl Iterator<Item = &str> + Clone {
        self.words.iter().skip(self.keys).map(text)
    }

    /// Keys and arguments, as a server gets them.
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

    /// How many keys and arguments there are.
    pub(crate) fn count(&self) -> usize {
        self.words.count
    }

    /// How long they are together, at most.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "for packing"))]
    pub(crate) fn bytes(&self) -> usize {
        self.words.framed.len()
    }
}

/// Nothing but text is written.
fn text(word: &[u8]) -> &str {
    std::str::from_utf8(word).unwrap_or_default()
}

/// A value that a script returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Nil,
    Int(i64),
    Bytes(Vec<u8>),
    Array(Vec<Value>),
}

/// An answer: a tag and what comes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    tag: String,
    /// Everything, with nothing left in place of the tag.
    rest: Vec<Value>,
}

/// An answer that no version of this script gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed;

impl Answer {
    pub(crate) fn from_value(value: Value) -> Result<Self, Malformed> {
        let Value::Array(mut items) = value else {
            return Err(Malformed);
        };
        let Some(Value::Bytes(tag)) = items.first_mut() else {
            return Err(Malformed);
        };
        let tag = String::from_utf8(std::mem::take(tag)).map_err(|_| Malformed)?;
        Ok(Answer { tag, rest: items })
    }

    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    pub(crate) fn values(&self) -> &[Value] {
        &self.rest[1..]
    }

    fn at(&self, index: usize) -> Result<&Value, Malformed> {
        self.rest.get(index + 1).ok_or(Malformed)
    }

    /// A whole number that is not negative, sent as an integer or as digits.
    pub(crate) fn number(&self, index: usize) -> Result<u64, Malformed> {
        u64::try_from(self.signed(index)?).map_err(|_| Malformed)
    }

    pub(crate) fn signed(&self, index: usize) -> Result<i64, Malformed> {
        match self.at(index)? {
            Value::Int(number) => Ok(*number),
            Value::Bytes(digits) => std::str::from_utf8(digits)
                .ok()
                .and_then(|d| d.parse().ok())
                .ok_or(Malformed),
            Value::Nil | Value::Array(_) => Err(Malformed),
        }
    }

    pub(crate) fn bytes(&self, index: usize) -> Result<&[u8], Malformed> {
        match self.at(index)? {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Nil | Value::Int(_) | Value::Array(_) => Err(Malformed),
        }
    }

    pub(crate) fn text(&self, index: usize) -> Result<&str, Malformed> {
        std::str::from_utf8(self.bytes(index)?).map_err(|_| Malformed)
    }

    pub(crate) fn array(&self, index: usize) -> Result<&[Value], Malformed> {
        match self.at(index)? {
            Value::Array(items) => Ok(items),
            Value::Nil | Value::Int(_) | Value::Bytes(_) => Err(Malformed),
        }
    }
}

/// The scripts of a noun, for whoever needs all there are.
#[cfg(feature = "redis")]
pub(crate) type Scripts = &'static [fn() -> &'static Script];

/// An atomic step of a primitive.
pub(crate) trait Operation {
    type Reply: Send + 'static;
    const SCRIPT: fn() -> &'static Script;
    /// The same with a gate in front of it, where there is such a one.
    const STRICT: fn() -> &'static Script = Self::SCRIPT;
    /// A node of a quorum that does not confirm it is asked again, in the background.
    #[cfg(feature = "redis")]
    const CLEANS_UP: bool = false;
    /// Keys and arguments in the order of the script's header.
    fn encode(&self, call: &mut Call);
    /// Every tag of the header, and no other.
    fn decode(answer: &Answer) -> Result<Self::Reply, Malformed>;

    /// The server's time in an answer, in microseconds, of those that carry it.
    fn time_us(answer: &Answer) -> Option<u64> {
        let _ = answer;
        None
    }

    /// The script that serves this one: another than [`SCRIPT`](Operation::SCRIPT) where a gate stands in front.
    fn script(&self) -> &'static Script {
        Self::SCRIPT()
    }

    fn call(&self) -> Call {
        let mut call = Call::of(self.script());
        self.encode(&mut call);
        call
    }

    /// What each node of a quorum is sent.
    #[cfg(feature = "redis")]
    fn on_a_node(&self) -> Call {
        self.call()
    }

    /// What a node answers to that.
    #[cfg(feature = "redis")]
    fn of_a_node(answer: &Answer) -> Result<Self::Reply, StoreError> {
        Self::read(answer)
    }

    /// What the nodes say together. Most operations cannot be voted on.
    #[cfg(feature = "redis")]
    fn count(_votes: &Votes<Self::Reply>) -> Verdict<Self::Reply> {
        Verdict::Never
    }

    /// What was to be cleaned up was there. Otherwise it may still be on its way.
    #[cfg(feature = "redis")]
    fn is_found(_reply: &Self::Reply) -> bool {
        true
    }

    /// An answer that is not understood may come from a step that was taken.
    fn read(answer: &Answer) -> Result<Self::Reply, StoreError> {
        Self::decode(answer).map_err(|Malformed| {
            let script = Self::SCRIPT().name;
            StoreError::unknown(
                ErrorKind::Malformed,
                format!("the answer of {script} was not understood"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Value {
        Value::Bytes(text.as_bytes().to_vec())
    }

    #[test]
    fn keys_and_arguments_are_told_apart_and_numbers_are_digits() {
        static SCRIPT: Script = Script {
            name: "test",
            source: "",
            reads_only: true,
            sha1: OnceLock::new(),
        };
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

    #[test]
    fn an_answer_without_a_tag_is_malformed() {
        for bad in [
            Value::Nil,
            Value::Int(1),
            bytes("busy"),
            Value::Array(vec![]),
            Value::Array(vec![Value::Int(0)]),
        ] {
            assert_eq!(Answer::from_value(bad), Err(Malformed));
        }
    }

    #[test]
    fn numbers_come_as_integers_or_as_digits_and_nothing_else() {
        let answer = Value::Array(vec![
            bytes("t"),
            Value::Int(-1),
            bytes("1795224695691371"),
            bytes("1e15"),
            Value::Nil,
        ]);
        let answer = Answer::from_value(answer).unwrap();
        assert_eq!(answer.signed(0), Ok(-1));
        assert_eq!(answer.number(0), Err(Malformed));
        assert_eq!(answer.number(1), Ok(1_795_224_695_691_371));
        for missing in [2, 3, 9] {
            assert_eq!(answer.number(missing), Err(Malformed));
        }
    }
}
