//! An atomic step as a Rust value: which script, what goes in, what comes out.

use super::answer::{Answer, Malformed};
use super::call::Call;
use super::source::Script;
use crate::base::error::{ErrorKind, StoreError};

/// An atomic step of a primitive.
pub(crate) trait Operation {
    type Reply: Send + 'static;
    const SCRIPT: fn() -> &'static Script;
    /// The same with a gate in front of it, where there is such a one.
    const STRICT: fn() -> &'static Script = Self::SCRIPT;
    /// Keys and arguments in the order of the script's header.
    fn encode(&self, call: &mut Call);
    /// Every tag of the header, and no other.
    fn decode(answer: &Answer) -> Result<Self::Reply, Malformed>;

    /// The server's time in an answer, in microseconds, of those that carry it.
    fn time_us(answer: &Answer) -> Option<u64> {
        let _ = answer;
        None
    }

    /// The script that serves this one: another than [`SCRIPT`](Operation::SCRIPT) where a gate stands in front.
    fn script(&self) -> &'static Script {
        Self::SCRIPT()
    }

    fn call(&self) -> Call {
        let mut call = Call::of(self.script());
        self.encode(&mut call);
        call
    }

    /// An answer that is not understood may come from a step that was taken.
    fn read(answer: &Answer) -> Result<Self::Reply, StoreError> {
        Self::decode(answer).map_err(|Malformed| {
            let script = Self::SCRIPT().name;
            StoreError::unknown(
                ErrorKind::Malformed,
                format!("the answer of {script} was not understood"),
            )
        })
    }
}
