//! The name of a lock.

use std::fmt;
use std::sync::Arc;

use crate::invalid_input::InvalidInput;

const LENGTH_MAX: usize = 512;
/// Marks the side keys; a name that contains it could be one of them.
const RESERVED: &str = ":ll:";
/// Client records begin like this.
const RESERVED_START: &str = "ll:";

/// A lock's name: 1 to 512 bytes of UTF-8 without control characters.
///
/// Braces only as one hash tag such as `{orders}:42`; no `:ll:` inside and no `ll:` at its start, which are leaselock's
/// own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl Name {
    /// Checks a name.
    ///
    /// # Errors
    /// [`InvalidInput`] says which rule was broken and what would be right. Nothing was sent.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidInput> {
        let name = name.into();
        if name.is_empty() {
            return Err(InvalidInput::new("a name has at least one byte"));
        }
        Name::check("name", &name).map(|()| Name(name.into()))
    }

    /// Checks a text by the rules of names, for one that becomes a part of a key. It may be empty.
    #[doc(hidden)]
    pub fn check(what: &str, text: &str) -> Result<(), InvalidInput> {
        fault(text).map_or(Ok(()), |fault| {
            let text = shown(text);
            Err(InvalidInput::new(format!("{what} {text}: {fault}")))
        })
    }

    /// Returns the name as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The same text, not copied.
impl From<&Name> for Arc<str> {
    fn from(name: &Name) -> Self {
        Arc::clone(&name.0)
    }
}

fn fault(text: &str) -> Option<String> {
    if text.len() > LENGTH_MAX {
        return Some(format!(
            "{} bytes are too many; at most {LENGTH_MAX}",
            text.len()
        ));
    }
    if text.chars().any(char::is_control) {
        return Some("control characters are not allowed".to_owned());
    }
    if text.contains(RESERVED) || text.starts_with(RESERVED_START) {
        return Some(
            "`:ll:` inside and `ll:` in front are leaselock's own; leave them out".to_owned(),
        );
    }
    if !braces_are_one_tag(text) {
        return Some("braces only as one non-empty hash tag, such as `{orders}:42`".to_owned());
    }
    None
}

fn braces_are_one_tag(text: &str) -> bool {
    let opens = text.matches('{').count();
    let closes = text.matches('}').count();
    match (opens, closes) {
        (0, 0) => true,
        (1, 1) => matches!((text.find('{'), text.find('}')), (Some(o), Some(c)) if o + 1 < c),
        _ => false,
    }
}

/// Shortens and escapes a long or hostile name for display.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("`{}{dots}`", short.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_pass_unchanged() {
        for good in [
            "a",
            "invoices/2026-07",
            "{orders}:42",
            "x{tag}",
            "ναι",
            "a:ll",
            "all:x",
            "*?[",
            "  ",
        ] {
            assert_eq!(Name::new(good).unwrap().as_str(), good);
        }
        assert!(Name::new("x".repeat(512)).is_ok());
    }

    #[test]
    fn bad_names_are_refused_with_what_would_be_right() {
        let long = "x".repeat(513);
        for (bad, says) in [
            ("", "at least one byte"),
            (long.as_str(), "at most 512"),
            ("a\nb", "control"),
            ("a\0", "control"),
            ("a:ll:queue", "leaselock's own"),
            ("ll:client:x", "leaselock's own"),
            ("{}x", "hash tag"),
            ("}x{", "hash tag"),
            ("{a}{b}", "hash tag"),
            ("a{", "hash tag"),
        ] {
            let refusal = Name::new(bad).unwrap_err().to_string();
            assert!(refusal.contains(says), "{bad:?}: {refusal}");
            assert!(!refusal.contains('\n') && refusal.len() < 300, "{refusal}");
        }
    }
}
