//! The script engine: what scripts may do, the replies of commands, the effects of an error.

use super::*;
use crate::base::error::ErrorKind;

async fn values(body: &str) -> Vec<Value> {
    let store = EmbeddedStore::memory("", Clock::manual());
    let answer = store
        .run(&made_up(body, &["k", "{k}2"], &["a", "b"]), WITHIN)
        .await;
    answer
        .unwrap_or_else(|error| panic!("{body}: {error}"))
        .values()
        .to_vec()
}

async fn error(body: &str) -> StoreError {
    let store = EmbeddedStore::memory("", Clock::manual());
    store
        .run(&made_up(body, &["k", "{k}2"], &["a", "b"]), WITHIN)
        .await
        .unwrap_err()
}

#[tokio::test]
async fn scripts_cannot_reach_outside_or_into_the_next_call() {
    for name in [
        "os",
        "io",
        "loadstring",
        "load",
        "dofile",
        "loadfile",
        "require",
        "package",
        "debug",
        "print",
        "_G",
        "pcall",
        "coroutine",
        "getmetatable",
        "setmetatable",
        "rawset",
        "rawget",
        "getfenv",
        "setfenv",
        "collectgarbage",
        "newproxy",
    ] {
        let error = error(&format!("return {{ 'x', type({name}) }}")).await;
        assert!(
            error.to_string().contains("read global variable"),
            "{name}: {error}"
        );
    }
    assert!(
        error("leak = 1 return { 'x' }")
            .await
            .to_string()
            .contains("create global variable 'leak'")
    );
    let gone =
        values("return { 'x', type(string.dump), type(math.random), type(math.randomseed) }").await;
    assert_eq!(gone, [bytes("nil"), bytes("nil"), bytes("nil")]);
}

