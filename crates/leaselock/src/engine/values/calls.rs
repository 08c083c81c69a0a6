//! The requests of a holder and a waiter: one value for each script that every kind of lock has.

use super::grant::{Acquired, CancelAnswer, ExtendAnswer, ReleaseAnswer};
use super::resource::Resource;
use crate::base::token::Token;
use crate::base::ttl::Ttl;
use crate::script::{Answer, Arg, Call, Malformed, Operation, Script};

/// Acquires the lock, or joins the queue. Runs the kind's `acquire`.
#[derive(Debug)]
pub(crate) struct Acquire<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) token: &'a Token,
    pub(crate) ttl: Ttl,
    /// The ttl of a lease that is handed over later, until the waiter confirms or renews it.
    pub(crate) passed: Ttl,
    pub(crate) waits: bool,
    pub(crate) priority: i32,
    pub(crate) channel: &'a str,
    /// Must agree with the token, by which the script decides.
    pub(crate) fencing: bool,
    /// How many fencing tokens a grant from the queue reserves.
    pub(crate) range: u64,
}

impl Operation for Acquire<'_> {
    type Reply = Acquired;

    fn script(&self) -> &'static Script {
        self.resource.script(&self.resource.kind.acquire)
    }

    fn encode(&self, call: &mut Call) {
        self.resource.write_keys(call);
        call.arg(self.token)
            .arg(self.ttl.as_ms())
            .arg(QueueRequest(self));
        call.args(self.resource.mode.as_deref().into_iter());
        if let Some(gate) = &self.resource.gate {
            call.arg(gate.longest.as_ms()).arg(gate.quarantine_ms());
        }
    }

    fn decode(answer: &Answer) -> Result<Acquired, Malformed> {
        Acquired::decode(answer)
    }
}

/// What only a queue entry needs, in one argument, because each argument costs client and server.
pub(crate) struct QueueRequest<'a, 'b>(pub(crate) &'a Acquire<'b>);

impl Arg for QueueRequest<'_, '_> {
    fn write_to(&self, text: &mut Vec<u8>) {
        let Acquire {
            waits,
            priority,
            passed,
            range,
            channel,
            resource,
            ..
        } = self.0;
        if !*waits {
            return;
        }
        if *priority < 0 {
            text.push(b'-');
        }
        u64::from(priority.unsigned_abs()).write_to(text);
        text.push(b' ');
        passed.as_ms().write_to(text);
        text.push(b' ');
        match resource.mode_word() {
            Some(kind) => kind.write_to(text),
            None => range.write_to(text),
        }
        text.push(b' ');
        channel.write_to(text);
    }
}

/// Extends a lease to its whole ttl. Runs the kind's `extend`.
#[derive(Debug)]
pub(crate) struct Extend<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) token: &'a Token,
    pub(crate) ttl: Ttl,
}

impl Operation for Extend<'_> {
    type Reply = ExtendAnswer;

    fn script(&self) -> &'static Script {
        &self.resource.kind.extend
    }

    fn encode(&self, call: &mut Call) {
        call.key(&self.resource.lock);
        call.arg(self.token).arg(self.ttl.as_ms());
        call.args(self.resource.mode.as_deref().into_iter());
    }

    fn decode(answer: &Answer) -> Result<ExtendAnswer, Malformed> {
        ExtendAnswer::decode(answer)
    }

    fn time_us(answer: &Answer) -> Option<u64> {
        let lasts = answer.tag() == "extended";
        answer.number(usize::from(lasts)).ok()
    }
}

/// Releases the lock, and hands it to the next waiter. Runs the kind's `release`.
#[derive(Debug)]
pub(crate) struct Release<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) token: &'a Token,
    /// The lease came from the queue, so others are likely to wait.
    pub(crate) was_queued: bool,
}

impl Operation for Release<'_> {
    type Reply = ReleaseAnswer;

    fn script(&self) -> &'static Script {
        self.resource.script(&self.resource.kind.release)
    }

    fn encode(&self, call: &mut Call) {
        call.message_first = self.was_queued;
        self.resource.write_release_keys(call);
        call.arg(self.token);
        call.args(self.resource.mode.as_deref().into_iter());
        if let Some(alone) = self.resource.kind.release_alone {
            call.single_key_fallback(alone); // its waiters then learn of the release by polling
        }
    }

    fn decode(answer: &Answer) -> Result<ReleaseAnswer, Malformed> {
        ReleaseAnswer::decode(answer)
    }
}

/// Undoes an acquisition whose caller was dropped. Runs the kind's `cancel`.
#[derive(Debug)]
pub(crate) struct Cancel<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) token: &'a Token,
}

impl Operation for Cancel<'_> {
    type Reply = CancelAnswer;

    fn script(&self) -> &'static Script {
        self.resource.script(&self.resource.kind.cancel)
    }

    fn encode(&self, call: &mut Call) {
        self.resource.write_keys(call);
        call.arg(self.token);
        call.args(self.resource.mode.as_deref().into_iter());
    }

    fn decode(answer: &Answer) -> Result<CancelAnswer, Malformed> {
        CancelAnswer::decode(answer)
    }

    fn time_us(answer: &Answer) -> Option<u64> {
        answer.number(0).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::token::ClientId;
    use crate::mutex::MUTEX;

    /// The script parses the argument with a pattern, so a sign or a space too many would be another request.
    #[test]
    fn what_a_queue_entry_needs_is_one_argument_and_empty_for_a_request_that_does_not_wait() {
        let resource = Resource::at(&MUTEX, "job".into(), None);
        let token = Token::random(&ClientId::random().unwrap(), true).unwrap();
        let wish = |waits, priority| {
            let acquire = Acquire {
                resource: &resource,
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
            let mut args = call.parameters.args().map(str::to_owned);
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
