//! One of the two stores, and what lies there in words that both must have.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use crate::base::clock::Clock;
use crate::script::{Call, Script, Value};
use crate::script_tests::lab::WITHIN;
use crate::store::{EmbeddedStore, Event, Store};

/// No client listens on the last one.
pub(super) const CHANNELS: [&str; 3] = ["here", "there:s", "away"];

pub(super) const LOCK: &str = "{j}";
pub(super) const QUEUE: &str = "{j}queue";
pub(super) const WAITERS: &str = "{j}waiters";
pub(super) const FENCE: &str = "{j}fence";
pub(super) const USAGE: &str = "{j}usage";
pub(super) const RECORD: &str = "{j}record";
pub(super) const LEADER: &str = "{j}leader";
pub(super) const CALLERS: &str = "{j}callers";
pub(super) const KEYS: [&str; 8] = [LOCK, QUEUE, WAITERS, FENCE, USAGE, RECORD, LEADER, CALLERS];

/// What lies at the key, and for how long.
static DUMP: Script = Script::new(
    "dump",
    "local key = KEYS[1]
     local kind = redis.call('TYPE', key)
     kind = type(kind) == 'table' and kind.ok or kind
     local pttl, all = redis.call('PTTL', key), {}
     if kind == 'string' then all = { redis.call('GET', key) } end
     if kind == 'hash' then all = redis.call('HGETALL', key) end
     if kind == 'zset' then all = redis.call('ZRANGE', key, '0', '-1', 'WITHSCORES') end
     if kind == 'stream' then
       local info = redis.call('XINFO', 'STREAM', key)
       for i = 1, #info, 2 do
         if info[i] == 'last-generated-id' then all = { info[i + 1] } end
       end
     end
     local time = redis.call('TIME')
     return { 'ok', kind, pttl, time[1] .. string.sub('000000' .. time[2], -6), unpack(all) }",
);

/// A store, and what those heard who listen.
pub(super) struct Side {
    store: EmbeddedStore,
    pub(super) heard: Arc<Mutex<Vec<String>>>,
}

impl Side {
    pub(super) async fn new(clock: &Clock) -> Side {
        let side = Side {
            store: EmbeddedStore::memory("", clock.clone()),
            heard: Arc::default(),
        };
        for channel in &CHANNELS[..2] {
            let (store, heard) = (side.store.clone(), Arc::clone(&side.heard));
            let sink = move |event| {
                if let Event::Message(message) = event {
                    let message = String::from_utf8(message).unwrap();
                    heard.lock().unwrap().push(message);
                }
            };
            tokio::spawn(async move { store.listen(channel, Box::new(sink)).await });
        }
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        side
    }

    pub(super) async fn run(
        &self,
        script: &'static Script,
        keys: &[&str],
        args: &[String],
    ) -> Vec<String> {
        let mut call = Call::of(script);
        call.keys(keys.iter().copied());
        call.args(args.iter().map(String::as_str));
        match self.store.run(&call, WITHIN).await {
            Ok(answer) => {
                let mut words = vec![answer.tag().to_owned()];
                words.extend(answer.values().iter().map(word));
                words
            }
            Err(error) => vec![format!("{error:?}")],
        }
    }

    pub(super) async fn dump(&self, key: &str) -> Vec<String> {
        self.run(&DUMP, &[key], &[]).await
    }

    /// What lies at each key, in words that both sides must have.
    pub(super) async fn state(&self) -> Vec<Vec<String>> {
        let (mut state, lock) = (Vec::new(), self.dump(LOCK).await);
        let over = expired(&lock);
        for key in KEYS {
            let dump = self.dump(key).await;
            let (kind, left_ms) = (&dump[1], dump[2].parse::<i64>().unwrap());
            let pairs: Vec<(&str, &str)> = match kind.as_str() {
                "zset" | "hash" => dump[4..]
                    .chunks(2)
                    .map(|two| (&*two[0], &*two[1]))
                    .collect(),
                _ => dump[4..].iter().map(|one| (&**one, "")).collect(),
            };
            let mut words: Vec<String> = match key {
                LOCK if kind == "zset" => {
                    let live = pairs.iter().filter(|(member, _)| !over.contains(*member));
                    let marks_no_hold = !live.clone().any(|(member, _)| member.len() >= 31);
                    let live = live.filter(|_| !marks_no_hold);
                    live.map(|(member, ends)| format!("{member} {ends}"))
                        .collect()
                }
                USAGE => usage(&pairs, &lock, &over),
                RECORD => pairs.iter().filter_map(|pair| recorded(*pair)).collect(),
                _ => pairs.iter().map(|(a, b)| format!("{a} {b}")).collect(),
            };
            words.sort();
            if words.is_empty() {
                state.push(words); // or nothing but holds that have expired
                continue;
            }
            // The general lines renew these with each call. The head renews the queue every 10 s, the usage with each grant.
            let is_renewed_less = [QUEUE, WAITERS, USAGE].contains(&key);
            words.push(if is_renewed_less {
                (left_ms > 0).to_string()
            } else {
                left_ms.to_string()
            });
            state.push(words);
        }
        state
    }
}

fn word(value: &Value) -> String {
    match value {
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Int(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}

/// The holds of a set that have expired, which a head leaves for a later call.
fn expired(lock: &[String]) -> BTreeSet<String> {
    if lock[1] != "zset" {
        return BTreeSet::new();
    }
    let now_us: f64 = lock[3].parse().unwrap();
    let over = |pair: &&[String]| (0.0..now_us).contains(&pair[1].parse().unwrap());
    let over = lock[4..].chunks(2).filter(over);
    over.map(|pair| pair[0].clone()).collect()
}

/// Of the holds that lie at the lock and have not expired. A sum of another number of holds is counted anew by who reads it,
/// and so one of no holds says what none says.
fn usage(pairs: &[(&str, &str)], lock: &[String], over: &BTreeSet<String>) -> Vec<String> {
    let weights = |among: &mut dyn Iterator<Item = &String>| -> [i64; 2] {
        let weights = among.filter_map(|hold| hold.get(31..)?.parse::<i64>().ok());
        weights.fold([0, 0], |[sum, count], weight| [sum + weight, count + 1])
    };
    let members = lock.get(4..).unwrap_or_default().iter().step_by(2);
    let held = weights(&mut members.clone());
    let gone = weights(&mut over.iter());
    let is_live = |hold: &str| members.clone().any(|held| held == hold) && !over.contains(hold);
    let pairs = pairs
        .iter()
        .filter(|(field, _)| field.len() < 31 || is_live(field));
    let words = pairs.map(|(field, value)| match value.split_once(' ') {
        Some((used, count)) if *field == "sum" => {
            let said = [used, count].map(|number| number.parse().unwrap());
            let [used, count] = if said[1] == held[1] { said } else { held };
            format!("sum {} {}", used - gone[0], count - gone[1])
        }
        _ => format!("{field} {value}"),
    });
    words.filter(|word| word != "sum 0 0").collect()
}

/// A first run has no earlier state, or an empty one. A result has no time, and that of a run may be its number's.
fn recorded((field, value): (&str, &str)) -> Option<String> {
    let mut parts: Vec<&str> = value.split(' ').collect();
    if let ["done" | "run", _, _, _, time_us, ..] = &mut parts[..] {
        *time_us = "";
    }
    let value = parts.join(" ");
    (!(field == "before" && value.is_empty())).then(|| format!("{field} {value}"))
}
