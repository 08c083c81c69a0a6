//! What went wrong, in one line for people or one object for programs, and the exit code with it.

use std::fmt::{self, Display, Formatter};

use leaselock::counter::CounterError;
use leaselock::cron::CronError;
use leaselock::error::{BreakError, InvalidInput, NodeVote, RequestError, Vote};
use leaselock::inspect::Holder;
use leaselock::latch::LatchError;
use leaselock::limiter::LimiterError;
use leaselock::once::OnceError;
use leaselock::satellite::span;
use leaselock::{AcquireError, ErrorKind, LeaseError, Name, ReleaseError, StoreError};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::limits;
use crate::output;
use crate::secrets::without_secrets;
use crate::show;

/// Why a verb failed.
#[derive(Debug)]
pub(crate) struct Failure {
    text: String,
    pub(crate) exit: Exit,
    details: Box<Details>,
}

/// What else programs are told.
#[derive(Debug, Default)]
struct Details {
    /// What went wrong, if the exit code does not say it.
    kind: Option<String>,
    /// The lock that it is about, as far as that is known.
    name: Option<String>,
    /// Who has a lock that is busy, or of several holders the first.
    holder: Option<Value>,
    /// The answer of each of several servers.
    votes: Vec<NodeVote>,
    /// True if the store has answered the same wait before.
    is_after_an_answer: bool,
}

/// What to do about a run that has crashed: only people can find out whether its work was done.
pub(crate) fn after_a_crash(name: &str) -> String {
    let name = output::sanitized(name);
    format!("find out, and `leaselock once '{name}' --forget` lets the next caller run")
}

impl Failure {
    pub(crate) fn new(text: impl Display, exit: Exit) -> Self {
        // A URL may have been typed where a name belongs, and a message may quote it.
        let text = without_secrets(&text.to_string());
        Failure::in_the_librarys_words(text, exit)
    }

    pub(crate) fn internal(text: impl Display) -> Self {
        Failure::new(text, Exit::INTERNAL)
    }

    /// In the library's own words, which hold no secrets but may show how a URL is written.
    pub(crate) fn in_the_librarys_words(text: impl Display, exit: Exit) -> Self {
        let text = text.to_string();
        // The store is not to blame then, whatever could not be opened.
        let (text, exit) = match limits::named(&text) {
            Some(text) => (text, Exit::SYSTEM),
            None => (text, exit),
        };
        Failure {
            text,
            exit,
            details: Box::default(),
        }
    }

    fn because_of(mut self, source: &StoreError) -> Self {
        self.details.kind = Some(in_snake_case(source.kind()));
        self.details.votes = source.votes().to_vec();
        self
    }

    /// The lock of this name is busy, whatever exit code says so.
    pub(crate) fn busy(mut self, name: &str, holder: Option<&Holder>) -> Self {
        self.details.kind = Some("busy".to_owned());
        self.details.name = Some(without_secrets(name));
        self.details.holder = holder.map(show::holder_json);
        self
    }

    /// The store has answered before, in the same wait.
    pub(crate) fn after_an_answer(mut self) -> Self {
        self.details.is_after_an_answer = true;
        self
    }

    pub(crate) fn is_after_an_answer(&self) -> bool {
        self.details.is_after_an_answer
    }

    /// The server knows neither the user nor the password of the URL.
    pub(crate) fn is_refused_login(&self) -> bool {
        self.details.kind == Some(in_snake_case(ErrorKind::Auth))
    }

    /// The store never replied.
    pub(crate) fn given_up_after(mut self, tried: &str) -> Self {
        self.text.push_str(&format!("; gave up after {tried}"));
        self
    }

    /// Others of the holders that were to be broken had been, before it failed.
    pub(crate) fn after_a_part(mut self, broken: usize, all: usize) -> Self {
        let text = format!("; {broken} of the {all} holders had been broken before");
        self.text.push_str(&text);
        self
    }

