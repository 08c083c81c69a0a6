//! Streams written by hand: the right ones pass, and each broken promise is accused.

mod fences;
mod taken;

use std::collections::HashMap;

use super::judge::{Judge, Snapshot};
use super::report::Rule;

const A: &str = "aaaaaaaaaaaaaaaaaaaaaa.client-a";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbb.client-b";
const C: &str = "cccccccccccccccccccccc.client-c";
/// Microseconds; each command comes 10 µs after the one before.
const START: u64 = 1_800_000_000_000_000;

/// A stream that is being written.
struct Stream {
    judge: Judge,
    now: u64,
    fence: u64,
    has_fence: bool,
    /// How often each command ran.
    calls: HashMap<String, u64>,
    /// The queue's member of each token that waits.
    entries: HashMap<String, String>,
}

impl Stream {
    fn new() -> Stream {
        Stream {
            judge: Judge::default(),
            now: START,
            fence: START,
            has_fence: false,
            calls: HashMap::new(),
            entries: HashMap::new(),
        }
    }

    fn line(&mut self, sender: &str, words: &[&str]) {
        self.now += 10;
        *self.calls.entry(words[0].to_lowercase()).or_default() += 1;
        let (seconds, micros) = (self.now / 1_000_000, self.now % 1_000_000);
        let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
        let text = format!("{seconds}.{micros:06} [0 {sender}] {}", words.join(" "));
        self.judge.line(&text);
    }

    /// A request on the lock `job`.
    fn call(&mut self, args: &[&str]) -> &mut Stream {
        let keys = [
            "job",
            "{job}:ll:queue",
            "{job}:ll:waiters",
            "{job}:ll:fence",
            "{job}:ll:usage",
        ];
        self.line(
            "127.0.0.1:1",
            &[&["EVALSHA", "sha", "5"], &keys[..], args].concat(),
        );
        self
    }

    fn lua(&mut self, words: &str) -> &mut Stream {
        let words: Vec<&str> = words.split(' ').collect();
        self.line("lua", &words);
        self
    }

    /// The server chooses the number.
    fn mint(&mut self) -> &mut Stream {
        self.fence += 100;
        self.lua("XADD {job}:ll:fence NOMKSTREAM MAXLEN = 0 * - -");
        if self.has_fence {
            return self;
        }
        self.has_fence = true;
        self.lua("XADD {job}:ll:fence MAXLEN = 0 * - -")
            .lua("PEXPIRE {job}:ll:fence 93600000")
    }

    /// The script chooses it, and the stream shows it.
    fn mint_chosen(&mut self, number: u64) -> &mut Stream {
        (self.fence, self.has_fence) = (number, true);
        let id = format!("{}-{}", number / 1_000, number % 1_000);
        self.lua(&format!("XADD {{job}}:ll:fence MAXLEN = 0 {id} - -"))
    }

    /// The readers' number lies beside their holds.
    fn mark_readers(&mut self) -> &mut Stream {
        let number = self.fence;
        self.lua(&format!("ZADD job -inf f{number}"))
    }

    fn alone(&mut self, token: &str, ttl_ms: u64) -> &mut Stream {
        self.call(&[token, "1000", ""]);
        self.mint().lua(&format!("SET job {token} PX {ttl_ms}"))
    }

    /// With a number that the stream shows.
    fn alone_with(&mut self, number: u64, token: &str) -> &mut Stream {
        self.call(&[token, "1000", ""]);
        self.mint_chosen(number)
            .lua(&format!("SET job {token} PX 1000"))
    }

    fn end_of(&self, ttl_ms: u64) -> u64 {
        self.now + ttl_ms * 1_000
    }

    /// A member of a set, with its token and how it holds.
    fn member(&mut self, member: &str, ttl_ms: u64) -> &mut Stream {
        let ends = self.end_of(ttl_ms);
        self.lua(&format!("ZADD job {ends} {member}"));
        if member.ends_with('u') {
            self.lua(&format!("ZADD job {ends} u"));
        }
        self.lua(&format!("PEXPIRE job {}", ttl_ms + 1))
    }

