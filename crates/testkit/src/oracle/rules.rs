//! Whether what a request did was right.

use super::call::{Call, Ended, Events, Granted};
use super::held::{Held, Hold, How, MARK, SLACK_US, is_fenced};
use super::lock::Lock;
use super::report::Rule;
use super::waiters::Entry;

/// Everything that needs no knowledge of connections. `events` are those of `lock`.
pub(super) fn judge(lock: &Lock, events: &mut Events, call: &Call) {
    events.join_changes();
    let mut wrong = Vec::new();
    ends(events, call, &mut wrong);
    fences(lock, events, call, &mut wrong);
    permits(lock, events, call, &mut wrong);
    keys(lock, call, &mut wrong);
    messages(lock, events, call, &mut wrong);
    strict(lock, events, call, &mut wrong);
    events.wrong.append(&mut wrong);
}

type Wrong = Vec<(Rule, String)>;

fn ends(events: &Events, call: &Call, wrong: &mut Wrong) {
    for ended in events.ended.iter().filter(|ended| ended.lasted()) {
        let hold = &ended.hold;
        if hold.how == How::Upgradable && call.upgrades(&hold.token) {
            wrong.push((Rule::Upgrade, format!("{hold} lost its read")));
        } else if !call.carries(&hold.token) && !call.breaks() {
            let rule = if events
                .granted
                .iter()
                .any(|granted| granted.how == How::Alone)
            {
                Rule::Alone
            } else {
                Rule::Lease
            };
            wrong.push((rule, format!("{hold} lasts and was taken away")));
        }
    }
}

fn fences(lock: &Lock, events: &Events, call: &Call, wrong: &mut Wrong) {
    let mut accuse = |what: String| wrong.push((Rule::Fence, what));
    let (number, known) = (lock.held.readers_number(), lock.fence.known);
    let is_new = events.fences.marked.is_some();
    let reads = |hold: &Hold| hold.how.reads() && is_fenced(&hold.token);
    let joins = events.granted.iter().any(|granted| granted.how.reads());
    match number {
        None => {
            for hold in lock
                .held
                .lasting(call.last_us)
                .iter()
                .filter(|hold| reads(hold))
            {
                accuse(format!("{hold} has no fencing token"));
            }
        }
        Some(_) if lock.number_may_be_gone => {}
        Some(number) if events.fences.phase_begins && !is_new => {
            accuse(format!("readers have {number} of readers before them"));
        }
        Some(number) if joins && number < known => {
            accuse(format!("readers join with {number}, and {known} is known"));
        }
        Some(_) => {}
    }
    let permits = |granted: &&Granted| matches!(granted.how, How::Permits(_));
    for granted in { events.granted.iter() }.filter(permits) {
        let token = &granted.token;
        let its = |(member, _): &(String, u64)| member.starts_with(token);
        if is_fenced(token) && !events.fences.permits.iter().any(its) {
            accuse(format!("{token} has no fencing token of its own"));
        }
    }
}

fn permits(lock: &Lock, events: &Events, call: &Call, wrong: &mut Wrong) {
    let lasting = lock.held.lasting(call.last_us);
    let used: u64 = lasting
        .iter()
        .map(|hold| match hold.how {
            How::Permits(weight) => weight,
            _ => 0,
        })
        .sum();
    let is_permit = |granted: &Granted| matches!(granted.how, How::Permits(_));
    if events.granted.iter().any(is_permit) {
        match lock.permits {
            Some(permits) if used > permits => {
                wrong.push((Rule::Permits, format!("{used} of {permits} are used")));
            }
            Some(_) => {}
            None => wrong.push((Rule::Permits, "nobody knows of how many".to_owned())),
        }
    }
    let is_over = |hold: &Hold| hold.sure_until_us <= call.last_us;
    let unclear = lock.held.each().iter().any(is_over);
    if events.counted && !unclear {
        let (count, sum) = lock.held.weighed();
        if lock.sum != Some((sum, count)) {
            let what = format!("usage says {:?}, and {sum} by {count} are held", lock.sum);
            wrong.push((Rule::Usage, what));
        }
    }
}

fn keys(lock: &Lock, call: &Call, wrong: &mut Wrong) {
    let Held::Set(members) = &lock.held else {
        return;
    };
    let longest = members.values().max().copied().unwrap_or_default();
    match lock.key_ends_us {
        None => wrong.push((Rule::Lease, "the key of the holds has no ttl".to_owned())),
        Some(ends) if ends + SLACK_US < longest => {
            wrong.push((
                Rule::Lease,
                "the key of the holds ends before they do".to_owned(),
            ));
        }
        Some(_) => {}
    }
    let mark = members.get(MARK).copied();
    for hold in lock.held.lasting(call.last_us) {
        if hold.how == How::Upgradable && mark != Some(hold.sure_until_us) {
            wrong.push((
                Rule::OneUpgradable,
                format!("{hold} and the mark, at {mark:?}, differ"),
            ));
        }
    }
}

