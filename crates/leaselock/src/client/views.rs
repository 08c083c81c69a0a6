//! The scripts of inspection and of operators.

use crate::base::fence::Fence;
#[cfg(feature = "redis")]
use crate::script::Scripts;
use crate::script::damage;
use crate::script::keys::LockKeys;
use crate::script::{Answer, Call, Malformed, Operation, Script, Value, script};

/// Every script of this file.
#[cfg(feature = "redis")]
pub(crate) static SCRIPTS: Scripts = &[&INSPECT, &BREAK, &BREAK_STRICT, &SURVEY];

/// Inspects one mutex. Runs `lua/mutex/inspect.lua`.
#[derive(Debug)]
pub(crate) struct Inspect<'a> {
    pub(crate) keys: &'a LockKeys,
}

pub(crate) struct Inspected {
    pub(crate) state: InspectedState,
    /// Client and priority of each waiter, in order.
    pub(crate) queue: Vec<(String, i32)>,
    /// Damage of its side keys, with the remedy.
    pub(crate) damaged: Vec<String>,
}

pub(crate) enum InspectedState {
    Free,
    /// `value` is a secret: the holder's token.
    Held {
        value: Vec<u8>,
        pttl_ms: Option<u64>,
        fence: Option<Fence>,
        why: Vec<u8>,
    },
    Other {
        kind: String,
    },
}

pub(crate) static INSPECT: Script = script!("mutex/inspect", reads_only);

impl Operation for Inspect<'_> {
    type Reply = Inspected;

    fn script(&self) -> &'static Script {
        &INSPECT
    }

    fn encode(&self, call: &mut Call) {
        call.key(&self.keys.lock).key(self.keys.queue());
        call.key(self.keys.fence()).key(self.keys.note());
    }

    fn decode(answer: &Answer) -> Result<Inspected, Malformed> {
        let state = match answer.tag() {
            "free" => InspectedState::Free,
            "held" => InspectedState::Held {
                value: answer.bytes(2)?.to_vec(),
                pttl_ms: u64::try_from(answer.signed(3)?).ok(),
                fence: Fence::from_answer(answer.number(4)?),
                why: answer.bytes(5)?.to_vec(),
            },
            "other" => InspectedState::Other {
                kind: answer.text(2)?.to_owned(),
            },
            _ => return Err(Malformed),
        };
        Ok(Inspected {
            state,
            queue: queue(answer.array(1)?)?,
            damaged: damaged(answer.array(answer.values().len().saturating_sub(1))?)?,
        })
    }

    fn time_us(answer: &Answer) -> Option<u64> {
        answer.number(0).ok()
    }
}

fn text(value: &Value) -> Result<String, Malformed> {
    match value {
        Value::Bytes(bytes) => String::from_utf8(bytes.clone()).map_err(|_| Malformed),
        Value::Nil | Value::Int(_) | Value::Array(_) => Err(Malformed),
    }
}

fn queue(items: &[Value]) -> Result<Vec<(String, i32)>, Malformed> {
    let pairs = items.chunks_exact(2);
    pairs
        .map(|pair| Ok((text(&pair[0])?, priority(&text(&pair[1])?))))
        .collect()
}

/// Parses a priority; one that no client of ours can have becomes the nearest possible.
fn priority(digits: &str) -> i32 {
    let beyond = match digits.starts_with('-') {
        true => i32::MIN,
        false => i32::MAX,
    };
    digits.parse().unwrap_or(beyond)
}

fn damaged(items: &[Value]) -> Result<Vec<String>, Malformed> {
    let pairs = items.chunks_exact(2);
    pairs
        .map(|pair| damage::sentence(&text(&pair[0])?, &text(&pair[1])?).ok_or(Malformed))
        .collect()
}

/// Breaks the mutex. Runs `lua/mutex/break.lua`.
#[derive(Debug)]
pub(crate) struct Break<'a> {
    pub(crate) keys: &'a LockKeys,
    pub(crate) only: Option<Fence>,
    pub(crate) foreign: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Broke {
    Broken {
        holder: Option<String>,
        fence: Option<Fence>,
    },
    Free,
    Foreign,
    Changed {
        fence: Option<Fence>,
    },
}

static BREAK: Script = script!("mutex/break");
static BREAK_STRICT: Script = script!("mutex/break", strict);

impl Operation for Break<'_> {
    type Reply = Broke;

    fn encode(&self, call: &mut Call) {
        call.key(&self.keys.lock)
            .key(self.keys.queue())
            .key(self.keys.waiters())
            .key(self.keys.fence());
        if let Some(gate) = &self.keys.gate {
            call.key(&*gate.key_for(&self.keys.lock));
        }
        call.arg(
            self.only
                .map_or_else(String::new, |fence| fence.to_string()),
        );
        call.arg(u64::from(self.foreign));
    }

    fn script(&self) -> &'static Script {
        match self.keys.gate {
            None => &BREAK,
            Some(_) => &BREAK_STRICT,
        }
    }

    fn decode(answer: &Answer) -> Result<Broke, Malformed> {
        match answer.tag() {
            "broken" => {
                let holder = answer.text(0)?;
                Ok(Broke::Broken {
                    holder: (!holder.is_empty()).then(|| holder.to_owned()),
                    fence: Fence::from_answer(answer.number(1)?),
                })
            }
            "free" => Ok(Broke::Free),
            "foreign" => Ok(Broke::Foreign),
            "changed" => Ok(Broke::Changed {
                fence: Fence::from_answer(answer.number(0)?),
            }),
            _ => Err(Malformed),
        }
    }

    fn time_us(answer: &Answer) -> Option<u64> {
        let last = answer.values().len().checked_sub(1)?;
        answer.number(last).ok()
    }
}

/// Finds the keys that hold locks. Runs `lua/mutex/survey.lua`.
#[derive(Debug)]
pub(crate) struct Survey<'a> {
    pub(crate) candidates: &'a [String],
}

static SURVEY: Script = script!("mutex/survey", reads_only);

impl Operation for Survey<'_> {
    /// Indexes into `candidates`, from 0.
    type Reply = Vec<usize>;

    fn script(&self) -> &'static Script {
        &SURVEY
    }

    fn encode(&self, call: &mut Call) {
        for key in self.candidates {
            call.key(key);
        }
    }

    fn decode(answer: &Answer) -> Result<Vec<usize>, Malformed> {
        match answer.tag() {
            "locks" => (0..answer.values().len())
                .map(|at| {
                    usize::try_from(answer.number(at)?)
                        .ok()
                        .and_then(|i| i.checked_sub(1))
                        .ok_or(Malformed)
                })
                .collect(),
            _ => Err(Malformed),
        }
    }
}
