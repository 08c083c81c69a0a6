//! What the engine passes along: kinds, modes, requests, calls and grants. Nothing here waits, or knows a client.

pub(crate) mod ballot;
pub(crate) mod calls;
pub(crate) mod calls_many;
pub(crate) mod calls_optional;
pub(crate) mod custom;
pub(crate) mod gate;
pub(crate) mod grant;
pub(crate) mod kind;
pub(crate) mod log;
pub(crate) mod request;
pub(crate) mod shortcut;
pub(crate) mod verdicts;

pub(crate) use self::calls::{Acquire, AcquireTerms, Cancel, Extend, Release, operation};
pub(crate) use self::calls_many::{Item, Replies};
pub(crate) use self::calls_optional::Note;
pub(crate) use self::custom::{Connections, CustomLock, LockServer};
pub(crate) use self::gate::Strict;
pub(crate) use self::grant::{Acquired, CancelAnswer, ExtendAnswer, ReleaseAnswer, Seen};
pub(crate) use self::kind::{Held, HeldFor, Kind, LockMode, Resource, kind, step};
pub(crate) use self::log::{LogEntry, LogEvent};
pub(crate) use self::request::{AcquireRequest, Copies, OnWait, Wait, Waiting};
