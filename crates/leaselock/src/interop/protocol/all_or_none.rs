//! Several plain keys at once, all or none, each with the same value.
//!
//! bsm/redislock (Go) and redlock (Node) take several resources in this way. The value is a token of 22 characters,
//! followed by a note, as bsm/redislock has its metadata.
//!
//! **The hole**: taking has none, because it is one script. But the keys expire together, and each of them can be
//! broken by itself. On a cluster all of them must be in one slot.

use crate::base::token::Token;
use crate::script::{Script, script};

/// The length of a value's token; bsm/redislock compares that much of it.
const TOKEN: usize = 22;

/// Creates the value of one acquisition.
pub(super) fn value(token: &Token, note: Option<&str>) -> String {
    let token = token.secret().get(..TOKEN).unwrap_or_default();
    token.to_owned() + note.unwrap_or_default()
}

/// Returns the note behind the token of a value.
pub(crate) fn note(value: &[u8]) -> Option<String> {
    let note = String::from_utf8_lossy(value.get(TOKEN..)?).into_owned();
    (!note.is_empty()).then_some(note)
}

pub(super) static TAKE: Script = script!("all_or_none/take");
pub(super) static EXTEND: Script = script!("all_or_none/extend");
pub(super) static RELEASE: Script = script!("all_or_none/release");
