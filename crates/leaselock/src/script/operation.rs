//! An atomic step as a Rust value: its script, its arguments, its answer.

use super::answer::{Answer, Malformed};
use super::call::Call;
use super::source::Script;
use crate::base::error::{ErrorKind, StoreError};

/// An atomic step of a primitive.
pub(crate) trait Operation {
    type Reply: Send + 'static;
    fn script(&self) -> &'static Script;
    /// Writes keys and arguments in the order of the script's header.
    fn encode(&self, call: &mut Call);
    /// Reads every tag of the header, and no other.
    fn decode(answer: &Answer) -> Result<Self::Reply, Malformed>;

    /// Returns the server's time in the answer, in microseconds, if the step carries it.
    fn time_us(answer: &Answer) -> Option<u64> {
        let _ = answer;
        None
    }

    fn call(&self) -> Call {
        let mut call = Call::of(self.script());
        self.encode(&mut call);
        call
    }

    /// Reads an answer; one that is not understood may come from a step that was taken.
    fn read(script: &Script, answer: &Answer) -> Result<Self::Reply, StoreError> {
        Self::decode(answer).map_err(|Malformed| {
            let script = script.name;
            StoreError::unknown(
                ErrorKind::Malformed,
                format!("unexpected reply to {script}: is something else listening there, or a proxy in between?"),
            )
        })
    }
}
