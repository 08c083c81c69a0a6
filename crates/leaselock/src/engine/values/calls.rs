//! The requests of a holder and a waiter: one value for each script that every kind of lock has. And requests as tables.

use leaselock_fence::Fence;

use super::grant::{Acquired, CancelAnswer, ExtendAnswer, ReleaseAnswer, Seen, seen_at};
use super::kind::{Held, HeldFor, StepScripts};
use crate::base::{Ttl, fence};
use crate::script::{Answer, Arg, Call, Malformed, Operation, Script, script};

/// Declares a request and reads its reply, in the words of its script's header: fields, keys and arguments in their
/// order, and a value for each tag.
///
/// The fields are variables in `script` and `encode`. Any other tag is malformed, unless `_` says how all are read.
/// The nodes of a quorum do not vote on it, or `votes elsewhere;` says that its `Votable` stands in another place.
/// It has no `Debug`, because some fields are secrets.
macro_rules! operation {
    (
        $(#[$meta:meta])*
        $vis:vis struct $Name:ident $(<$life:lifetime>)? {
            $($(#[$about:meta])* $field:ident: $Type:ty,)*
        }
        script $script:expr;
        $(votes $elsewhere:ident;)?
        fn encode($call:ident) $encode:block
        fn decode($answer:ident) -> $Reply:ty {
            $($($tag:literal)|+ => $value:expr,)*
            $(_ => $any:expr,)?
        }
        $(fn time_us($timed:ident) $time_us:block)?
    ) => {
        $(#[$meta])*
        $vis struct $Name $(<$life>)? {
            $($(#[$about])* $vis $field: $Type,)*
        }

        impl $(<$life>)? $crate::script::Operation for $Name $(<$life>)? {
            type Reply = $Reply;

            #[allow(unused_variables, reason = "most scripts do not depend on them")]
            fn script(&self) -> &'static $crate::script::Script {
                let Self { $($field),* } = self;
                $script
            }

            #[allow(unused_variables, reason = "some are there for the script, or for who counts votes")]
            fn encode(&self, $call: &mut $crate::script::Call) {
                let Self { $($field),* } = self;
                $encode
            }

            #[allow(unreachable_patterns, reason = "`_` may say how all are read")]
            fn decode($answer: &$crate::script::Answer) -> Result<$Reply, $crate::script::Malformed> {
                Ok(match $answer.tag() {
                    $($($tag)|+ => $value,)*
                    $(_ => $any,)?
                    _ => return Err($crate::script::Malformed),
                })
            }

            $(fn time_us($timed: &$crate::script::Answer) -> Option<u64> $time_us)?
        }

        operation!(@votable $Name [$(<$life>)?] $($elsewhere)?);
    };
    (@votable $Name:ident [$($life:tt)*]) => {
        impl $($life)* $crate::quorum::tally::Votable for $Name $($life)* {}
    };
    (@votable $Name:ident [$($life:tt)*] elsewhere) => {};
}
pub(crate) use operation;

/// A lease that is handed over lasts this long at most until its first renewal, so that a waiter that is frozen costs
/// the others seconds and not a long ttl.
const PASSED: Ttl = match Ttl::whole_ms(5_000) {
    Some(ttl) => ttl,
    None => panic!("five seconds are in range"),
};

/// What the store is asked for, and how the lease is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AcquireTerms {
    pub(crate) ttl: Ttl,
    pub(crate) priority: i32,
    pub(crate) renews: bool,
    pub(crate) fences: bool,
}

impl AcquireTerms {
    /// The ttl of a lease that is handed over later, until the waiter confirms or renews it.
    pub(crate) fn passed(self) -> Ttl {
        match self.renews {
            true => self.ttl.min(PASSED),
            false => self.ttl,
        }
    }

    /// Returns those of a plain request.
    pub(crate) fn plain(ttl: Ttl) -> Self {
        AcquireTerms {
            ttl,
            priority: 0,
            renews: true,
            fences: true,
        }
    }
}

/// Acquires the lock, or joins the queue. Runs the kind's `acquire`.
#[derive(Debug)]
pub(crate) struct Acquire<'a> {
    pub(crate) held: &'a Held,
    /// Whether it fences must agree with the token, by which the script decides.
    pub(crate) terms: AcquireTerms,
    pub(crate) waits: bool,
    pub(crate) channel: &'a str,
    /// How many fencing tokens a grant from the queue reserves.
    pub(crate) range: u64,
}

impl Operation for Acquire<'_> {
    type Reply = Acquired;

    fn script(&self) -> &'static Script {
        let Held { resource, .. } = self.held;
        resource.script(&resource.kind.acquire)
    }

    fn encode(&self, call: &mut Call) {
        let Held { resource, token } = self.held;
        resource.write_keys(call);
        call.arg(token)
            .arg(self.terms.ttl.as_ms())
            .arg(QueueRequest(self));
        call.args(resource.mode.as_deref().into_iter());
        resource.write_gate(call);
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
            held,
            terms,
            waits,
            channel,
            range,
        } = self.0;
        if !*waits {
            return;
        }
        if terms.priority < 0 {
            text.push(b'-');
        }
        u64::from(terms.priority.unsigned_abs()).write_to(text);
        text.push(b' ');
        terms.passed().as_ms().write_to(text);
        text.push(b' ');
        match held.resource.mode_word() {
            Some(kind) => kind.write_to(text),
            None => range.write_to(text),
        }
        text.push(b' ');
        channel.write_to(text);
    }
}

