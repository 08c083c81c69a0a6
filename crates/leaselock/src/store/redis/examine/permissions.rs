//! May this user run what leaselock sends? Servers since 7.0 answer that without running it.

use redis::Value;

use super::super::{Link, answer};
use super::ask;
use crate::clock::Moment;
use crate::doctor::{Check, Fit};
use crate::error::StoreError;

/// Every command that our connections send or our scripts call, with arguments of the right number.
pub(in super::super) const USED: &[&[&str]] = &[
    &["EVALSHA", "0000000000000000000000000000000000000000", "0"],
    &["EVAL", "return 1", "0"],
    &["PING"],
    &["SCAN", "0"],
    &["SUBSCRIBE", "ll"],
    &["PUBLISH", "ll", "x"],
    &["PUBSUB", "NUMSUB"],
    &["TIME"],
    &["TYPE", "ll"],
    &["GET", "ll"],
    &["SET", "ll", "x"],
    &["DEL", "ll"],
    &["STRLEN", "ll"],
    &["PTTL", "ll"],
    &["PEXPIRE", "ll", "1"],
    &["HGET", "ll", "x"],
    &["HMGET", "ll", "x"],
    &["HSET", "ll", "x", "y"],
    &["HDEL", "ll", "x"],
    &["ZADD", "ll", "0", "x"],
    &["ZCARD", "ll"],
    &["ZRANGE", "ll", "0", "0"],
    &["ZRANK", "ll", "x"],
    &["ZREM", "ll", "x"],
    &["ZREVRANGEBYSCORE", "ll", "0", "0"],
];

/// Nothing at all when the server is too old to be asked, or when only administrators may ask.
pub(super) async fn check(
    link: &Link,
    asks: bool,
    until: Moment,
) -> Result<Option<Check>, StoreError> {
    if !asks {
        return Ok(None);
    }
    let Ok(user) = ask(link, redis::cmd("ACL").arg("WHOAMI"), until).await? else {
        return Ok(None);
    };
    let Some(user) = answer::text(&user) else {
        return Ok(None);
    };
    let mut denied = Vec::new();
    for command in USED {
        match ask(
            link,
            redis::cmd("ACL").arg("DRYRUN").arg(&user).arg(command),
            until,
        )
        .await?
        {
            Ok(verdict) if is_denied(&verdict) => denied.push(command[0]),
            Ok(_) => {}
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(if denied.is_empty() {
        Check::new(
            "permissions",
            "every command that is needed",
            Fit::Fit,
            None,
        )
    } else {
        let rights: Vec<String> = denied
            .iter()
            .map(|command| format!("+{}", command.to_lowercase()))
            .collect();
        let advice = format!("give the user {}", rights.join(" "));
        Check::new(
            "permissions",
            format!("not allowed: {}", denied.join(", ")),
            Fit::Unfit,
            Some(&advice),
        )
    }))
}

/// The command itself is denied. Which keys and channels are allowed depends on the prefix, which a store does not
/// know.
pub(super) fn is_denied(verdict: &Value) -> bool {
    answer::text(verdict).is_some_and(|text| text.contains("no permissions to run"))
}
