//! The requests of a search for deadlocks.

use super::graph::{GraphHold, GraphWait, GraphWaiter, Lock};
use crate::base::token;
use crate::engine::values::{LockMode, operation};
use crate::script::{Answer, LockKeys, Malformed, Script, Scripts, script};

pub(crate) static SCRIPTS: Scripts = &[
    &PUBLISH,
    &WITHDRAW_WAIT,
    &WAITS,
    &INSPECT_HOLDS,
    &WAKE_VICTIM,
];

static PUBLISH: Script = script!("owner/publish");
static WITHDRAW_WAIT: Script = script!("owner/withdraw");
static WAITS: Script = script!("owner/waits", reads_only);
static INSPECT_HOLDS: Script = script!("owner/inspect", reads_only);
static WAKE_VICTIM: Script = script!("owner/wake");

operation! {
    /// Says what an owner waits for, beside each of its holds by one client. Runs `lua/owner/publish.lua`.
    pub(crate) struct Publish<'a> {
        owners: &'a str,
        wait: &'a str,
        held: &'a [String],
    }
    script &PUBLISH;
    fn encode(call) {
        call.key(owners).arg(wait);
        call.args(held.iter().map(String::as_str));
    }
    fn decode(answer) -> () {
        "published" => (),
    }
}

operation! {
    /// Takes that back. Runs `lua/owner/withdraw.lua`.
    pub(crate) struct WithdrawWait<'a> {
        owners: &'a str,
        /// As it was published.
        wait: &'a str,
        held: &'a [String],
    }
    script &WITHDRAW_WAIT;
    fn encode(call) {
        call.key(owners).arg(wait);
        call.args(held.iter().map(String::as_str));
    }
    fn decode(answer) -> () {
        "withdrawn" => (),
    }
}

operation! {
    /// Reads what the owners of these holds wait for. Runs `lua/owner/waits.lua`.
    pub(crate) struct Waits<'a> {
        owners: &'a str,
        held: &'a [String],
    }
    script &WAITS;
    fn encode(call) {
        call.key(owners);
        call.args(held.iter().map(String::as_str));
    }
    fn decode(answer) -> Vec<Option<GraphWait>> {
        "waits" => {
            let waits = answer.array(0)?.iter();
            let waits = waits.map(|one| Ok(GraphWait::decode(one.text()?)));
            waits.collect::<Result<_, Malformed>>()?
        },
    }
}

impl GraphWait {
    pub(crate) fn encode(&self) -> String {
        let GraphWait {
            owner,
            label,
            lock,
            waiter,
        } = self;
        format!("{owner}\n{lock}\n{waiter}\n{label}")
    }

    /// Decodes it; `None` for text that no client writes.
    fn decode(text: &str) -> Option<GraphWait> {
        let mut lines = text.splitn(4, '\n').map(str::to_owned);
        Some(GraphWait {
            owner: lines.next()?,
            lock: lines.next()?,
            waiter: lines.next()?,
            label: lines.next()?,
        })
    }
}

operation! {
    /// Reads who holds a name and who waits for it. Runs `lua/owner/inspect.lua`.
    pub(crate) struct InspectHolds<'a> {
        keys: &'a LockKeys,
    }
    script &INSPECT_HOLDS;
    fn encode(call) {
        call.key(&keys.lock).key(keys.queue()).key(keys.usage());
    }
    fn decode(answer) -> InspectedHolds {
        "seen" => InspectedHolds::decode(answer)?,
    }
    fn time_us(answer) {
        answer.number(0).ok()
    }
}

/// A lock, and the tokens of its waiters in the order of its queue. Tokens are secrets.
pub(crate) struct InspectedHolds {
    pub(crate) lock: Lock,
    pub(crate) tokens: Vec<String>,
}

impl InspectedHolds {
    fn decode(answer: &Answer) -> Result<InspectedHolds, Malformed> {
        let mut lock = Lock {
            now_us: answer.number(0)?,
            permits: answer.number(3)?,
            ..Lock::default()
        };
        for hold in answer.array(1)?.chunks(2) {
            let [token, kind] = hold else {
                return Err(Malformed);
            };
            let token = token.text()?.as_bytes();
            lock.holds.push(GraphHold {
                digest: token::digest(token),
                client: token::client_of(token).unwrap_or_default().to_owned(),
                share: LockMode::of_word(kind.text()?),
            });
        }
        let mut tokens = Vec::new();
        for waiter in answer.array(2)?.chunks(5) {
            let [token, kind, priority, ticket, alive] = waiter else {
                return Err(Malformed);
            };
            let token = token.text()?;
            lock.queue.push(GraphWaiter {
                digest: token::digest(token.as_bytes()),
                share: LockMode::of_word(kind.text()?),
                priority: priority.text()?.parse().unwrap_or(0),
                ticket: ticket.text()?.parse().unwrap_or(0),
                is_alive: alive.text()? == "1",
            });
            tokens.push(token.to_owned());
        }
        Ok(InspectedHolds { lock, tokens })
    }
}

operation! {
    /// Wakes a waiter. Runs `lua/owner/wake.lua`.
    pub(crate) struct WakeVictim<'a> {
        keys: &'a LockKeys,
        /// A secret.
        token: &'a str,
    }
    script &WAKE_VICTIM;
    fn encode(call) {
        call.key(keys.waiters());
        call.arg(*token);
    }
    fn decode(answer) -> () {
        "woken" | "absent" => (),
    }
}
