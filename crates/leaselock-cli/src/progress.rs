//! What `-v` reports on standard error, and `hold` on standard output: the progress of a wait, the grant and the
//! release, one line each. As objects both have the same words, fields and units.

use std::cell::Cell;
use std::time::Duration;

use leaselock::options::Waiting;
use leaselock::satellite::rounded;
use leaselock::{ErrorKind, Fence, StoreError};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::args::Globals;
use crate::event::{self, deadline};
use crate::feed::Feed;
use crate::held::Held;
use crate::look::{Look, Seen};
use crate::secrets::without_secrets;
use crate::waiting_message::{self, WaitState};
use crate::{boottime, output, show, signal_name};

/// How often a wait is reported.
const EVERY: Duration = Duration::from_secs(60);
/// How often `wait` asks for the holder before there was a reply.
const UNTIL_FIRST_REPLY: Duration = Duration::from_secs(1);

/// Where the reports go.
pub(crate) enum Outlet {
    Nowhere,
    /// Lines for people, on standard error.
    Lines,
    /// Objects on standard error.
    Objects,
    /// Objects on standard output, for the program that started this one.
    Feed(Feed),
}

/// What is reported of one lock.
pub(crate) struct Progress {
    /// The first, for programs.
    name: String,
    /// All of them, for people.
    names: String,
    /// A quorum and other libraries' ways of locking have no queue, so a waiter has no position.
    queued: bool,
    outlet: Outlet,
    began: u64,
    /// When the lock was acquired.
    held_since: Cell<u64>,
}

impl Progress {
    /// Begins now. Reports nothing without `-v`.
    pub(crate) fn of(names: &[String], queued: bool, globals: &Globals) -> Progress {
        let shown = |name: &String| output::sanitized(&without_secrets(name));
        Progress {
            name: names.first().map(shown).unwrap_or_default(),
            names: names.iter().map(shown).collect::<Vec<_>>().join(", "),
            queued,
            outlet: match (globals.verbose > 0, globals.json) {
                (false, _) => Outlet::Nowhere,
                (true, false) => Outlet::Lines,
                (true, true) => Outlet::Objects,
            },
            began: boottime::now(),
            held_since: Cell::default(),
        }
    }

    /// The same, reported there.
    pub(crate) fn to(mut self, outlet: Outlet) -> Progress {
        self.outlet = outlet;
        self
    }

    /// When the lock was acquired, as deadlines count.
    pub(crate) fn held_since(&self) -> u64 {
        self.held_since.get()
    }

    /// Whether anything is reported.
    pub(crate) fn is_told(&self) -> bool {
        !matches!(self.outlet, Outlet::Nowhere)
    }

    fn age(&self) -> Duration {
        Duration::from_nanos(boottime::now().saturating_sub(self.began))
    }

    pub(crate) fn tell(&self, event: &str, text: &str, facts: Value) {
        let object = || event::line(event, &self.name, text, facts);
        match &self.outlet {
            Outlet::Nowhere => {}
            Outlet::Objects => output::report(&object()),
            Outlet::Feed(feed) if event == "renewed" => feed.put_renewed(object()),
            Outlet::Feed(feed) => feed.put(object()),
            Outlet::Lines => {
                let (clear, names) = (waiting_message::clear(), &self.names);
                let text = output::sanitized(text);
                output::report(&format!("{clear}leaselock: {names}: {text}\n"));
            }
        }
    }

    pub(crate) fn acquired(&self, held: &Held) {
        self.held_since.set(boottime::now());
        let waited = rounded(self.age());
        let fence = match (held.fences(), held.fence()) {
            (Some(fences), _) => format!(" (fences {})", fences.replace('\n', ", ")),
            (None, Some(fence)) => format!(" (fence {fence})"),
            (None, None) => String::new(),
        };
        let text = format!("acquired after {waited}{fence}");
        self.tell("acquired", &text, event::acquired(held));
    }

    /// The lease now ends at this moment of the clock that counts suspend.
    pub(crate) fn renewed(&self, ends_at: u64) {
        self.tell("renewed", "renewed", deadline(ends_at));
    }

    pub(crate) fn gave_up_at(&self, signal: Signal) {
        self.gave_up(&format!("SIG{}", signal_name::name(signal)));
    }

    pub(crate) fn gave_up(&self, why: &str) {
        let waited = rounded(self.age());
        self.tell(
            "gave-up",
            &format!("gave up after {waited}: {why}"),
            Value::Null,
        );
    }

    /// The result of an earlier run is there.
    pub(crate) fn replayed(&self, run: Fence) {
        let waited = rounded(self.age());
        let text = format!("has run (fence {run}); its result is replayed after {waited}");
        self.tell("replayed", &text, Value::Null);
    }

