//! What stands in `--#plain` gives the replies and has the effects of the lines below it.
//!
//! Two stores with the same clock run the same random calls in step: one runs each script as it is, the other without its
//! plain cases. After each call the replies, the keys and the messages are compared.

mod side;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use self::side::{
    CALLERS, CHANNELS, FENCE, KEYS, LEADER, LOCK, QUEUE, RECORD, Side, USAGE, WAITERS,
};
use crate::base::clock::Clock;
use crate::script::Script;
use crate::script::call::{lua, without_plain_cases};

const CASES: u32 = 400;
const TOKENS: usize = 5;
/// Time moves by this after each call. No ttl is a multiple of it, so nothing has just ended: a head leaves holds that have
/// expired where they are, and their key for a millisecond.
const STEP: Duration = Duration::from_millis(17);
const TTLS: [&str; 2] = ["1000", "20000"];
/// A script with its plain cases and without them, and its keys.
struct Both {
    name: &'static str,
    whole: Script,
    general: Script,
    keys: &'static [&'static str],
}

const QUEUED: &[&str] = &[LOCK, QUEUE, WAITERS, FENCE];
const PERMITS: &[&str] = &[LOCK, QUEUE, WAITERS, FENCE, USAGE];
const RUN: &[&str] = &[LOCK, QUEUE, WAITERS, FENCE, RECORD];

macro_rules! scripts {
    ($($name:literal $keys:expr,)+) => {
        /// Each lives as long as the test program, as a store compiles a script once.
        fn scripts() -> &'static [Both] {
            static ALL: std::sync::OnceLock<Vec<Both>> = std::sync::OnceLock::new();
            ALL.get_or_init(|| vec![$({
                let general: &'static str = without_plain_cases(lua!($name)).leak();
                Both {
                    name: $name,
                    whole: Script::new($name, lua!($name)),
                    general: Script::new($name, general),
                    keys: $keys,
                }
            },)+])
        }
    };
}
scripts! {
    "mutex/acquire" QUEUED,
    "mutex/release" QUEUED,
    "mutex/cancel" QUEUED,
    "rwlock/acquire" QUEUED,
    "rwlock/release" QUEUED,
    "rwlock/cancel" QUEUED,
    "rwlock/upgrade" QUEUED,
    "semaphore/acquire" PERMITS,
    "semaphore/release" PERMITS,
    "semaphore/cancel" PERMITS,
    "once/acquire" RUN,
    "once/finish" RUN,
    "once/cancel" RUN,
    "run/release" RUN,
    "election/proclaim" &[LOCK, LEADER],
    "election/cancel" &[LOCK, QUEUE, WAITERS, FENCE, LEADER],
    "election/resign" &[LOCK, QUEUE, WAITERS, FENCE, LEADER],
    "quorum/vote" &[LOCK, FENCE, CALLERS],
    "quorum/withdraw" &[LOCK, CALLERS],
}

/// A change that no script of ours makes.
static MEDDLE: Script = Script::new(
    "meddle",
    "local key, what, word = KEYS[1], ARGV[1], ARGV[2]
     if what == 'delete' then redis.call('DEL', key) end
     if what == 'hash' then redis.call('DEL', key) redis.call('HSET', key, 'a', 'b') end
     if what == 'string' then redis.call('SET', key, word, 'PX', 60000) end
     if what == 'others' then redis.call('DEL', key) end
     if what == 'member' or what == 'others' then redis.call('ZADD', key, '0', word) end
     if what == 'pin' then redis.call('HSET', key, 'pinned', '1', 'permits', word) end
     if what == 'id' then
       redis.call('DEL', key)
       redis.call('XADD', key, 'MAXLEN', '0', word, '-', '-')
     end
     -- The key of holds lives as long as the longest.
     if what ~= 'member' then redis.call('PEXPIRE', key, 614800000) end
     return { 'ok' }",
);

/// Ids of a fence: of this moment and nearly used up, ahead of the clock, at the end of what grants write, and beyond it.
const IDS: [&str; 6] = [
    "1700001000000-997",
    "1700001000400-998",
    "8000000000000-7",
    "8999999999999-999",
    "9000000000000-0",
    "10000000000000-0",
];

#[derive(Debug, Clone)]
enum Op {
    Call {
        script: usize,
        token: usize,
        /// Picks the other arguments.
        choice: u32,
    },
    Meddle {
        key: &'static str,
        what: &'static str,
        choice: usize,
    },
    /// So many seconds pass.
    Pass(u64),
}

/// Permits are alone with each other: whatever else takes their expired holds off leaves the usage to them, and what a head
/// did not count yet may then be counted anew.
fn ops() -> impl Strategy<Value = Vec<Op>> {
    any::<bool>().prop_flat_map(|permits| {
        let is_one = |at: &usize| scripts()[*at].name.starts_with("semaphore/");
        let these = (0..scripts().len()).filter(|at| is_one(at) == permits);
        ops_of(these.collect())
    })
}