operation! {
    /// Extends a lease to its whole ttl. Runs the kind's `extend`.
    pub(crate) struct Extend<'a> {
        held_for: HeldFor<'a>,
    }
    script &held_for.held.resource.kind.extend;
    votes elsewhere;
    fn encode(call) {
        let Held { resource, token } = held_for.held;
        call.key(&resource.lock);
        call.arg(token).arg(held_for.ttl.as_ms());
        call.args(resource.mode.as_deref().into_iter());
    }
    fn decode(answer) -> ExtendAnswer {
        _ => ExtendAnswer::decode(answer)?,
    }
    fn time_us(answer) {
        let lasts = answer.tag() == "extended";
        answer.number(usize::from(lasts)).ok()
    }
}

operation! {
    /// Releases the lock, and hands it to the next waiter. Runs the kind's `release`.
    pub(crate) struct Release<'a> {
        held: &'a Held,
        /// The lease came from the queue, so others are likely to wait.
        was_queued: bool,
    }
    script held.resource.script(&held.resource.kind.release);
    votes elsewhere;
    fn encode(call) {
        let Held { resource, token } = *held;
        call.message_first = *was_queued;
        resource.write_release_keys(call);
        call.arg(token);
        call.args(resource.mode.as_deref().into_iter());
        call.alone = resource.kind.release_alone; // its waiters then learn of the release by polling
    }
    fn decode(answer) -> ReleaseAnswer {
        _ => ReleaseAnswer::decode(answer)?,
    }
}

operation! {
    /// Undoes an acquisition whose caller was dropped. Runs the kind's `cancel`.
    pub(crate) struct Cancel<'a> {
        held: &'a Held,
    }
    script held.resource.script(&held.resource.kind.cancel);
    votes elsewhere;
    fn encode(call) {
        let Held { resource, token } = *held;
        resource.write_release_keys(call);
        call.arg(token);
        call.args(resource.mode.as_deref().into_iter());
    }
    fn decode(answer) -> CancelAnswer {
        _ => CancelAnswer::decode(answer)?,
    }
    fn time_us(answer) {
        answer.number(0).ok()
    }
}

/// The reply to a request for several locks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AcquiredAll {
    Granted {
        /// The fencing token of each name, in the order of the request.
        fences: Vec<Option<Fence>>,
        time_us: u64,
    },
    /// Nothing was acquired, because the lock at this index is held.
    Busy { seen: Seen, at: usize },
    /// Nothing was acquired, because one of the locks has waiters, readers or permits: each needs its own request.
    Separate { time_us: u64 },
    /// Nothing was acquired: the gate of strict mode answered in place of the locks.
    AtGate(Acquired),
}

