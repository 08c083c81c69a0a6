//! The atomic steps of a holder and a waiter: one value per script under `lua/mutex/`.

use std::time::Duration;

use super::compare_and_delete::CompareAndDelete;
pub(crate) use super::compare_and_delete::ReleaseAnswer;
use crate::base::error::Quarantine;
use crate::base::fence::Fence;
use crate::base::token::Token;
use crate::base::ttl::Ttl;
use crate::script::keys::MutexKeys;
use crate::script::{Answer, Arg, Call, Malformed, Operation, Script, script};

/// Takes the mutex, or gets in line. Runs `lua/mutex/acquire.lua`.
#[derive(Debug)]
pub(crate) struct Acquire<'a> {
    pub(crate) keys: &'a MutexKeys,
    pub(crate) token: &'a Token,
    pub(crate) ttl: Ttl,
    /// The lease when it is handed over later, until the waiter confirms or renews it.
    pub(crate) passed: Ttl,
    pub(crate) waits: bool,
    pub(crate) priority: i32,
    pub(crate) channel: &'a str,
    /// As the token says, which is what the script goes by.
    pub(crate) fencing: bool,
    /// How many fencing tokens a grant reserves that was waited for.
    pub(crate) range: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Acquired {
    Granted {
        /// The first of `range`.
        fence: Option<Fence>,
        range: u64,
        time_us: u64,
        /// Somebody is left in line.
        others: bool,
    },
    Waiting {
        seen: Seen,
        place: u64,
    },
    Busy {
        seen: Seen,
    },
    /// The gate is for leases of at most this length.
    Disagrees {
        longest: Duration,
        time_us: u64,
    },
}

/// What a look tells about the holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Until the holder's lease ends by itself; `None` when it has no end.
    pub(crate) remaining: Option<Duration>,
    /// The holder's client; `None` for a foreign one.
    pub(crate) holder: Option<String>,
    pub(crate) time_us: u64,
    /// Nobody holds it and nobody is granted, for so long as remains.
    pub(crate) quarantine: Option<Quarantine>,
}

impl Seen {
    /// For as long as it likes.
    pub(crate) fn held_by(client: &str) -> Option<Self> {
        Some(Seen {
            remaining: None,
            holder: Some(client.to_owned()),
            time_us: 0,
            quarantine: None,
        })
    }
}

impl Operation for Acquire<'_> {
    type Reply = Acquired;
    const SCRIPT: fn() -> &'static Script = || script!("mutex/acquire");
    const STRICT: fn() -> &'static Script = || script!("mutex/acquire", strict);

    fn encode(&self, call: &mut Call) {
        call.key(&self.keys.lock)
            .key(self.keys.queue())
            .key(self.keys.waiters())
            .key(self.keys.fence());
        if let Some(gate) = &self.keys.gate {
            call.key(&*gate.key_for(&self.keys.lock));
        }
        call.arg(self.token)
            .arg(self.ttl.as_ms())
            .arg(QueueRequest(self));
        if let Some(gate) = &self.keys.gate {
            call.arg(gate.longest.as_ms()).arg(gate.quarantine_ms());
        }
    }

    fn script(&self) -> &'static Script {
        match self.keys.gate {
            None => Self::SCRIPT(),
            Some(_) => Self::STRICT(),
        }
    }

    fn decode(answer: &Answer) -> Result<Acquired, Malformed> {
        match answer.tag() {
            "fenced" | "unfenced" => {
                let time_us = answer.number(0)?;
                let fenced = answer.tag() == "fenced";
                Ok(Acquired::Granted {
                    fence: Fence::from_answer(time_us).filter(|_| fenced),
                    range: 1,
                    time_us,
                    others: false,
                })
            }
            "granted" => Ok(Acquired::Granted {
                fence: Fence::from_answer(answer.number(0)?),
                range: answer.number(1)?,
                time_us: answer.number(2)?,
                others: answer.number(3)? == 1,
            }),
            "waiting" => Ok(Acquired::Waiting {
                seen: seen(answer)?,
                place: answer.number(3)?,
            }),
            "busy" => Ok(Acquired::Busy {
                seen: seen(answer)?,
            }),
            "quarantined" => Ok(Acquired::Busy {
                seen: Seen {
                    remaining: Some(Duration::from_millis(answer.number(0)?)),
                    holder: None,
                    time_us: answer.number(2)?,
                    quarantine: Some(Quarantine::from_answer(answer.text(1)?)),
                },
            }),
            "disagrees" => Ok(Acquired::Disagrees {
                longest: Duration::from_millis(answer.number(0)?),
                time_us: answer.number(1)?,
            }),
            _ => Err(Malformed),
        }
    }
}

