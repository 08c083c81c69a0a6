//! The answer to a wrong command line: clap's text, without secrets, and code 64.

use std::ffi::OsString;

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::command_line::Cli;
use crate::exit::Exit;
use crate::output::sanitized;
use crate::secrets::{Secret, without_secrets};

/// The text and the exit code for what the parser did not turn into arguments.
///
/// `--help` and `--version` are such cases too: the user asked for their text, so it belongs on
/// standard output and is no failure.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Asked(String),
    Wrong(String, Exit),
}

/// Turns clap's verdict into ours.
pub(crate) fn answer(error: &clap::Error) -> Answer {
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Answer::Asked(text),
        // The second when LEASELOCK_URL is set, which the parser takes for an argument.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            Answer::Wrong(format!("leaselock: {}", no_command(&text)), Exit::USAGE)
        }
        _ => {
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            // The parser counts these variables as arguments, and would show them as needed.
            let text = text.replace(" --url <URL>", "");
            let text = text.replace(" --url-file <FILE>", "");
            let text = match misplaced(error) {
                Some((place, secret)) => format!("{}\n", secret.misplaced(&place)),
                None => match habit(error) {
                    Some(advice) => format!("{}\n\n{advice}\n", first_line(&text)),
                    None => without_secrets(&text) + &lacking_verb(error),
                },
            };
            Answer::Wrong(format!("leaselock: {text}"), Exit::USAGE)
        }
    }
}

/// What to do where a verb is missing, behind `leaselock` or behind a verb that has verbs of its own.
fn no_command(text: &str) -> String {
    let mut command = Cli::command();
    command.build();
    let usage = text.split("Usage: leaselock ").nth(1).unwrap_or_default();
    let verb = usage.split_whitespace().next().unwrap_or_default();
    let (what, help) = match command.find_subcommand_mut(verb) {
        Some(verb) => {
            let own = verb.get_subcommands().map(clap::Command::get_name);
            let own: Vec<&str> = own.filter(|name| *name != "help").collect();
            let what = format!("`{}` needs one of: {}", verb.get_name(), own.join(", "));
            (what, verb.render_help())
        }
        None => {
            let what = "no command given. Try: leaselock run NAME -- COMMAND".to_owned();
            // What it is for, and the verb `help`, are left out: so all others stay on one screen.
            let mut brief = Cli::command().about("").disable_help_subcommand(true);
            (what, brief.render_help())
        }
    };
    format!("{what}\n\n{}", help.to_string().trim_start())
}

fn first_line(text: &str) -> String {
    without_secrets(text.lines().next().unwrap_or_default())
}

/// What users of flock(1) and of other lock commands mean by a word or a flag that is none here.
fn habit(error: &clap::Error) -> Option<&'static str> {
    let said = [ContextKind::InvalidSubcommand, ContextKind::InvalidArg];
    let word = said.iter().find_map(|kind| match error.get(*kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    })?;
    match (error.kind(), word) {
        (ErrorKind::InvalidSubcommand, "lock" | "exec" | "with") => {
            Some("To run a command under a lock: leaselock run NAME -- COMMAND")
        }
        (ErrorKind::InvalidSubcommand, "unlock")
        | (ErrorKind::UnknownArgument, "-u" | "--unlock") => Some(
            "To run a command under a lock: leaselock run NAME -- COMMAND; the lock is released when the command ends. \
             What `leaselock acquire` acquired: leaselock release",
        ),
        (ErrorKind::UnknownArgument, "-F" | "--no-fork") => Some(
            "To run a command under a lock: leaselock run NAME -- COMMAND; leaselock stays beside the command, \
             because it renews the lease",
        ),
        _ => None,
    }
}

/// Whether the errors of a line that is not understood are for programs. The command's own words may stand before a `--`
/// that is missing.
pub(crate) fn asks_for_json(line: &[OsString]) -> bool {
    let mut words = line.iter().take_while(|word| *word != "--");
    words.any(|word| word == "--json")
}

/// The same text for programs: what is wrong and what would be right, without usage and help.
pub(crate) fn in_one_line(text: &str) -> String {
    let text = text.strip_prefix("leaselock: ").unwrap_or(text);
    let mut parts = text.split("\n\n");
    let first = parts.next();
    let advice =
        parts.filter(|part| part.trim_start().starts_with("tip: ") || part.starts_with("To run "));
    let words = first
        .into_iter()
        .chain(advice)
        .flat_map(str::split_whitespace);
    words.collect::<Vec<_>>().join(" ")
}

/// In flock(1) the lock comes first. So a word that resembles no verb may be the name of a lock.
fn lacking_verb(error: &clap::Error) -> String {
    let verb = error.get(ContextKind::InvalidSubcommand);
    let (Some(ContextValue::String(name)), None) =
        (verb, error.get(ContextKind::SuggestedSubcommand))
    else {
        return String::new();
    };
    let name = sanitized(&without_secrets(name));
    let word = match name.contains(char::is_whitespace) {
        true => format!("'{name}'"),
        false => name.clone(),
    };
    format!("\nTo run a command under the lock '{name}': leaselock run {word} -- COMMAND\n")
}

