//! One request, and what it did to a lock.

use super::fence::Fences;
use super::held::{Hold, How, SLACK_US, before_break};
use super::report::{Report, Rule};
use super::waiters::Entry;

/// A request, and what it published.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) start_us: u64,
    pub(super) last_us: u64,
    pub(super) keys: Vec<String>,
    pub(super) args: Vec<String>,
    /// Channels and messages.
    pub(super) told: Vec<(String, String)>,
    /// Names of locks, each once.
    pub(super) touched: Vec<String>,
    /// It asks at the gate, and the gate is not known to be open.
    pub(super) gate_closed: bool,
}

impl Call {
    /// Whether it names this token, or what it was before an operator broke it: its holder may not have heard of that.
    pub(super) fn carries(&self, token: &str) -> bool {
        let before = before_break(token);
        let names = |arg: &String| arg == token || before.as_ref() == Some(arg);
        self.args.iter().any(names)
    }

    /// An operator takes the lock away: a fencing token or nothing, whether at once, and whether another library's counts
    /// too.
    pub(super) fn breaks(&self) -> bool {
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        match &self.args[..] {
            [only, flags @ .., channel, _, _] if flags.len() >= 2 => {
                let is_flag = |flag: &String| flag == "0" || flag == "1";
                self.keys.len() >= 5
                    && is_number(only)
                    && flags.iter().take(2).all(is_flag)
                    && channel.contains("ll:wake:")
            }
            _ => false,
        }
    }

    /// It is about the upgrade of this token.
    pub(super) fn upgrades(&self, token: &str) -> bool {
        self.carries(token) && self.carries("x")
    }

    pub(super) fn told(&self, entry: &Entry) -> bool {
        let its = |(channel, message): &(String, String)| {
            channel == entry.channel() && message.ends_with(entry.token())
        };
        self.told.iter().any(its)
    }
}

/// A hold that began.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) token: String,
    pub(super) how: How,
    /// How the token held before.
    pub(super) from: Option<How>,
    pub(super) at_us: u64,
}

/// A hold that was taken out.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) hold: Hold,
    pub(super) at_us: u64,
}

impl Ended {
    pub(super) fn lasted(&self) -> bool {
        self.at_us < self.hold.sure_until_us
    }
}

/// What one request did to one lock.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) granted: Vec<Granted>,
    pub(super) ended: Vec<Ended>,
    pub(super) left: Vec<Entry>,
    pub(super) joined: Vec<Entry>,
    /// Waiters that the request did not reach. They have left too.
    pub(super) set_aside: Vec<Entry>,
    pub(super) fences: Fences,
    pub(super) extended: u32,
    pub(super) passed_on: bool,
    /// Holds that were broken and last on.
    pub(super) broken: u32,
    pub(super) resized: bool,
    /// The number of permits that was deleted.
    pub(super) permits_lost: Option<u64>,
    pub(super) pinned: bool,
    pub(super) counted: bool,
    pub(super) wrong: Vec<(Rule, String)>,
}

/// An accusation that holds if one of the connections lives on.
#[derive(Debug)]
pub(super) struct Suspicion {
    pub(super) rule: Rule,
    pub(super) name: String,
    pub(super) what: String,
    pub(super) listeners: Vec<u64>,
    pub(super) commands: Vec<String>,
}

impl Events {
    pub(super) fn accuse(&mut self, rule: Rule, what: String) {
        self.wrong.push((rule, what));
    }

    /// A hold that goes on in another way did not end. In the same way it was over, and is granted anew.
    pub(super) fn join_changes(&mut self) {
        for granted in &mut self.granted {
            let its =
                |ended: &Ended| ended.hold.token == granted.token && ended.hold.how != granted.how;
            if granted.from.is_none()
                && let Some(at) = self.ended.iter().position(its)
            {
                granted.from = Some(self.ended.remove(at).hold.how);
            }
        }
    }

    /// A hold was broken: it did not begin, and ends no later than without the break.
    pub(super) fn broke(&mut self, text: &str, ends_us: u64, until_us: Option<u64>) {
        self.broken += 1;
        if until_us.is_some_and(|until| ends_us > until + SLACK_US) {
            self.accuse(Rule::Lease, format!("{text} was broken and lasts longer"));
        }
    }

    /// The token was in the queue until this request.
    pub(super) fn has_left(&self, token: &str) -> bool {
        self.left.iter().any(|entry| entry.token() == token)
    }

    pub(super) fn was_granted(&self, token: &str) -> bool {
        self.granted.iter().any(|granted| granted.token == token)
    }
}

/// The steps that the request was, by name.
pub(super) fn count(events: &Events, call: &Call, report: &mut Report) {
    for granted in &events.granted {
        let by_message = call.told.iter().any(|(_, message)| {
            message.starts_with("grant ") && message.ends_with(granted.token.as_str())
        });
        report.step(match (granted.from, granted.how, by_message) {
            (None, How::Alone, false) => "granted alone, at once",
            (None, How::Alone, true) => "granted alone, by a message",
            (None, How::Reads, false) => "granted to read, at once",
            (None, How::Reads, true) => "granted to read, by a message",
            (None, How::Upgradable, false) => "granted an upgradable read, at once",
            (None, How::Upgradable, true) => "granted an upgradable read, by a message",
            (None, How::Permits(_), false) => "granted permits, at once",
            (None, How::Permits(_), true) => "granted permits, by a message",
            (Some(_), How::Alone, false) => "upgraded, at once",
            (Some(_), How::Alone, true) => "upgraded, by a message",
            (Some(_), How::Reads, _) => "downgraded to read",
            (Some(_), How::Upgradable, _) => "downgraded to an upgradable read",
            (Some(_), How::Permits(_), _) => "permits acquired again",
        });
    }
    for ended in &events.ended {
        report.step(if !ended.lasted() {
            "ended by time"
        } else if call.carries(&ended.hold.token) {
            "released"
        } else {
            "broken, at once"
        });
    }
    for entry in events
        .left
        .iter()
        .filter(|entry| !events.was_granted(entry.token()))
    {
        report.step(if entry.kind() == "x" {
            "gave up an upgrade"
        } else {
            "left the queue"
        });
    }
    for _ in 0..events.extended {
        report.step("extended");
    }
    for _ in 0..events.broken {
        report.step("broken");
    }
    for _ in &events.joined {
        report.step("joined the queue");
    }
    if events.pinned {
        report.step("permits pinned");
    }
    if events.resized {
        report.step("permits changed");
    }
}