/// What only a place in line needs, in one argument, because each costs client and server.
pub(crate) struct QueueRequest<'a, 'b>(pub(crate) &'a Acquire<'b>);

impl Arg for QueueRequest<'_, '_> {
    fn write_to(&self, text: &mut Vec<u8>) {
        let Acquire {
            waits,
            priority,
            passed,
            range,
            channel,
            ..
        } = self.0;
        if !*waits {
            return;
        }
        if *priority < 0 {
            text.push(b'-');
        }
        u64::from(priority.unsigned_abs()).write_to(text);
        for number in [passed.as_ms(), *range] {
            text.push(b' ');
            number.write_to(text);
        }
        text.push(b' ');
        channel.write_to(text);
    }
}

fn seen(answer: &Answer) -> Result<Seen, Malformed> {
    seen_at(answer, 0, answer.number(2)?)
}

/// Remaining time and holder, from `at` on.
pub(crate) fn seen_at(answer: &Answer, at: usize, time_us: u64) -> Result<Seen, Malformed> {
    let holder = answer.text(at + 1)?;
    Ok(Seen {
        remaining: u64::try_from(answer.signed(at)?)
            .ok()
            .map(Duration::from_millis),
        holder: (!holder.is_empty()).then(|| holder.to_owned()),
        time_us,
        quarantine: None,
    })
}

/// Makes a lease's time whole. Runs `lua/mutex/extend.lua`.
#[derive(Debug)]
pub(crate) struct Extend<'a> {
    pub(crate) keys: &'a MutexKeys,
    pub(crate) token: &'a Token,
    pub(crate) ttl: Ttl,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExtendAnswer {
    Extended { time_us: u64 },
    Expired,
    Taken,
}

impl Operation for Extend<'_> {
    type Reply = ExtendAnswer;
    const SCRIPT: fn() -> &'static Script = || script!("mutex/extend");

    fn encode(&self, call: &mut Call) {
        call.key(&self.keys.lock);
        call.arg(self.token).arg(self.ttl.as_ms());
    }

    fn decode(answer: &Answer) -> Result<ExtendAnswer, Malformed> {
        match answer.tag() {
            "extended" => Ok(ExtendAnswer::Extended {
                time_us: answer.number(1)?,
            }),
            "expired" => Ok(ExtendAnswer::Expired),
            "taken" => Ok(ExtendAnswer::Taken),
            _ => Err(Malformed),
        }
    }

    fn time_us(answer: &Answer) -> Option<u64> {
        let lasts = answer.tag() == "extended";
        answer.number(usize::from(lasts)).ok()
    }
}

/// Gives the mutex back, to the next in line. Runs `lua/mutex/release.lua`.
#[derive(Debug)]
pub(crate) struct Release<'a> {
    pub(crate) keys: &'a MutexKeys,
    pub(crate) token: &'a Token,
    /// The highest fencing token in use; those that were reserved above it are given back.
    pub(crate) used: Option<Fence>,
}

impl Operation for Release<'_> {
    type Reply = ReleaseAnswer;
    const SCRIPT: fn() -> &'static Script = || script!("mutex/release");
    const STRICT: fn() -> &'static Script = || script!("mutex/release", strict);

    fn encode(&self, call: &mut Call) {
        call.key(&self.keys.lock)
            .key(self.keys.queue())
            .key(self.keys.waiters())
            .key(self.keys.fence());
        if let Some(gate) = &self.keys.gate {
            call.key(&*gate.key_for(&self.keys.lock));
        }
        call.arg(self.token);
        if let Some(used) = self.used {
            call.arg(used.get());
        }
        call.single_key_fallback(CompareAndDelete::SCRIPT()); // then its waiters find out by looking
    }

    fn script(&self) -> &'static Script {
        match self.keys.gate {
            None => Self::SCRIPT(),
            Some(_) => Self::STRICT(),
        }
    }

    fn decode(answer: &Answer) -> Result<ReleaseAnswer, Malformed> {
        match answer.tag() {
            "released" => Ok(ReleaseAnswer::Released),
            "expired" => Ok(ReleaseAnswer::Expired),
            "taken" => Ok(ReleaseAnswer::Taken),
            _ => Err(Malformed),
        }
    }
}

