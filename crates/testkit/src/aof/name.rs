//! What is held under one name, and the numbers of its grants.

use std::collections::{BTreeMap, HashSet};
use std::mem;

use super::verdict::{Fault, Verdict, Wrong};
use crate::oracle::{How, Part, before_break, is_fenced, member, number, readers_number};

/// Tokens of ours, and any other text under the key of a lock.
#[derive(Debug, Default)]
enum Held {
    #[default]
    Nothing,
    Alone(String),
    /// Members with the numbers that they were granted with.
    Set(BTreeMap<String, Option<u64>>),
}

#[derive(Debug, Default)]
pub(super) struct Name {
    held: Held,
    /// Numbers of permits, as `usage` says.
    usage: BTreeMap<String, u64>,
    /// A counter without time, which is what a stream is compared with.
    bare: u64,
    /// Of all grants, on all servers.
    largest: u64,
    /// Of those on servers before.
    before: u64,
    /// Grants and numbers, to tell one that a replica repeats.
    known: HashSet<(String, u64)>,
    now: Script,
}

/// What the script of this moment has done under the name.
#[derive(Debug, Default)]
struct Script {
    minted: Vec<u64>,
    /// How many of them exclusive grants have used.
    used: usize,
    /// Members that were written, in order.
    added: Vec<String>,
    /// Those that were removed, with their numbers.
    removed: Vec<(String, Option<u64>)>,
}

impl Name {
    /// Another server reigns; what it holds is in its own files.
    pub(super) fn next_server(&mut self) {
        self.flush();
        self.before = self.largest;
    }

    /// All keys are gone; no number is forgotten.
    pub(super) fn flush(&mut self) {
        (self.held, self.bare) = (Held::Nothing, 0);
        self.usage.clear();
        self.now = Script::default();
    }

    /// What the server had when its file begins: that was granted before.
    pub(super) fn adopt(&mut self, part: Part, verb: &str, words: &[String]) {
        match (part, verb) {
            (Part::Lock, "SET") => self.held = Held::Alone(words[0].clone()),
            (Part::Lock, "ZADD") => {
                let set = self.set();
                set.extend(pairs(words).map(|(_, member)| (member.clone(), None)));
                let number = set.keys().find_map(|member| readers_number(member));
                let fenced = set.iter_mut().filter(|(member, _)| is_fenced(member));
                fenced.for_each(|(_, its)| *its = number);
            }
            (Part::Usage, "HSET" | "HMSET") => self.read_usage(words),
            _ => {}
        }
    }

    pub(super) fn apply(
        &mut self,
        (name, part): (&str, Part),
        verb: &str,
        words: &[String],
        verdict: &mut Verdict,
    ) {
        match (part, verb) {
            (Part::Fence, "XADD") => {
                let id = words.iter().rev().nth(2);
                self.now.minted.extend(id.and_then(|id| number(id)));
            }
            (Part::Fence, "INCR") => {
                self.bare += 1;
                self.now.minted.push(self.bare);
            }
            (Part::Fence, "DEL" | "UNLINK") => self.bare = 0,
            (Part::Lock, "SET") => self.set_alone(name, &words[0], verdict),
            (Part::Lock, "ZADD") => {
                let only_known = words[0] == "XX";
                for (_, member) in pairs(&words[usize::from(only_known)..]) {
                    let set = self.set();
                    if !set.contains_key(member) && !only_known {
                        set.insert(member.clone(), None);
                        self.now.added.push(member.clone());
                    }
                }
            }
            (Part::Lock, "ZREM") => words.iter().for_each(|member| self.remove(member)),
            (Part::Lock, "DEL" | "UNLINK") => self.remove_all(),
            (Part::Usage, "HSET" | "HMSET") => self.read_usage(words),
            (Part::Usage, "HDEL") => {
                for field in words {
                    self.usage.remove(field);
                }
            }
            (Part::Usage, "DEL" | "UNLINK") => self.usage.clear(),
            _ => {}
        }
    }

    fn read_usage(&mut self, words: &[String]) {
        for (field, value) in pairs(words) {
            if let (Some(_), Ok(number)) = (member(field, 0), value.parse()) {
                self.usage.insert(field.clone(), number);
            }
        }
    }

    /// The members, in place of anything else.
    fn set(&mut self) -> &mut BTreeMap<String, Option<u64>> {
        if !matches!(self.held, Held::Set(_)) {
            self.held = Held::Set(BTreeMap::new());
        }
        match &mut self.held {
            Held::Set(members) => members,
            Held::Nothing | Held::Alone(_) => unreachable!("it was made one"),
        }
    }

    fn remove(&mut self, member: &str) {
        let Held::Set(members) = &mut self.held else {
            return;
        };
        if let Some(number) = members.remove(member) {
            self.now.removed.push((member.to_owned(), number));
            self.now.added.retain(|added| added != member);
        }
        if members.is_empty() {
            self.held = Held::Nothing;
        }
    }

    fn remove_all(&mut self) {
        if let Held::Set(members) = mem::take(&mut self.held) {
            self.now.added.clear();
            self.now.removed.extend(members);
        }
    }

    fn set_alone(&mut self, name: &str, token: &str, verdict: &mut Verdict) {
        self.now.added.clear();
        let before = mem::replace(&mut self.held, Held::Alone(token.to_owned()));
        let minted = &self.now.minted[self.now.used..];
        let range = minted.first().copied().zip(minted.last().copied());
        self.now.used = self.now.minted.len();
        let is_ours = member(token, 0).is_some_and(|hold| hold.token == token);
        if !is_ours || !is_fenced(token) {
            return;
        }
        match (range, before) {
            (Some((first, last)), _) => {
                if self.is_new(token, first) {
                    verdict.alone += 1;
                    self.grows(name, token, (first, last), verdict);
                }
            }
            (None, Held::Alone(other)) if other == token => {}
            (None, Held::Alone(_)) => verdict.pass_on(name),
            (None, Held::Nothing | Held::Set(_)) => {
                wrong(
                    verdict,
                    Fault::Missing,
                    name,
                    format!("{token} has no number"),
                );
            }
        }
    }

