//! One file for each verb.

pub(crate) mod acquire;
pub(crate) mod bench;
pub(crate) mod blame;
pub(crate) mod break_;
mod broken_before;
pub(crate) mod completions;
pub(crate) mod count;
pub(crate) mod cron;
mod cron_show;
pub(crate) mod doctor;
pub(crate) mod elect;
pub(crate) mod functions;
pub(crate) mod handle;
pub(crate) mod hold;
mod hold_told;
mod job_lock;
pub(crate) mod latch;
pub(crate) mod leader;
pub(crate) mod limit;
pub(crate) mod log;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod once;
mod once_record;
mod once_show;
pub(crate) mod permits;
pub(crate) mod request;
pub(crate) mod run;
pub(crate) mod schedules;
mod service;
pub(crate) mod status;
pub(crate) mod strict;
#[cfg(feature = "top")]
pub(crate) mod top;
pub(crate) mod wait;
