//! The scripts of inspection and of operators.

use std::time::Duration;

use leaselock_fence::Fence;

use super::inspection::{BreakOptions, PermitCount};
use crate::base::{fence, token};
use crate::engine::values::lock_mode::LockMode;
use crate::script::keys::LockKeys;
use crate::script::{Answer, Call, Malformed, Operation, Script, Scripts, Value, damage, script};

/// Every script of this file.
pub(crate) static SCRIPTS: Scripts = &[&INSPECT, &BREAK, &BREAK_STRICT, &SURVEY, &damage::TYPES];

/// Inspects one mutex. Runs `lua/mutex/inspect.lua`.
#[derive(Debug)]
pub(crate) struct Inspect<'a> {
    pub(crate) keys: &'a LockKeys,
}

pub(crate) struct Inspected {
    pub(crate) state: InspectedState,
    /// In order; the first of them.
    pub(crate) queue: Vec<SeenWaiter>,
    /// How many wait.
    pub(crate) waiter_count: usize,
    pub(crate) permits: Option<PermitCount>,
    /// Damage of its side keys, with the remedy.
    pub(crate) damaged: Vec<String>,
}

pub(crate) struct SeenWaiter {
    pub(crate) client: String,
    pub(crate) priority: i32,
    pub(crate) mode: LockMode,
    pub(crate) waited: Duration,
}

#[derive(Clone)]
pub(crate) enum InspectedState {
    Free,
    /// `value` is a secret: the holder's token.
    Held {
        value: Vec<u8>,
        pttl_ms: Option<u64>,
        fence: Option<Fence>,
        why: Vec<u8>,
    },
    /// `count` is how many there are, of which the first are listed.
    Shared {
        holds: Vec<SeenHold>,
        count: usize,
    },
    Other {
        kind: String,
    },
}

/// One of several holds.
#[derive(Clone)]
pub(crate) struct SeenHold {
    /// A secret.
    pub(crate) token: Vec<u8>,
    pub(crate) mode: LockMode,
    pub(crate) rest_ms: u64,
    pub(crate) fence: Option<Fence>,
}

pub(crate) static INSPECT: Script = script!("mutex/inspect", reads_only);

impl From<InspectedState> for Inspected {
    /// With nothing beside the lock.
    fn from(state: InspectedState) -> Self {
        Inspected {
            state,
            queue: Vec::new(),
            waiter_count: 0,
            permits: None,
            damaged: Vec::new(),
        }
    }
}

impl Inspected {
    /// Lists the clients that hold it and that wait, each as often as it does.
    pub(crate) fn clients(&self) -> impl Iterator<Item = &str> {
        let holds = match &self.state {
            InspectedState::Shared { holds, .. } => &holds[..],
            _ => &[],
        };
        let alone = match &self.state {
            InspectedState::Held { value, .. } => Some(value),
            _ => None,
        };
        let tokens = holds.iter().map(|hold| &hold.token).chain(alone);
        let holders = tokens.filter_map(|token| token::client_of(token));
        holders.chain(self.queue.iter().map(|waiter| &*waiter.client))
    }
}

