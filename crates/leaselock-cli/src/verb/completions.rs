//! `leaselock completions SHELL`

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;

use crate::args::Cli;
use crate::args::inspect::CompletionsArgs;

/// The completions for a shell, made from the definition of the arguments. The generated text knows no names of
/// locks, so bash, zsh and fish get a function that asks for them.
pub(crate) fn text(args: &CompletionsArgs) -> Vec<u8> {
    let mut generated = Vec::new();
    let mut command = Cli::command();
    clap_complete::generate(args.shell, &mut command, "leaselock", &mut generated);
    let text = String::from_utf8_lossy(&generated);
    with_names(&text, args.shell, &command).into_bytes()
}

fn with_names(text: &str, shell: Shell, command: &Command) -> String {
    match shell {
        Shell::Bash => {
            let options = options_with_values(command).join(" | ");
            let names = include_str!("completions/names.bash").replace("@OPTIONS@", &options);
            format!("{text}{names}")
        }
        Shell::Zsh => in_zsh(text),
        Shell::Fish => format!("{text}{}", include_str!("completions/names.fish")),
        _ => text.to_owned(),
    }
}

/// The word behind one of these is a value and no name of a lock. An option has one meaning in all verbs.
fn options_with_values(command: &Command) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let verbs = command.get_subcommands().flat_map(Command::get_arguments);
    for argument in command.get_arguments().chain(verbs) {
        if argument.is_positional() || !argument.get_action().takes_values() {
            continue;
        }
        let long = argument.get_long().into_iter();
        let long = long.chain(argument.get_all_aliases().unwrap_or_default());
        found.extend(long.map(|long| format!("--{long}")));
        found.extend(argument.get_short().map(|short| format!("-{short}")));
    }
    found.sort();
    found.dedup();
    found
}

/// The function must come before the last lines, which call the completion.
fn in_zsh(text: &str) -> String {
    let starts = ["':name -- ", "'::name -- ", "'*::names -- "];
    let is_name = |line: &str| starts.iter().any(|start| line.starts_with(start));
    let named = text.lines().map(|line| match is_name(line) {
        true => line.replace(":_default'", ":_leaselock_names'"),
        false => line.to_owned(),
    });
    let text = named.collect::<Vec<_>>().join("\n") + "\n";
    let last = text
        .rfind("\nif [ \"$funcstack[1]\"")
        .map_or(text.len(), |at| at + 1);
    let (before, behind) = text.split_at(last);
    format!("{before}{}{behind}", include_str!("completions/names.zsh"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;

    fn completions(shell: Shell) -> String {
        String::from_utf8(text(&CompletionsArgs { shell })).unwrap()
    }

    #[test]
    fn every_shell_learns_every_verb() {
        for shell in Shell::value_variants() {
            let text = completions(*shell);
            for verb in Cli::command().get_subcommands() {
                assert!(
                    text.contains(verb.get_name()),
                    "{shell}: {}",
                    verb.get_name()
                );
            }
        }
    }

    #[test]
    fn the_usual_shells_ask_for_the_names_of_locks() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            assert!(completions(shell).contains("ls --complete="), "{shell}");
        }
        let zsh = completions(Shell::Zsh);
        // run, hold, acquire, status, wait, break, log, permits, elect, leader, once, cron; the name of a latch is no lock's
        assert_eq!(zsh.matches(":_leaselock_names'").count(), 12);
        let call = zsh.find("if [ \"$funcstack[1]\"").unwrap();
        assert!(zsh.find("_leaselock_names() {").unwrap() < call);
        let bash = completions(Shell::Bash);
        assert!(bash.contains("| --kill-after |") && !bash.contains("@OPTIONS@"));
    }
}
