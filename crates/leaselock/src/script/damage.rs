//! Damaged side keys: what a script reports, and how an operator repairs them.

use crate::base::error::{ErrorKind, StoreError};
use crate::base::fence::Fence;

/// Every fencing token is below it.
const FENCE_END: u64 = Fence::END;
/// The prefix of a script's error; the rest names what is damaged, and its key.
const WORD: &str = "DAMAGED ";

/// Converts a script's error, when it is about damage. The script changed nothing.
pub(crate) fn from_line(line: &str) -> Option<StoreError> {
    let (what, key) = line.strip_prefix(WORD)?.split_once(' ')?;
    let message = format!("nothing was granted: {}", sentence(what, key)?);
    Some(StoreError::refused(ErrorKind::Corrupt, message))
}

/// Describes the damage of a key and the remedy; `None` for words that no script of ours uses.
pub(crate) fn sentence(what: &str, key: &str) -> Option<String> {
    let key: String = key.chars().filter(|c| !c.is_control()).collect();
    match what {
        "fence" => Some(format!(
            "`{key}` is damaged: it does not hold `first:last`, two fencing tokens below {FENCE_END}. Find the highest \
             token N that your resources have accepted. Delete the key when N is below the server's time in \
             microseconds; otherwise set the key to `N:N`. A resource that accepted {FENCE_END} or more must forget that \
             token first, because it would refuse all later ones"
        )),
        "queue" => Some(format!(
            "`{key}` is damaged: what lies there is not the queue of the waiters. Delete the key: each client that still waits \
             joins the queue again by itself"
        )),
        "limiter" => Some(format!(
            "`{key}` is damaged: what lies there is not the state of a limiter. Delete the key: what was used until now \
             does not count any more"
        )),
        "counter" => Some(format!(
            "`{key}` is damaged: its field `value` is not a whole number. Set that field to the number that is right, by HSET"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_damaged_is_named_with_its_key_and_what_mends_it() {
        let error = from_line("DAMAGED fence {my job}:ll:fence").unwrap();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(!error.maybe_applied());
        let message = error.to_string();
        for part in [
            "`{my job}:ll:fence`",
            "Delete the key when",
            "set the key to",
        ] {
            assert!(message.contains(part), "{message}");
        }
        let queue = from_line("DAMAGED queue {job}:ll:queue\u{1b}").unwrap();
        assert!(queue.to_string().contains("`{job}:ll:queue` is damaged"));
    }

    #[test]
    fn other_errors_are_not_about_damage() {
        for line in [
            "DAMAGED",
            "DAMAGED fence",
            "DAMAGED disk key",
            "ERR DAMAGED fence key",
        ] {
            assert!(from_line(line).is_none(), "{line}");
        }
    }
}
