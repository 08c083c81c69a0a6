//! Comparison of scripts with their shortcuts: both run side by side on the same states.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::mutex::MUTEX;
use crate::script::{Answer, Call, Script};
use crate::store::embedded::engine;
use crate::store::embedded::entry::{Content, Entry};
use crate::store::embedded::holds::Life;
use crate::store::embedded::image::Image;
use crate::store::embedded::step::{Step, Surroundings};

const CASES: u32 = 1_000;
const KEYS: [&str; 6] = [
    "job",
    "{job}:ll:queue",
    "{job}:ll:waiters",
    "{job}:ll:fence",
    "{job}:ll:why",
    "{job}:ll:usage",
];

/// Surroundings in which the last letter says whether a listener or a session exists.
struct Around;

impl Surroundings for Around {
    fn present(&self, channel: &[u8]) -> bool {
        channel.ends_with(b"here")
    }

    fn has_session(&self, client: &str) -> bool {
        client.ends_with(['0', '2'])
    }
}

#[derive(Debug, Clone)]
enum Op {
    Acquire {
        actor: usize,
        waits: bool,
    },
    Release(usize),
    Inspect,
    Wait(u64),
    /// Another program writes what leaselock would not.
    Write {
        key: usize,
        content: Content,
        ends: bool,
    },
}

fn token(actor: usize) -> String {
    let separator = if fenced(actor) { '.' } else { '~' };
    format!("{:022}{separator}client0{actor}", actor)
}

fn member(actor: usize, wait: &str) -> String {
    format!("1795224695691000{}1795224695691001 {wait}", token(actor))
}

fn fenced(actor: usize) -> bool {
    actor != 3
}

