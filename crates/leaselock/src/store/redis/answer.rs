//! Replies in the terms of scripts, from either protocol version.

use redis::Value as Raw;

use super::error_map;
use crate::base::error::{ErrorKind, Result, StoreError};
use crate::script::{Listed, Malformed, Value};

/// Converts the reply to a plain command, which may be an error.
pub(super) fn understood(answer: Raw, explain: impl Fn(&str) -> StoreError) -> Result<Value> {
    if let Raw::ServerError(reply) = &answer {
        return Err(explain(&error_map::line(reply)));
    }
    plain(answer).map_err(|Malformed| malformed())
}

pub(super) fn malformed() -> StoreError {
    StoreError::unknown(ErrorKind::Malformed, "unexpected reply: another service?")
}

/// Converts what a script can return, and nothing else.
pub(super) fn plain(raw: Raw) -> Result<Value, Malformed> {
    match raw {
        Raw::Nil => Ok(Value::Nil),
        Raw::Int(number) => Ok(Value::Int(number)),
        Raw::Boolean(truth) => Ok(Value::Int(i64::from(truth))),
        Raw::BulkString(bytes) => Ok(Value::Bytes(bytes)),
        Raw::SimpleString(text) => Ok(Value::Bytes(text.into_bytes())),
        Raw::Okay => Ok(Value::Bytes(b"OK".to_vec())),
        Raw::Array(items) => Ok(Value::Array(
            items.into_iter().map(plain).collect::<Result<_, _>>()?,
        )),
        Raw::Attribute { data, .. } => plain(*data),
        _ => Err(Malformed),
    }
}

/// Returns the items of a reply that is a list.
pub(super) fn items(raw: &Raw) -> Option<&[Raw]> {
    match raw {
        Raw::Array(items) => Some(items),
        _ => None,
    }
}

/// Returns the text of a reply that is one.
pub(super) fn text(raw: &Raw) -> Option<String> {
    match raw {
        Raw::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Raw::SimpleString(text) | Raw::VerbatimString { text, .. } => Some(text.clone()),
        Raw::Okay => Some("OK".to_owned()),
        Raw::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns names and values in sequence, also from a map of the newer protocol.
pub(super) fn texts(raw: &Raw) -> Vec<String> {
    match raw {
        Raw::Array(items) | Raw::Set(items) => items.iter().filter_map(text).collect(),
        Raw::Map(pairs) => pairs
            .iter()
            .flat_map(|(key, value)| [text(key), text(value)])
            .flatten()
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns one value of a list of names and values, or of a map of the newer protocol.
pub(super) fn value<'a>(raw: &'a Raw, name: &str) -> Option<&'a Raw> {
    let is_it = |key: &Raw| text(key).is_some_and(|key| key == name);
    match raw {
        Raw::Array(items) => {
            let mut pairs = items.as_chunks().0.iter();
            pairs.find_map(|[key, value]| is_it(key).then_some(value))
        }
        Raw::Map(pairs) => pairs
            .iter()
            .find_map(|(key, value)| is_it(key).then_some(value)),
        _ => None,
    }
}

/// Returns the text of such a value.
pub(super) fn field(raw: &Raw, name: &str) -> Option<String> {
    text(value(raw, name)?)
}

/// Parses one page of `SCAN`. A name that is not UTF-8 is not one of ours.
pub(super) fn page(raw: &Raw) -> Result<(u64, Vec<Listed>), Malformed> {
    let [cursor, Raw::Array(keys)] = items(raw).ok_or(Malformed)? else {
        return Err(Malformed);
    };
    let cursor = text(cursor)
        .and_then(|digits| digits.parse().ok())
        .ok_or(Malformed)?;
    let keys = keys.iter().filter_map(|key| match key {
        Raw::BulkString(bytes) => Some((String::from_utf8(bytes.clone()).ok()?, None)),
        _ => None,
    });
    Ok((cursor, keys.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_both_protocols_become_the_same_values() {
        let raw = Raw::Array(vec![
            Raw::BulkString(b"granted".to_vec()),
            Raw::Nil,
            Raw::Int(-1),
            Raw::Okay,
        ]);
        let expected = vec![
            Value::Bytes(b"granted".to_vec()),
            Value::Nil,
            Value::Int(-1),
            Value::Bytes(b"OK".to_vec()),
        ];
        assert_eq!(plain(raw.clone()), Ok(Value::Array(expected.clone())));
        let attributed = Raw::Attribute {
            data: Box::new(raw),
            attributes: Vec::new(),
        };
        assert_eq!(plain(attributed), Ok(Value::Array(expected)));
        for odd in [
            Raw::Double(1.5),
            Raw::Map(Vec::new()),
            Raw::Array(vec![Raw::Set(Vec::new())]),
        ] {
            assert_eq!(plain(odd), Err(Malformed));
        }
    }

    #[test]
    fn a_page_has_a_cursor_and_skips_names_that_are_no_text() {
        let keys = Raw::Array(vec![
            Raw::BulkString(b"job".to_vec()),
            Raw::BulkString(vec![0xff]),
        ]);
        let raw = Raw::Array(vec![Raw::BulkString(b"17".to_vec()), keys]);
        assert_eq!(page(&raw), Ok((17, vec![("job".to_owned(), None)])));
        for bad in [
            Raw::Nil,
            Raw::Array(Vec::new()),
            Raw::Array(vec![Raw::Nil, Raw::Array(Vec::new())]),
        ] {
            assert_eq!(page(&bad), Err(Malformed));
        }
    }
}
