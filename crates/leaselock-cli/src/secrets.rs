//! What must never be repeated: handles, and URLs with a password. A reader of cron's mail could use them.

use std::ffi::OsStr;

use clap::{Arg, ArgMatches, Command};

/// How a handle begins.
const HANDLE: &str = "ll1.";

/// What may have been written where it does not belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secret {
    Handle,
    /// A URL with a user or password in it.
    Login,
}

impl Secret {
    /// The secret that a word is or contains.
    pub(crate) fn within(word: &str) -> Option<Secret> {
        let begins = word.trim_start().strip_prefix(HANDLE);
        if begins.is_some_and(|rest| !rest.is_empty()) || handle_in(word, true).is_some() {
            Some(Secret::Handle)
        } else if has_login(word) {
            Some(Secret::Login)
        } else {
            None
        }
    }

    /// The same for what an error would quote: any sign of a URL with more than a host is enough.
    pub(crate) fn quoted(word: &str) -> Option<Secret> {
        if handle_in(word, false).is_some() {
            return Some(Secret::Handle);
        }
        let starred = || (without_secrets(word) != word).then_some(Secret::Login);
        Secret::within(word).or_else(starred)
    }

    /// What to say of a secret in the wrong place.
    pub(crate) fn misplaced(self, place: &str) -> String {
        match self {
            Secret::Handle => format!(
                "{place}: no handle belongs here, and none is repeated, because it is a secret; extend and \
                 release read it from --handle-file FILE, from LEASELOCK_HANDLE or from standard input"
            ),
            Secret::Login => format!(
                "{place}: no URL with a login belongs here, and none is repeated; give it in LEASELOCK_URL, \
                 in the file of --url-file, or with --url"
            ),
        }
    }
}

/// The message about a secret in the wrong place. No part of the secret may be shown or stored.
pub(crate) fn misplaced(command: &Command, found: &ArgMatches) -> Option<String> {
    if let Some((verb, found)) = found.subcommand() {
        let verb = command.find_subcommand(verb)?;
        if let Some(place) = misplaced(verb, found) {
            return Some(place);
        }
    }
    // clap reports global options at the verb too, whose definition does not have them; the recursion reaches theirs.
    command
        .get_arguments()
        .find_map(|argument| in_values_of(argument, found))
}

fn in_values_of(argument: &Arg, found: &ArgMatches) -> Option<String> {
    let values = found.try_get_raw(argument.get_id().as_str()).ok()??;
    let values: Vec<&OsStr> = values.collect();
    let id = argument.get_id().as_str();
    let looked_at = match id {
        "script" => &[],                                  // for a shell alone
        "command" => values.get(..1).unwrap_or_default(), // the rest is for the program alone
        _ => &values[..],
    };
    let belongs = |secret: &Secret| id == "url" && *secret == Secret::Login;
    let secret = looked_at
        .iter()
        .find_map(|value| Secret::within(&value.to_string_lossy()).filter(|it| !belongs(it)))?;
    Some(secret.misplaced(&name_of(argument)))
}

/// As help has it.
fn name_of(argument: &Arg) -> String {
    let value = || argument.get_value_names().and_then(|names| names.first());
    match (argument.get_long(), value()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(name)) => name.to_string(),
        (None, None) => argument.get_id().to_string(),
    }
}

/// Whether a variable holds what a job has no need to know. What is not text cannot be understood, and could.
pub(crate) fn has_password(value: &OsStr) -> bool {
    value
        .to_str()
        .is_none_or(|urls| urls.split_whitespace().any(has_login))
}

/// Whether a URL has a login. A password may have any character in it, also `/`, so for a server any `@` is one; the
/// names of locks may be URLs too, as `https://host/@me`, where only the part before the path counts.
fn has_login(word: &str) -> bool {
    let Some((scheme, rest)) = word.split_once("://") else {
        return false;
    };
    let is_server = scheme.contains("redis") || scheme.contains("valkey");
    if is_server {
        return rest.contains('@') || rest.contains("pass=");
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let login = authority.rsplit_once('@').map(|(login, _)| login);
    scheme != "file" && login.is_some_and(|login| login.contains(':'))
}

/// The range of a handle, or of two of its parts, in a text; as a word of its own, or anywhere.
fn handle_in(text: &str, alone: bool) -> Option<(usize, usize)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut from = 0;
    while let Some(found) = text[from..].find(HANDLE) {
        let start = from + found;
        let rest = &text[start + HANDLE.len()..];
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let parts = rest[..end].split('.').filter(|part| !part.is_empty());
        let apart = !alone || !text[..start].ends_with(|c: char| c.is_ascii_alphanumeric());
        if apart && parts.count() >= 2 {
            return Some((start, start + HANDLE.len() + end));
        }
        from = start + HANDLE.len();
    }
    None
}

fn without_handles(text: &str) -> String {
    let mut text = text.to_owned();
    let mut from = 0;
    while let Some((start, end)) = handle_in(&text[from..], true) {
        text.replace_range(from + start + HANDLE.len()..from + end, "***");
        from += start + HANDLE.len();
    }
    text
}

/// Replaces everything from the first `://` to the last `@` by stars, what follows `pass=`, and handles.
///
/// An error may quote any argument, and a URL with a password may have been typed where none
/// belongs. A password may hold any character, blanks and more `@` too, so this takes out rather
/// too much than too little.
pub(crate) fn without_secrets(text: &str) -> String {
    let mut text = without_handles(text);
    text = match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            format!("{}***{}", &text[..scheme + 3], &text[at..])
        }
        _ => text,
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
            ("`ll1.am9i.c2Vj.1` is", "`ll1.***` is"),
            ("{\"handle\":\"ll1.a_-.b.1\"}", "{\"handle\":\"ll1.***\"}"),
            ("an install1.sh and ll1.", "an install1.sh and ll1."),
        ];
        for (given, expected) in cases {
            assert_eq!(without_secrets(given), expected);
        }
    }

    #[test]
    fn a_handle_and_a_url_with_a_password_are_known_and_names_are_not_taken_for_them() {
        for (word, secret) in [
            ("ll1.am9i.c2Vj.1", Some(Secret::Handle)),
            ("ll1.x", Some(Secret::Handle)),
            ("see ll1.am9i.c2Vj.1", Some(Secret::Handle)),
            ("handle=ll1.am9i.c2Vj", Some(Secret::Handle)),
            ("redis://:p@h", Some(Secret::Login)),
            ("redis://u:a/b@h", Some(Secret::Login)),
            ("redis+unix:///s?pass=p", Some(Secret::Login)),
            ("https://u:p@host/x", Some(Secret::Login)),
            ("nightly-report", None),
            ("install1.sh.bak", None),
            ("dir/ll1.txt", None),
            ("redis://h:1/0", None),
            ("https://host:80/@me", None),
            ("file:///srv/a@b:c", None),
            ("a@b:c", None),
        ] {
            assert_eq!(Secret::within(word), secret, "{word}");
        }
    }

    #[test]
    fn a_variable_has_a_password_when_any_of_its_urls_has_one() {
        for (urls, has) in [
            ("redis://a redis://:p@b", true),
            ("redis://a redis://b", false),
            ("file:///a@b", false),
            ("", false),
        ] {
            assert_eq!(has_password(urls.as_ref()), has, "{urls}");
        }
    }
}
