//! Records that a client with the rights of a locker wrote by raw commands: none of it reaches the terminal as a command.

use crate::common::Store;

/// Escape sequences of both kinds, what ends a line, what turns text round or hides it, and more text than is shown.
fn evil() -> String {
    let text = "\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}31m\r\u{8}";
    text.to_owned() + UNSEEN + &"x".repeat(1024)
}

/// What turns text round or hides it.
const UNSEEN: &str = "\u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}";
/// What a name may have in it.
const NAME: &str = "a\u{202e}b\u{200b}c";
const CLIENT: &str = "EVILEVIL";

fn token(of: char) -> String {
    format!("{}.{CLIENT}", String::from(of).repeat(22))
}

/// Writes with bytes behind it that are not text.
fn write(store: &Store, command: &[&str]) {
    let script = r"local words = {} for i, word in ipairs(ARGV) do words[i] = word end
        words[#words] = words[#words] .. '\255\254' redis.call(unpack(words, 1, #words)) return 1";
    let reply = store
        .server()
        .cli(&[&["EVAL", script, "0"], command].concat());
    assert!(!reply.is_error(), "{command:?} {reply:?}");
}

fn plain(store: &Store, command: &[&str]) {
    let reply = store.server().cli(command);
    assert!(!reply.is_error(), "{command:?} {reply:?}");
}

/// What the client says of itself.
fn announce(store: &Store) {
    let evil = evil();
    let about = format!(
        "host{evil}\n77\nname{evil}\n1\nserves nightly\nserves a\u{1b}[2J{UNSEEN}\nuser user{evil}\nvia \u{1b}[2J\nversion \u{9b}2J"
    );
    plain(store, &["SET", &format!("ll:client:{CLIENT}"), &about]);
}

/// Shows nothing but text, in either format, whatever the exit code.
#[track_caller]
fn is_harmless(store: &Store, words: &[&str], shows: &str) {
    for json in [&[][..], &["--json"]] {
        let done = store.run(&[words, json].concat());
        let shown = format!("{}{}", done.out, done.err);
        let is_harmful = |c: char| c.is_control() && c != '\n' || UNSEEN.contains(c);
        assert!(!shown.contains(is_harmful), "{words:?} {json:?} {done:?}");
        let told = shows.is_empty() || !json.is_empty() || shown.contains(shows);
        assert!(told, "{words:?} {json:?} {done:?}");
    }
}

#[test]
fn a_hostile_holder_and_waiter_are_shown_as_text() {
    let store = Store::redis();
    announce(&store);
    for name in ["job", NAME, "b\u{1b}[2J"] {
        plain(&store, &["SET", name, &token('A'), "PX", "600000"]);
        let note = format!("{}note{}", token('A'), evil());
        write(&store, &["SET", &format!("{{{name}}}:ll:why"), &note]);
        for (polled, kind) in [("1", "1"), ("zz\u{1b}", "\u{1b}["), ("9", "w99999999999")] {
            let entry = format!(
                "{:016}{}{polled:0>16} {} 5 {kind} {}",
                7,
                token('B'),
                evil(),
                evil()
            );
            write(
                &store,
                &["ZADD", &format!("{{{name}}}:ll:queue"), "0", &entry],
            );
            let entry = format!(
                "{:016}{}{polled:0>16} 0 10000 {kind} {}",
                8,
                token('C'),
                evil()
            );
            write(
                &store,
                &["ZADD", &format!("{{{name}}}:ll:queue"), "0", &entry],
            );
        }
    }
    is_harmless(&store, &["blame"], "name\u{fffd}[2J");
    is_harmless(&store, &["blame", "a*"], "a\u{fffd}b\u{fffd}c");
    is_harmless(&store, &["top", "--once"], "name\u{fffd}[2J");
    is_harmless(&store, &["status", "job"], "(user user\u{fffd}[2J");
    // A record that is no text.
    write(
        &store,
        &[
            "SET",
            &format!("ll:client:{CLIENT}"),
            "host\n77\nname\n1\nuser ",
        ],
    );
    for words in [&["blame"][..], &["top", "--once"], &["schedules"]] {
        is_harmless(&store, words, "");
    }
}

#[test]
fn hostile_permits_are_shown_as_text() {
    let store = Store::redis();
    announce(&store);
    // It is listed whatever lies beside it.
    let other = token('O');
    plain(&store, &["SET", "other", &other, "PX", "600000"]);
    let member = format!("{}2", token('P'));
    plain(&store, &["ZADD", "pool", "9000000000000000", &member]);
    let usage = "{pool}:ll:usage";
    for (field, value) in [
        ("permits", "4"),
        ("pinned", "1"),
        ("sum", "2 1"),
        (&*member, "7"),
    ] {
        plain(&store, &["HSET", usage, field, value]);
    }
    is_harmless(&store, &["permits", "pool"], "name\u{fffd}[2J");
    is_harmless(&store, &["top", "--once"], "  permits  ");
    for field in ["pinned", "sum", "permits", &member] {
        write(&store, &["HSET", usage, field, &evil()]);
        is_harmless(&store, &["permits", "pool"], "");
        is_harmless(&store, &["top", "--once"], "\nother");
    }
    // Members that are no holds, before and behind one that is.
    for score in ["1", "9100000000000000"] {
        write(&store, &["ZADD", "pool", score, &evil()]);
        is_harmless(&store, &["permits", "pool"], "");
        is_harmless(&store, &["top", "--once"], "\nother");
    }
}

#[test]
fn what_a_hostile_leader_proclaims_is_shown_as_text() {
    let store = Store::redis();
    announce(&store);
    plain(&store, &["SET", "boss", &token('L'), "PX", "600000"]);
    let record =
        |channel: &str, term: &str| format!("{}\n{channel}\n{term}\nvalue\n{}", token('L'), evil());
    let leader = "{boss}:ll:leader";
    plain(&store, &["SET", leader, &record("", "7")]);
    is_harmless(&store, &["leader", "boss"], "value\u{fffd}\u{fffd}[2J");
    for (channel, term) in [
        ("", "7"),
        (&*evil(), "7"),
        ("", "99999999999999999999999"),
        ("", "x"),
    ] {
        write(&store, &["SET", leader, &record(channel, term)]);
        is_harmless(&store, &["leader", "boss"], "");
        is_harmless(&store, &["top", "--once"], "name\u{fffd}[2J");
    }
}

#[test]
fn a_hostile_schedule_and_its_hosts_are_shown_as_text() {
    let store = Store::redis();
    announce(&store);
    let record = "{nightly}:ll:cron";
    let state = format!("done {} 1 1795000000000000", token('T'));
    plain(
        &store,
        &[
            "HSET",
            record,
            "state",
            &state,
            "schedule",
            "1000000 UTC 0 0 * * *",
        ],
    );
    is_harmless(&store, &["schedules"], "host\u{fffd}[2J");
    plain(
        &store,
        &["HSET", &format!("{{{NAME}}}:ll:cron"), "state", &state],
    );
    plain(&store, &["HSET", "{b\u{1b}[2J}:ll:cron", "state", &state]);
    is_harmless(&store, &["schedules"], "a\u{fffd}b\u{fffd}c");
    for schedule in [
        "5 UTC ",
        "5 ",
        "",
        "99999999999999999999 UTC 0 0 * * *",
        "5 ../../etc/passwd ",
    ] {
        let text = format!("{schedule}{}", evil());
        plain(&store, &["HSET", record, "schedule", &text]);
        is_harmless(&store, &["schedules"], "nightly");
        write(&store, &["HSET", record, "schedule", &text]);
        is_harmless(&store, &["schedules"], "");
    }
    plain(&store, &["HSET", record, "schedule", "5 UTC 0 0 * * *"]);
    for state in [
        evil(),
        format!("{}{state}", evil()),
        format!("run {} 1 99999999999999999999", token('T')),
    ] {
        plain(&store, &["HSET", record, "state", &state]);
        is_harmless(&store, &["schedules"], "");
        write(&store, &["HSET", record, "state", &state]);
        is_harmless(&store, &["schedules"], "");
    }
}
