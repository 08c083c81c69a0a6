//! The model of one lock: what the commands on its keys make of it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::mem;

use super::call::{Call, Ended, Events, Granted};
use super::fence::Fence;
use super::held::{Held, How, MARK, SLACK_US, before_break, member, readers_number};
use super::keys::Part;
use super::report::Rule;
use super::waiters::{Entry, Waiters, score, set_aside};

/// What the keys of one lock hold.
#[derive(Debug, Default)]
pub(super) struct Lock {
    pub(super) held: Held,
    /// When the key of a set ends.
    pub(super) key_ends_us: Option<u64>,
    /// It may have ended since the number of the readers was written, and with it this number.
    pub(super) number_may_be_gone: bool,
    pub(super) waiters: Waiters,
    pub(super) fence: Fence,
    /// How many permits there are, when `usage` says so.
    pub(super) permits: Option<u64>,
    /// How many permits are used and by how many holds, as `usage` says.
    pub(super) sum: Option<(u64, u64)>,
    /// Tokens with leases of a server before, and until when these surely last.
    pub(super) former: Vec<(String, u64)>,
    /// What the request of this moment has done.
    pub(super) now: Events,
}

/// A command of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command<'a> {
    pub(super) at_us: u64,
    pub(super) verb: &'a str,
    /// Behind the key.
    pub(super) words: &'a [Cow<'a, str>],
}

impl Command<'_> {
    fn word(&self, at: usize) -> &str {
        self.words.get(at).map(AsRef::as_ref).unwrap_or_default()
    }

    /// The number behind this word.
    fn option(&self, name: &str) -> Option<u64> {
        let at = self.words.iter().position(|word| word == name)?;
        self.word(at + 1).parse().ok()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.words.iter().any(|word| word == name)
    }
}

/// The score of a hold: microseconds. That of the readers' number is `-inf`.
pub(super) fn end_us(text: &str) -> u64 {
    text.parse().unwrap_or_default()
}

impl Lock {
    pub(super) fn apply(&mut self, part: Part, call: &Call, command: Command<'_>) {
        match part {
            Part::Lock => self.apply_to_lock(call, command),
            Part::Queue => self.apply_to_queue(command),
            Part::Waiters => match command.verb {
                "HSET" => self.waiters.know(command.word(0), command.word(1), false),
                "HSETNX" => self.waiters.know(command.word(0), command.word(1), true),
                "HDEL" => command
                    .words
                    .iter()
                    .for_each(|token| self.waiters.forget(token)),
                "DEL" => self.waiters.forget_all(),
                _ => {}
            },
            Part::Fence => self.apply_to_fence(command),
            Part::Usage => self.apply_to_usage(command),
            Part::Gate => {}
        }
    }

    fn apply_to_lock(&mut self, call: &Call, command: Command<'_>) {
        self.age(call.start_us);
        match command.verb {
            "SET" => self.set(call, command),
            "DEL" => {
                let holds = mem::take(&mut self.held).each();
                self.end_all(holds, command.at_us);
                self.key_ends_us = None;
            }
            "ZADD" => {
                let only_known = command.word(0) == "XX";
                let pairs = &command.words[usize::from(only_known)..];
                for pair in pairs.chunks_exact(2) {
                    self.put(call, command.at_us, &pair[1], end_us(&pair[0]), only_known);
                }
            }
            "ZREM" => {
                for text in command.words {
                    self.take_out(text, command.at_us);
                }
            }
            "PEXPIRE" => self.expire(command),
            _ => {}
        }
    }

    /// What had surely ended with its key when the request began: a script may stand still after it has read the time.
    fn age(&mut self, at_us: u64) {
        let ends = match &self.held {
            Held::Nothing => return,
            Held::Alone { ends_us, .. } => Some(*ends_us),
            Held::Set(_) => self.key_ends_us,
        };
        if ends.is_some_and(|ends| ends + SLACK_US < at_us) {
            let holds = mem::take(&mut self.held).each();
            self.end_all(holds, at_us);
            self.key_ends_us = None;
        }
    }