fn ops_of(scripts: Vec<usize>) -> impl Strategy<Value = Vec<Op>> {
    let call = (prop::sample::select(scripts), 0..TOKENS, any::<u32>());
    let call = call.prop_map(|(script, token, choice)| Op::Call {
        script,
        token,
        choice,
    });
    let whats = ["delete", "hash", "string", "member", "others", "pin", "id"];
    let what = prop::sample::select(whats.to_vec());
    let meddle = (0..KEYS.len(), what, any::<usize>());
    let meddle = meddle.prop_map(|(key, what, choice)| {
        let (key, what) = match (what, KEYS[key]) {
            ("pin", _) => (USAGE, what),
            ("id", _) => (FENCE, what),
            // Every script leaves as many entries in the one as in the other, and the plain wait counts those it reads anyway.
            (_, QUEUE | WAITERS) => (QUEUE, "string"),
            // A field of others beside those of holds counts as one that was left behind. The usage is made anew by the side
            // that counts its fields next: after an expired hold a head counts, and the general lines do not.
            ("hash", USAGE) => (USAGE, "delete"),
            (_, key) => (key, what),
        };
        Op::Meddle { key, what, choice }
    });
    let pass = prop::sample::select(vec![0, 1, 4, 70]).prop_map(Op::Pass);
    prop::collection::vec(prop_oneof![20 => call, 2 => meddle, 1 => pass], 1..40)
}

/// Some tokens ask for no fencing token.
fn token(number: usize) -> String {
    let mark = if number == 3 { '~' } else { '.' };
    format!("{number:022}{mark}CLIENT0{number}")
}

fn words(script: &Both, number: usize, choice: u32, now_us: u64) -> Vec<String> {
    let pick = |at: u32, count: u32| usize::try_from((choice >> at) % count).unwrap();
    // Of one token all requests have the same ttl, as those of one client have.
    let ttl = TTLS[number % TTLS.len()];
    let read = ["s", "s", "u"][number % 3];
    let weight = ["w1", "w2", "w4"][number % 3];
    let channel = CHANNELS[number % CHANNELS.len()];
    let wait = |kind: &str| match pick(0, 2) {
        0 => String::new(),
        _ => format!("{} {ttl} {kind} {channel}", [0, 0, 0, 3, -2][pick(1, 5)]),
    };
    let (mode, mut token) = (format!("{weight} 5"), token(number));
    if script.name.starts_with("once") || script.name.starts_with("run") {
        token = token.replace('~', "."); // a run has a fencing token in any case
    }
    let caller = ["".to_owned(), format!("{token} {channel}")][pick(0, 2)].clone();
    let [hour_us, ahead_us] = [3_600_000_000, [0, 20, 400_000][pick(8, 3)]];
    let proposed = [0, now_us + ahead_us, now_us - 1_000_000, now_us - hour_us][pick(10, 4)];
    match script.name {
        "mutex/acquire" => all([&token, ttl, &wait(["1", "1", "7"][pick(4, 3)])]),
        "rwlock/acquire" => all([&token, ttl, &wait(read), read]),
        "rwlock/upgrade" => all([&token, ttl, &wait("x"), "x"]),
        "semaphore/acquire" => all([&token, ttl, &wait(weight), &mode]),
        "rwlock/release" | "rwlock/cancel" => all([&token, read]),
        "semaphore/release" | "semaphore/cancel" => all([&token, &mode]),
        "once/acquire" => {
            let (attempts, on_crash) = (["0", "2"][pick(2, 2)], ["again", "refuse"][pick(3, 2)]);
            let (after, call, request, channel) = ("0", &*token, "1", CHANNELS[0]);
            let terms = ["30000", "same", attempts, on_crash];
            [
                all([&token, ttl]),
                all(terms),
                all([after, call, request, channel]),
            ]
            .concat()
        }
        "once/finish" => {
            let kind = ["done", "done", "fail", "kept"][pick(6, 4)];
            let run = all([&token, kind, "text", "7", "1"]);
            [run, all(["same", "30000", "300", CHANNELS[0]])].concat()
        }
        "election/proclaim" => all([&token, "value", "7", "60000", CHANNELS[1]]),
        "quorum/vote" => all([&token, ttl, &proposed.to_string(), "15000000", &caller]),
        "quorum/withdraw" => all([&token, ["0", "1"][pick(1, 2)], &caller]),
        _ => all([&token]),
    }
}

