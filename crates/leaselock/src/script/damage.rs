//! Damaged side keys: what a script reports, and how an operator repairs them.

use leaselock_fence::Fence;

use super::answer::{Answer, Malformed, Value};
use super::call::{Call, Operation, Script, script};
use super::keys::LockKeys;
use crate::base::error::{StoreError, refusal};

/// Every fencing token is below it.
const FENCE_END: u64 = Fence::MAX.get() + 1;
/// The prefix of a script's error; the rest names what is damaged, and its key.
const WORD: &str = "DAMAGED ";

/// Converts a script's error, when it is about damage. It granted nothing, and counted nothing.
pub(crate) fn from_line(line: &str) -> Option<StoreError> {
    let (what, key) = line.strip_prefix(WORD)?.split_once(' ')?;
    Some(refusal!(Corrupt: "nothing was granted: {}", sentence(what, key)?))
}

/// Describes the damage of a key and the remedy; `None` for words that no script of ours uses.
pub(crate) fn sentence(what: &str, key: &str) -> Option<String> {
    let key: String = key.chars().filter(|c| !c.is_control()).collect();
    match what {
        "fence" => Some(format!(
            "`{key}` is damaged: it is not a stream whose latest id is a fencing token, `ms-count`, below {FENCE_END}. \
             Delete the key. Find the highest token N that your resources have accepted. When N is not below the \
             server's time in microseconds, set the key: `XADD {key} MAXLEN 0 M-C - -`, where C is the last three digits \
             of N, without leading zeros, and M the others. A resource that accepted {FENCE_END} or more must forget that \
             token first, because it would refuse all later ones"
        )),
        "queue" | "waiters" => Some(format!(
            "`{key}` is damaged: what lies there is not the queue of the waiters. Delete the key: each client that still waits \
             joins the queue again by itself"
        )),
        "usage" => Some(format!(
            "`{key}` is damaged: what lies there is not the number of a semaphore's permits. Delete the key: holders keep \
             their permits, and the next request says how many there are. An operator who had pinned the number sets it again"
        )),
        "once" => Some(format!(
            "`{key}` is damaged: what lies there is not the record of work that runs once. Delete the key: work under \
             this name counts as never run, and may run again"
        )),
        "cron" => Some(format!(
            "`{key}` is damaged: what lies there is not the record of a schedule's ticks. Delete the key: a tick that \
             has begun may run again"
        )),
        "latch" => Some(format!(
            "`{key}` is damaged: what lies there is not a latch. Delete the key: parties that had arrived do not count \
             any more"
        )),
        "barrier" | "passed" => Some(format!(
            "`{key}` is damaged: what lies there is not the state of a barrier. Delete the key: parties that had arrived \
             do not count any more"
        )),
        "limiter" | "reserved" | "returned" => Some(format!(
            "`{key}` is damaged: what lies there is not the state of a limiter. Delete the key: what was used until now \
             does not count any more"
        )),
        "counter" => Some(format!(
            "`{key}` is damaged: it is not a hash whose field `value` is a whole number. Delete the key unless it is a \
             hash. Then set that field to the number that is right, by HSET"
        )),
        _ => None,
    }
}

/// The type of what lies at each key beside a lock, by the last part of the key.
const PLACES: [(&str, &str); 13] = [
    ("queue", "zset"),
    ("waiters", "hash"),
    ("usage", "hash"),
    ("once", "hash"),
    ("cron", "hash"),
    ("latch", "zset"),
    ("barrier", "zset"),
    ("passed", "zset"),
    ("limiter", "string"),
    ("reserved", "zset"),
    ("returned", "zset"),
    ("counter", "hash"),
    ("fence", "stream"),
];

/// Reads the type of what lies at each key. Runs `lua/mutex/types.lua`.
///
/// A store that refuses a wrong type does not say at which key of a call it lies.
#[derive(Debug)]
pub(crate) struct Types(Vec<String>);

pub(crate) static TYPES: Script = script!("mutex/types", reads_only);

impl Types {
    /// Asks about the keys of a call that was refused.
    pub(crate) fn in_call(call: &Call) -> Self {
        Types(call.parameters.keys().map(str::to_owned).collect())
    }

    /// Asks about all keys beside a lock.
    pub(crate) fn beside(keys: &LockKeys) -> Self {
        Types(PLACES.map(|(noun, _)| keys.beside(noun).to_string()).into())
    }

    /// Describes each key whose type is not that of its place, with the remedy.
    pub(crate) fn damage(&self, found: &[String]) -> Vec<String> {
        let pairs = self
            .0
            .iter()
            .zip(found)
            .filter(|(_, found)| *found != "none");
        let damaged = pairs.filter_map(|(key, found)| {
            let (base, noun) = key.rsplit_once(':')?;
            let (_, ours) = PLACES.iter().find(|(ours, _)| *ours == noun)?;
            (base.contains(":ll") && found != ours).then(|| sentence(noun, key))?
        });
        damaged.collect()
    }
}

impl Operation for Types {
    type Reply = Vec<String>;

    fn script(&self) -> &'static Script {
        &TYPES
    }

    fn encode(&self, call: &mut Call) {
        call.keys(self.0.iter());
    }

    fn decode(answer: &Answer) -> Result<Vec<String>, Malformed> {
        let text = |value: &Value| value.text().map(str::to_owned);
        match answer.tag() {
            "types" => answer.values().iter().map(text).collect(),
            _ => Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::ErrorKind;

    #[test]
    fn what_is_damaged_is_named_with_its_key_and_what_mends_it() {
        let error = from_line("DAMAGED fence {my job}:ll:fence").unwrap();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(!error.maybe_applied());
        let message = error.to_string();
        for part in [
            "`{my job}:ll:fence`",
            "Delete the key",
            "set the key: `XADD {my job}:ll:fence MAXLEN 0 M-C - -`",
        ] {
            assert!(message.contains(part), "{message}");
        }
        let queue = from_line("DAMAGED queue {job}:ll:queue\u{1b}").unwrap();
        assert!(queue.to_string().contains("`{job}:ll:queue` is damaged"));
    }

    #[test]
    fn other_errors_are_not_about_damage() {
        for line in [
            "DAMAGED",
            "DAMAGED fence",
            "DAMAGED disk key",
            "ERR DAMAGED fence key",
        ] {
            assert!(from_line(line).is_none(), "{line}");
        }
    }
}
