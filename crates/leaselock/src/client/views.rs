//! The scripts of inspection and of operators.

use std::slice;
use std::time::Duration;

use leaselock_fence::Fence;

use super::inspection::{BreakOptions, PermitCount};
use crate::base::{fence, token};
use crate::engine::values::{LockMode, operation, shortcut};
use crate::script::{Answer, LockKeys, Malformed, Script, Scripts, Value, damage, script};

pub(crate) static SCRIPTS: Scripts = &[
    &INSPECT,
    &BREAK,
    &BREAK_STRICT,
    &BREAK_REDISSON,
    &SURVEY,
    &damage::TYPES,
];

operation! {
    /// Inspects one mutex. Runs `lua/mutex/inspect.lua`.
    pub(crate) struct Inspect<'a> {
        keys: &'a LockKeys,
    }
    script &INSPECT;
    votes elsewhere;
    fn encode(call) {
        call.key(&keys.lock).key(keys.queue()).key(keys.fence()).key(keys.note()).key(keys.usage());
        call.keys(RECORDS.iter().map(|kind| keys.beside(kind)));
    }
    fn decode(answer) -> Inspected {
        "free" => beside(InspectedState::Free, answer)?,
        "held" => {
            let hold = SeenHold {
                value: answer.bytes(3)?.to_vec(),
                mode: LockMode::Exclusive,
                pttl_ms: u64::try_from(answer.signed(4)?).ok(),
                fence: fence::of_reply(answer.number(5)?),
                why: answer.bytes(6)?.to_vec(),
                kind: record(answer.text(7)?),
            };
            beside(InspectedState::Held(hold), answer)?
        },
        "shared" => {
            let count = usize::try_from(answer.number(3)?).map_err(|_| Malformed)?;
            let holds = holds(answer.array(4)?)?;
            beside(InspectedState::Shared { holds, count }, answer)?
        },
        "other" => beside(InspectedState::Other { kind: answer.text(3)?.to_owned() }, answer)?,
    }
    fn time_us(answer) {
        answer.number(0).ok()
    }
}

pub(crate) struct Inspected {
    pub(crate) state: InspectedState,
    /// In order; the first of them.
    pub(crate) queue: Vec<SeenWaiter>,
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
    Held(SeenHold),
    /// `count` is how many there are, of which the first are listed.
    Shared {
        holds: Vec<SeenHold>,
        count: usize,
    },
    Other {
        kind: String,
    },
}

/// A hold: the only one, or one of several.
#[derive(Clone)]
pub(crate) struct SeenHold {
    /// A secret: the holder's token.
    pub(crate) value: Vec<u8>,
    pub(crate) mode: LockMode,
    pub(crate) pttl_ms: Option<u64>,
    pub(crate) fence: Option<Fence>,
    pub(crate) why: Vec<u8>,
    /// What it is held as, where a record beside the lock says so.
    pub(crate) kind: Option<&'static str>,
}

/// The kinds that are told from a record beside the lock, each in the key of this name.
const RECORDS: [&str; 3] = ["leader", "once", "cron"];

fn record(word: &str) -> Option<&'static str> {
    RECORDS.into_iter().find(|kind| *kind == word)
}

pub(crate) static INSPECT: Script =
    script!("mutex/inspect", reads_only).shortcut(shortcut::inspect);

impl InspectedState {
    /// What it is held as.
    pub(crate) fn kind(&self) -> Option<&'static str> {
        let holds = match self {
            InspectedState::Held(hold) => return Some(hold.kind.unwrap_or("mutex")),
            InspectedState::Shared { holds, .. } => holds,
            InspectedState::Free | InspectedState::Other { .. } => return None,
        };
        let is_upgradable = holds.iter().any(|hold| hold.mode == LockMode::Upgradable);
        Some(match holds.first()?.mode {
            LockMode::Permits(_) => "permits",
            _ if is_upgradable => "upgradable",
            _ => "read",
        })
    }
}

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
            InspectedState::Held(hold) => slice::from_ref(hold),
            InspectedState::Free | InspectedState::Other { .. } => &[],
        };
        let holders = holds
            .iter()
            .filter_map(|hold| token::client_of(&hold.value));
        holders.chain(self.queue.iter().map(|waiter| &*waiter.client))
    }
}