fn content() -> impl Strategy<Value = Content> {
    let odd = prop_oneof![
        Just(String::new()),
        Just("f47ac10b-58cc-4372-a567-0e02b2c3d479".to_owned()),
        Just("a.b.ccccccccccccccccccccccccccc".to_owned()),
        Just("a.bbbbccccccccccccccccccccccccc".to_owned()),
        Just("12:34".to_owned()),
        Just("34:12".to_owned()),
        Just("1895224695691371:1895224695691380".to_owned()),
        Just("9999999999999999:9999999999999999".to_owned()),
        Just(member(1, "0 5000 1 here")),
        Just(member(2, "0 5000 64 here")),
        Just(member(4, "+1 5000 1 here")),
        Just(member(3, "-3 5000 1 over there and here")),
        Just(member(1, "0 5000 1 ")),
        Just(member(1, "0 here")),
        Just("0000000000000042".to_owned() + &token(1)),
        (0..6usize).prop_map(token),
    ];
    let pair = (odd.clone(), odd.clone());
    let bytes = |text: String| text.into_bytes();
    prop_oneof![
        3 => odd.clone().prop_map(move |text| Content::Text(bytes(text))),
        1 => prop::collection::btree_map(odd.clone(), odd.clone(), 1..3).prop_map(|all| Content::Hash(all.into_iter().collect())),
        1 => (1_795_224_695_691..1_795_224_695_694_u64, 0..3_u64).prop_map(|(ms, seq)| Content::Stream([ms, seq].map(u64::to_le_bytes))),
        1 => pair.prop_map(move |(name, _)| Content::Sorted([(0.0, name)].into_iter().collect())),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let actor = 0..6usize;
    let op = prop_oneof![
        12 => (actor.clone(), any::<bool>()).prop_map(|(actor, waits)| Op::Acquire { actor, waits }),
        12 => actor.prop_map(Op::Release),
        6 => Just(Op::Inspect),
        4 => prop_oneof![Just(1), Just(999), Just(1_000), Just(9_999_000), Just(61_000_000)].prop_map(Op::Wait),
        1 => (0..KEYS.len(), content(), any::<bool>()).prop_map(|(key, content, ends)| Op::Write { key, content, ends }),
    ];
    prop::collection::vec(op, 1..60)
}

fn call(script: &'static Script, keys: usize, args: &[&dyn ToString]) -> Call {
    let mut call = Call::of(script);
    for key in &KEYS[..keys] {
        call.key(key);
    }
    for arg in args {
        call.arg(arg.to_string());
    }
    call
}

fn request(op: &Op) -> Option<Call> {
    match op {
        Op::Acquire { actor, waits } => {
            let channel = ["here", "also here", "away", "", "here", "here"][*actor];
            let priority = [0, 0, 3, 0, -2, 0][*actor];
            let range = [1, 4, 64, 2, 1, 8][*actor];
            let wait = match waits {
                true => format!("{priority} 5000 {range} {channel}"),
                false => String::new(),
            };
            Some(call(
                MUTEX.acquire.script(false),
                4,
                &[&token(*actor), &10_000, &wait],
            ))
        }
        Op::Release(actor) => {
            let script = MUTEX.release.script(false);
            Some(call(script, 4, &[&token(*actor)]))
        }
        Op::Inspect => Some(super::inspect("job")),
        Op::Wait(_) | Op::Write { .. } => None,
    }
}

fn answer(call: &Call, step: &mut Step) -> Option<Answer> {
    call.script.shortcut.unwrap()(&call.parameters, step)
}

fn step(image: &Image, now_us: u64) -> Step {
    Step {
        image: image.clone(),
        now_us,
        keys: Vec::new(),
        reads_only: false,
        surroundings: Arc::new(Around),
        outbox: Vec::new(),
    }
}

fn write(image: &mut Image, now_us: u64, key: usize, content: Content, ends: bool) {
    image.remove(KEYS[key]);
    image.entries.push(Entry {
        key: KEYS[key].to_owned(),
        ends_us: ends.then_some(now_us + 3_000_000),
        bound: false,
        sessionless: BTreeSet::new(),
        life: Life::Ttl,
        content,
    });
}

/// How many calls there were, and how many ran without Lua.
#[derive(Default)]
struct Count {
    calls: Cell<u32>,
    fast: Cell<u32>,
}

fn run(ops: Vec<Op>, count: &Count) {
    let (mut image, mut now_us) = (Image::default(), 1_795_224_695_691_371);
    for op in ops {
        let Some(call) = request(&op) else {
            match op {
                Op::Wait(us) => now_us += us,
                Op::Write { key, content, ends } => write(&mut image, now_us, key, content, ends),
                _ => {}
            }
            continue;
        };
        image.settle(now_us);
        image.changed = false;
        now_us += 1;
        count.calls.set(count.calls.get() + 1);
        let mut fast = step(&image, now_us);
        let answer = answer(&call, &mut fast);
        if answer.is_none() {
            assert_eq!(
                fast.image, image,
                "what is left to the Lua is left as it was: {op:?}"
            );
            assert!(fast.outbox.is_empty());
        }
        let Ok((by_lua, lua)) = engine::interpret(&call, step(&image, now_us)) else {
            assert_eq!(answer, None, "{op:?} on {image:?}");
            continue;
        };
        if let Some(answer) = answer {
            count.fast.set(count.fast.get() + 1);
            assert_eq!(answer, by_lua, "{op:?} on {image:?}");
            assert_eq!(fast.image, lua.image, "{op:?} on {image:?}");
            assert_eq!(fast.outbox, lua.outbox, "{op:?} on {image:?}");
        }
        image = lua.image;
    }
}

#[test]
fn what_is_done_without_lua_is_what_lua_does() {
    let count = Count::default();
    let mut runner = TestRunner::new(Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    });
    runner
        .run(&ops(), |ops| {
            run(ops, &count);
            Ok(())
        })
        .unwrap();
    let (calls, fast) = (count.calls.get(), count.fast.get());
    assert!(fast > calls / 4, "{fast} of {calls} calls did without Lua");
}

/// Every frequent call runs without Lua: otherwise the test above would show nothing for it.
#[test]
fn the_usual_calls_do_without_lua() {
    let (mut image, now_us) = (Image::default(), 1_795_224_695_691_371);
    let acquire = |actor| Op::Acquire { actor, waits: true };
    let release = Op::Release;
    let usual = [
        (acquire(0), "fenced"),
        (Op::Inspect, "held"),
        (release(1), "taken"),
        (release(0), "released"),
        (release(0), "expired"),
        (acquire(3), "unfenced"),
        (Op::Inspect, "held"),
    ];
    for (number, (op, tag)) in usual.into_iter().enumerate() {
        let mut step = step(&image, now_us + 1_000 * number as u64);
        let answer = answer(&request(&op).unwrap(), &mut step);
        assert_eq!(
            answer.as_ref().map(Answer::tag),
            Some(tag),
            "{number} {op:?}"
        );
        image = step.image;
    }
}
