//! What a wrong command line is answered with: clap's text, without secrets, and code 64.

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use super::Cli;
use crate::exit::Exit;

/// The text and the exit code for what the parser did not turn into arguments.
///
/// `--help` and `--version` are such cases too: their text is what was asked for, so it belongs
/// on standard output and is no failure.
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
            let help = Cli::command().render_help();
            Answer::Wrong(format!("leaselock: say what to do\n\n{help}"), Exit::USAGE)
        }
        _ => {
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            Answer::Wrong(format!("leaselock: {}", without_secrets(text)), Exit::USAGE)
        }
    }
}

/// Replaces everything from the first `://` to the last `@` by stars, and what follows `pass=`.
///
/// An error may quote any argument, and a URL with a password may have been typed where none
/// belongs. A password may hold any character, blanks and more `@` too, so this takes out rather
/// too much than too little.
pub(crate) fn without_secrets(text: &str) -> String {
    let mut text = match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            format!("{}***{}", &text[..scheme + 3], &text[at..])
        }
        _ => text.to_owned(),
    };
    let mut from = 0;
    while let Some(found) = text[from..].find("pass=") {
        let secret = from + found + "pass=".len();
        let end = text[secret..].find(['&', '`', '\'', '"', '\n']);
        text.replace_range(secret..end.map_or(text.len(), |end| secret + end), "***");
        from = secret;
    }
    text
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
            &["leaselock", "status"],
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

    #[test]
    fn only_the_secret_part_of_a_url_is_starred() {
        let cases = [
            ("no url here, a@b", "no url here, a@b"),
            ("at redis://h:1/0 now", "at redis://h:1/0 now"),
            ("'redis://u:p@h/0' is wrong", "'redis://***@h/0' is wrong"),
            ("redis://u:p q@://x@y", "redis://***@y"),
            ("redis://u:p@h rediss://:q@i", "redis://***@i"),
            ("ends in ://", "ends in ://"),
            (
                "`a?pass=p w&db=1&pass=` is",
                "`a?pass=***&db=1&pass=***` is",
            ),
        ];
        for (given, expected) in cases {
            assert_eq!(without_secrets(given), expected);
        }
    }
}