    /// A store error about one lock. The user typed the name, so it may be a URL.
    fn with_lock(name: &Name, what: &str, source: &StoreError, exit: Exit) -> Self {
        let name = without_secrets(name.as_str());
        let text = format!("`{name}`: {what}{source}");
        let mut failure = Failure::in_the_librarys_words(text, exit).because_of(source);
        failure.details.name = Some(name);
        failure
    }

    pub(crate) fn acquire(error: &AcquireError, busy: Exit) -> Self {
        let exit = Exit::of_acquire(error, busy);
        match error {
            AcquireError::Store { name, source } | AcquireError::NoQuorum { name, source, .. } => {
                Failure::with_lock(name, "", source, exit)
            }
            AcquireError::Unknown {
                name,
                clear_in,
                source,
            } => {
                let what = format!("no usable reply; cleaned up within {}: ", span(*clear_in));
                Failure::with_lock(name, &what, source, exit)
            }
            AcquireError::TimedOut { name, .. } => {
                Failure::new(error, exit).busy(name.as_str(), None)
            }
            _ => Failure::new(error, exit),
        }
    }

    pub(crate) fn once(error: &OnceError, busy: Exit) -> Self {
        let exit = Exit::of_once(error, busy);
        match error {
            OnceError::Acquire(error) => Failure::acquire(error, busy),
            OnceError::Store { name, source } => Failure::with_lock(name, "", source, exit),
            OnceError::NotStored { name, source } => {
                let what = "the command has run, and whether its result is stored is not known: ";
                Failure::with_lock(name, what, source, exit)
            }
            OnceError::Crashed { name, .. } => {
                let next = after_a_crash(name.as_str());
                Failure::new(format!("{error}; {next}"), exit)
            }
            _ => Failure::new(error, exit),
        }
    }

    pub(crate) fn cron(error: &CronError) -> Self {
        let exit = Exit::of_cron(error);
        match error {
            CronError::Acquire(error) => Failure::acquire(error, Exit::BUSY),
            CronError::Store { name, source } => Failure::with_lock(name, "", source, exit),
            CronError::NotConfirmed { name, source } => {
                let what = "the command has run, and whether that is recorded is not known: ";
                Failure::with_lock(name, what, source, exit)
            }
            _ => Failure::new(error, exit),
        }
    }

    /// A word for programs: what was wrong at the store, or else what the exit code means.
    fn kind(&self) -> &str {
        let by_exit = match self.exit {
            Exit::USAGE => "usage",
            Exit::BUSY => "busy",
            Exit::LOST => "lost",
            Exit::REFUSED => "refused",
            Exit::OUTPUT => "output",
            Exit::SYSTEM => "system",
            Exit::INTERNAL => "internal",
            _ => "other",
        };
        self.details.kind.as_deref().unwrap_or(by_exit)
    }

    /// On standard error, apart from the result on standard output.
    pub(crate) fn say(&self, as_json: bool) {
        let text = output::sanitized(&self.text);
        if as_json {
            let Details {
                name,
                holder,
                votes,
                ..
            } = &*self.details;
            let name = name.as_deref().map(output::sanitized);
            let mut object = json!({
                "error": text, "exit": self.exit.code(), "kind": self.kind(), "name": name, "holder": holder,
            });
            if !votes.is_empty() {
                object["nodes"] = votes.iter().map(vote).collect();
            }
            output::say(&output::json(&object));
        } else {
            output::say(&format!("leaselock: {text}\n"));
        }
    }
}

fn in_snake_case(kind: ErrorKind) -> String {
    let mut word = String::new();
    for c in format!("{kind:?}").chars() {
        if c.is_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.push(c.to_ascii_lowercase());
    }
    word
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The answer of one of several servers, for programs.
fn vote(one: &NodeVote) -> Value {
    let kind = one.error.as_ref().map(StoreError::kind);
    let vote = match one.vote {
        Vote::Granted => "granted",
        Vote::Busy { .. } => "busy",
        Vote::NotVoting { .. } => "not-voting",
        Vote::Silent if kind == Some(ErrorKind::Unreachable) => "unreachable",
        Vote::Silent => "silent",
        Vote::SameServer => "same-server",
        Vote::Answered => "answered",
        _ => "failed",
    };
    json!({ "node": output::sanitized(&one.node), "vote": vote, "said": output::sanitized(&one.to_string()) })
}

impl From<InvalidInput> for Failure {
    fn from(error: InvalidInput) -> Self {
        Failure::new(error, Exit::USAGE)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::in_the_librarys_words(&error, Exit::of_store(error.kind())).because_of(&error)
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Store(source) => source.into(),
            _ => Failure::new(&error, Exit::of_inspect(&error)),
        }
    }
}

