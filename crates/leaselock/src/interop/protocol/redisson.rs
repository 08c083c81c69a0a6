//! The plain lock of Redisson: a hash with one field, `<client>:<thread>`, and a channel for releases.
//!
//! **The hole**: a message is sent once. A waiter that is not subscribed at that moment, for whatever reason, sleeps
//! until the holder's time ends. Redisson's own waiters do; ours also poll at a low rate.

use crate::base::hex::hex;
use crate::script::{Script, script};

/// Creates a holder's name in Redisson's form: a UUID (RFC 9562, version 4) for the client, and a thread.
pub(super) fn holder() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let parts = [0..4, 4..6, 6..8, 8..10, 10..16].map(|part| hex(&bytes[part]));
    Ok(parts.join("-") + ":1")
}

/// Returns the channel of its waiters. A name with a hash tag of its own is used as it is.
pub(crate) fn channel(lock: &str) -> String {
    if lock.contains('{') {
        format!("redisson_lock__channel:{lock}")
    } else {
        format!("redisson_lock__channel:{{{lock}}}")
    }
}

/// True if the message is of a release; the others on the channel are of read-write locks.
pub(crate) fn is_unlocked(words: &[u8]) -> bool {
    words == b"0"
}

pub(super) static TAKE_FOREIGN: Script = script!("redisson/take");
pub(super) static EXTEND_FOREIGN: Script = script!("redisson/extend");
pub(super) static RELEASE_FOREIGN: Script = script!("redisson/release");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_looks_like_one_of_redisson_and_never_comes_twice() {
        let (one, other) = (holder().unwrap(), holder().unwrap());
        assert_ne!(one, other);
        let (uuid, thread) = one.split_once(':').unwrap();
        assert_eq!((uuid.len(), thread), (36, "1"));
        assert_eq!(
            uuid.split('-').map(str::len).collect::<Vec<_>>(),
            [8, 4, 4, 4, 12]
        );
        assert!(uuid.split('-').nth(2).unwrap().starts_with('4'));
    }

    #[test]
    fn the_channel_has_the_name_in_braces_once() {
        assert_eq!(channel("job"), "redisson_lock__channel:{job}");
        assert_eq!(channel("a{job}"), "redisson_lock__channel:a{job}");
    }
}
