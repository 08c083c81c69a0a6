//! Answers in the form of the scripts.

use crate::script::{Answer, Value};

pub(super) fn tagged(tag: &str, rest: impl IntoIterator<Item = Value>) -> Option<Answer> {
    let tag = std::iter::once(text(tag));
    Answer::from_value(Value::Array(tag.chain(rest).collect())).ok()
}

pub(super) fn text(text: impl ToString) -> Value {
    Value::Bytes(text.to_string().into_bytes())
}

/// Returns the client in a value in the form of our tokens, as `client_of` in `lua/prelude.lua`.
pub(super) fn client_in(value: &[u8]) -> &str {
    let plain = |part: &str| {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        !part.is_empty() && part.bytes().all(fits)
    };
    let parts = std::str::from_utf8(value)
        .ok()
        .filter(|text| text.len() == 31)
        .and_then(|text| text.split_once(['.', '~']));
    match parts {
        Some((secret, client)) if plain(secret) && plain(client) => client,
        _ => "",
    }
}
