//! What the engine passes along: kinds, modes, requests, calls and grants. Nothing here waits, or knows a client.

pub(crate) mod ballot;
pub(crate) mod calls;
pub(crate) mod calls_all;
pub(crate) mod calls_many;
pub(crate) mod compare_and_delete;
pub(crate) mod custom;
pub(crate) mod detach;
pub(crate) mod gate;
pub(crate) mod grant;
pub(crate) mod identity;
pub(crate) mod kind;
pub(crate) mod lock_mode;
pub(crate) mod log;
pub(crate) mod note;
pub(crate) mod operation;
pub(crate) mod position;
pub(crate) mod release_alone;
pub(crate) mod request;
pub(crate) mod resource;
pub(crate) mod shortcut;
pub(crate) mod verdicts;