/// The secret that the parser would quote, and its place.
fn misplaced(error: &clap::Error) -> Option<(String, Secret)> {
    let mut place = "an argument".to_owned();
    let mut secret = None;
    for (kind, value) in error.context() {
        let ContextValue::String(value) = value else {
            continue;
        };
        match Secret::quoted(value) {
            Some(found) => secret = Some(found),
            None if kind == ContextKind::InvalidArg => place.clone_from(value),
            None => {}
        }
    }
    let stray = error.kind() == ErrorKind::UnknownArgument && !place.starts_with('-');
    if secret.is_none() && stray && takes_a_handle(error) {
        // Whatever it is: who writes an argument here means the handle, perhaps a part of it.
        return Some(("an argument".to_owned(), Secret::Handle));
    }
    secret.map(|secret| (place, secret))
}

/// Whether the verb is one that a handle is given to, though not as an argument.
fn takes_a_handle(error: &clap::Error) -> bool {
    let usage = error.get(ContextKind::Usage).map(ToString::to_string);
    let usage = usage.unwrap_or_default();
    ["leaselock release", "leaselock extend"]
        .iter()
        .any(|verb| usage.contains(verb))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn verdict(line: &[&str]) -> Answer {
        answer(&Cli::try_parse_from(line).unwrap_err())
    }

    #[test]
    fn help_and_version_are_no_errors() {
        for flag in ["--help", "-h", "--version", "-V"] {
            let Answer::Asked(text) = verdict(&["leaselock", flag]) else {
                panic!("{flag}")
            };
            assert!(text.contains("leaselock"));
        }
        assert!(matches!(
            verdict(&["leaselock", "run", "--help"]),
            Answer::Asked(_)
        ));
    }

    #[test]
    fn a_wrong_line_is_64_and_begins_with_the_name_of_the_program() {
        let lines: [&[&str]; 8] = [
            &["leaselock"],
            &["leaselock", "fly"],
            &["leaselock", "run"],
            &["leaselock", "run", "-E", "256", "job", "true"],
            &["leaselock", "run", "-E", "-1", "job", "true"],
            &["leaselock", "run", "-n", "-w", "1", "job", "true"],
            &["leaselock", "run", "--ttl", "1e400", "job", "true"],
            &["leaselock", "wait"],
        ];
        for line in lines {
            let Answer::Wrong(text, exit) = verdict(line) else {
                panic!("{line:?}")
            };
            assert_eq!(exit, Exit::USAGE);
            assert!(text.starts_with("leaselock: "), "{text}");
        }
    }

    #[test]
    fn a_line_without_a_verb_is_answered_with_run() {
        let said = |line: &[&str]| match verdict(line) {
            Answer::Wrong(text, Exit::USAGE) => text,
            other => panic!("{line:?}: {other:?}"),
        };
        let text = said(&["leaselock"]);
        let first = "leaselock: no command given. Try: leaselock run NAME -- COMMAND";
        assert_eq!(text.lines().next(), Some(first));
        assert!(text.lines().count() <= 46, "{text}");
        for line in [
            &["leaselock", "nightly", "--", "date"][..],
            &["leaselock", "-v", "nightly", "date"],
        ] {
            let text = said(line);
            assert!(text.contains("unrecognized subcommand 'nightly'"), "{text}");
            assert!(text.contains("leaselock run nightly -- COMMAND"), "{text}");
        }
        let text = said(&["leaselock", "two words", "date"]);
        assert!(
            text.contains("leaselock run 'two words' -- COMMAND"),
            "{text}"
        );
        let text = said(&["leaselock", "statsu"]);
        assert!(
            text.contains("'status'") && !text.contains("run statsu"),
            "{text}"
        );
    }

    #[test]
    fn a_habit_of_another_command_is_answered_with_what_this_one_has() {
        for (line, advice) in [
            (&["leaselock", "lock", "a"][..], "leaselock run NAME"),
            (
                &["leaselock", "exec", "a", "--", "date"],
                "leaselock run NAME",
            ),
            (&["leaselock", "with", "a", "date"], "leaselock run NAME"),
            (&["leaselock", "unlock", "a"], "leaselock release"),
            (
                &["leaselock", "run", "-u", "a", "date"],
                "when the command ends",
            ),
            (&["leaselock", "run", "-F", "a", "date"], "renews the lease"),
        ] {
            let Answer::Wrong(text, Exit::USAGE) = verdict(line) else {
                panic!("{line:?}")
            };
            let parts: Vec<&str> = text.trim_end().split("\n\n").collect();
            assert!(
                parts.len() == 2 && parts[1].contains(advice),
                "{line:?}: {text}"
            );
            assert!(in_one_line(&text).contains(advice), "{line:?}");
        }
    }

    #[test]
    fn a_verb_that_lacks_its_own_verb_is_answered_with_its_own_help() {
        let Answer::Wrong(text, Exit::USAGE) = verdict(&["leaselock", "strict"]) else {
            panic!("not refused")
        };
        assert!(
            text.starts_with("leaselock: `strict` needs one of: "),
            "{text}"
        );
        assert!(text.contains("Usage: leaselock strict"), "{text}");
    }

    #[test]
    fn no_error_echoes_a_password() {
        let secret = "redis://user:s3cret@word@db.example:6379/0";
        let lines: [&[&str]; 6] = [
            &["leaselock", "doctor", secret],
            &["leaselock", "doctor", "redis://u:s3cret word@h"],
            &["leaselock", "status", "--ulr", secret],
            &["leaselock", "run", "--ttl", secret, "job", "true"],
            &["leaselock", "--url", secret, "fly"],
            &["leaselock", secret],
        ];
        for line in lines {
            let Answer::Wrong(text, _) = verdict(line) else {
                panic!("{line:?}")
            };
            assert!(!text.contains("s3cret") && !text.contains("word"), "{text}");
        }
    }
}