    fn read(&mut self, token: &str, ttl_ms: u64) -> &mut Stream {
        self.call(&[token, "1000", "", "s"]);
        self.mint().mark_readers().member(token, ttl_ms)
    }

    /// With the number of the readers that are there.
    fn read_too(&mut self, token: &str) -> &mut Stream {
        self.call(&[token, "1000", "", "s"]);
        self.member(token, 1_000)
    }

    fn upgradable(&mut self, token: &str) -> &mut Stream {
        self.call(&[token, "1000", "", "u"]);
        self.mint()
            .mark_readers()
            .member(&format!("{token}u"), 1_000)
    }

    fn permits(&mut self, token: &str, weight: u64, sum: &str) -> &mut Stream {
        self.call(&[token, "1000", "", "w"]);
        let (member, fence) = (format!("{token}{weight}"), self.fence + 100);
        self.mint().member(&member, 1_000);
        self.usage(sum, &[&member, &fence.to_string()])
    }

    fn usage(&mut self, sum: &str, number: &[&str]) -> &mut Stream {
        let words = ["HSET", "{job}:ll:usage", "sum", sum, "permits", "3"];
        self.line("lua", &[&words, number].concat());
        self
    }

    /// Its connection listens, and it joins the queue.
    fn wait(&mut self, token: &str, kind: &str) -> &mut Stream {
        let channel = format!("ll:wake:{}", &token[23..]);
        let address = format!("127.0.0.1:{}", 10 + token.as_bytes()[0]);
        self.line(&address, &["SUBSCRIBE", &channel]);
        self.call(&[token, "1000", "0 5000 w channel"]);
        let entry = format!("{0}{token}{0} 0 5000 {kind} {channel}", self.now);
        self.line("lua", &["HSET", "{job}:ll:waiters", token, &entry]);
        self.line("lua", &["ZADD", "{job}:ll:queue", "0", &entry]);
        self.entries.insert(token.to_owned(), entry);
        self
    }

    /// A visit moves it behind all others.
    fn set_aside(&mut self, token: &str) -> &mut Stream {
        let entry = self.entries[token].clone();
        let aside = [
            "ZADD",
            "{job}:ll:queue",
            "6299159223049042",
            &(entry.clone() + "~"),
        ];
        self.line("lua", &aside);
        self.line("lua", &["ZREM", "{job}:ll:queue", &entry]);
        self
    }

    /// All connections that were seen live on.
    fn mark(&mut self) -> &mut Stream {
        let clients = 0..300;
        self.mark_with(
            clients
                .map(|port| (format!("127.0.0.1:{port}"), port))
                .collect(),
        )
    }

    fn mark_with(&mut self, clients: HashMap<String, u64>) -> &mut Stream {
        self.line("127.0.0.1:2", &["ECHO", "oracle:on"]);
        let calls = self.calls.clone();
        self.judge.mark(&Snapshot { calls, clients });
        self
    }

