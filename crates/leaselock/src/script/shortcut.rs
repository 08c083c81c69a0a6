//! A script's plain cases in Rust, for embedded stores.

use super::answer::{Answer, Value};
use super::keyspace::Keyspace;
use super::parameters::Parameters;

/// The same step as a script, for its plain cases.
///
/// The Lua file decides; the shortcut gives the same result with a tenth of the work. It leaves every other case to the
/// Lua: it returns `None`, and has changed nothing.
pub(crate) type Shortcut = fn(&Parameters, &mut dyn Keyspace) -> Option<Answer>;

/// Lua counts in doubles, which do not distinguish numbers of more digits.
const DIGITS_MAX: usize = 15;

/// Returns the keys or arguments if there are exactly so many.
pub(crate) fn exactly<'a, const N: usize>(
    words: impl Iterator<Item = &'a str>,
) -> Option<[&'a str; N]> {
    let (mut all, mut count) = ([""; N], 0);
    for word in words {
        *all.get_mut(count)? = word;
        count += 1;
    }
    (count == N).then_some(all)
}

/// Parses a whole number above zero that means the same in Lua.
pub(crate) fn plain(text: &str) -> Option<u64> {
    up_to(DIGITS_MAX, text).filter(|number| *number > 0)
}

/// Parses a number of at most so many decimal digits.
pub(crate) fn up_to(most: usize, text: &str) -> Option<u64> {
    let digits = (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

pub(crate) fn tagged(tag: &str, rest: impl IntoIterator<Item = Value>) -> Option<Answer> {
    let tag = std::iter::once(text(tag));
    Answer::from_value(Value::Array(tag.chain(rest).collect())).ok()
}

pub(crate) fn text(text: impl ToString) -> Value {
    Value::Bytes(text.to_string().into_bytes())
}
