//! Slots of a cluster, for keys that must be in a given one. Pure.

use std::sync::OnceLock;

/// The number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16384;

/// Returns the slot of a key.
///
/// It depends on the text between the first `{` and the next `}`, if there is any, otherwise on the whole key.
pub(crate) fn of(key: &str) -> u16 {
    crc16(tag(key).as_bytes()) % SLOTS
}

/// Returns what the keys of one slot have in common: the part in braces, or the whole key.
pub(crate) fn tag(key: &str) -> &str {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(tag, _)| tag);
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// Computes CRC-16/XMODEM, which the cluster specification names: polynomial 0x1021, from 0.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc: u16, _| {
            let carries = crc & 0x8000 != 0;
            (crc << 1) ^ if carries { 0x1021 } else { 0 }
        })
    })
}

/// Returns the smallest number that, as a hash tag, is in this slot.
///
/// The first call finds all of them, within milliseconds.
pub(crate) fn tag_in(slot: u16) -> u32 {
    static TAGS: OnceLock<Vec<u32>> = OnceLock::new();
    let tags = TAGS.get_or_init(|| {
        let mut tags = vec![None; usize::from(SLOTS)];
        let mut missing = tags.len();
        for number in 0_u32.. {
            let place = usize::from(crc16(number.to_string().as_bytes()) % SLOTS);
            if tags[place].is_none() {
                tags[place] = Some(number);
                missing -= 1;
                if missing == 0 {
                    break;
                }
            }
        }
        tags.into_iter().flatten().collect()
    });
    tags[usize::from(slot % SLOTS)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::keys::gate;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(
            (of("foo"), of("{foo}:ll:queue"), of("a{foo}b{x}")),
            (12182, 12182, 12182)
        );
        assert_eq!(
            (of("{}foo"), of("{foo")),
            (crc16(b"{}foo") % SLOTS, crc16(b"{foo") % SLOTS)
        );
    }

    #[test]
    fn every_slot_has_a_gate_of_its_own_that_lies_in_it() {
        for slot in 0..SLOTS {
            assert_eq!(of(&gate("app:", Some(slot))), slot);
        }
        let tagged = gate("{app}:", Some(7));
        assert_eq!(
            (tagged.as_str(), of(&tagged)),
            ("{app}:ll:gate", of("{app}:job"))
        );
        assert_eq!(gate("app:", None), "app:ll:gate");
    }
}