    fn accused(&mut self) -> Vec<Rule> {
        self.line("127.0.0.1:2", &["PING"]);
        let violations = { &self.judge.report.violations }.iter();
        let mut rules: Vec<Rule> = violations.map(|violation| violation.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }
}

fn after(script: impl FnOnce(&mut Stream)) -> Vec<Rule> {
    let mut stream = Stream::new();
    script(&mut stream);
    stream.accused()
}

#[test]
fn what_is_right_is_not_accused() {
    let rules = after(|s| {
        s.alone(A, 1_000).call(&[A]).lua("DEL job");
        s.read(A, 1_000).read_too(B);
        s.call(&[B, "s"]).lua(&format!("ZREM job {B}"));
        s.call(&[A, "s"])
            .lua(&format!("ZREM job {A}"))
            .lua("DEL job");
        s.permits(A, 1, "1 1").permits(B, 2, "3 2");
        s.call(&[A, "w1"]).lua(&format!("ZREM job {A}1"));
        s.usage("2 1", &[]).mark();
    });
    assert_eq!(rules, []);
}

#[test]
fn a_hand_over_is_a_grant_and_its_waiter_has_left_the_queue() {
    let mut stream = Stream::new();
    stream.alone(A, 1_000).wait(B, "1").mark();
    let entry = format!("{0}{B}{0} 0 5000 1 ll:wake:client-b", stream.now - 30);
    stream.call(&[A]);
    stream.line("lua", &["HDEL", "{job}:ll:waiters", B]);
    stream.line("lua", &["ZREM", "{job}:ll:queue", &entry]);
    stream.mint().lua(&format!("SET job {B} PX 5000"));
    let message = format!("grant {} 1 {} 5000 0 {B}", stream.fence, stream.now);
    stream.line("lua", &["PUBLISH", "ll:wake:client-b", &message]);
    stream.mark();
    assert_eq!(stream.accused(), []);
    assert_eq!(stream.judge.report.count("granted alone, by a message"), 1);
}

#[test]
fn a_second_holder_is_accused_while_the_first_one_lasts() {
    assert_eq!(
        after(|s| {
            s.alone(A, 1_000).alone(B, 1_000).mark();
        }),
        [Rule::Alone]
    );
    let later = |s: &mut Stream| {
        s.alone(A, 1_000);
        s.now += 2_000_000;
        s.alone(B, 1_000);
    };
    assert_eq!(after(later), []);
}

#[test]
fn readers_beside_a_writer_or_permits_are_accused() {
    assert_eq!(
        after(|s| {
            s.read(A, 1_000).alone(B, 1_000).mark();
        }),
        [Rule::Alone]
    );
    assert_eq!(
        after(|s| {
            s.permits(A, 1, "1 1").read(B, 1_000).mark();
        }),
        [Rule::Alone]
    );
}

#[test]
fn a_second_upgradable_reader_is_accused() {
    assert_eq!(
        after(|s| {
            s.upgradable(A).call(&[B, "1000", "", "u"]);
            s.member(&format!("{B}u"), 1_000).mark();
        }),
        [Rule::OneUpgradable]
    );
}

#[test]
fn who_overtakes_a_waiter_is_accused_if_that_one_lives_on() {
    let overtakes = |s: &mut Stream| {
        s.read(A, 1_000).wait(B, "1").mark();
        s.read_too(C);
    };
    assert_eq!(
        after(|s| {
            overtakes(s);
            s.mark();
        }),
        [Rule::Order]
    );
    let ended = after(|s| {
        overtakes(s);
        s.mark_with(HashMap::new());
    });
    assert_eq!(ended, [], "its connection ended before");
}

#[test]
fn who_sets_a_waiter_aside_that_lives_on_and_overtakes_it_is_accused() {
    let overtakes = |s: &mut Stream| {
        s.alone(A, 1_000).wait(B, "1").mark();
        s.call(&[A]).lua("DEL job").set_aside(B);
        s.mint().lua(&format!("SET job {C} PX 1000"));
    };
    let lives_on = after(|s| {
        overtakes(s);
        s.mark();
    });
    assert_eq!(lives_on, [Rule::Order]);
    let later = after(|s| {
        overtakes(s);
        s.mark_with(HashMap::new());
        s.call(&[C]).lua("DEL job").alone(A, 1_000).mark();
    });
    assert_eq!(later, [], "it has not polled since");
}

#[test]
fn room_that_the_first_waiter_does_not_get_is_accused() {
    let rules = after(|s| {
        s.alone(A, 1_000).wait(B, "1").mark();
        s.call(&[A]).lua("DEL job").mark();
    });
    assert_eq!(rules, [Rule::Idle]);
    let told = after(|s| {
        s.alone(A, 1_000).wait(B, "w1").mark();
        s.call(&[A])
            .lua("DEL job")
            .lua(&format!("PUBLISH ll:wake:client-b {B}"))
            .mark();
    });
    assert_eq!(told, [], "who cannot be judged is told");
}

#[test]
fn permits_that_are_lost_and_written_anew_make_no_room() {
    let changed = |permits: &str| {
        after(|s| {
            s.call(&[C]).lua("HSET {job}:ll:usage permits 4");
            s.read(A, 1_000).wait(B, "1").mark();
            s.now += 2_000_000; // the read has ended by then, and the waiter polls soon
            s.call(&[C]).lua(&format!("ZREM job {A}")).mark();
            s.call(&[C])
                .lua("DEL {job}:ll:usage")
                .lua(&format!("HSET {{job}}:ll:usage permits {permits}"))
                .mark();
        })
    };
    assert_eq!(changed("4"), []);
    assert_eq!(changed("5"), [Rule::Idle]);
}

#[test]
fn an_upgrade_that_lets_go_of_its_read_is_accused() {
    let lost = after(|s| {
        s.upgradable(A);
        s.call(&[A, "x"])
            .lua(&format!("ZREM job {A}u"))
            .lua("ZREM job u");
    });
    assert_eq!(lost, [Rule::Upgrade]);
    let beside = after(|s| {
        s.upgradable(A).read_too(B);
        s.call(&[A, "1000", "", "x"])
            .mint()
            .lua(&format!("SET job {A} PX 1000"));
    });
    assert_eq!(beside, [Rule::Alone]);
    let shorter = after(|s| {
        s.upgradable(A);
        s.call(&[A, "1000", "", "x"])
            .mint()
            .lua(&format!("SET job {A} PX 500"));
    });
    assert_eq!(shorter, [Rule::Upgrade]);
}

#[test]
fn more_permits_than_there_are_are_accused_and_so_is_a_sum_that_is_wrong() {
    assert_eq!(
        after(|s| {
            s.permits(A, 2, "2 1").permits(B, 2, "4 2").mark();
        }),
        [Rule::Permits]
    );
    assert_eq!(
        after(|s| {
            s.permits(A, 2, "1 1").mark();
        }),
        [Rule::Usage]
    );
}

#[test]
fn a_message_of_more_than_was_granted_is_accused() {
    let untrue = |s: &mut Stream| {
        s.alone(A, 1_000);
        let message = format!("grant {} 1 {} 5000 0 {A}", s.fence, s.now);
        s.line("lua", &["PUBLISH", "ll:wake:client-a", &message]);
    };
    assert_eq!(after(untrue), [Rule::Message]);
    let message = format!("grant 7 1 {START} 5000 0 {B}");
    let nothing = |s: &mut Stream| {
        s.call(&[A])
            .line("lua", &["PUBLISH", "ll:wake:client-b", &message])
    };
    assert_eq!(after(nothing), [Rule::Message]);
}

#[test]
fn a_grant_after_a_failover_is_accused_while_an_older_lease_lasts() {
    let fails_over = |s: &mut Stream, pause: u64| {
        s.alone(A, 1_000);
        s.judge.adopt(Vec::new(), s.now);
        s.has_fence = false;
        s.now += pause;
        s.alone(B, 1_000);
    };
    assert_eq!(after(|s| fails_over(s, 100_000)), [Rule::Strict]);
    assert_eq!(after(|s| fails_over(s, 1_000_000)), []);
}

#[test]
fn a_grant_behind_a_closed_gate_is_accused() {
    let grants = |s: &mut Stream| {
        let keys = [
            "job",
            "{job}:ll:queue",
            "{job}:ll:waiters",
            "{job}:ll:fence",
            "ll:gate",
        ];
        s.line(
            "127.0.0.1:1",
            &[&["EVALSHA", "sha", "5"], &keys[..], &[A, "1000"]].concat(),
        );
        s.mint().lua(&format!("SET job {A} PX 1000"));
    };
    assert_eq!(after(grants), [Rule::Strict]);
    let opened = after(|s| {
        s.line("lua", &["SET", "ll:gate", "server 0 1000"]);
        grants(s);
    });
    assert_eq!(opened, []);
}

#[test]
fn commands_that_are_missing_from_the_stream_are_a_gap() {
    let mut stream = Stream::new();
    stream.mark().alone(A, 1_000);
    stream.calls.insert("set".to_owned(), 3); // and two were read
    stream.mark();
    assert_eq!(stream.accused(), [Rule::Gap]);
}
