//! The judge: follows the stream line by line, and keeps the models of all locks.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::mem;

use super::adopt::Found;
use super::call::{self, Call, Suspicion};
use super::connections::Connections;
use super::keys::{self, Part};
use super::line::Line;
use super::lock::{Command, Lock};
use super::report::{Report, Rule, Violation};
use super::rules;
use super::waiters::Entry;

/// How many commands of the past a violation is shown with.
const REMEMBERED: usize = 4_000;
const SHOWN: usize = 60;
/// More than these are a sign of one cause.
const VIOLATIONS_MAX: usize = 200;
/// What the prober's markers begin with.
pub(super) const MARKER: &str = "oracle:";

/// What a server says at a marker.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    /// How often each command ran since the start of the server.
    pub(super) calls: HashMap<String, u64>,
    /// Address to number of each connection.
    pub(super) clients: HashMap<String, u64>,
}

#[derive(Debug, Default)]
pub(super) struct Judge {
    pub(super) report: Report,
    locks: HashMap<String, Lock>,
    connections: Connections,
    call: Call,
    suspicions: Vec<Suspicion>,
    /// The gate of strict mode was seen open on this server.
    gate_is_open: bool,
    past: VecDeque<String>,
    /// How often each command was read since the first marker of this server.
    read: HashMap<String, u64>,
    now_us: u64,
    /// What the server said at that marker.
    base: Option<HashMap<String, u64>>,
    /// The stream was read until its last marker.
    pub(super) is_complete: bool,
}