    fn end_all(&mut self, holds: Vec<super::held::Hold>, at_us: u64) {
        let ended = holds.into_iter().map(|hold| Ended { hold, at_us });
        self.now.ended.extend(ended);
    }

    fn set(&mut self, call: &Call, command: Command<'_>) {
        let (token, at_us) = (command.word(0).to_owned(), command.at_us);
        let Some(ttl_ms) = command.option("PX") else {
            return;
        };
        let taken = !self.held.lasting(at_us).is_empty() || !self.now.granted.is_empty();
        if command.has("NX") && taken {
            return;
        }
        let ends_us = at_us + ttl_ms * 1_000;
        let new = Held::Alone {
            token: token.clone(),
            ends_us,
        };
        let before = mem::replace(&mut self.held, new);
        self.key_ends_us = None;
        if let Held::Alone {
            token: its,
            ends_us: its_end,
        } = &before
            && *its == token
            && !self.now.has_left(&token)
        {
            self.now.extended += 1;
            if ends_us + SLACK_US < *its_end {
                self.now
                    .accuse(Rule::Lease, format!("{token} holds for less than before"));
            }
            return;
        }
        if let Some(its) = before_break(&token) {
            let lasts = before.each().into_iter().find(|hold| hold.token == its);
            return self.now.broke(
                &token,
                ends_us,
                lasts.map(|hold| hold.sure_until_us + SLACK_US),
            );
        }
        let mut from = None;
        for hold in before.each() {
            if hold.token == token && hold.how != How::Alone {
                from = Some(hold.how);
                if ends_us + 1_000 < hold.sure_until_us {
                    self.now.accuse(
                        Rule::Upgrade,
                        format!("{token} ends before its read would have"),
                    );
                }
                if hold.how != How::Upgradable || hold.sure_until_us + SLACK_US < call.start_us {
                    self.now.accuse(
                        Rule::Upgrade,
                        format!("{token} was upgraded without its read"),
                    );
                }
                continue;
            }
            if hold.how != How::Alone && at_us < hold.sure_until_us {
                self.now
                    .accuse(Rule::Alone, format!("{token} alone beside {hold}"));
            }
            self.now.ended.push(Ended { hold, at_us });
        }
        // The holder names the token that goes on in its place.
        let passed_on = call.carries(&token)
            && matches!(&before, Held::Alone { token: its, .. } if *its != token && call.carries(its));
        if passed_on {
            self.now.passed_on = true;
            return;
        }
        let how = How::Alone;
        self.mint_for(at_us, &token, how);
        self.now.granted.push(Granted {
            token,
            how,
            from,
            at_us,
        });
    }

    fn put(&mut self, call: &Call, at_us: u64, text: &str, ends: u64, only_known: bool) {
        if let Held::Alone { .. } = self.held {
            for hold in self.held.lasting(at_us) {
                self.now
                    .accuse(Rule::Alone, format!("{text} beside {hold}"));
            }
            let holds = mem::take(&mut self.held).each();
            self.end_all(holds, at_us);
        }
        if self.held == Held::Nothing {
            self.held = Held::Set(BTreeMap::new());
            self.key_ends_us = None;
            self.number_may_be_gone = false;
        }
        if let Some(number) = readers_number(text) {
            return self.mark_readers(at_us, text, number);
        }
        let others = self.held.lasting(at_us);
        let Held::Set(members) = &mut self.held else {
            return;
        };
        if let Some(its) = before_break(text) {
            let lasts = members.remove(&its);
            members.insert(text.to_owned(), ends);
            return self.now.broke(text, ends, lasts);
        }
        let token = member(text, ends)
            .map(|hold| hold.token)
            .unwrap_or_default();
        let before = members.get(text).copied();
        // What was over, or has waited meanwhile, is granted anew, although the set was not cleared.
        let anew = !only_known
            && text != MARK
            && before.is_some_and(|before| before < call.start_us || self.now.has_left(&token));
        if let Some(before) = before
            && !anew
        {
            members.insert(text.to_owned(), ends);
            if text == MARK {
                return;
            }
            self.now.extended += 1;
            if only_known && before + SLACK_US < call.start_us {
                self.now
                    .accuse(Rule::Lease, format!("{text} was over and is extended"));
            }
            if at_us < before && ends < before {
                self.now
                    .accuse(Rule::Lease, format!("{text} holds for less than before"));
            }
            return;
        }
        if only_known {
            return;
        }
        members.insert(text.to_owned(), ends);
        let Some(hold) = member(text, ends) else {
            return;
        };
        for other in others
            .iter()
            .filter(|other| !super::held::fit(hold.how, other.how))
        {
            let both = (hold.how, other.how);
            let rule = if both == (How::Upgradable, How::Upgradable) {
                Rule::OneUpgradable
            } else {
                Rule::Alone
            };
            self.now.accuse(rule, format!("{hold} beside {other}"));
        }
        self.mint_for(at_us, &hold.token, hold.how);
        self.now.granted.push(Granted {
            token: hold.token,
            how: hold.how,
            from: None,
            at_us,
        });
    }

