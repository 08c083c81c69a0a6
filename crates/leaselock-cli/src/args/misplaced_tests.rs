//! Handles and passwords in every place of every verb, as the definition of the arguments has them.

use std::ffi::OsString;

use clap::{Arg, Command, CommandFactory as _};

use super::Cli;
use super::usage::{Answer, answer};

/// Both with the part that must not be seen.
const SECRETS: [(&str, &str); 2] = [
    ("ll1.am9i.c2VrcmV0LXRva2Vu.42", "c2VrcmV0"),
    ("redis://user:sekret@host:1/0", "sekret"),
];

/// Every verb, and every step of one, with the words that lead to it.
fn verbs() -> Vec<(Vec<String>, Command)> {
    fn collect(words: &[String], command: &Command, found: &mut Vec<(Vec<String>, Command)>) {
        found.push((words.to_vec(), command.clone()));
        for verb in command.get_subcommands() {
            let words = [words, &[verb.get_name().to_owned()]].concat();
            collect(&words, verb, found);
        }
    }
    let mut command = Cli::command();
    command.build();
    let mut found = Vec::new();
    collect(&["leaselock".to_owned()], &command, &mut found);
    assert!(found.len() > 15, "{}", found.len());
    found
}

fn positionals(command: &Command) -> Vec<&Arg> {
    command.get_positionals().collect()
}

/// Something that this argument takes.
fn filler(argument: &Arg) -> String {
    let possible = argument.get_possible_values();
    possible
        .first()
        .map_or("x", |value| value.get_name())
        .to_owned()
}

fn said(line: &[String]) -> Option<String> {
    let line: Vec<OsString> = line.iter().map(OsString::from).collect();
    match answer(&Cli::understand(&line).err()?) {
        Answer::Asked(text) | Answer::Wrong(text, _) => Some(text),
    }
}

/// The line is refused, and what is said does not repeat the secret.
#[track_caller]
fn is_refused(line: &[String], part: &str) {
    let text = said(line).unwrap_or_else(|| panic!("understood: {line:?}"));
    assert!(!text.contains(part), "{line:?}: {text}");
}

fn line(verb: &[String], more: &[String]) -> Vec<String> {
    [verb, more].concat()
}

#[test]
fn a_secret_as_the_value_of_any_option_is_refused_and_not_repeated() {
    for (words, verb) in verbs() {
        let fill: Vec<String> = positionals(&verb).iter().map(|it| filler(it)).collect();
        for argument in verb.get_arguments().filter(|it| !it.is_positional()) {
            let long = argument.get_long().map(|long| format!("--{long}"));
            let short = argument.get_short().map(|short| format!("-{short}"));
            let id = argument.get_id().as_str();
            if matches!(id, "script" | "help" | "version") {
                continue; // for a shell alone, and what ends the parsing
            }
            for (secret, part) in SECRETS {
                if id == "url" && part == "sekret" {
                    continue; // there it belongs
                }
                let mut ways = Vec::new();
                let takes_value = argument.get_action().takes_values();
                for name in long.iter().chain(&short).filter(|_| takes_value) {
                    ways.push(vec![name.clone(), secret.to_owned()]);
                }
                ways.extend(long.iter().map(|name| vec![format!("{name}={secret}")]));
                ways.extend(short.iter().map(|name| vec![format!("{name}{secret}")]));
                for way in ways {
                    is_refused(&line(&words, &way), part);
                    is_refused(&line(&words, &line(&way, &fill)), part);
                }
            }
        }
    }
}

#[test]
fn a_secret_in_any_position_is_refused_and_not_repeated() {
    for (words, verb) in verbs() {
        let places = positionals(&verb);
        let fill: Vec<String> = places.iter().map(|it| filler(it)).collect();
        let takes_the_rest = places.iter().any(|it| it.is_trailing_var_arg_set());
        for (secret, part) in SECRETS {
            for at in 0..places.len() {
                let mut more = fill.clone();
                more[at] = secret.to_owned();
                is_refused(&line(&words, &more), part);
                is_refused(&line(&words, &more[..=at]), part);
            }
            if !takes_the_rest {
                is_refused(&line(&words, &line(&fill, &[secret.to_owned()])), part);
                is_refused(&line(&words, &["--".to_owned(), secret.to_owned()]), part);
            }
            is_refused(&line(&words, &[secret.to_owned()]), part);
        }
    }
}

#[test]
fn a_secret_with_an_unknown_flag_is_refused_and_not_repeated() {
    for (words, _) in verbs() {
        for (secret, part) in SECRETS {
            for flag in ["--password", "--handle", "--token", "--ulr", "-Z", "--"] {
                let apart = [flag.to_owned(), secret.to_owned()];
                is_refused(&line(&words, &apart), part);
                is_refused(&line(&words, &[format!("{flag}={secret}")]), part);
                is_refused(&line(&words, &[format!("{flag}{secret}")]), part);
            }
        }
    }
}

#[test]
fn a_part_of_a_handle_is_not_repeated_by_the_verbs_that_take_one() {
    for verb in ["extend", "release"] {
        for stray in ["c2VrcmV0LXRva2Vu.42", "am9i.c2VrcmV0", "c2VrcmV0"] {
            let line: Vec<String> = ["leaselock", verb, stray].map(str::to_owned).into();
            is_refused(&line, "c2VrcmV0");
            assert!(said(&line).unwrap().contains("--handle-file FILE"));
        }
    }
}

#[test]
fn help_shows_no_value_of_a_variable() {
    for (words, verb) in verbs() {
        for argument in verb.get_arguments().filter(|it| it.get_env().is_some()) {
            assert!(
                argument.is_hide_env_values_set(),
                "{words:?} {}",
                argument.get_id()
            );
        }
    }
}

#[test]
fn what_is_no_secret_is_understood_and_quoted_as_before() {
    let understood = |text: &str| said(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
    for text in [
        "leaselock --url redis://user:sekret@host status a",
        "leaselock --url redis://user:sekret@host run a -- true",
        "leaselock run a -- redis-cli -u redis://user:sekret@host",
        "leaselock run a -- ./send ll1.am9i.c2VrcmV0.42",
        "leaselock run a -c LEASELOCK_HANDLE=ll1.am9i.c2VrcmV0.42",
        "leaselock status install1.sh.bak https://host/@me a@b",
    ] {
        assert_eq!(understood(text), None, "{text}");
    }
    assert!(understood("leaselock fly").unwrap().contains("'fly'"));
    assert!(
        understood("leaselock ls --ttl 5x")
            .unwrap()
            .contains("--ttl")
    );
    assert!(
        understood("leaselock wait -w 5x a")
            .unwrap()
            .contains("'5x'")
    );
}
