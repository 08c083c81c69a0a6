//! A release on the lock's key alone: the script compares the token and deletes the key.

use super::grant::ReleaseAnswer;
use super::operation::operation;
use crate::script::{Script, script};

pub(crate) static COMPARE_AND_DELETE: Script = script!("setnx_pexpire/release");

operation! {
    /// Releases a lock that has no side keys. Runs `lua/setnx_pexpire/release.lua`.
    pub(crate) struct CompareAndDelete<'a> {
        lock: &'a str,
        token: &'a str,
    }
    script &COMPARE_AND_DELETE;
    fn encode(call) {
        call.key(lock);
        call.arg(token);
    }
    fn decode(answer) -> ReleaseAnswer {
        _ => ReleaseAnswer::decode(answer)?,
    }
}