    /// The rate allows no more before this time has passed.
    pub(crate) fn limited(&self, for_so_long: Duration) {
        let wait = rounded(for_so_long);
        self.tell(
            "waiting",
            &format!("waiting until the rate allows it, in {wait}"),
            Value::Null,
        );
    }

    pub(crate) fn allowed(&self) {
        let waited = rounded(self.age());
        self.tell("allowed", &format!("allowed after {waited}"), Value::Null);
    }

    pub(crate) fn released(&self) {
        let held = boottime::now().saturating_sub(self.held_since());
        let held = Duration::from_nanos(held);
        let facts = json!({ "held_ms": show::ms(held) });
        self.tell(
            "released",
            &format!("released, held {}", rounded(held)),
            facts,
        );
    }

    /// The store did not reply, and is asked again.
    pub(crate) fn retrying(&self, error: &StoreError, store: &str) {
        let (event, text) =
            Report::Begins(Observation::Failing(failing(error, store))).in_words(false, store);
        self.tell(event, &text, Value::Null);
    }

    pub(crate) fn free(&self) {
        let waited = rounded(self.age());
        self.tell("free", &format!("free after {waited}"), Value::Null);
    }

    /// Reports the wait of `run` and `acquire`. Never completes, so put it beside the wait in a `select!`.
    pub(crate) async fn follow(&self, state: &WaitState, look: &Look<'_>) {
        if !self.is_told() {
            std::future::pending::<()>().await;
        }
        let mut pacing = Pacing::default();
        let store = look.store();
        loop {
            let minute = tokio::time::sleep(EVERY);
            tokio::select! {
                () = state.changed() => {}
                () = minute => {}
            }
            let Some(waiting) = state.latest() else {
                continue;
            };
            let Some(line) = pacing.next(self.age(), Observation::of(&waiting, &store)) else {
                continue;
            };
            let (event, mut text) = line.in_words(self.queued, &store);
            let mut seen = None;
            if line.wants_holder() {
                seen = look.see(waiting.name.as_str()).await.ok();
            }
            if let Some(holder) = seen.as_ref().and_then(Seen::held_by) {
                let which = match self.name == self.names {
                    true => "held by".to_owned(),
                    false => format!("{} held by", waiting.name),
                };
                text.push_str(&format!("; {which} {holder}"));
            }
            let position = line.position().filter(|_| self.queued);
            self.tell(event, &text, event::waiting(position, seen.as_ref()));
        }
    }

    /// The same for `wait`, which has no position in the queue.
    pub(crate) async fn follow_holder(&self, look: &Look<'_>, name: &str) {
        if !self.is_told() {
            std::future::pending::<()>().await;
        }
        let mut begins = true;
        loop {
            if let Some(holder) = look.held_by(name).await {
                let text = if std::mem::take(&mut begins) {
                    format!("held by {holder}; waiting until it is free")
                } else {
                    let waited = rounded(self.age());
                    format!("still held after {waited}, by {holder}")
                };
                self.tell("waiting", &text, Value::Null);
            }
            let pause = if begins { UNTIL_FIRST_REPLY } else { EVERY };
            tokio::time::sleep(pause).await;
        }
    }
}

/// A failed request in a few words: the server and the cause.
pub(crate) fn failing(error: &StoreError, store: &str) -> String {
    let cause = cause(error, store);
    if is_silence(error) {
        format!("{store} does not reply ({cause})")
    } else {
        cause
    }
}

/// The error without the store's name, for messages that have the name.
pub(crate) fn cause(error: &StoreError, store: &str) -> String {
    if error.kind() == ErrorKind::NoReply && error.votes().is_empty() {
        return "timed out".to_owned();
    }
    let text = error.to_string();
    match text.split_once(&format!("{store}: ")) {
        Some((_, cause)) if is_silence(error) => cause.to_owned(),
        _ => text,
    }
}

/// There was no answer, and not one that refuses.
pub(crate) fn is_silence(error: &StoreError) -> bool {
    matches!(error.kind(), ErrorKind::NoReply | ErrorKind::Unreachable) && error.votes().is_empty()
}

/// What the library has reported of the wait.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Observation {
    At(usize),
    Quarantine(String),
    Failing(String),
}

impl Observation {
    fn of(waiting: &Waiting, store: &str) -> Observation {
        match (&waiting.error, waiting.quarantine) {
            (Some(error), _) => Observation::Failing(failing(error, store)),
            (None, Some(why)) => Observation::Quarantine(why.to_string()),
            (None, None) => Observation::At(waiting.position),
        }
    }
}

/// Decides which line comes next. Time is an argument.
#[derive(Debug, Default)]
struct Pacing {
    last: Option<Observation>,
    /// When the latest line was printed.
    told_at: Duration,
}