fn all<const COUNT: usize>(words: [&str; COUNT]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// The short replies of `mutex/acquire` written out, and that of `once/acquire` without the time.
fn in_full(mut reply: Vec<String>, general: &[String]) -> Vec<String> {
    if reply.len() == 6 && reply[3] == "0" {
        reply[3] = general.get(3).cloned().unwrap_or_default();
    }
    let fence = match reply[0].as_str() {
        "fenced" => {
            let (ms, count) = reply[1].split_once('-').unwrap();
            format!("{ms}{count:0>3}")
        }
        "unfenced" => "0".to_owned(),
        _ => return reply,
    };
    let time_us = general.get(3).cloned().unwrap_or_default();
    let full = [
        "granted".to_owned(),
        fence,
        "1".to_owned(),
        time_us,
        "0".to_owned(),
    ];
    full.to_vec()
}

/// Equal, but for a time some milliseconds later: the head of `once/acquire` has no other than that of its number. And but
/// for how many ids were refused as numbers within one millisecond: a plain hand-over is refused before the lines below it are.
fn are_same(one: &[String], other: &[String]) -> bool {
    let parts = |texts: &[String]| -> Vec<String> {
        let parts = texts.iter().flat_map(|text| text.split(' '));
        parts.map(str::to_owned).collect()
    };
    let near = |(a, b): (&String, &String)| match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) if a > 1_000_000_000_000_000 => a.abs_diff(b) < 4_000,
        _ => refused_id_ms(a).is_some_and(|ms| refused_id_ms(b) == Some(ms)) || a == b,
    };
    let (one, other) = (parts(one), parts(other));
    one.len() == other.len() && one.iter().zip(&other).all(near)
}

/// The milliseconds of an id that is no fencing token: it is beyond all, or its count has more than three digits.
fn refused_id_ms(text: &str) -> Option<u64> {
    let (ms, count) = text.split_once('-')?;
    let (ms, count): (u64, u64) = (ms.parse().ok()?, count.parse().ok()?);
    (ms >= 9_000_000_000_000 || count > 999).then_some(ms)
}

async fn in_step(ops: &[Op]) {
    let clock = Clock::manual();
    let (whole, general) = (Side::new(&clock).await, Side::new(&clock).await);
    for (at, op) in ops.iter().enumerate() {
        let what = || format!("{:?}", &ops[..=at]);
        match op {
            Op::Pass(seconds) => clock.advance(Duration::from_secs(*seconds)),
            Op::Meddle { key, what, choice } => {
                let word = match *what {
                    "id" => IDS[choice % IDS.len()].to_owned(),
                    "pin" => ["1", "3", "50"][choice % 3].to_owned(),
                    // Beside members of ours there are none of others: a head reads the longest holds, and not all.
                    "member" if *key == LOCK => token(TOKENS),
                    _ => [token(TOKENS), "x".into(), format!("{} away", token(0))][choice % 3]
                        .clone(),
                };
                let words = [(*what).to_owned(), word];
                let one = whole.run(&MEDDLE, &[key], &words).await;
                assert_eq!(one, general.run(&MEDDLE, &[key], &words).await);
            }
            Op::Call {
                script,
                token,
                choice,
            } => {
                let both = &scripts()[*script];
                let now_us: u64 = whole.dump(LOCK).await[3].parse().unwrap();
                let words = words(both, *token, *choice, now_us);
                let reply = whole.run(&both.whole, both.keys, &words).await;
                let expected = general.run(&both.general, both.keys, &words).await;
                let reply = in_full(reply, &expected);
                let same = are_same(&reply, &expected);
                assert!(
                    same,
                    "{} {words:?}: {reply:?} {expected:?}\n{}",
                    both.name,
                    what()
                );
                let (state, expected) = (whole.state().await, general.state().await);
                for (key, (one, other)) in KEYS.iter().zip(state.iter().zip(&expected)) {
                    assert!(
                        are_same(one, other),
                        "{} {key}: {one:?} {other:?}\n{}",
                        both.name,
                        what()
                    );
                }
            }
        }
        tokio::task::yield_now().await;
        clock.advance(STEP);
        let (one, other) = (whole.heard.lock().unwrap(), general.heard.lock().unwrap());
        assert_eq!(*one, *other, "{}", what());
    }
}

#[test]
fn a_script_with_its_plain_cases_and_one_without_reply_alike_and_leave_the_same() {
    let mut runner = TestRunner::new(Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    });
    let outcome = runner.run(&ops(), |ops| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(in_step(&ops));
        Ok(())
    });
    outcome.unwrap();
}

/// The test above covers all scripts that have such lines, and runs others as they are.
#[test]
fn every_script_with_plain_cases_is_compared() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua");
    let mut found = BTreeSet::new();
    for noun in std::fs::read_dir(&folder).unwrap() {
        let noun = noun.unwrap().path();
        for file in noun
            .is_dir()
            .then(|| std::fs::read_dir(&noun).unwrap())
            .into_iter()
            .flatten()
        {
            let path = file.unwrap().path();
            if std::fs::read_to_string(&path)
                .unwrap()
                .contains("\n--#plain\n")
            {
                let name = path.strip_prefix(&folder).unwrap().with_extension("");
                found.insert(name.to_str().unwrap().to_owned());
            }
        }
    }
    let has_plain = |both: &&Both| both.whole.source() != both.general.source();
    let compared = scripts().iter().filter(has_plain);
    let compared: BTreeSet<String> = compared.map(|both| both.name.to_owned()).collect();
    assert_eq!(compared, found);
}
