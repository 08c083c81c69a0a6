//! The lock of python-redis-lock: `lock:<name>`, and a list that gets one element with each release.
//!
//! Its waiters block on the list; one of them takes the element and tries. **The holes**: a waiter that takes the
//! element and then not the lock leaves the others asleep until their timeout. A newcomer may be faster than the woken
//! waiter. A lock that expires wakes no waiter.

use crate::script::{Script, script};

const LOCK: &str = "lock:";
const SIGNAL: &str = "lock-signal:";

pub(super) fn key(name: &str) -> String {
    format!("{LOCK}{name}")
}

/// Returns the list on which its waiters block.
pub(super) fn signal(prefix: &str, lock: &str) -> String {
    let key = lock.strip_prefix(prefix).unwrap_or(lock);
    format!("{prefix}{SIGNAL}{}", key.strip_prefix(LOCK).unwrap_or(key))
}

/// It also wakes a waiter, by the list that is its second key.
pub(super) static RELEASE_FOREIGN: Script = script!("python_redis_lock/release");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_the_name_of_the_lock_behind_the_same_prefix() {
        assert_eq!(signal("", &key("job")), "lock-signal:job");
        let app = "lock:app:";
        assert_eq!(
            signal(app, &(app.to_owned() + &key("lock:job"))),
            "lock:app:lock-signal:lock:job"
        );
    }
}
