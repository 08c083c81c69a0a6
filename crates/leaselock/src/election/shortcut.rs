//! `election/resign` in Rust, for the states in which a leader usually resigns.

use crate::script::keyspace::Keyspace;
use crate::script::shortcut::{exactly, tagged};
use crate::script::{Answer, Parameters};

/// The end of a channel that belongs to its slot, which an embedded store does not have.
const SHARDED: &[u8] = b":s";

/// Leaves the name free and tells the followers, where no client campaigns.
pub(super) fn resign(parameters: &Parameters, keyspace: &mut dyn Keyspace) -> Option<Answer> {
    let [lock, queue, _, _, leader] = exactly(parameters.keys())?;
    let [token] = exactly(parameters.args())?;
    if keyspace.get(lock)?? != token.as_bytes() || keyspace.exists(queue) {
        return None;
    }
    let channel = match keyspace.get(leader)? {
        Some(record) => Some(channel_in(record)?.to_vec()),
        None => None,
    };
    keyspace.delete(lock);
    if let Some(channel) = channel {
        keyspace.delete(leader);
        if keyspace.has_listener(&channel) {
            keyspace.publish(&channel, Vec::new());
        }
    }
    tagged("released", [])
}

/// Returns where the followers listen, by the record of a leader (`lua/leader.lua`).
fn channel_in(record: &[u8]) -> Option<&[u8]> {
    let mut lines = record.splitn(4, |byte| *byte == b'\n');
    let (_token, channel, term, _value) =
        (lines.next()?, lines.next()?, lines.next()?, lines.next()?);
    let is_number = !term.is_empty() && term.iter().all(u8::is_ascii_digit);
    (is_number && !channel.ends_with(SHARDED)).then_some(channel)
}