impl From<LatchError> for Failure {
    fn from(error: LatchError) -> Self {
        let exit = Exit::of_latch(&error);
        match &error {
            LatchError::Store { name, source } => Failure::with_lock(name, "", source, exit),
            _ => Failure::new(&error, exit),
        }
    }
}

impl From<LimiterError> for Failure {
    fn from(error: LimiterError) -> Self {
        let exit = Exit::of_limiter(&error);
        match &error {
            LimiterError::Store { name, source } => Failure::with_lock(name, "", source, exit),
            _ => Failure::new(&error, exit),
        }
    }
}

impl From<CounterError> for Failure {
    fn from(error: CounterError) -> Self {
        let exit = Exit::of_counter(&error);
        match &error {
            CounterError::Store { name, source } => Failure::with_lock(name, "", source, exit),
            CounterError::Unknown(unknown) => {
                let what =
                    "no reply, so it is unknown whether the change was applied (never twice): ";
                Failure::with_lock(unknown.name(), what, unknown.cause(), exit)
            }
            _ => Failure::new(&error, exit),
        }
    }
}

impl From<LeaseError> for Failure {
    fn from(error: LeaseError) -> Self {
        let exit = Exit::of_extend(&error);
        match &error {
            LeaseError::Store { name, source } => Failure::with_lock(name, "", source, exit),
            LeaseError::Unknown { name, source } => Failure::with_lock(
                name,
                "no usable reply; held until the old deadline at least: ",
                source,
                exit,
            ),
            _ => Failure::new(&error, exit),
        }
    }
}

impl From<ReleaseError> for Failure {
    fn from(error: ReleaseError) -> Self {
        let exit = Exit::of_release(&error);
        match &error {
            ReleaseError::Store { name, source } => {
                Failure::with_lock(name, "not released: ", source, exit)
            }
            ReleaseError::Unknown { name, source } => {
                let what = "no usable reply to the release; expires within its ttl: ";
                Failure::with_lock(name, what, source, exit)
            }
            _ => Failure::new(&error, exit),
        }
    }
}

impl From<BreakError> for Failure {
    fn from(error: BreakError) -> Self {
        let exit = Exit::of_break(&error);
        let hint = match &error {
            BreakError::Foreign { .. } => "; --now --foreign breaks it all the same",
            BreakError::Mismatch { .. } => "; see status for the present one",
            BreakError::Store { name, source } => {
                return Failure::with_lock(name, "not broken: ", source, exit);
            }
            BreakError::Unknown { name, source } => {
                let what = "its holder may have been broken, so see status before you repeat it: ";
                let mut failure = Failure::with_lock(name, what, source, exit);
                failure.details.kind = Some("unknown".to_owned());
                return failure;
            }
            _ => "",
        };
        Failure::new(format!("{error}{hint}"), exit)
    }
}

impl From<output::NotPrinted> for Failure {
    fn from(output::NotPrinted(error): output::NotPrinted) -> Self {
        Failure::new(format!("standard output: {error}"), Exit::OUTPUT)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind as Kind;
        let exit = match error.kind() {
            Kind::Unsupported | Kind::OutOfMemory | Kind::WouldBlock => Exit::SYSTEM,
            _ => Exit::INTERNAL,
        };
        Failure::new(error, exit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_the_store_are_words() {
        let words = [
            ErrorKind::Unreachable,
            ErrorKind::OutOfMemory,
            ErrorKind::ReadOnly,
        ]
        .map(in_snake_case);
        assert_eq!(words, ["unreachable", "out_of_memory", "read_only"]);
    }
}
