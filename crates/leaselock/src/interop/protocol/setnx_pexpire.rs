//! `SETNX` and `PEXPIRE` in one script, from the time before `SET NX PX` (Redis 2.6.12).
//!
//! **The hole** that this protocol was made to close: with two commands, a crash between them leaves a lock without an
//! expiry. A script does both or neither. What remains is what every lease has: a holder that is late.

use crate::script::{Script, script};

pub(super) static TAKE_FOREIGN: Script = script!("setnx_pexpire/take");
