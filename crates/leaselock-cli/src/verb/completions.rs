//! `leaselock completions SHELL`

use clap::CommandFactory as _;

use crate::args::Cli;
use crate::args::inspect::CompletionsArgs;

/// The completions for a shell, made from the definition of the arguments.
pub(crate) fn text(args: &CompletionsArgs) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "leaselock", &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;
    use clap_complete::Shell;

    #[test]
    fn every_shell_learns_every_verb() {
        for shell in Shell::value_variants() {
            let text = String::from_utf8(super::text(&CompletionsArgs { shell: *shell })).unwrap();
            for verb in Cli::command().get_subcommands() {
                assert!(
                    text.contains(verb.get_name()),
                    "{shell}: {}",
                    verb.get_name()
                );
            }
        }
    }
}