fn messages(lock: &Lock, events: &mut Events, call: &Call, wrong: &mut Wrong) {
    for (_, message) in &call.told {
        let words: Vec<&str> = message.split(' ').collect();
        let ["grant", fence, range, time_us, ttl_ms, _, token] = words[..] else {
            continue;
        };
        let number = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX);
        if !events.was_granted(token) {
            continue; // of another lock, or none: the judge knows
        }
        let until = number(time_us).saturating_add(number(ttl_ms).saturating_mul(1_000));
        if lock
            .held
            .end_us(token)
            .is_none_or(|ends| ends + 2_000 < until)
        {
            wrong.push((
                Rule::Message,
                format!("{token} was told of more than it has"),
            ));
        }
        let (fence, range) = (number(fence), number(range));
        let is_right = match lock.held.of(token) {
            _ if fence == 0 => true,
            Some(How::Reads | How::Upgradable) => lock.held.readers_number() == Some(fence),
            Some(How::Permits(_)) => {
                let its =
                    |(member, its): &(String, u64)| member.starts_with(token) && *its == fence;
                events.fences.permits.iter().any(its)
            }
            Some(How::Alone) | None => {
                let last = fence.saturating_add(range) - 1;
                let is_new = lock.fence.known < fence && last >= events.fences.largest;
                events.fences.largest = events.fences.largest.max(last);
                is_new && (range == 1 || events.fences.chosen.contains(&last))
            }
        };
        if !is_right {
            let what = format!("{token} was told of a fencing token that is not its own");
            wrong.push((Rule::Message, what));
        }
    }
}

fn strict(lock: &Lock, events: &Events, call: &Call, wrong: &mut Wrong) {
    // A downgrade gives up more than it takes.
    let more = |granted: &&Granted| granted.from != Some(How::Alone);
    for granted in events.granted.iter().filter(more) {
        let token = &granted.token;
        if call.gate_closed {
            wrong.push((
                Rule::Strict,
                format!("{token} is granted behind a closed gate"),
            ));
        }
        for (other, until_us) in &lock.former {
            if granted.at_us < *until_us && other != token {
                let what = format!("{token} is granted, and {other} lasts from before");
                wrong.push((Rule::Strict, what));
            }
        }
    }
}

/// Waiters that the request has set aside, and those that are left, in order.
fn waiting<'a>(lock: &'a Lock, events: &'a Events) -> impl Iterator<Item = &'a Entry> {
    events.set_aside.iter().chain(lock.waiters.waiting())
}

/// Waiters that were there before the request and still are, and were overtaken if they are present.
pub(super) fn overtaken<'a>(lock: &'a Lock, events: &'a Events) -> Vec<(&'a Entry, &'a str)> {
    let mut found = Vec::new();
    for granted in events
        .granted
        .iter()
        .filter(|granted| granted.from.is_none())
    {
        let place = events
            .left
            .iter()
            .find(|entry| entry.token() == granted.token);
        for entry in waiting(lock, events) {
            let is_new = events.joined.iter().any(|joined| joined.is_same(entry));
            let is_ahead = place.is_none_or(|place| entry.is_ahead_of(place));
            if !is_new && is_ahead && entry.token() != granted.token {
                found.push((entry, granted.token.as_str()));
            }
        }
    }
    found
}

/// Waiters from the first on, each until one that may be present does not fit. They are idle if they are present.
pub(super) fn idle<'a>(
    lock: &'a Lock,
    events: &'a Events,
    call: &Call,
    may_be_present: impl Fn(&Entry) -> bool,
) -> Option<&'a Entry> {
    let gave_room = events.ended.iter().any(Ended::lasted)
        || events
            .left
            .iter()
            .filter(|entry| !events.set_aside.contains(entry))
            .any(|entry| !events.was_granted(entry.token()))
        || events
            .granted
            .iter()
            .any(|granted| granted.from == Some(How::Alone))
        || events.resized;
    if !gave_room || call.gate_closed {
        return None;
    }
    let first = waiting(lock, events).find(|entry| may_be_present(entry))?;
    (first.fits(&lock.held, lock.permits) && !call.told(first)).then_some(first)
}
