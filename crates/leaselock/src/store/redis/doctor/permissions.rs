//! Whether this user may run what leaselock sends. Servers since 7.0 answer that without running it.

use redis::Value;

use super::ask::Examined;
use super::facts::Shape;
use crate::base::Result;
use crate::store::redis::answer;
use crate::store::redis::link::RedisStore;
use crate::store::report::Finding;

/// Every command of our connections and scripts, with arguments of the right number.
pub(crate) const USED: &str = "EVALSHA 0000000000000000000000000000000000000000 0, EVAL return 0, PING, SCAN 0, \
    SUBSCRIBE ll, PUBLISH ll x, PUBSUB NUMSUB, TIME, TYPE ll, GET ll, MGET ll, SET ll x, DEL ll, EXISTS ll, STRLEN ll, \
    PTTL ll, PEXPIRE ll 1, HGET ll x, HLEN ll, HMGET ll x, HSET ll x y, HSETNX ll x y, HDEL ll x, HINCRBY ll x 1, \
    XADD ll * x y, XINFO STREAM ll, ZADD ll 0 x, ZCARD ll, ZRANGE ll 0 0, ZRANGEBYSCORE ll 0 0, ZRANK ll x, ZREM ll x, \
    ZREVRANGE ll 0 0, ZREVRANGEBYSCORE ll 0 0, ZSCORE ll x";

/// The additional commands in a cluster.
pub(crate) const IN_A_CLUSTER: &str =
    "CLUSTER SLOTS, ASKING, SSUBSCRIBE ll, SPUBLISH ll x, PUBSUB SHARDNUMSUB";

/// Replaces the first two, for a client that calls functions.
const CALL: &str = "FCALL leaselock 0";

/// Splits a list into commands, and each into its words.
pub(crate) fn commands(list: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    list.split(',')
        .map(|command| command.split_whitespace().collect())
}

fn needed(link: &RedisStore, shape: Shape) -> Vec<Vec<&'static str>> {
    let mut needed: Vec<_> = commands(USED).collect();
    if link.functions().is_some() {
        needed.retain(|command| !command[0].starts_with("EVAL"));
        needed.extend(commands(CALL));
    }
    if shape == Shape::Cluster {
        needed.extend(commands(IN_A_CLUSTER));
    }
    needed
}

const ADMINISTRATOR: &str = "only an administrator may ask for more";

/// Asks about every command, where the server supports that; else tries the indispensable ones.
pub(super) async fn check(server: Examined<'_>, asks: bool) -> Result<Finding> {
    if !asks {
        return by_trying(server, "this server cannot be asked for more").await;
    }
    let user = server.ask(&["ACL", "WHOAMI"]).await?;
    let Some(user) = user.ok().as_ref().and_then(answer::text) else {
        return by_trying(server, ADMINISTRATOR).await;
    };
    let mut denied = Vec::new();
    for command in needed(server.link, server.shape) {
        let dry_run = [&["ACL", "DRYRUN", &user][..], &command].concat();
        match server.ask(&dry_run).await? {
            Ok(verdict) if is_denied(&verdict) => denied.push(command[0]),
            Ok(_) => {}
            // Only administrators may ask.
            Err(_) => return by_trying(server, ADMINISTRATOR).await,
        }
    }
    Ok(judge(&denied, "every command that is needed"))
}

/// Sends the commands that change nothing. A missing script is not a refusal.
async fn by_trying(server: Examined<'_>, why: &str) -> Result<Finding> {
    const HARMLESS: [&str; 6] = ["EVALSHA", "EVAL", "FCALL", "PING", "PUBSUB", "TIME"];
    let mut denied = Vec::new();
    // The additional commands of a cluster cannot be tried at any node.
    for command in needed(server.link, Shape::Single) {
        let mut request = redis::cmd(command[0]);
        request.arg(&command[1..]);
        if HARMLESS.contains(&command[0])
            && let Value::ServerError(reply) = server.link.ask(&request, None, server.until).await?
            && reply.code() == "NOPERM"
        {
            denied.push(command[0]);
        }
    }
    Ok(judge(&denied, &format!("scripts may run; {why}")))
}

fn judge(denied: &[&str], otherwise: &str) -> Finding {
    if denied.is_empty() {
        Finding::fit("permissions", otherwise)
    } else {
        let rights: Vec<String> = denied
            .iter()
            .map(|command| format!("+{}", command.to_lowercase()))
            .collect();
        let advice = format!("give the user {}", rights.join(" "));
        Finding::unfit(
            "permissions",
            format!("not allowed: {}", denied.join(", ")),
            advice,
        )
    }
}

/// True if the command itself is denied.
///
/// Which keys and channels are allowed depends on the prefix, which a store does not know.
pub(super) fn is_denied(verdict: &Value) -> bool {
    answer::text(verdict).is_some_and(|text| text.contains("no permissions to run"))
}
