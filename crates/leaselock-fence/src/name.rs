//! The name of a lock.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::invalid_input::InvalidInput;

const LENGTH_MAX: usize = 512;
/// Marks the side keys; a name that contains it could be one of them.
const RESERVED: &str = ":ll:";
/// Client records begin like this.
const RESERVED_START: &str = "ll:";

/// A lock's name: 1 to 512 bytes of UTF-8 without control characters.
///
/// Braces only as one hash tag such as `{orders}:42`; no `:ll:` inside and no `ll:` at its start, which are leaselock's
/// own. With the feature `serde` it is a text, which is checked when it is read.
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

    /// Makes a name of any text, such as a key that a user has chosen. Never fails.
    ///
    /// A text that is a name stays as it is. Any other, and any that begins with `~`, becomes `~`, up to 64 readable bytes
    /// of it, `~` and its SHA-256: two texts never get the same name.
    ///
    /// # Examples
    /// ```
    /// use leaselock_fence::Name;
    ///
    /// assert_eq!(Name::escaped("invoices/2026-07").as_str(), "invoices/2026-07");
    /// let escaped = Name::escaped("Müller: {7}\n");
    /// assert!(escaped.as_str().starts_with("~M_ller___7__~"));
    /// ```
    pub fn escaped(text: &str) -> Name {
        if let (false, Ok(name)) = (text.starts_with('~'), Name::new(text)) {
            return name;
        }
        let plain = |c: char| match c {
            '.' | '-' | '/' => c,
            c if c.is_ascii_alphanumeric() => c,
            _ => '_',
        };
        let readable: String = text.chars().take(64).map(plain).collect();
        let mut name = format!("~{readable}~");
        for byte in Sha256::digest(text.as_bytes()) {
            name.push_str(&format!("{byte:02x}"));
        }
        Name(name.into())
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

impl FromStr for Name {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        Name::new(text)
    }
}

impl TryFrom<&str> for Name {
    type Error = InvalidInput;

    fn try_from(text: &str) -> Result<Self, InvalidInput> {
        Name::new(text)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0.as_ref().to_owned()
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
    fn every_text_becomes_a_name_and_no_two_become_the_same() {
        let long = "x".repeat(600);
        let longer = "x".repeat(601);
        let texts = [
            "", "a\nb", "a\0b", "ll:x", "{}", "a_b", "~a~", &long, &longer, "ü", "ö",
        ];
        let names = texts.map(Name::escaped);
        for (text, name) in texts.iter().zip(&names) {
            assert_eq!(Name::new(name.as_str()).as_ref(), Ok(name), "{text:?}");
            assert!(name.as_str().len() <= 130, "{name}");
            let again = Name::escaped(name.as_str());
            let is_escaped = name.as_str().starts_with('~');
            assert_eq!(again != *name, is_escaped, "{text:?}");
        }
        let distinct: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), texts.len());
        assert_eq!(names[5].as_str(), "a_b");
        let found: std::collections::HashMap<Name, u8> = [(names[5].clone(), 1)].into();
        assert_eq!(found.get("a_b"), Some(&1), "a name is found by its text");
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
