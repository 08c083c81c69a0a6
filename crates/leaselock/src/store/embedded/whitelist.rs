//! The commands that the scripts use, and no other: what runs here runs on every Redis too.

/// In alphabetical order. A test compares it with the scripts.
pub(crate) const WHITELIST: &str = "DEL EXISTS GET HDEL HGET HINCRBY HLEN HMGET HSET HSETNX MGET PEXPIRE PTTL PUBLISH PUBSUB SET SPUBLISH
    STRLEN TIME TYPE XADD XINFO ZADD ZCARD ZRANGE ZRANGEBYSCORE ZRANK ZREM ZREVRANGE ZREVRANGEBYSCORE ZSCORE";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn commands_in(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                commands_in(&path, found);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            if text.contains("On servers only.") {
                continue;
            }
            for call in ["redis.call('", "redis.pcall('"] {
                let names = text
                    .split(call)
                    .skip(1)
                    .filter_map(|rest| rest.split('\'').next());
                found.extend(names.map(str::to_owned));
            }
        }
    }

    #[test]
    fn the_whitelist_is_exactly_what_the_scripts_use() {
        let mut found = BTreeSet::new();
        commands_in(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("lua"),
            &mut found,
        );
        let listed: BTreeSet<String> = WHITELIST.split_whitespace().map(str::to_owned).collect();
        assert_eq!(listed, found);
    }
}
