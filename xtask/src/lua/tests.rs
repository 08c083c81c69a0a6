//! Each rule against a script that breaks it and nothing else.
//!
//! Every test starts from sources without complaints, changes one thing, and names the complaint.

use super::markers::FOLDER;
use super::sources::WHITELIST;
use super::*;
use crate::files::File;

mod joined;
mod kind;

const ACQUIRE: &str = r#"-- mutex/acquire: take the mutex if it is free,
-- or say who has it.
--
-- KEYS[1] lock       string; the holder's token; the lease is this key's PTTL
-- KEYS[2] fence      string; the last fencing token
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] ttl_ms     integer > 0
--
-- Returns {"granted", fence, time_us}   now held
--                                       until ttl_ms from time_us
--         {"busy", pttl_ms, time_us}    held by another
-- Replay  the same token again gets the same fence
-- Writes  lock, fence; nothing when busy
--#include prelude
local lock, fence = KEYS[1], KEYS[2]
local token,
      ttl_ms = ARGV[1], tonumber(ARGV[2])

local time_us = now() -- the only one; not KEYS[9]
local holder = redis.call('GET', lock)
if holder and holder ~= token then
  return {'busy', redis.call('PTTL', lock), time_us}
end
redis.call('SET', lock, token, 'PX', ttl_ms)
return granted(mint(fence), time_us)
"#;

const PRELUDE: &str = r#"-- What all scripts share.
local KEEP_MS = 604800000

local function now()
  local time = redis.call('TIME')
  if time[1] then return time[1] * 1000000 + time[2] end
end

local function mint(fence)
  for _ = 1, 1 do redis.call('INCR', fence) end
  return redis.call('GET', fence)
end

local function granted(fence, time_us)
  return {"granted", fence, time_us}
end

local function unused() return {'nobody_calls_this'} end
"#;

const BATCH: &str = r#"-- client/renew: renew many leases at once.
--
-- KEYS[…] locks    strings; the holders' tokens
-- ARGV[1] ttl_ms     integer > 0
-- ARGV[…] tokens   one for each lock
--
-- Returns {"renewed", answers}   each of {"kept"} or {"gone"}
-- Replay  renews again
-- Writes  locks

local ttl_ms = tonumber(ARGV[1])

local answers = {}
for i = 1, #KEYS do
  if redis.call('GET', KEYS[i]) == ARGV[i + 1] then
    redis.call('PEXPIRE', KEYS[i], ttl_ms)
    answers[i] = {'kept'}
  else
    answers[i] = {ok == 'no' and 'gone' or 'kept', 'not a tag'}
  end
end
return {'renewed', answers}
"#;

const RUST: &str = r#"
static ACQUIRE: Script = script!("mutex/acquire");
impl<'a> Operation for Acquire<'a> {
    type Reply = Acquired;
    fn encode(&self, call: &mut Call) {
        call.key(&self.keys.lock).key(&self.keys.fence);
        call.arg(&self.token).arg(self.ttl);
    }
    fn decode(reply: &Tagged) -> Result<Self::Reply, Malformed> {
        match reply.tag() {
            "granted" => Ok(Acquired::Granted("not => an arm")),
            "busy" => Ok(Acquired::Busy),
            _ => Err(Malformed),
        }
    }
}
static RENEW: Script = script!("client/renew");
impl Operation for Renew {
    fn encode(&self, call: &mut Call) {
        self.locks.iter().for_each(|lock| call.key(lock));
        call.arg(self.ttl).args(&self.tokens);
    }
    fn decode(reply: &Tagged) -> Result<Self::Reply, Malformed> {
        match reply.tag() { "renewed" | "kept" | "gone" => {} }
    }
}
"#;

const COMMANDS: &str = r#"
pub(crate) const WHITELIST: &[&str] = &["GET", "INCR", "PEXPIRE", "PTTL", "SET", "TIME"];
const OTHERS: &[&str] = &["DEL"];
"#;

/// The sources with one text in place of another.
fn changed(from: &str, to: &str) -> Vec<Complaint> {
    let mut hits = 0;
    let mut file = |path: &str, text: &str| {
        hits += usize::from(!from.is_empty() && text.contains(from));
        File {
            path: path.to_owned(),
            text: text.replacen(from, to, 1),
        }
    };
    let lua = vec![
        file("crates/leaselock/lua/client/renew.lua", BATCH),
        file("crates/leaselock/lua/mutex/acquire.lua", ACQUIRE),
        file("crates/leaselock/lua/prelude.lua", PRELUDE),
    ];
    let rust = vec![
        file("crates/leaselock/src/mutex/scripts.rs", RUST),
        file(WHITELIST, COMMANDS),
    ];
    assert!(hits == 1 || from.is_empty(), "{from:?} is in {hits} files");
    check(&Sources::parse(lua, rust))
}

#[track_caller]
fn complains(from: &str, to: &str, line: usize, about: &str) {
    let found = changed(from, to);
    let fits = |one: &Complaint| one.wrong.contains(about) && one.line == line;
    assert!(
        found.iter().any(fits),
        "wanted {line}: {about}, got {found:#?}"
    );
}