impl Judge {
    /// One line of the stream. Returns the text of a marker: then [`Judge::mark`] comes next.
    pub(super) fn line<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let Some(line) = Line::parse(text) else {
            self.accuse(
                Rule::Gap,
                "",
                format!("a line that is no command: {text:.200}"),
            );
            return None;
        };
        self.report.commands += 1;
        match self.read.get_mut(line.verb) {
            Some(count) => *count += 1,
            None => drop(self.read.insert(line.verb.to_owned(), 1)),
        }
        if let Some(client) = line.client {
            self.close();
            self.begin(client, &line);
        }
        (self.call.last_us, self.now_us) = (line.at_us, line.at_us);
        let writes = matches!(
            line.verb,
            "SET"
                | "DEL"
                | "ZADD"
                | "ZREM"
                | "HSET"
                | "HSETNX"
                | "HDEL"
                | "PEXPIRE"
                | "XADD"
                | "PUBLISH"
                | "SPUBLISH"
        );
        if writes {
            self.remember(text);
            self.write(&line);
        }
        let is_marker = line.verb == "ECHO" && text.contains(MARKER);
        if is_marker {
            self.close();
        }
        is_marker.then(|| {
            text.split(MARKER)
                .nth(1)
                .unwrap_or_default()
                .trim_end_matches('"')
        })
    }

    fn remember(&mut self, text: &str) {
        if self.past.len() == REMEMBERED {
            self.past.pop_front();
        }
        self.past.push_back(text.chars().take(600).collect());
    }

    /// A client's command: a request begins, or its connection changes.
    fn begin(&mut self, client: &str, line: &Line<'_>) {
        self.call = Call {
            start_us: line.at_us,
            ..Call::default()
        };
        match line.verb {
            "HELLO" => self.connections.begin(client),
            "SUBSCRIBE" | "SSUBSCRIBE" => self.connections.subscribe(client, &line.words()),
            "UNSUBSCRIBE" | "SUNSUBSCRIBE" => self.connections.unsubscribe(client, &line.words()),
            "EVALSHA" | "EVAL" => {
                let words = line.words();
                let count = words.get(1).and_then(|word| word.parse::<usize>().ok());
                let count = count.unwrap_or_default().min(words.len().saturating_sub(2));
                let mut rest = words.into_iter().skip(2).map(Cow::into_owned);
                self.call.keys = rest.by_ref().take(count).collect();
                self.call.args = rest.collect();
                let has_gate = self.call.keys.iter().any(|key| key.contains("ll:gate"));
                self.call.gate_closed = has_gate && !self.gate_is_open;
                if line.verb == "EVALSHA" {
                    let parts = self.call.keys.iter().filter_map(|key| keys::parse(key));
                    let locks = parts.filter(|(_, part)| *part == Part::Lock).count();
                    self.report.operations += locks as u64;
                }
                let text = format!(
                    "{} {} {:?} {:?}",
                    line.at_us, client, self.call.keys, self.call.args
                );
                self.remember(&text);
            }
            _ => {}
        }
    }

    fn write(&mut self, line: &Line<'_>) {
        let words = line.words();
        if matches!(line.verb, "PUBLISH" | "SPUBLISH") {
            if let [channel, message] = &words[..] {
                self.call
                    .told
                    .push((channel.to_string(), message.to_string()));
            }
            return;
        }
        // Only this one has several keys, and nothing behind them.
        let several = line.verb == "DEL";
        let count = if several {
            words.len()
        } else {
            words.len().min(1)
        };
        for at in 0..count {
            let Some((name, part)) = keys::parse(&words[at]) else {
                continue;
            };
            if part == Part::Gate {
                let value = words.get(1).filter(|_| line.verb == "SET");
                self.gate_is_open = value.is_some_and(|value| value.split(' ').nth(1) == Some("0"));
                continue;
            }
            if !self.locks.contains_key(name) {
                self.locks.insert(name.to_owned(), Lock::default());
            }
            if !self.call.touched.iter().any(|touched| touched == name) {
                self.call.touched.push(name.to_owned());
            }
            if line.client.is_some() && part == Part::Usage {
                self.report.step("usage deleted by hand");
            }
            let command = Command {
                at_us: line.at_us,
                verb: line.verb,
                words: if several { &[] } else { &words[1..] },
            };
            if let Some(lock) = self.locks.get_mut(name) {
                lock.apply(part, &self.call, command);
            }
        }
    }

    /// The request is over: was it right?
    fn close(&mut self) {
        let call = mem::take(&mut self.call);
        let mut tokens = Vec::new();
        for name in &call.touched {
            let Some(lock) = self.locks.get_mut(name) else {
                continue;
            };
            let mut events = mem::take(&mut lock.now);
            rules::judge(lock, &mut events, &call);
            lock.fence.known = lock.fence.known.max(events.fences.largest);
            let lock = &self.locks[name];
            call::count(&events, &call, &mut self.report);
            tokens.extend(events.granted.iter().map(|granted| granted.token.clone()));
            for (entry, granted) in rules::overtaken(lock, &events) {
                let what = format!("{} overtakes {}", granted, entry.member);
                let suspicion = self.suspicion(Rule::Order, name, what, entry);
                self.suspicions.extend(suspicion);
            }
            let may_be_present =
                |entry: &Entry| !self.connections.listeners(entry.channel()).is_empty();
            let idle = rules::idle(lock, &events, &call, may_be_present);
            if let Some(entry) = idle {
                let what = format!("{} fits and was not granted", entry.member);
                let suspicion = self.suspicion(Rule::Idle, name, what, entry);
                self.suspicions.extend(suspicion);
            }
            let compared = lock.waiters.waiting().next().is_some()
                && !(events.granted.is_empty() && events.ended.is_empty());
            self.report.compared += u64::from(compared);
            for (rule, what) in events.wrong {
                self.accuse(rule, name, what);
            }
        }
        self.several(&call, &tokens);
    }

    /// What concerns more than one lock.
    fn several(&mut self, call: &Call, tokens: &[String]) {
        let name = call.touched.first().map(String::as_str).unwrap_or_default();
        if let [first, others @ ..] = tokens
            && call.touched.len() > 1
        {
            let one_token = others.iter().any(|token| token == first);
            self.report.step(if one_token {
                "granted several names in one request"
            } else {
                "granted a batch"
            });
        }
        for (_, message) in &call.told {
            if let Some(token) = message
                .strip_prefix("grant ")
                .and_then(|rest| rest.rsplit(' ').next())
                && !tokens.iter().any(|granted| granted == token)
            {
                self.accuse(
                    Rule::Message,
                    name,
                    format!("{token} was told of a grant that was not made"),
                );
            }
        }
    }

    /// Nothing when the waiter is surely not present.
    fn suspicion(&self, rule: Rule, name: &str, what: String, entry: &Entry) -> Option<Suspicion> {
        let listeners = self.connections.listeners(entry.channel());
        (!listeners.is_empty()).then(|| Suspicion {
            rule,
            name: name.to_owned(),
            what,
            listeners,
            commands: self.commands(name),
        })
    }

    /// When the latest command ran.
    pub(super) fn now_us(&self) -> u64 {
        self.now_us
    }

    /// The server's word at a marker.
    pub(super) fn mark(&mut self, snapshot: &Snapshot) {
        self.connections.compare(&snapshot.clients);
        for suspicion in mem::take(&mut self.suspicions) {
            if self.connections.any_lives(&suspicion.listeners) {
                self.push(
                    suspicion.rule,
                    &suspicion.name,
                    suspicion.what,
                    suspicion.commands,
                );
            } else {
                self.report.unknown += 1;
            }
        }
        let Some(base) = &self.base else {
            self.base = Some(snapshot.calls.clone());
            self.read.clear();
            return;
        };
        let mut gaps = Vec::new();
        for verb in COUNTED {
            let said = |calls: &HashMap<String, u64>| calls.get(verb).copied().unwrap_or_default();
            let ran = said(&snapshot.calls) - said(base);
            let read = self
                .read
                .get(&verb.to_uppercase())
                .copied()
                .unwrap_or_default();
            if ran != read {
                gaps.push(format!("{ran} times {verb} ran, {read} were read"));
            }
        }
        if !gaps.is_empty() {
            self.accuse(Rule::Gap, "", gaps.join("; "));
        }
    }

    /// Another server serves from now on, with these keys. The leases that are not among them still count.
    pub(super) fn adopt(&mut self, keys: Vec<(String, Found)>, now_us: u64) {
        self.close();
        self.suspicions.clear();
        self.connections = Connections::default();
        (self.base, self.gate_is_open) = (None, false);
        let before = mem::take(&mut self.locks);
        for (key, found) in keys {
            if let Some((name, part)) = keys::parse(&key) {
                let lock = self.locks.entry(name.to_owned()).or_default();
                lock.adopt(part, found);
            }
        }
        for (name, old) in before {
            let lock = self.locks.entry(name).or_default();
            let lasting = old.held.lasting(now_us).into_iter();
            let lasting = lasting.map(|hold| (hold.token, hold.sure_until_us));
            lock.former = lasting.chain(old.former).collect();
            lock.former
                .retain(|(token, until)| now_us < *until && lock.held.of(token).is_none());
            lock.fence.known = lock.fence.known.max(old.fence.known);
        }
    }

    pub(super) fn accuse(&mut self, rule: Rule, name: &str, what: String) {
        let commands = self.commands(name);
        self.push(rule, name, what, commands);
    }

    fn push(&mut self, rule: Rule, name: &str, what: String, commands: Vec<String>) {
        if self.report.violations.len() < VIOLATIONS_MAX {
            let name = name.to_owned();
            self.report.violations.push(Violation {
                rule,
                name,
                what,
                commands,
            });
        }
    }

    fn commands(&self, name: &str) -> Vec<String> {
        if self.report.violations.len() >= VIOLATIONS_MAX {
            return Vec::new();
        }
        let mut found: Vec<String> = { self.past.iter().rev() }
            .filter(|line| !name.is_empty() && line.contains(name))
            .take(SHOWN)
            .cloned()
            .collect();
        found.reverse();
        found
    }
}

/// Commands whose number is compared at each marker.
const COUNTED: [&str; 12] = [
    "set", "del", "zadd", "zrem", "hset", "hsetnx", "hdel", "pexpire", "xadd", "publish",
    "evalsha", "eval",
];
