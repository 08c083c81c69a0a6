//! How a script is joined: markers, the fragments that they name, and constants that several files have.

use super::*;

#[test]
fn what_stands_above_and_below_the_fragments_is_checked_as_one() {
    let last = "return granted(mint(fence), time_us)\n";
    let twice = format!("{last}--#include more\nreturn {{ 'odd' }}\n");
    complains(last, &twice, 27, "\"odd\" is not in the header");
    let command = format!("{last}--#include more\nredis.call('KEYS', '*')\n");
    complains(last, &command, 27, "KEYS in a script");
    let time = format!("{last}--#include more\nreturn redis.call('TIME')\n");
    complains(last, &time, 1, "the time is read 2 times");
}

#[test]
fn lines_for_strict_mode_are_checked_by_themselves() {
    let first = "local lock, fence = KEYS[1], KEYS[2]\n";
    let strict = |code: &str| format!("--#strict\n{code}\n--#end\n{first}");
    let clean =
        strict("local lock = KEYS[1]\nif redis.call('GET', lock) then return {'busy', now()} end");
    assert_eq!(changed(first, &clean), []);
    complains(
        first,
        &strict("local gate = KEYS[1]"),
        16,
        "KEYS[1] is called `gate`",
    );
    complains(
        first,
        &strict("if x then return {'odd'} end"),
        16,
        "\"odd\" is not in the header",
    );
    let times = strict("local lock = KEYS[1]\nif now() then return {'busy', now()} end");
    complains(first, &times, 1, "read 2 times");
}

#[test]
fn markers_are_includes_and_pairs_of_strict_and_end() {
    let marker = "--#include prelude\n";
    complains(marker, "--#import prelude\n", 14, "means nothing");
    complains(marker, "--#end\n--#include prelude\n", 14, "means nothing");
    complains(marker, "--#include\n", 14, "means nothing");
    complains(
        marker,
        "--#include prelude\n--#strict\n",
        15,
        "strict has no end",
    );
    complains(
        marker,
        "--#include prelude\n--#plain\n",
        15,
        "plain has no end",
    );
    complains(
        marker,
        "--#include prelude\n--#plain\n--#strict\n--#end\n",
        16,
        "means nothing",
    );
}

#[test]
fn what_stands_in_plain_is_checked_too() {
    let first = "local time_us = now()";
    let plain = |code: &str| format!("--#plain\n{code}\n--#end\n{first}");
    assert_eq!(changed(first, &plain("")), []);
    complains(
        first,
        &plain("redis.call('KEYS', '*')"),
        20,
        "KEYS in a script",
    );
}

#[test]
fn each_fragment_that_is_named_exists_and_is_needed_and_each_that_is_needed_is_named_above() {
    let marker = "--#include prelude\n";
    complains(
        marker,
        "--#include prelude more\n",
        14,
        "there is no fragment \"more\"",
    );
    complains(marker, "--#include prelude prelude\n", 14, "again");
    complains(marker, "\n", 19, "`now` is of prelude");
    complains(
        "local ttl_ms = tonumber(ARGV[1])\n",
        "local ttl_ms = tonumber(ARGV[1])\n--#include prelude\n",
        12,
        "nothing here uses prelude",
    );
    complains(
        "return granted(mint(fence), time_us)\n",
        "return granted(mint(fence), time_us)\n--#include prelude\n",
        26,
        "again",
    );
    // Above its marker a fragment is not there yet.
    complains(
        "--#include prelude\nlocal lock, fence = KEYS[1], KEYS[2]\n",
        "local lock, fence = KEYS[1], mint(KEYS[2])\n--#include prelude\n",
        14,
        "`mint` is of prelude",
    );
}

#[test]
fn fragments_stand_behind_those_that_they_use_and_may_lie_in_a_subfolder() {
    let file = |path: &str, text: &str| File {
        path: format!("{FOLDER}/{path}"),
        text: text.to_owned(),
    };
    let found = |marker: &str| {
        let own = "-- What this noun shares.\nlocal function later() return now() end\n";
        let acquire = ACQUIRE.replace("--#include prelude\n", marker);
        let acquire = acquire.replace("= now()", "= later()");
        let lua = vec![
            file("mutex/acquire.lua", &acquire),
            file("mutex/own.lua", own),
            file("prelude.lua", PRELUDE),
        ];
        let sources = Sources::parse(lua, Vec::new());
        assert_eq!(sources.scripts.len(), 1);
        let found = check(&sources).into_iter().map(|one| one.wrong);
        found.collect::<Vec<_>>().join("\n")
    };
    let right = found("--#include prelude mutex/own\n");
    assert_eq!(right, "has no Rust half");
    let wrong = found("--#include mutex/own prelude\n");
    assert!(wrong.contains("mutex/own uses prelude, which does not stand before it"));
}

#[test]
fn a_constant_within_a_function_is_seen_by_no_other_file() {
    let file = |path: &str, text: &str| File {
        path: format!("{FOLDER}/{path}"),
        text: text.to_owned(),
    };
    let own = "-- Another fragment.\nlocal function later()\n  local KEEP_MS = 604800000\n  return KEEP_MS\nend\n";
    let acquire = ACQUIRE.replace("'PX', ttl_ms)", "'PX', KEEP_MS)");
    let found = |own: &str| {
        let lua = vec![
            file("mutex/acquire.lua", &acquire),
            file("prelude.lua", PRELUDE),
            file("zone.lua", own),
        ];
        let found = check(&Sources::parse(lua, Vec::new())).into_iter();
        found.map(|one| one.wrong).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(found(own), "has no Rust half");
    let outside = own.replace(
        "local function",
        "local KEEP_MS = 604800000\nlocal function",
    );
    assert!(found(&outside).contains("`KEEP_MS` is of zone"));
}

#[test]
fn a_constant_means_the_same_in_every_file() {
    let first = "local time_us = now()";
    let with = |constants: &str| format!("{constants}\n{first}");
    let same = with("local TOKEN_END, KEEP_MS = 47, 604800000");
    assert_eq!(changed(first, &same), []);
    let other = with("local TOKEN_END, KEEP_MS = 47, 60000");
    complains(first, &other, 19, "KEEP_MS is 60000 here");
}