/// Undoes an acquisition whose caller went away. Runs `lua/mutex/cancel.lua`.
#[derive(Debug)]
pub(crate) struct Cancel<'a> {
    pub(crate) keys: &'a MutexKeys,
    pub(crate) token: &'a Token,
    /// As for [`Release`]: what was never granted has used none.
    pub(crate) used: Option<Fence>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancelled {
    Left,
    Released,
    Absent,
}

impl Operation for Cancel<'_> {
    type Reply = Cancelled;
    const SCRIPT: fn() -> &'static Script = || script!("mutex/cancel");
    const STRICT: fn() -> &'static Script = || script!("mutex/cancel", strict);

    fn encode(&self, call: &mut Call) {
        call.key(&self.keys.lock)
            .key(self.keys.queue())
            .key(self.keys.waiters())
            .key(self.keys.fence());
        if let Some(gate) = &self.keys.gate {
            call.key(&*gate.key_for(&self.keys.lock));
        }
        call.arg(self.token).arg(self.used.map_or(0, Fence::get));
    }

    fn script(&self) -> &'static Script {
        match self.keys.gate {
            None => Self::SCRIPT(),
            Some(_) => Self::STRICT(),
        }
    }

    fn decode(answer: &Answer) -> Result<Cancelled, Malformed> {
        match answer.tag() {
            "left" => Ok(Cancelled::Left),
            "released" => Ok(Cancelled::Released),
            "absent" => Ok(Cancelled::Absent),
            _ => Err(Malformed),
        }
    }

    fn time_us(answer: &Answer) -> Option<u64> {
        answer.number(0).ok()
    }
}

/// Gives a lease a new proof of ownership. Runs `lua/mutex/detach.lua`.
#[derive(Debug)]
pub(crate) struct Detach<'a> {
    pub(crate) keys: &'a MutexKeys,
    pub(crate) token: &'a Token,
    pub(crate) successor: &'a Token,
    pub(crate) ttl: Ttl,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detached {
    Passed,
    Expired,
    Taken,
}

impl Operation for Detach<'_> {
    type Reply = Detached;
    const SCRIPT: fn() -> &'static Script = || script!("mutex/detach");

    fn encode(&self, call: &mut Call) {
        call.key(&self.keys.lock);
        call.arg(self.token)
            .arg(self.successor)
            .arg(self.ttl.as_ms());
    }

    fn decode(answer: &Answer) -> Result<Detached, Malformed> {
        match answer.tag() {
            "passed" => Ok(Detached::Passed),
            "expired" => Ok(Detached::Expired),
            "taken" => Ok(Detached::Taken),
            _ => Err(Malformed),
        }
    }

    fn time_us(answer: &Answer) -> Option<u64> {
        let lasts = answer.tag() == "passed";
        answer.number(usize::from(lasts)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::name::Name;
    use crate::base::token::ClientId;

    /// The script reads it back with a pattern, so a sign or a space too many would be another wish.
    #[test]
    fn what_a_place_in_line_needs_is_one_argument_and_empty_for_whoever_does_not_wait() {
        let keys = MutexKeys::new("", &Name::new("job").unwrap()).unwrap();
        let token = Token::random(&ClientId::random().unwrap(), true).unwrap();
        let wish = |waits, priority| {
            let acquire = Acquire {
                keys: &keys,
                token: &token,
                ttl: Ttl::whole_ms(60_000).unwrap(),
                passed: Ttl::whole_ms(5_000).unwrap(),
                waits,
                priority,
                channel: "ll:wake:x",
                fencing: true,
                range: 64,
            };
            let call = acquire.call();
            let mut args = call.all_args().map(str::to_owned);
            assert_eq!(args.next().as_deref(), Some(token.secret()));
            assert_eq!(args.next().as_deref(), Some("60000"));
            let wish = args.next();
            assert!(args.next().is_none());
            wish.unwrap()
        };
        assert_eq!(wish(true, 0), "0 5000 64 ll:wake:x");
        assert_eq!(wish(true, -3), "-3 5000 64 ll:wake:x");
        assert_eq!(wish(true, i32::MIN), "-2147483648 5000 64 ll:wake:x");
        assert_eq!(wish(false, 1), "");
    }
}
