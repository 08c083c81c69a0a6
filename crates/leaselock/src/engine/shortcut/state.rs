//! The keys of a lock and the tokens in them.

use crate::script::shortcut::exactly;

pub(crate) struct Keys<'a> {
    pub(crate) lock: &'a str,
    pub(crate) queue: &'a str,
    pub(crate) waiters: &'a str,
    pub(crate) fence: &'a str,
}

impl<'a> Keys<'a> {
    pub(super) fn of(keys: impl Iterator<Item = &'a str>) -> Option<Self> {
        let [lock, queue, waiters, fence] = exactly(keys)?;
        Some(Keys {
            lock,
            queue,
            waiters,
            fence,
        })
    }
}

/// True if a grant of this token has a fencing token.
pub(super) fn fences(token: &[u8]) -> bool {
    token.get(22) == Some(&b'.')
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