operation! {
    /// Acquires all locks, if each is free and has no waiter. Runs the kind's `acquire_all`.
    pub(crate) struct AcquireAll<'a> {
        /// The script of their kind.
        step: &'static StepScripts,
        /// All under one token.
        held: &'a [&'a Held],
        terms: AcquireTerms,
    }
    script step.script(held.first().is_some_and(|first| first.resource.gate.is_some()));
    fn encode(call) {
        let each = held.iter().map(|one| &one.resource);
        call.keys(each.clone().map(|resource| &resource.lock));
        call.keys(each.clone().map(|resource| resource.queue()));
        call.keys(each.map(|resource| resource.fence()));
        // All locks share the gate, because they share a slot or a server.
        let first = held.first();
        first.inspect(|first| first.resource.write_gate_key(call));
        call.args(first.iter().map(|first| &first.token));
        call.arg(terms.ttl.as_ms());
        first.inspect(|first| first.resource.write_gate(call));
    }
    fn decode(answer) -> AcquiredAll {
        "granted" => {
            let numbers = 1..answer.values().len();
            let fences = numbers.map(|at| answer.number(at).map(fence::of_reply));
            let (fences, time_us) = (fences.collect::<Result<_, _>>()?, answer.number(0)?);
            AcquiredAll::Granted { fences, time_us }
        },
        "busy" => {
            let at = usize::try_from(answer.number(3)?).map_err(|_| Malformed)?;
            let seen = seen_at(answer, 0, answer.number(2)?)?;
            AcquiredAll::Busy { seen, at: at.checked_sub(1).ok_or(Malformed)? }
        },
        "separate" => AcquiredAll::Separate { time_us: answer.number(0)? },
        "quarantined" | "disagrees" => AcquiredAll::AtGate(Acquired::decode(answer)?),
    }
}

pub(crate) static RELEASE_ALONE: Script = script!("hold/release_alone");

operation! {
    /// Releases a hold and wakes no waiter. Runs `lua/hold/release_alone.lua`, to which a
    /// [`Release`](Release) falls back.
    #[cfg_attr(not(test), allow(dead_code, reason = "the store makes this call out of a release"))]
    pub(crate) struct ReleaseAlone<'a> {
        held: &'a Held,
    }
    script &RELEASE_ALONE;
    fn encode(call) {
        let Held { resource, token } = *held;
        call.key(&resource.lock);
        call.arg(token);
        call.args(resource.mode.as_deref().into_iter());
    }
    fn decode(answer) -> ReleaseAnswer {
        _ => ReleaseAnswer::decode(answer)?,
    }
}

pub(crate) static COMPARE_AND_DELETE: Script = script!("setnx_pexpire/release");

operation! {
    /// Releases a lock that has no side keys. Runs `lua/setnx_pexpire/release.lua`.
    pub(crate) struct CompareAndDelete<'a> {
        lock: &'a str,
        value: &'a str,
    }
    script &COMPARE_AND_DELETE;
    fn encode(call) {
        call.key(lock);
        call.arg(value);
    }
    fn decode(answer) -> ReleaseAnswer {
        _ => ReleaseAnswer::decode(answer)?,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::token::{ClientId, Token};
    use crate::engine::values::Resource;
    use crate::mutex::MUTEX;

    /// The script parses the argument with a pattern, so a sign or a space too many would be another request.
    #[test]
    fn what_a_queue_entry_needs_is_one_argument_and_empty_for_a_request_that_does_not_wait() {
        let resource = Resource::at(&MUTEX, "job".into(), None);
        let token = Token::random(&ClientId::random().unwrap(), true).unwrap();
        let held = &Held { resource, token };
        let wish = |waits, priority| {
            let terms = AcquireTerms::plain(Ttl::whole_ms(60_000).unwrap());
            let acquire = Acquire {
                held,
                terms: AcquireTerms { priority, ..terms },
                waits,
                channel: "ll:wake:x",
                range: 64,
            };
            let call = acquire.call();
            let mut args = call.parameters.args().map(str::to_owned);
            assert_eq!(args.next().as_deref(), Some(held.token.secret()));
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
