//! The commands of hashes, sorted sets and streams, one after the other, with the reply of a server behind each.

use std::sync::Arc;

use super::*;
use crate::script::keyspace::Keyspace;
use crate::store::embedded::image::Image;
use crate::store::embedded::step::{Step, Surroundings};

/// A world without listeners and sessions.
struct Deaf;

impl Surroundings for Deaf {
    fn present(&self, _channel: &[u8]) -> bool {
        false
    }

    fn has_session(&self, _client: &str) -> bool {
        false
    }
}

const RUN: &str = "
    local words = {}
    for word in string.gmatch(ARGV[1], '%S+') do words[#words + 1] = word end
    local reply = redis.pcall(unpack(words))
    if type(reply) == 'table' then reply = reply.err or reply.ok or reply end
    if words[1] == 'XINFO' and type(reply) == 'table' then reply = { unpack(reply, 1, 8) } end
    return { 'x', reply }";

const NOT_LARGER: &str =
    "ERR The ID specified in XADD is equal or smaller than the target stream top item";
const NO_ID: &str = "ERR Invalid stream ID specified as stream command argument";
const EXHAUSTED: &str =
    "ERR The stream has exhausted the last possible ID, unable to add more items";
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// Commands on the keys `z`, `{z}h`, `{z}s` and `{z}x`, and their replies: texts as they are, numbers with a colon.
const TABLE: &[(&str, &str)] = &[
    // Nothing is there.
    ("ZSCORE z a", "nil"),
    ("ZRANGE z 0 -1 WITHSCORES", "[]"),
    ("ZREVRANGE z 0 -1", "[]"),
    ("ZREVRANGE z 0 -1 WITHSCORES", "[]"),
    ("ZRANGEBYSCORE z -inf +inf LIMIT 0 10", "[]"),
    ("ZREVRANGEBYSCORE z +inf -inf LIMIT 0 10", "[]"),
    ("ZREM z a b", ":0"),
    ("ZADD z XX 5 a", ":0"),
    ("TYPE z", "none"),
    ("HMGET {z}h a b", "[nil nil]"),
    ("HGETALL {z}h", "[]"),
    ("HDEL {z}h a b", ":0"),
    ("TYPE {z}h", "none"),
    // Scores, and the order of score and then bytes.
    ("ZADD z 1795224695691371 bb", ":1"),
    ("ZADD z 1795224695691371 b", ":1"),
    ("ZADD z 1795224695691371 B", ":1"),
    ("ZADD z -inf x", ":1"),
    ("ZADD z 12345678901234568 far", ":1"),
    ("ZADD z -7 low", ":1"),
    ("ZADD z 0 low", ":0"),
    ("ZADD z +inf end", ":1"),
    ("ZSCORE z b", "1795224695691371"),
    ("ZSCORE z x", "-inf"),
    ("ZSCORE z end", "inf"),
    ("ZSCORE z far", "12345678901234568"),
    ("ZSCORE z low", "0"),
    ("ZSCORE z none", "nil"),
    ("ZRANGE z 0 -1", "[x low B b bb far end]"),
    ("ZRANGE z 0 1 WITHSCORES", "[x -inf low 0]"),
    (
        "ZRANGE z -2 -1 WITHSCORES",
        "[far 12345678901234568 end inf]",
    ),
    (
        "ZRANGE z 2 -4 WITHSCORES",
        "[B 1795224695691371 b 1795224695691371]",
    ),
    ("ZRANGE z 0 -8", "[]"),
    ("ZRANGE z -99 0", "[x]"),
    ("ZRANGE z 4 2", "[]"),
    ("ZRANGE z 7 9", "[]"),
    ("ZREVRANGE z 0 0 WITHSCORES", "[end inf]"),
    ("ZREVRANGE z 0 2", "[end far bb]"),
    ("ZREVRANGE z 1 -6", "[far]"),
    ("ZREVRANGE z -2 -1", "[low x]"),
    ("ZREVRANGE z -1 99 WITHSCORES", "[x -inf]"),
    ("ZREVRANGE z 7 9", "[]"),
    ("ZREVRANGE z 3 1", "[]"),
    ("ZREVRANGE z 0 -1", "[end far bb b B low x]"),
    (
        "ZRANGE z 0 x",
        "ERR value is not an integer or out of range",
    ),
    (
        "ZREVRANGE z 0 1.5",
        "ERR value is not an integer or out of range",
    ),
    (
        "ZRANGEBYSCORE z -inf (1795224695691371 LIMIT 0 512",
        "[x low]",
    ),
    (
        "ZRANGEBYSCORE z (-inf 1795224695691371 LIMIT 0 512",
        "[low B b bb]",
    ),
    (
        "ZRANGEBYSCORE z 1795224695691371 1795224695691371 LIMIT 1 1",
        "[b]",
    ),
    (
        "ZRANGEBYSCORE z (1795224695691371 +inf LIMIT 0 -1",
        "[far end]",
    ),
    (
        "ZRANGEBYSCORE z (1795224695691371 (+inf LIMIT 0 -1",
        "[far]",
    ),
    ("ZRANGEBYSCORE z -inf inf LIMIT 5 99", "[far end]"),
    ("ZRANGEBYSCORE z -inf +inf LIMIT 9 1", "[]"),
    ("ZRANGEBYSCORE z -inf +inf LIMIT -1 9", "[]"),
    ("ZRANGEBYSCORE z -inf +inf LIMIT 0 0", "[]"),
    ("ZRANGEBYSCORE z 5 1 LIMIT 0 9", "[]"),
    ("ZRANGEBYSCORE z (0 (0 LIMIT 0 9", "[]"),
    (
        "ZRANGEBYSCORE z x 1 LIMIT 0 9",
        "ERR min or max is not a float",
    ),
    (
        "ZRANGEBYSCORE z 0 ((1 LIMIT 0 9",
        "ERR min or max is not a float",
    ),
    (
        "ZRANGEBYSCORE z nan 1 LIMIT 0 9",
        "ERR min or max is not a float",
    ),
    ("ZREVRANGEBYSCORE z (+inf -inf LIMIT 1 2", "[bb b]"),
    ("ZREVRANGEBYSCORE z -inf -inf LIMIT 0 1", "[x]"),
    ("ZREVRANGEBYSCORE z +inf -inf LIMIT -1 2", "[]"),
    ("ZREVRANGEBYSCORE z +inf (0 LIMIT 3 -1", "[b B]"),
    ("ZADD z word b", "ERR value is not a valid float"),
    ("ZADD z nan b", "ERR value is not a valid float"),
    ("ZADD z 1e999 b", "ERR value is not a valid float"),
    ("ZADD z XX word none", "ERR value is not a valid float"),
    ("ZADD z XX 1795224695691372 b", ":0"),
    ("ZADD z XX 1795224695691372 none", ":0"),
    ("ZADD z XX -inf end", ":0"),
    ("ZRANGE z 0 -1", "[end x low B bb b far]"),
    ("ZCARD z", ":7"),
    ("ZREM z bb none low bb", ":2"),
    ("ZRANGE z 0 -1", "[end x B b far]"),
    ("PEXPIRE z 90000", ":1"),
    ("ZREM z end x B b far", ":5"),
    ("TYPE z", "none"),
    ("PTTL z", ":-2"),
    // Hashes.
    ("HSET {z}h a 1 b 2 a 3", ":2"),
    ("HSET {z}h b 4 c 5", ":1"),
    ("HMGET {z}h a none b a", "[3 nil 4 3]"),
    ("HDEL {z}h b none b", ":1"),
    ("HDEL {z}h c", ":1"),
    ("HGETALL {z}h", "[a 3]"),
    ("HDEL {z}h a c", ":1"),
    ("TYPE {z}h", "none"),
    // Other types.
    ("SET {z}s value PX 90000", "OK"),
    ("HSET {z}h f v", ":1"),
    ("ZSCORE {z}s a", WRONG_TYPE),
    ("ZRANGE {z}s 0 -1 WITHSCORES", WRONG_TYPE),
    ("ZREVRANGE {z}h 0 0", WRONG_TYPE),
    ("ZRANGEBYSCORE {z}h 0 1 LIMIT 0 1", WRONG_TYPE),
    ("ZREVRANGEBYSCORE {z}s 1 0 LIMIT 0 1", WRONG_TYPE),
    ("ZADD {z}s 1 a", WRONG_TYPE),
    ("ZADD {z}h XX 1 a", WRONG_TYPE),
    ("ZREM {z}h a b", WRONG_TYPE),
    ("HSET {z}s a 1 b 2", WRONG_TYPE),
    ("HMGET {z}s a b", WRONG_TYPE),
    ("HGETALL {z}s", WRONG_TYPE),
    ("HDEL {z}s a b", WRONG_TYPE),
    ("GET {z}s", "value"),
    ("HGETALL {z}h", "[f v]"),
    // Streams that stay empty. The clock is behind an id that ends in `9-5`.
    ("XADD {z}x NOMKSTREAM MAXLEN 0 * - -", "nil"),
    ("XADD {z}x NOMKSTREAM MAXLEN 0 7-7 - -", "nil"),
    ("XINFO STREAM {z}x", "ERR no such key"),
    ("TYPE {z}x", "none"),
    ("XADD {z}x MAXLEN 0 0-1 - -", "0-1"),
    ("DEL {z}x", ":1"),
    ("XADD {z}x MAXLEN 0 9999999999999-5 - -", "9999999999999-5"),
    ("PTTL {z}x", ":-1"),
    ("PEXPIRE {z}x 2000000000000", ":1"),
    ("XADD {z}x NOMKSTREAM MAXLEN 0 * - -", "9999999999999-6"),
    ("XADD {z}x MAXLEN 0 * - -", "9999999999999-7"),
    ("XADD {z}x MAXLEN 0 9999999999999-7 - -", NOT_LARGER),
    (
        "XADD {z}x NOMKSTREAM MAXLEN 0 9999999999998-8 - -",
        NOT_LARGER,
    ),
    (
        "XADD {z}x NOMKSTREAM MAXLEN 0 9999999999999-999 - -",
        "9999999999999-999",
    ),
    (
        "XADD {z}x MAXLEN 0 0-0 - -",
        "ERR The ID specified in XADD must be greater than 0-0",
    ),
    ("XADD {z}x MAXLEN 0 word - -", NO_ID),
    ("XADD {z}x MAXLEN 0 1-x - -", NO_ID),
    ("XADD {z}x MAXLEN 0 18446744073709551616-0 - -", NO_ID),
    (
        "XINFO STREAM {z}x",
        "[length :0 radix-tree-keys :0 radix-tree-nodes :1 last-generated-id 9999999999999-999]",
    ),
    ("TYPE {z}x", "stream"),
    ("EXISTS {z}x", ":1"),
    ("GET {z}x", WRONG_TYPE),
    ("HGET {z}x a", WRONG_TYPE),
    ("ZCARD {z}x", WRONG_TYPE),
    ("HSET {z}x a 1", WRONG_TYPE),
    ("ZADD {z}x 1 a", WRONG_TYPE),
    ("XADD {z}s MAXLEN 0 * - -", WRONG_TYPE),
    ("XADD {z}h NOMKSTREAM MAXLEN 0 1-1 - -", WRONG_TYPE),
    ("XINFO STREAM {z}s", WRONG_TYPE),
    ("GET {z}s", "value"),
    (
        "XADD {z}x MAXLEN 0 9999999999999-18446744073709551615 - -",
        "9999999999999-18446744073709551615",
    ),
    ("XADD {z}x MAXLEN 0 * - -", "10000000000000-0"),
    (
        "XADD {z}x MAXLEN 0 18446744073709551615-18446744073709551615 - -",
        "18446744073709551615-18446744073709551615",
    ),
    ("XADD {z}x MAXLEN 0 * - -", EXHAUSTED),
    ("XADD {z}x MAXLEN 0 5-5 - -", EXHAUSTED),
    ("TYPE {z}x", "stream"),
    ("DEL {z}x", ":1"),
    ("XADD {z}x MAXLEN 0 5-5 - -", "5-5"),
    ("PEXPIRE {z}x 0", ":1"),
    ("TYPE {z}x", "none"),
];

fn shown(value: &Value) -> String {
    match value {
        Value::Nil => "nil".to_owned(),
        Value::Int(number) => format!(":{number}"),
        Value::Bytes(text) => String::from_utf8(text.clone()).unwrap(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(shown).collect();
            format!("[{}]", items.join(" "))
        }
    }
}

/// Calls of all rows, with the reply that each must have.
fn calls() -> Vec<(Call, &'static str, &'static str)> {
    let script = Box::leak(Box::new(Script::new("test/command", RUN)));
    let rows = TABLE.iter().map(|(command, reply)| {
        let mut call = Call::of(script);
        call.keys(["z", "{z}h", "{z}s", "{z}x"].iter());
        call.arg(command);
        (call, *command, *reply)
    });
    rows.collect()
}

#[tokio::test]
async fn each_command_replies_in_a_folder_and_in_memory_as_on_a_server() {
    let scratch = Scratch::new();
    let folder = Peer::on(&scratch, &Clock::boot(), true).store;
    for store in [folder, EmbeddedStore::memory("", Clock::boot())] {
        for (call, command, reply) in calls() {
            let answer = store.run(&call, WITHIN).await.unwrap();
            assert_eq!(shown(&answer.values()[0]), reply, "{command}");
        }
    }
}

/// The clock, in milliseconds, at each of some mints, and the id that each of them gets.
#[test]
fn an_id_is_larger_than_the_last_one_also_when_the_clock_steps_back() {
    let surroundings = Arc::new(Deaf);
    let call = made_up("", &[], &[]);
    let mut image = Image::default();
    for (now_ms, id) in [
        (1_795_224_695_691, (1_795_224_695_691, 0)),
        (1_795_224_695_691, (1_795_224_695_691, 1)),
        (1_795_224_695_692, (1_795_224_695_692, 0)),
        (1_795_224_694_692, (1_795_224_695_692, 1)),
        (1_795_138_295_692, (1_795_224_695_692, 2)),
        (1_795_224_695_693, (1_795_224_695_693, 0)),
    ] {
        let mut step = Step::new(&call, image, now_ms * 1000 + 999, &surroundings);
        assert_eq!(step.stream_add("fence", None), Ok(Some(id)));
        assert_eq!(step.stream_last("fence"), Ok(Some(id)));
        assert!(step.image.changed && step.stream_add("fence", Some(id)) == Ok(None));
        image = step.image;
    }
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_server_replies_to_the_same_commands_as_the_table_says() {
    use crate::store::RedisStore;
    use crate::store::url;

    let server = testkit::Server::start();
    let url::Target::Redis(at) = url::parse(&server.url()).unwrap() else {
        panic!("a redis URL")
    };
    let store = RedisStore::from_url(at);
    for (call, command, reply) in calls() {
        let answer = store.run(&call, WITHIN).await.unwrap();
        assert_eq!(shown(&answer.values()[0]), reply, "{command}");
    }
}

#[tokio::test]
async fn what_only_reads_may_use_each_command_that_reads_and_none_that_writes() {
    let store = EmbeddedStore::memory("", Clock::boot());
    let add = "redis.call('XADD', KEYS[1], 'MAXLEN', '0', '*', '-', '-') return { 'x' }";
    let added = store.run(&made_up(add, &["{k}x"], &[]), WITHIN).await;
    assert!(added.is_ok());
    for (command, may) in [
        ("'ZSCORE', KEYS[1], 'a'", true),
        ("'ZRANGE', KEYS[1], '0', '-1', 'WITHSCORES'", true),
        ("'ZREVRANGE', KEYS[1], '0', '0'", true),
        (
            "'ZRANGEBYSCORE', KEYS[1], '0', '1', 'LIMIT', '0', '1'",
            true,
        ),
        ("'HMGET', KEYS[1], 'a'", true),
        ("'HGETALL', KEYS[1]", true),
        ("'ZADD', KEYS[1], 'XX', '0', 'a'", false),
        ("'ZREM', KEYS[1], 'a', 'b'", false),
        ("'HSET', KEYS[1], 'a', '1', 'b', '2'", false),
        ("'HDEL', KEYS[1], 'a', 'b'", false),
        ("'XINFO', 'STREAM', KEYS[2]", true),
        ("'XADD', KEYS[1], 'MAXLEN', '0', '*', '-', '-'", false),
    ] {
        let body = format!("redis.call({command}) return {{ 'x' }}");
        let answer = store
            .run(&call_of(&body, &["k", "{k}x"], &[], true), WITHIN)
            .await;
        assert_eq!(answer.is_ok(), may, "{command}");
    }
}
