//! Many requests of one kind in one call: each item has its own reply.

use super::calls::{AcquireTerms, operation};
use super::grant::{Acquired, ExtendAnswer, ReleaseAnswer, seen_at as seen};
use super::kind::{BatchScripts, Held, HeldFor};
use crate::base::{Ttl, fence};
use crate::script::{Arg, Call, Malformed, Script};

/// More items in one call would hold the server for too long. The same number stands in `lua/many.lua`.
pub(crate) const MANY_MAX: usize = 256;

/// One item of a call.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) held: Held,
    pub(crate) terms: AcquireTerms,
    /// The scripts of its kind.
    pub(crate) scripts: &'static BatchScripts,
}

impl Item {
    /// Creates the item of an acquisition; `None` for a kind, or a way of holding, whose requests are not batched.
    pub(crate) fn of(held: &Held, terms: AcquireTerms) -> Option<Self> {
        let scripts = held.resource.kind.batch.as_ref()?;
        let mode = held.resource.mode.as_deref();
        let fits = scripts.mode == mode.and_then(|mode| mode.bytes().next());
        fits.then(|| Item {
            held: held.clone(),
            terms,
            scripts,
        })
    }

    /// Creates the item of a release. Its terms say nothing, and are the same for all.
    pub(crate) fn of_release(held: &Held) -> Option<Self> {
        Item::of(held, AcquireTerms::plain(Ttl::DEFAULT))
    }

    /// Returns true if one call can serve both.
    pub(crate) fn goes_with(&self, other: &Item) -> bool {
        let alike = |item: &Item| (item.terms.ttl, item.terms.fences);
        std::ptr::eq(self.scripts, other.scripts)
            && alike(self) == alike(other)
            && self.held.resource.mode == other.held.resource.mode
    }
}

/// Writes the keys that both scripts of a batch take.
fn write_keys(call: &mut Call, items: &[Item]) {
    let each = || items.iter().map(|item| &item.held.resource);
    call.keys(each().map(|resource| &resource.lock));
    call.keys(each().map(|resource| resource.queue()));
    for side in items[0].scripts.side_keys {
        call.keys(each().map(|resource| resource.beside(side)));
    }
}

/// Writes the mode of all items, for kinds whose scripts take it.
fn write_mode(call: &mut Call, first: &Item) {
    let mode = first.held.resource.mode.as_deref();
    call.args(mode.filter(|_| first.scripts.takes_mode).into_iter());
}

/// The replies in the order of the items. `None`: the call had no effect on the item, and the caller sends it alone.
pub(crate) type Replies<R> = Vec<Option<R>>;

operation! {
    /// Acquires the locks that are free, or held in a way that leaves room. Runs the kind's `acquire_many`.
    pub(crate) struct AcquireMany<'a> {
        /// At least one; all go with the first.
        items: &'a [Item],
    }
    script &items[0].scripts.acquire_many;
    fn encode(call) {
        let Item { terms, scripts, .. } = &items[0];
        write_keys(call, items);
        if terms.fences || scripts.always_fences {
            call.keys(items.iter().map(|item| item.held.resource.fence()));
        }
        call.arg(terms.ttl.as_ms()).arg(u64::from(terms.fences));
        write_mode(call, &items[0]);
        call.args(items.iter().map(|item| &item.held.token));
    }
    fn decode(answer) -> Replies<Acquired> {
        "answered" => {
            let (time_us, letters) = (answer.number(0)?, answer.bytes(1)?);
            let busy = letters.iter().filter(|letter| **letter == b'b').count();
            let granted = |fence| Acquired::granted(fence, time_us);
            // Behind the letters, first all that is said of the busy ones, and then all fencing tokens.
            let (mut holders, mut fences) = ((2..).step_by(2), 2 + 2 * busy..);
            each(letters, |letter| match letter {
                b'g' => Ok(Some(granted(None))),
                b'f' => {
                    let at = fences.next().ok_or(Malformed)?;
                    Ok(Some(granted(fence::of_reply(answer.number(at)?))))
                }
                b'b' => {
                    let at = holders.next().ok_or(Malformed)?;
                    let seen = seen(answer, at, time_us)?;
                    Ok(Some(Acquired::Busy { seen }))
                }
                b'-' => Ok(None),
                _ => Err(Malformed),
            })?
        },
    }
}

/// Decodes one letter after the other.
pub(crate) fn each<R>(
    letters: &[u8],
    understood: impl FnMut(u8) -> Result<Option<R>, Malformed>,
) -> Result<Replies<R>, Malformed> {
    letters.iter().copied().map(understood).collect()
}

/// Decodes the letter of a release.
pub(crate) fn released(letter: u8) -> Result<Option<ReleaseAnswer>, Malformed> {
    match letter {
        b'r' => Ok(Some(ReleaseAnswer::Released)),
        b'e' => Ok(Some(ReleaseAnswer::Expired)),
        b't' => Ok(Some(ReleaseAnswer::Taken)),
        b'-' => Ok(None),
        _ => Err(Malformed),
    }
}

operation! {
    /// Releases the locks without waiters. Runs the kind's `release_many`.
    pub(crate) struct ReleaseMany<'a> {
        /// At least one; all go with the first.
        items: &'a [Item],
    }
    script &items[0].scripts.release_many;
    votes elsewhere;
    fn encode(call) {
        write_keys(call, items);
        write_mode(call, &items[0]);
        call.args(items.iter().map(|item| &item.held.token));
    }
    fn decode(answer) -> Replies<ReleaseAnswer> {
        "answered" => each(answer.bytes(0)?, released)?,
    }
}

impl<'a> ExtendMany<'a> {
    /// Creates the call; `None` for none, and for a kind whose leases are extended one by one.
    pub(crate) fn of(each: &'a [HeldFor<'a>]) -> Option<Self> {
        let script = each.first()?.held.resource.kind.extend_many.as_ref()?;
        Some(ExtendMany { script, each })
    }
}

/// A token and, behind it, the first word of how it holds.
struct TokenAndMode<'a>(&'a Held);

impl Arg for TokenAndMode<'_> {
    fn write_to(&self, text: &mut Vec<u8>) {
        let Held { resource, token } = self.0;
        token.write_to(text);
        resource.mode_word().unwrap_or_default().write_to(text);
    }
}

operation! {
    /// Extends leases of one kind to their whole ttl, which is the same for all. Runs the kind's `extend_many`.
    pub(crate) struct ExtendMany<'a> {
        script: &'static Script,
        each: &'a [HeldFor<'a>],
    }
    script script;
    votes elsewhere;
    fn encode(call) {
        call.keys(each.iter().map(|one| &one.held.resource.lock));
        call.args(each.first().iter().map(|first| first.ttl.as_ms()));
        call.args(each.iter().map(|one| TokenAndMode(one.held)));
    }
    fn decode(answer) -> Replies<ExtendAnswer> {
        "answered" => {
            let time_us = answer.number(0)?;
            each(answer.bytes(1)?, |letter| match letter {
                b'x' => Ok(Some(ExtendAnswer::Extended { time_us })),
                b'e' => Ok(Some(ExtendAnswer::EXPIRED)),
                b'-' => Ok(None),
                _ => Err(Malformed),
            })?
        },
    }
    fn time_us(answer) {
        answer.number(0).ok()
    }
}