impl Operation for Inspect<'_> {
    type Reply = Inspected;

    fn script(&self) -> &'static Script {
        &INSPECT
    }

    fn encode(&self, call: &mut Call) {
        call.key(&self.keys.lock).key(self.keys.queue());
        call.key(self.keys.fence()).key(self.keys.note());
        call.key(self.keys.usage());
    }

    fn decode(answer: &Answer) -> Result<Inspected, Malformed> {
        let state = match answer.tag() {
            "free" => InspectedState::Free,
            "held" => InspectedState::Held {
                value: answer.bytes(3)?.to_vec(),
                pttl_ms: u64::try_from(answer.signed(4)?).ok(),
                fence: fence::of_reply(answer.number(5)?),
                why: answer.bytes(6)?.to_vec(),
            },
            "shared" => InspectedState::Shared {
                count: usize::try_from(answer.number(3)?).map_err(|_| Malformed)?,
                holds: holds(answer.array(4)?)?,
            },
            "other" => InspectedState::Other {
                kind: answer.text(3)?.to_owned(),
            },
            _ => return Err(Malformed),
        };
        let [Value::Int(waiter_count), waiters @ ..] = answer.array(1)? else {
            return Err(Malformed);
        };
        Ok(Inspected {
            state,
            queue: queue(waiters, answer.number(0)?)?,
            waiter_count: usize::try_from(*waiter_count).map_err(|_| Malformed)?,
            permits: permits(answer.array(2)?)?,
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

fn queue(items: &[Value], time_us: u64) -> Result<Vec<SeenWaiter>, Malformed> {
    let waiters = items.chunks_exact(4).map(|waiter| {
        let ticket = text(&waiter[3])?.parse().unwrap_or(time_us);
        Ok(SeenWaiter {
            client: text(&waiter[0])?,
            priority: priority(&text(&waiter[1])?),
            mode: LockMode::of_word(&text(&waiter[2])?),
            waited: Duration::from_micros(time_us.saturating_sub(ticket)),
        })
    });
    waiters.collect()
}

/// Parses a number of permits; one that no client of ours can have becomes the largest.
fn count(digits: &str) -> u32 {
    digits.parse().unwrap_or(u32::MAX)
}

fn holds(items: &[Value]) -> Result<Vec<SeenHold>, Malformed> {
    let holds = items.chunks_exact(4).map(|hold| {
        let Value::Int(rest_ms) = hold[2] else {
            return Err(Malformed);
        };
        Ok(SeenHold {
            token: text(&hold[0])?.into_bytes(),
            mode: LockMode::of_word(&text(&hold[1])?),
            rest_ms: u64::try_from(rest_ms).map_err(|_| Malformed)?,
            fence: fence::of_reply(text(&hold[3])?.parse().map_err(|_| Malformed)?),
        })
    });
    holds.collect()
}

fn permits(items: &[Value]) -> Result<Option<PermitCount>, Malformed> {
    let [total, used, pinned] = items else {
        return Ok(None);
    };
    Ok(Some(PermitCount {
        total: count(&text(total)?),
        used: count(&text(used)?),
        pinned: text(pinned)? == "1",
    }))
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
    pub(crate) terms: BreakOptions,
    /// What the channel of a client begins with, and how the channels go on behind its id.
    pub(crate) channel: &'a str,
    pub(crate) ends: &'a [String],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Broke {
    Broken {
        holder: Option<String>,
        fence: Option<Fence>,
        count: usize,
        /// When it ends at the latest; 0: it has ended.
        rest_ms: u64,
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
            .key(self.keys.fence())
            .key(self.keys.usage());
        if let Some(gate) = &self.keys.gate {
            call.key(&*gate.key_for(&self.keys.lock));
        }
        let only = self.terms.only_fence;
        call.arg(only.map_or_else(String::new, |fence| fence.to_string()));
        call.arg(u64::from(self.terms.at_once));
        call.arg(u64::from(self.terms.foreign)).arg(self.channel);
        call.args(self.ends.iter().map(String::as_str));
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
                    fence: fence::of_reply(answer.number(1)?),
                    count: usize::try_from(answer.number(2)?).map_err(|_| Malformed)?,
                    rest_ms: answer.number(3)?,
                })
            }
            "free" => Ok(Broke::Free),
            "foreign" => Ok(Broke::Foreign),
            "changed" => Ok(Broke::Changed {
                fence: fence::of_reply(answer.number(0)?),
            }),
            _ => Err(Malformed),
        }
    }

    fn time_us(answer: &Answer) -> Option<u64> {
        let last = answer.values().len().checked_sub(1)?;
        answer.number(last).ok()
    }
}

/// Finds the names that are held. Runs `lua/mutex/survey.lua`.
#[derive(Debug)]
pub(crate) struct Survey<'a> {
    pub(crate) candidates: &'a [LockKeys],
}

static SURVEY: Script = script!("mutex/survey", reads_only);

impl Operation for Survey<'_> {
    /// Indexes into `candidates`, from 0; the lock, unless it is to be inspected.
    type Reply = Vec<(usize, Option<InspectedState>)>;

    fn script(&self) -> &'static Script {
        &SURVEY
    }

    fn encode(&self, call: &mut Call) {
        for keys in self.candidates {
            Inspect { keys }.encode(call);
        }
    }

    fn decode(answer: &Answer) -> Result<Self::Reply, Malformed> {
        match answer.tag() {
            "locks" => (0..answer.values().len())
                .map(|at| surveyed(answer.array(at)?))
                .collect(),
            _ => Err(Malformed),
        }
    }
}

fn surveyed(lock: &[Value]) -> Result<(usize, Option<InspectedState>), Malformed> {
    let [Value::Int(place), lock @ ..] = lock else {
        return Err(Malformed);
    };
    let place = usize::try_from(*place).ok();
    let index = place.and_then(|it| it.checked_sub(1)).ok_or(Malformed)?;
    let [Value::Bytes(value), Value::Int(pttl_ms), fence] = lock else {
        return Ok((index, None));
    };
    let state = InspectedState::Held {
        value: value.clone(),
        pttl_ms: u64::try_from(*pttl_ms).ok(),
        fence: fence::of_reply(text(fence)?.parse().map_err(|_| Malformed)?),
        why: Vec::new(),
    };
    Ok((index, Some(state)))
}