    fn take_out(&mut self, text: &str, at_us: u64) {
        let Held::Set(members) = &mut self.held else {
            return;
        };
        let Some(ends) = members.remove(text) else {
            return;
        };
        if members.is_empty() {
            self.held = Held::Nothing;
            self.key_ends_us = None;
        }
        if let Some(hold) = member(text, ends) {
            self.now.ended.push(Ended { hold, at_us });
        }
    }

    fn expire(&mut self, command: Command<'_>) {
        let Ok(ttl_ms) = command.word(0).parse::<u64>() else {
            return;
        };
        let ends = command.at_us + ttl_ms * 1_000;
        match &mut self.held {
            Held::Nothing => {}
            Held::Alone { token, ends_us } => {
                if ends + SLACK_US < *ends_us {
                    let what = format!("{token} holds for less than before");
                    self.now.accuse(Rule::Lease, what);
                }
                *ends_us = ends;
                self.now.extended += 1;
            }
            Held::Set(_) => self.key_ends_us = Some(ends),
        }
    }

    fn apply_to_queue(&mut self, command: Command<'_>) {
        match command.verb {
            "ZADD" => {
                for pair in command.words.chunks_exact(2) {
                    if let Some(member) = set_aside(&pair[1]) {
                        self.now.set_aside.extend(self.waiters.find(member));
                        continue;
                    }
                    let entry = Entry {
                        score: score(&pair[0]),
                        member: pair[1].to_string(),
                    };
                    let left = &mut self.now.left;
                    match left.iter().position(|gone| gone.is_same(&entry)) {
                        Some(at) => drop(left.remove(at)),
                        None => self.now.joined.push(entry.clone()),
                    }
                    self.waiters.add(entry);
                }
            }
            "ZREM" => {
                for text in command.words {
                    if let Some(entry) = self.waiters.remove(text) {
                        self.now.left.push(entry);
                    }
                }
            }
            "DEL" => self.waiters.clear_queue(),
            _ => {}
        }
    }

    fn apply_to_usage(&mut self, command: Command<'_>) {
        let fields = command.words.chunks(2).filter_map(|pair| match pair {
            [field, value] => Some((field.as_ref(), value.as_ref())),
            _ => None,
        });
        match command.verb {
            "HSET" => {
                for (field, value) in fields {
                    match field {
                        "permits" => {
                            let permits = value.parse().ok().filter(|permits| *permits > 0);
                            // A number that was lost, and is written anew, is no change.
                            let before = self.permits.or(self.now.permits_lost);
                            self.now.resized |= before.is_some() && permits != before;
                            self.permits = permits;
                        }
                        "pinned" => self.now.pinned = true,
                        "sum" => {
                            let numbers = value.split_once(' ');
                            self.sum = numbers.and_then(|(used, count)| {
                                Some((used.parse().ok()?, count.parse().ok()?))
                            });
                            self.now.counted = true;
                        }
                        member => self.number_permits(member, value),
                    }
                }
            }
            "DEL" => {
                self.now.permits_lost = self.permits;
                (self.permits, self.sum) = (None, None);
                self.now.counted = false;
            }
            _ => {}
        }
    }
}