#[test]
fn sources_that_keep_all_rules_have_no_complaints() {
    assert_eq!(changed("", ""), []);
}

#[test]
fn first_line_names_the_file() {
    complains(
        "-- mutex/acquire:",
        "-- mutex/take:",
        1,
        "does not name the file",
    );
    complains(
        "-- mutex/acquire: take",
        "-- mutex/acquire take",
        1,
        "does not name the file",
    );
    complains(
        "-- mutex/acquire:",
        "#!lua\n-- mutex/acquire:",
        1,
        "shebang",
    );
}

#[test]
fn keys_and_arguments_are_numbered_without_gaps_and_named() {
    complains("KEYS[2] fence ", "KEYS[3] fence ", 5, "out of order");
    complains("-- ARGV[1] ttl_ms", "-- ARGV[3] ttl_ms", 4, "out of order");
    complains(
        "-- ARGV[1] token      the caller's proof of ownership",
        "-- ARGV[1]",
        6,
        "no name",
    );
}

#[test]
fn header_and_body_use_the_same_keys_and_arguments() {
    complains(
        "-- KEYS[2] fence      string; the last fencing token\n",
        "",
        14,
        "KEYS[2] is not in the header",
    );
    complains(
        "local lock, fence = KEYS[1], KEYS[2]",
        "local lock = KEYS[1]",
        5,
        "KEYS[2] is not used",
    );
    complains(
        "mint(fence), time_us)\n",
        "mint(KEYS[i]), time_us)\n",
        25,
        "without a number",
    );
    complains("KEYS[…] locks", "KEYS[1] locks", 14, "without a number");
}

#[test]
fn body_begins_with_the_names_and_keeps_to_them() {
    complains(
        "'GET', lock)",
        "'GET', KEYS[1])",
        20,
        "KEYS[1] is used again",
    );
    complains(
        "local lock, fence = KEYS[1], KEYS[2]",
        "local lock = KEYS[1]\nlocal a = 1\nlocal fence = KEYS[2]",
        17,
        "before it has a name",
    );
    complains(
        "local lock, fence =",
        "local fence, lock =",
        15,
        "KEYS[1] is called `fence`",
    );
    complains(
        "tonumber(ARGV[2])",
        "tonumber(ARGV[2] or ARGV[1])",
        17,
        "used again",
    );
    complains(
        "ARGV[1], tonumber(ARGV[2])",
        "ARGV[1] .. ARGV[2], 1",
        17,
        "shares a name",
    );
}

#[test]
fn header_lists_exactly_the_answers_that_are_given() {
    complains(
        "{'busy',",
        "{'taken',",
        22,
        "\"taken\" is not in the header",
    );
    complains("{'busy',", "{'taken',", 11, "\"busy\" is never given");
    complains(
        "{\"granted\", fence, time_us}\nend",
        "{\"had\", fence}\nend",
        9,
        "\"had\" is not in the header",
    );
    complains(
        "and 'gone' or",
        "and 'kept' or",
        7,
        "\"gone\" is never given",
    );
    complains(
        "Returns {\"renewed\", answers}   each of {\"kept\"} or {\"gone\"}",
        "Returns 1",
        1,
        "no answers",
    );
}

#[test]
fn replay_and_writes_are_there_and_name_keys() {
    complains("-- Replay  renews again\n", "", 1, "no Replay");
    complains("-- Replay  renews again\n", "-- Replay \n", 1, "no Replay");
    complains("-- Writes  locks\n", "", 1, "no Writes");
    complains(
        "-- Writes  lock, fence;",
        "-- Writes  lock, line;",
        13,
        "\"line\", which is no key",
    );
}

#[test]
fn times_have_units_and_commands_do_not_count_in_seconds() {
    complains(
        "-- ARGV[2] ttl_ms ",
        "-- ARGV[2] ttl ",
        7,
        "`ttl` is a time without its unit",
    );
    complains(
        "{\"busy\", pttl_ms,",
        "{\"busy\", left_seconds,",
        11,
        "without its unit",
    );
    complains("'PEXPIRE'", "'EXPIRE'", 16, "EXPIRE counts in seconds");
    complains("'PX'", "'EX'", 24, "\"EX\" counts in seconds");
}

#[test]
fn commands_are_written_out_and_stay_with_their_keys() {
    complains(
        "redis.call('PTTL', lock)",
        "redis.call('scan', 0)",
        22,
        "SCAN in a script",
    );
    complains(
        "redis.call('PTTL', lock)",
        "redis.pcall(how, lock)",
        22,
        "not written out",
    );
    complains(
        "redis.call('PTTL', lock)",
        "pcall(redis.call, 'FLUSHALL')",
        22,
        "FLUSHALL in a script",
    );
}

#[test]
fn commands_of_fragments_are_checked_too() {
    complains(
        "redis.call('INCR', fence)",
        "redis.call('SCAN', 0)",
        10,
        "SCAN in a script",
    );
}

