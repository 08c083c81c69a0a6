//! The arguments of the verb for permits.

use clap::{Args, ValueEnum};

use crate::manual;

/// Show how many permits there are and who holds them, or set their number
///
/// The latest `run --permits N` decides how many there are, unless `set` has pinned a number. More
/// permits are granted at once. Fewer take nothing away: nothing is granted until enough are back.
#[derive(Debug, Args)]
#[command(after_help = manual::PERMITS)]
#[command(override_usage = "leaselock permits [OPTIONS] NAME [set N | unset]")]
pub(crate) struct PermitsArgs {
    /// Name of the lock whose permits are meant
    name: String,

    /// set N: pin the number, whatever runs ask for; unset: the latest run decides again
    #[arg(value_name = "set|unset", hide_possible_values = true)]
    action: Option<Action>,

    /// How many permits there are from now on
    #[arg(value_name = "N", allow_negative_numbers = true)]
    count: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Action {
    Set,
    Unset,
}

/// What the verb does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Show,
    Set(u32),
    Unset,
}

impl PermitsArgs {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The second stage: refuses contradictions, with a sentence about what would be right.
    pub(crate) fn step(&self) -> Result<Step, String> {
        match (self.action, self.count) {
            (None, _) => Ok(Step::Show),
            (Some(Action::Set), Some(0)) => {
                Err("set: with 0 permits nothing could ever run; give 1 or more".to_owned())
            }
            (Some(Action::Set), Some(count)) => Ok(Step::Set(count)),
            (Some(Action::Set), None) => {
                Err("set: say how many: leaselock permits NAME set N".to_owned())
            }
            (Some(Action::Unset), None) => Ok(Step::Unset),
            (Some(Action::Unset), Some(_)) => {
                Err("unset: takes no number: leaselock permits NAME unset".to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Verb};
    use clap::Parser as _;

    #[test]
    fn the_number_is_shown_set_or_left_to_the_runs() {
        let step = |words: &str| {
            let line = format!("leaselock permits pool{words}");
            match Cli::try_parse_from(line.split(' ')).unwrap().verb {
                Verb::Permits(args) => args.step(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(step(""), Ok(Step::Show));
        assert_eq!(step(" set 4"), Ok(Step::Set(4)));
        assert_eq!(step(" unset"), Ok(Step::Unset));
        for (words, right) in [
            (" set", "permits NAME set N"),
            (" set 0", "give 1 or more"),
            (" unset 4", "permits NAME unset"),
        ] {
            let refusal = step(words).unwrap_err();
            assert!(refusal.contains(right), "{refusal}");
        }
    }
}