#[derive(Debug, PartialEq, Eq)]
enum Report {
    /// The first answer, or the first one of another kind.
    Begins(Observation),
    /// As a minute ago, or at another position.
    Still(Duration, Observation),
    /// The store replies again.
    Back(Duration, Observation),
}

impl Pacing {
    fn next(&mut self, age: Duration, observation: Observation) -> Option<Report> {
        use Observation::{At, Failing};
        let due = age >= self.told_at + EVERY;
        let line = match (&self.last, &observation) {
            (Some(Failing(_)), Failing(_)) | (Some(At(_)), At(_)) if !due => return None,
            (Some(before), _) if before == &observation && !due => return None,
            (Some(Failing(_)), At(_)) => Report::Back(age, observation.clone()),
            (Some(Failing(_)), Failing(_)) | (Some(At(_)), At(_)) => {
                Report::Still(age, observation.clone())
            }
            (Some(before), _) if before == &observation => Report::Still(age, observation.clone()),
            _ => Report::Begins(observation.clone()),
        };
        (self.last, self.told_at) = (Some(observation), age);
        Some(line)
    }
}

impl Report {
    fn wants_holder(&self) -> bool {
        self.position().is_some()
    }

    fn position(&self) -> Option<usize> {
        let (Report::Begins(observation)
        | Report::Still(_, observation)
        | Report::Back(_, observation)) = self;
        match observation {
            Observation::At(position) => Some(*position),
            _ => None,
        }
    }

    /// The event, and the text without the holder.
    fn in_words(&self, queued: bool, store: &str) -> (&'static str, String) {
        let at = |position: &usize| match queued {
            true => format!("queued at position {position}"),
            false => "waiting".to_owned(),
        };
        match self {
            Report::Begins(Observation::At(position)) => ("queued", at(position)),
            Report::Begins(Observation::Quarantine(why)) => {
                ("waiting", format!("no lock is granted yet: {why}"))
            }
            Report::Begins(Observation::Failing(trouble)) => {
                ("retrying", format!("{trouble}, retrying"))
            }
            Report::Still(age, observation) => {
                let age = rounded(*age);
                match observation {
                    Observation::At(position) => {
                        ("waiting", format!("still {} after {age}", at(position)))
                    }
                    Observation::Quarantine(why) => (
                        "waiting",
                        format!("still waiting after {age}; no lock is granted yet: {why}"),
                    ),
                    Observation::Failing(trouble) => (
                        "retrying",
                        format!("still waiting after {age}; {trouble}, retrying"),
                    ),
                }
            }
            Report::Back(age, Observation::At(position)) => {
                let age = rounded(*age);
                let text = format!("{store} replies again; still {} after {age}", at(position));
                ("waiting", text)
            }
            Report::Back(_, _) => ("waiting", format!("{store} replies again")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(position: usize) -> Observation {
        Observation::At(position)
    }

    fn silence() -> Observation {
        Observation::Failing("redis://h does not reply (timed out)".to_owned())
    }

    #[test]
    fn a_wait_is_told_at_its_beginning_and_then_once_a_minute() {
        let mut pacing = Pacing::default();
        let s = Duration::from_secs;
        assert_eq!(pacing.next(s(0), at(2)), Some(Report::Begins(at(2))));
        assert_eq!(pacing.next(s(5), at(2)), None);
        assert_eq!(pacing.next(s(59), at(1)), None);
        assert_eq!(pacing.next(s(60), at(1)), Some(Report::Still(s(60), at(1))));
        assert_eq!(pacing.next(s(119), at(1)), None);
        assert_eq!(
            pacing.next(s(121), at(1)),
            Some(Report::Still(s(121), at(1)))
        );
    }

    #[test]
    fn a_store_that_does_not_answer_is_told_at_once_once_a_minute_and_when_it_is_back() {
        let mut pacing = Pacing::default();
        let s = Duration::from_secs;
        pacing.next(s(0), at(1));
        assert_eq!(
            pacing.next(s(9), silence()),
            Some(Report::Begins(silence()))
        );
        assert_eq!(pacing.next(s(10), silence()), None);
        assert_eq!(
            pacing.next(s(69), silence()),
            Some(Report::Still(s(69), silence()))
        );
        assert_eq!(pacing.next(s(72), at(1)), Some(Report::Back(s(72), at(1))));
        assert_eq!(pacing.next(s(77), at(1)), None);
    }

    #[test]
    fn the_lines_say_the_position_only_where_there_is_a_queue() {
        let still = Report::Still(Duration::from_secs(61), at(3));
        let words = |line: &Report, queued| line.in_words(queued, "redis://h").1;
        assert_eq!(
            words(&still, true),
            "still queued at position 3 after 1 min 1 s"
        );
        assert_eq!(words(&still, false), "still waiting after 1 min 1 s");
        assert_eq!(
            words(&Report::Begins(silence()), true),
            "redis://h does not reply (timed out), retrying"
        );
    }
}
