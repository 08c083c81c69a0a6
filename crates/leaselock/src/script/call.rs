//! One call of one script: its keys and arguments.

use std::fmt;

use super::arg::Arg;
use super::parameters::Parameters;
use super::source::Script;

/// One call of one script, for a store to run.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) script: &'static Script,
    pub(crate) parameters: Parameters,
    /// The script for the most important part, on the first key alone, when the keys are in several slots.
    pub(crate) alone: Option<&'static Script>,
    /// A waiter is probably told by this call: its message is to leave before the reply.
    pub(crate) message_first: bool,
}

/// Tokens are among the arguments, so `Debug` hides them.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Call({} {:?}, {} args)",
            self.script.name,
            self.parameters.keys().collect::<Vec<_>>(),
            self.parameters.count() - self.parameters.key_count()
        )
    }
}

impl Call {
    pub(crate) fn of(script: &'static Script) -> Self {
        Call {
            script,
            parameters: Parameters::with_room(),
            alone: None,
            message_first: false,
        }
    }

    /// Sets the script to run on the first key, with the same arguments, for keys in several slots.
    pub(crate) fn single_key_fallback(&mut self, script: &'static Script) {
        self.alone = Some(script);
    }

    /// Returns a call with the same arguments for a script that needs the first key only.
    pub(crate) fn on_first_key(&self, script: &'static Script) -> Call {
        let mut call = Call::of(script);
        self.parameters.keys().take(1).for_each(|key| {
            call.key(key);
        });
        call.args(self.parameters.args());
        call
    }

    /// Adds a key; keys precede arguments.
    pub(crate) fn key(&mut self, key: impl Arg) -> &mut Self {
        self.parameters.push_key(key);
        self
    }

    pub(crate) fn keys<W: Arg>(&mut self, keys: impl Iterator<Item = W>) {
        for key in keys {
            self.key(key);
        }
    }

    pub(crate) fn args<W: Arg>(&mut self, args: impl Iterator<Item = W>) {
        args.for_each(|arg| self.parameters.push(arg));
    }

    pub(crate) fn arg(&mut self, arg: impl Arg) -> &mut Self {
        self.parameters.push(arg);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_arguments_are_told_apart_and_numbers_are_digits() {
        static SCRIPT: Script = Script::new("test", "").reads_only();
        let mut call = Call::of(&SCRIPT);
        call.key("one").key("");
        call.arg(0).arg(u64::MAX).arg(1_000).arg("ü");
        let parameters = &call.parameters;
        assert_eq!(parameters.keys().collect::<Vec<_>>(), ["one", ""]);
        let args: Vec<_> = parameters.args().collect();
        assert_eq!(args, ["0", "18446744073709551615", "1000", "ü"]);
        assert_eq!(
            (
                parameters.key_count(),
                parameters.count(),
                parameters.iter().count()
            ),
            (2, 6, 6)
        );
    }
}
