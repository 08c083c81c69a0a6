//! Arguments of commands, read as Redis reads them, and its errors.

use std::ops::Bound;
use std::str::FromStr;

use super::super::reply::{Reply, internal};
use crate::base::StoreError;

/// Scores from one bound to another.
pub(super) type Scores = (Bound<f64>, Bound<f64>);

/// Returns for how many of the items a command did what it is for.
pub(super) fn counted<T>(
    items: impl IntoIterator<Item = T>,
    mut done: impl FnMut(T) -> Result<bool, StoreError>,
) -> Result<Reply, StoreError> {
    let mut count = 0;
    for item in items {
        count += usize::from(done(item)?);
    }
    Ok(Reply::count(count))
}

pub(super) fn number<T: FromStr>(word: &[u8]) -> Result<T, StoreError> {
    let refused = "ERR value is not an integer or out of range";
    parsed(word).ok_or_else(|| internal(refused))
}

pub(super) fn score(word: &[u8]) -> Result<f64, StoreError> {
    double(word).ok_or_else(|| internal("ERR value is not a valid float"))
}

/// Reads two bounds; one behind `(` does not belong to what it bounds.
pub(super) fn scores(min: &[u8], max: &[u8]) -> Result<Scores, StoreError> {
    let bound = |word: &[u8]| match word.strip_prefix(b"(") {
        Some(word) => double(word).map(Bound::Excluded),
        None => double(word).map(Bound::Included),
    };
    let both = bound(min).zip(bound(max));
    both.ok_or_else(|| internal("ERR min or max is not a float"))
}

pub(super) fn parsed<T: FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Reads a number that may be infinite in words, but not by its digits.
fn double(word: &[u8]) -> Option<f64> {
    let number: f64 = parsed(word)?;
    let in_words = word.iter().any(|letter| b"iI".contains(letter));
    (!number.is_nan() && (number.is_finite() || in_words)).then_some(number)
}