fn beside(state: InspectedState, answer: &Answer) -> Result<Inspected, Malformed> {
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

fn queue(items: &[Value], time_us: u64) -> Result<Vec<SeenWaiter>, Malformed> {
    let waiters = items.chunks_exact(4).map(|waiter| {
        let ticket = waiter[3].text().ok().and_then(|it| it.parse().ok());
        let ticket = ticket.unwrap_or(time_us);
        Ok(SeenWaiter {
            client: waiter[0].text()?.to_owned(),
            priority: priority(waiter[1].text()?),
            mode: LockMode::of_word(waiter[2].text()?),
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
        let [Value::Bytes(value), kind, Value::Int(rest_ms), number] = hold else {
            return Err(Malformed);
        };
        // Any client that may lock can write anything here, which is no reason to show nothing.
        let number = number.text().ok().and_then(|digits| digits.parse().ok());
        Ok(SeenHold {
            value: value.clone(),
            mode: LockMode::of_word(kind.text().unwrap_or_default()),
            pttl_ms: u64::try_from(*rest_ms).ok(),
            fence: number.and_then(fence::of_reply),
            why: Vec::new(),
            kind: None,
        })
    });
    holds.collect()
}

fn permits(items: &[Value]) -> Result<Option<PermitCount>, Malformed> {
    let [total, used, pinned] = items else {
        return Ok(None);
    };
    Ok(Some(PermitCount {
        total: count(total.text()?),
        used: count(used.text()?),
        pinned: pinned.text()? == "1",
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
        .map(|pair| damage::sentence(pair[0].text()?, pair[1].text()?).ok_or(Malformed))
        .collect()
}

static BREAK: Script = script!("mutex/break");
static BREAK_STRICT: Script = script!("mutex/break", strict);
static BREAK_REDISSON: Script = script!("redisson/break");
static SURVEY: Script = script!("mutex/survey", reads_only);

operation! {
    /// Breaks the mutex. Runs `lua/mutex/break.lua`.
    pub(crate) struct Break<'a> {
        keys: &'a LockKeys,
        terms: BreakOptions,
        /// What the channel of a client begins with, and how the channels go on behind its id.
        channel: &'a str,
        ends: &'a [String],
    }
    script if keys.gate.is_some() { &BREAK_STRICT } else { &BREAK };
    votes elsewhere;
    fn encode(call) {
        call.key(&keys.lock).key(keys.queue()).key(keys.waiters()).key(keys.fence()).key(keys.usage());
        keys.write_gate_key(call);
        let only = terms.only_fence;
        call.arg(only.map_or_else(String::new, |fence| fence.to_string()));
        call.arg(u64::from(terms.at_once)).arg(u64::from(terms.foreign)).arg(channel);
        call.args(ends.iter().map(String::as_str));
    }
    fn decode(answer) -> Broke {
        "broken" => {
            let holder = answer.text(0)?;
            Broke::Broken {
                holder: (!holder.is_empty()).then(|| holder.to_owned()),
                fence: fence::of_reply(answer.number(1)?),
                count: usize::try_from(answer.number(2)?).map_err(|_| Malformed)?,
                rest_ms: answer.number(3)?,
            }
        },
        "free" => Broke::Free,
        "foreign" => Broke::Foreign,
        "changed" => Broke::Changed { fence: fence::of_reply(answer.number(0)?) },
    }
    fn time_us(answer) {
        let last = answer.values().len().checked_sub(1)?;
        answer.number(last).ok()
    }
}

operation! {
    /// Breaks a lock in Redisson's form, which has no queue and no number. Runs `lua/redisson/break.lua`.
    pub(crate) struct BreakRedisson<'a> {
        lock: &'a str,
        channel: &'a str,
        may: bool,
    }
    script &BREAK_REDISSON;
    fn encode(call) {
        call.key(lock);
        call.arg(*channel).arg(u64::from(*may));
    }
    fn decode(answer) -> Broke {
        "broken" => Broke::Broken { holder: None, fence: None, count: 1, rest_ms: 0 },
        "free" => Broke::Free,
        "foreign" => Broke::Foreign,
    }
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

operation! {
    /// Finds the names that are held. Runs `lua/mutex/survey.lua`.
    pub(crate) struct Survey<'a> {
        candidates: &'a [LockKeys],
    }
    script &SURVEY;
    fn encode(call) {
        for keys in *candidates {
            Inspect { keys }.encode(call);
        }
    }
    fn decode(answer) -> Vec<(usize, Option<InspectedState>)> {
        "locks" => {
            let locks = (0..answer.values().len()).map(|at| answer.array(at).and_then(surveyed));
            locks.filter_map(Result::transpose).collect::<Result<_, _>>()?
        },
    }
}

/// Reads an index into `candidates`, from 0, and the lock, unless it is to be inspected; `None` for another library's.
fn surveyed(lock: &[Value]) -> Result<Option<(usize, Option<InspectedState>)>, Malformed> {
    let [Value::Int(place), lock @ ..] = lock else {
        return Err(Malformed);
    };
    let place = usize::try_from(*place).ok();
    let index = place.and_then(|it| it.checked_sub(1)).ok_or(Malformed)?;
    let [
        Value::Bytes(value),
        Value::Int(pttl_ms),
        id,
        Value::Bytes(why),
        kind,
    ] = lock
    else {
        return Ok(Some((index, None)));
    };
    if token::client_of(value).is_none() {
        return Ok(None);
    }
    let Some(last) = fence::of_id(id.text()?) else {
        return Ok(Some((index, None)));
    };
    let hold = SeenHold {
        value: value.clone(),
        mode: LockMode::Exclusive,
        pttl_ms: u64::try_from(*pttl_ms).ok(),
        fence: fence::of_reply(last.get()).filter(|_| token::is_fenced(value)),
        why: why.clone(),
        kind: record(kind.text()?),
    };
    Ok(Some((index, Some(InspectedState::Held(hold)))))
}