#[test]
fn time_is_read_once() {
    complains(
        "local holder =",
        "local later = now()\nlocal holder =",
        1,
        "read 2 times",
    );
    complains("'INCR', fence)", "'INCR', now())", 1, "read 2 times");
}

#[test]
fn whitelist_is_what_the_scripts_use() {
    complains("\"GET\", ", "", 15, "GET is not on the whitelist");
    complains("\"SET\",", "\"SET\", \"SORT\",", 2, "no script uses SORT");
}

#[test]
fn fragments_are_functions_with_a_comment() {
    complains("-- What all scripts share.\n", "", 1, "without a comment");
    complains("'TIME')", "'TIME', KEYS[1])", 5, "a fragment uses KEYS");
    complains(
        "local KEEP_MS = 604800000",
        "local KEEP_MS = redis.call('GET', 'a')",
        2,
        "by itself",
    );
    complains(
        "local KEEP_MS = 604800000",
        "if a then b() end",
        2,
        "by itself",
    );
}

#[test]
fn every_script_has_a_rust_half() {
    complains(
        "script!(\"client/renew\")",
        "script!(\"client/renews\")",
        0,
        "has no Rust half",
    );
    complains(
        "fn encode(&self, call: &mut Call) {\n        self.locks",
        "fn put() {\n        self.locks",
        17,
        "no `encode`",
    );
}

#[test]
fn what_changes_nothing_is_known_as_such_in_rust() {
    complains(
        "-- Writes  locks\n",
        "-- Writes  nothing\n",
        17,
        "`reads_only`",
    );
    complains(
        "script!(\"client/renew\")",
        "script!(\"client/renew\", reads_only)",
        17,
        "`reads_only`",
    );
}

#[test]
fn rust_half_gives_as_many_keys_and_arguments_as_the_header_lists() {
    complains(
        ".key(&self.keys.fence)",
        "",
        5,
        "gives 1 KEYS, the header lists 2",
    );
    complains(
        ".arg(self.ttl);\n    }\n    fn decode",
        ".arg(self.ttl).arg(1);\n    }\n    fn decode",
        5,
        "gives 3 ARGV",
    );
}

#[test]
fn rust_half_decodes_exactly_the_answers_of_the_header() {
    complains("\"busy\" =>", "\"taken\" =>", 3, "does not decode \"busy\"");
    complains("\"busy\" =>", "\"taken\" =>", 12, "decodes \"taken\"");
    complains(
        "\"renewed\" | \"kept\" | \"gone\"",
        "\"renewed\" | \"kept\"",
        18,
        "does not decode \"gone\"",
    );
}

#[test]
fn an_operation_may_be_declared_as_a_table() {
    let declared = |name: &str| {
        let table = format!("operation! {{\n    pub(super) struct {name} {{ locks: u8, }}");
        changed("impl Operation for Renew {", &table)
    };
    assert_eq!(declared("Renew"), []);
    let found = declared("Release");
    assert!(
        found[0].wrong.contains("no operation of its name"),
        "{found:#?}"
    );
}

#[test]
fn decoder_may_leave_its_arms_to_a_function_beside_it() {
    let found = changed(
        "match reply.tag() { \"renewed\" | \"kept\" | \"gone\" => {} }\n    }\n}",
        "read(reply)\n    }\n}\nfn read() { match 1 { \"granted\" | \"busy\" | \"renewed\" | \"kept\" | \"gone\" => {} } }",
    );
    // The arms of the whole file are too many for one script, but none is missing.
    assert!(
        found
            .iter()
            .all(|one| !one.wrong.contains("does not decode")),
        "{found:#?}"
    );
}

#[test]
fn table_holds_what_the_headers_say() {
    let file = |text: &str| File {
        path: format!("{FOLDER}/mutex/acquire.lua"),
        text: text.into(),
    };
    let fence = File {
        path: format!("{FOLDER}/fence.lua"),
        text: "-- fence: numbers, larger\n-- with every grant. No number is taken back.\nlocal x\n"
            .into(),
    };
    let sources = Sources::parse(vec![file(ACQUIRE), fence], Vec::new());
    let table = readme::table(&sources.scripts, &sources.fragments);
    assert!(table.contains("| [`fence`](fence.lua) | numbers, larger with every grant. |\n"));
    let row = "| [`mutex/acquire`](mutex/acquire.lua) \
        | take the mutex if it is free, or say who has it. | `lock`, `fence` | `token`, `ttl_ms` \
        | `{\"granted\", fence, time_us}`<br>`{\"busy\", pttl_ms, time_us}` \
        | the same token again gets the same fence |\n";
    assert!(table.ends_with(row), "{table}");
}

#[test]
fn stale_table_is_found_at_its_line() {
    assert_eq!(compare(Ok("a\nb\n".into()), "a\nb\n"), None);
    assert_eq!(compare(Ok("a\nb\n".into()), "a\nc\n").unwrap().line, 2);
    assert_eq!(
        compare(Err(io::ErrorKind::NotFound.into()), "a\n")
            .unwrap()
            .line,
        1
    );
}
