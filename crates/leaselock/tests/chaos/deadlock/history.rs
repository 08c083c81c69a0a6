//! What each client did and was told, in the order of its own doing: a line for each event, of all processes in one file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use testkit::clock;

/// Writes the history of one client.
pub(super) struct History {
    file: File,
    client: String,
}

impl History {
    pub(super) fn append(path: &Path, client: &str) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(path);
        History {
            file: file.unwrap(),
            client: client.to_owned(),
        }
    }

    fn note(&self, what: &str) {
        let (now, pid) = (clock::now().as_micros(), std::process::id());
        let line = format!("{now} {pid} {} {what}\n", self.client);
        // One write to a file opened for appending: lines of several processes do not mix.
        (&self.file).write_all(line.as_bytes()).unwrap();
    }

    /// It is about to ask, and gives up after this limit, if there is one.
    pub(super) fn asks(&self, name: &str, limit: Option<Duration>) {
        let limit = limit.map_or(-1, |limit| i64::try_from(limit.as_micros()).unwrap());
        self.note(&format!("asks {name} {limit}"));
    }

    pub(super) fn granted(&self, has_waited: bool) {
        self.note(if has_waited {
            "granted waited"
        } else {
            "granted"
        });
    }

    pub(super) fn gave_up(&self) {
        self.note("gave-up");
    }

    /// With the members that the witness did not find where they were said to be.
    pub(super) fn deadlock(&self, circle: &[leaselock::error::Link], moved: &BTreeSet<String>) {
        let link = |link: &leaselock::error::Link| {
            let (client, moved) = (&link.client, moved.contains(&link.client));
            let (holds, waits_for) = (&link.holds, &link.waits_for);
            format!("{client}|{holds}|{waits_for}|{}", u8::from(moved))
        };
        let links: Vec<String> = circle.iter().map(link).collect();
        self.note(&format!("deadlock {}", links.join(" ")));
    }

    /// It is about to release all that it holds. `lost`: it held one of these no more.
    pub(super) fn releases(&self, lost: bool) {
        self.note(if lost { "lost" } else { "releases" });
    }
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Granted { has_waited: bool },
    GaveUp,
    Deadlock(Vec<Link>),
}

/// A member of a circle, as the victim was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) client: String,
    pub(super) holds: String,
    pub(super) waits_for: String,
    /// The store showed it elsewhere when the victim had been told.
    pub(super) has_moved: bool,
}

/// One request of a client.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) pid: u32,
    pub(super) name: String,
    /// What the client held all the time.
    pub(super) held: BTreeSet<String>,
    pub(super) began: Duration,
    /// When it gives up by itself.
    pub(super) until: Option<Duration>,
    /// `None`: its process was killed meanwhile.
    pub(super) end: Option<(Duration, End)>,
}

/// What all clients did, and when they lost something.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) clients: BTreeMap<String, Vec<Asked>>,
    pub(super) losses: Vec<Duration>,
}

impl Told {
    pub(super) fn read(path: &Path) -> Told {
        let text = std::fs::read_to_string(path).unwrap();
        // A process that was killed may have left a line unfinished.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let (mut told, mut held) = (Told::default(), BTreeMap::<&str, BTreeSet<String>>::new());
        for line in whole.lines() {
            let mut words = line.split(' ');
            let mut word = || words.next().unwrap_or_default();
            let (at, pid, client, what) = (micros(word()), word(), word(), word());
            let held = held.entry(client).or_default();
            let asked = told.clients.entry(client.to_owned()).or_default();
            if what == "asks" {
                let (name, limit) = (word().to_owned(), word().parse::<i64>().unwrap());
                asked.push(Asked {
                    pid: pid.parse().unwrap(),
                    name,
                    held: held.clone(),
                    began: at,
                    until: u64::try_from(limit)
                        .ok()
                        .map(|us| at + Duration::from_micros(us)),
                    end: None,
                });
                continue;
            }
            if matches!(what, "releases" | "lost") {
                held.clear();
                told.losses.extend((what == "lost").then_some(at));
                continue;
            }
            let asked = asked.last_mut().unwrap();
            let end = match what {
                "granted" => {
                    held.insert(asked.name.clone());
                    let has_waited = word() == "waited";
                    End::Granted { has_waited }
                }
                "gave-up" => End::GaveUp,
                "deadlock" => End::Deadlock(words.map(link).collect()),
                _ => panic!("{line}"),
            };
            asked.end = Some((at, end));
        }
        told
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &Asked)> {
        let of = |(client, asked): (_, _)| -> (&String, &Vec<Asked>) { (client, asked) };
        let each = self.clients.iter().map(of);
        each.flat_map(|(client, all)| all.iter().map(move |asked| (client.as_str(), asked)))
    }
}

fn micros(text: &str) -> Duration {
    Duration::from_micros(text.parse().unwrap())
}

fn link(text: &str) -> Link {
    let words: Vec<&str> = text.split('|').collect();
    let [client, holds, waits_for, moved] = words[..] else {
        panic!("{text}")
    };
    Link {
        client: client.to_owned(),
        holds: holds.to_owned(),
        waits_for: waits_for.to_owned(),
        has_moved: moved == "1",
    }
}