    /// The first time that this is seen, which is on the server that granted it.
    fn is_new(&mut self, grant: &str, number: u64) -> bool {
        self.known.insert((grant.to_owned(), number))
    }

    fn grows(&mut self, name: &str, grant: &str, (first, last): (u64, u64), verdict: &mut Verdict) {
        if first <= self.largest {
            let what = format!("{grant} has {first}, and {} was granted", self.largest);
            wrong(verdict, Fault::NotLarger, name, what);
        }
        self.largest = self.largest.max(last);
    }

    /// The script is over: whatever it wrote is known.
    pub(super) fn settle(&mut self, name: &str, verdict: &mut Verdict) {
        let now = mem::take(&mut self.now);
        let (marks, holds): (Vec<_>, Vec<_>) =
            { now.added.iter() }.partition(|text| readers_number(text).is_some());
        for mark in marks {
            self.mark(name, mark, &now, verdict);
        }
        for text in holds {
            let Some(hold) = member(text, 0).filter(|_| before_break(text).is_none()) else {
                continue;
            };
            if hold.how.reads() && self.repeats(&now) {
                let what = format!("{text} begins with the number of readers before");
                wrong(verdict, Fault::NotLarger, name, what);
            }
            match hold.how {
                _ if !is_fenced(text) => {}
                How::Reads | How::Upgradable => self.reads(name, text, verdict),
                How::Permits(_) => self.permits(name, text, &now, verdict),
                How::Alone => {}
            }
        }
    }

    /// Whether a reader finds a number although no older hold is there. One that was handed on is not told from it.
    fn repeats(&mut self, now: &Script) -> bool {
        let is_new = |text: &str| now.added.iter().any(|added| added == text);
        // It reads on in another way, and others join it in the same step.
        let token = |text: &str| member(text, 0).map(|hold| hold.token);
        let removed = |added: &String| {
            let its = token(added);
            its.is_some() && now.removed.iter().any(|(text, _)| token(text) == its)
        };
        let went_on = now.added.iter().any(removed);
        let members = self.set();
        let is_there = |text: &&String| member(text, 0).is_some() && !is_new(text);
        let has_old = |text: &String| readers_number(text).is_some() && !is_new(text);
        !went_on && !members.keys().any(|text| is_there(&text)) && members.keys().any(has_old)
    }

    /// The number of the readers that hold from now on.
    fn mark(&mut self, name: &str, mark: &str, now: &Script, verdict: &mut Verdict) {
        let number = readers_number(mark).unwrap_or_default();
        if !self.is_new(mark, number) {
            return;
        }
        if !now.minted.contains(&number) {
            let what = format!("{mark} was not minted");
            wrong(verdict, Fault::Missing, name, what);
        }
        self.grows(name, mark, (number, number), verdict);
    }

    fn reads(&mut self, name: &str, text: &str, verdict: &mut Verdict) {
        let (largest, before) = (self.largest, self.before);
        let members = self.set();
        let Some(number) = members.keys().filter_map(|text| readers_number(text)).max() else {
            let what = format!("{text} has no number");
            return wrong(verdict, Fault::Missing, name, what);
        };
        members.insert(text.to_owned(), Some(number));
        let is_other = |(_, its): &(&String, &Option<u64>)| its.is_some_and(|its| its != number);
        let other = members.iter().find(is_other);
        let other = other.map(|(other, its)| format!("{other} has {}", its.unwrap_or_default()));
        if !self.is_new(text, number) {
            return;
        }
        verdict.readers += 1;
        if let Some(other) = other {
            let what = format!("{text} has {number}, and {other}");
            wrong(verdict, Fault::Unlike, name, what);
        }
        if number < largest {
            let what = format!("{text} joins with {number}, and {largest} was granted");
            let is_kept = number <= before;
            let fault = [Fault::NotLarger, Fault::JoinsBehind][usize::from(is_kept)];
            wrong(verdict, fault, name, what);
        }
    }

    fn permits(&mut self, name: &str, text: &str, now: &Script, verdict: &mut Verdict) {
        let number = self.usage.get(text).copied();
        self.set().insert(text.to_owned(), number);
        let Some(number) = number else {
            let what = format!("{text} has no number");
            return wrong(verdict, Fault::Missing, name, what);
        };
        if !self.is_new(text, number) {
            return;
        }
        if now.minted.contains(&number) {
            verdict.permits += 1;
            self.grows(name, text, (number, number), verdict);
        } else if now.removed.iter().any(|(_, its)| *its == Some(number)) {
            verdict.pass_on(name);
        } else {
            let what = format!("{text} has {number}, which was not minted");
            wrong(verdict, Fault::Missing, name, what);
        }
    }
}

/// More than these are a sign of one cause.
const WRONG_MAX: usize = 10_000;

fn wrong(verdict: &mut Verdict, fault: Fault, name: &str, what: String) {
    if verdict.wrong.len() < WRONG_MAX {
        let name = name.to_owned();
        verdict.wrong.push(Wrong { fault, name, what });
    }
}

fn pairs(words: &[String]) -> impl Iterator<Item = (&String, &String)> {
    let (pairs, _) = words.as_chunks::<2>();
    pairs.iter().map(|[first, second]| (first, second))
}