#[tokio::test]
async fn commands_answer_as_redis_does() {
    let body = "
        local r, k, z = redis.call, KEYS[1], KEYS[2]
        local t = { 'x', r('GET', k), r('PTTL', k), r('TYPE', k).ok, r('STRLEN', k), r('DEL', k), r('PEXPIRE', k, 5) }
        t[#t + 1] = r('SET', k, 'value', 'PX', 1500).ok
        for _, v in ipairs({ r('GET', k), r('PTTL', k), r('TYPE', k).ok, r('STRLEN', k), r('PEXPIRE', k, 700), r('PTTL', k), r('DEL', k) }) do t[#t + 1] = v end
        for _, v in ipairs({ r('HSET', k, 'f', 1), r('HSET', k, 'f', 2), r('HGET', k, 'f'), r('TYPE', k).ok, r('PTTL', k), r('HSETNX', k, 'f', 3), r('HSETNX', k, 'g', 4), r('HGET', k, 'f'), r('HLEN', k), r('HDEL', k, 'f'), r('HDEL', k, 'f'), r('HDEL', k, 'g'), r('TYPE', k).ok, r('HLEN', k) }) do t[#t + 1] = v end
        return t";
    let expected = [
        [
            Value::Nil,
            Value::Int(-2),
            bytes("none"),
            Value::Int(0),
            Value::Int(0),
            Value::Int(0),
            bytes("OK"),
        ]
        .to_vec(),
        [
            bytes("value"),
            Value::Int(1500),
            bytes("string"),
            Value::Int(5),
            Value::Int(1),
            Value::Int(700),
            Value::Int(1),
        ]
        .to_vec(),
        [
            Value::Int(1),
            Value::Int(0),
            bytes("2"),
            bytes("hash"),
            Value::Int(-1),
            Value::Int(0),
            Value::Int(1),
            bytes("2"),
            Value::Int(2),
        ]
        .to_vec(),
        [1, 0, 1].map(Value::Int).to_vec(),
        [bytes("none"), Value::Int(0)].to_vec(),
    ];
    assert_eq!(values(body).await, expected.concat());
}

#[tokio::test]
async fn sorted_sets_keep_score_and_name_in_order() {
    let body = "
        local r, z = redis.call, KEYS[1]
        local t = { 'x', r('ZADD', z, 0, 'b'), r('ZADD', z, 0, 'a'), r('ZADD', z, -5, 'c'), r('ZADD', z, 1.5, 'd'), r('ZADD', z, 0, 'd') }
        for _, v in ipairs({ r('ZCARD', z), r('ZRANK', z, 'a'), r('ZRANK', z, 'q'), r('ZRANGE', z, 0, -1), r('ZRANGE', z, 1, 1), r('ZRANGE', z, -2, 99), r('ZRANGE', z, 5, 9), r('ZREVRANGEBYSCORE', z, 0, 0, 'LIMIT', 0, 1), r('ZREM', z, 'a'), r('ZREM', z, 'a'), r('TYPE', z).ok }) do t[#t + 1] = v end
        return t";
    let names = |names: &[&str]| Value::Array(names.iter().map(|name| bytes(name)).collect());
    let int = Value::Int;
    let expected = [
        vec![
            int(1),
            int(1),
            int(1),
            int(1),
            int(0),
            int(4),
            int(1),
            Value::Nil,
        ],
        vec![
            names(&["c", "a", "b", "d"]),
            names(&["a"]),
            names(&["b", "d"]),
            names(&[]),
            names(&["d"]),
        ],
        vec![int(1), int(0), bytes("zset")],
    ];
    assert_eq!(values(body).await, expected.concat());
}

#[tokio::test]
async fn arguments_and_time_are_text_as_redis_has_it() {
    let body = "redis.call('SET', KEYS[1], 0.5, 'PX', 1e3) local t = redis.call('TIME')
        return { 'x', redis.call('GET', KEYS[1]), t[1], #t, #KEYS, ARGV[2], false, 3.7, { 1, nil, 2 }, redis.call('PTTL', KEYS[1]) }";
    let rest = [
        Value::Int(2),
        Value::Int(2),
        bytes("b"),
        Value::Nil,
        Value::Int(3),
        Value::Array(vec![Value::Int(1)]),
        Value::Int(1000),
    ];
    assert_eq!(
        values(body).await,
        [&[bytes("0.5"), bytes("1700001000")][..], &rest].concat()
    );
}

#[tokio::test]
async fn errors_say_what_and_where_and_of_which_kind() {
    let wrong = "redis.call('HSET', KEYS[1], 'f', 'v') return { 'x', redis.call('GET', KEYS[1]) }";
    assert_eq!(error(wrong).await.kind(), ErrorKind::WrongType);
    let caught =
        "redis.call('HSET', KEYS[1], 'f', 'v') return { 'x', redis.pcall('GET', KEYS[1]).err }";
    assert!(
        matches!(&values(caught).await[..], [Value::Bytes(text)] if text.starts_with(b"WRONGTYPE"))
    );
    for bad in [
        "redis.call('FLUSHALL')",
        "redis.call('GET', 'other')",
        "redis.call('GET', {})",
        "redis.call()",
        "redis.call('SET', KEYS[1], 'v', 'NX')",
    ] {
        let error = error(&format!("{bad} return {{ 'x' }}")).await;
        assert!(
            error.kind() == ErrorKind::Internal && !error.maybe_applied(),
            "{bad}: {error}"
        );
    }
    assert!(
        error("\n\nerror('here')")
            .await
            .to_string()
            .contains("test/made-up:3: here")
    );
    for untagged in [
        "return 1",
        "return {}",
        "return { err = 'no' }",
        "local x =",
    ] {
        assert_eq!(
            error(untagged).await.kind(),
            ErrorKind::Internal,
            "{untagged}"
        );
    }
}

#[tokio::test]
async fn a_script_that_fails_in_the_middle_leaves_nothing() {
    let scratch = Scratch::new();
    let peer = Peer::on(&scratch, &Clock::boot(), false);
    let memory = EmbeddedStore::memory("", Clock::boot());
    let half = made_up(
        "redis.call('SET', KEYS[1], 'half', 'PX', 9999) error('stop')",
        &["k"],
        &[],
    );
    let look = made_up("return { 'x', redis.call('GET', KEYS[1]) }", &["k"], &[]);
    for store in [&peer.store, &memory] {
        assert!(!store.run(&half, WITHIN).await.unwrap_err().maybe_applied());
        assert_eq!(
            store.run(&look, WITHIN).await.unwrap().values(),
            [Value::Nil]
        );
    }
}

#[tokio::test]
async fn a_script_that_says_it_only_reads_cannot_write() {
    let store = EmbeddedStore::memory("", Clock::boot());
    let write = call_of(
        "redis.call('SET', KEYS[1], 'v', 'PX', 9) return { 'x' }",
        &["k"],
        &[],
        true,
    );
    assert_eq!(
        store.run(&write, WITHIN).await.unwrap_err().kind(),
        ErrorKind::Internal
    );
}

#[tokio::test]
async fn keys_of_one_call_must_share_a_slot() {
    let store = EmbeddedStore::memory("", Clock::boot());
    for keys in [&["a", "b"][..], &[]] {
        let error = store
            .run(&made_up("return { 'x' }", keys, &[]), WITHIN)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
    }
}
