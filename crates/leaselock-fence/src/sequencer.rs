//! The sequencer: what a holder shows to the resource that its lease protects.

use std::fmt;
use std::str::FromStr;

use crate::fence::Fence;
use crate::invalid_input::InvalidInput;
use crate::name::Name;

const OWNER_MAX: usize = 64;
const FORM: &str =
    "this is not a sequencer; one is `FENCE.OWNER.NAME`, as `Lease::sequencer` writes it";

/// What a holder shows to a protected resource: the lock's name, the fencing token, and whose grant it is.
///
/// The resource gives it to a [fence checker](crate), which admits it or refuses a holder that is late.
/// The word is that of Chubby.
///
/// Its text form is one word of visible ASCII, `FENCE.OWNER.NAME`, for a header, a column or an environment variable.
/// [`FromStr`] reads it back. It is **no secret**: it releases nothing. It is **no signature** either: a client that may
/// talk to the resource can make one up, so the resource must trust its clients. With the feature `serde` it is that text.
///
/// # Examples
/// ```
/// use leaselock_fence::Sequencer;
///
/// let header = "1795224695691371.9f86d081884c7d65.invoices/2026%2007";
/// let shown: Sequencer = header.parse()?;
/// assert_eq!(shown.name().as_str(), "invoices/2026 07");
/// assert_eq!(shown.to_string(), header);
/// # Ok::<(), leaselock_fence::InvalidInput>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sequencer {
    name: Name,
    fence: Fence,
    owner: Box<str>,
}

impl Sequencer {
    /// The owner of readers, which have one fencing token together, and of a grant whose owner is not known.
    pub const SHARED: &'static str = "*";

    /// Creates a sequencer from its parts.
    ///
    /// The owner is new for each grant of the store, so that a fencing token that came twice, after a store lost its data
    /// and its clock went back, is noticed. [`SHARED`](Sequencer::SHARED) stands for none.
    ///
    /// # Errors
    /// [`InvalidInput`] when no grant has such a fencing token, or when the owner is neither `*` nor 1 to 64 letters,
    /// digits, `-` and `_`.
    pub fn new(name: Name, fence: Fence, owner: &str) -> Result<Self, InvalidInput> {
        // A number that no grant has would raise the bar for good: every true holder would be refused.
        if fence.get() == 0 || fence > Fence::MAX {
            return Err(InvalidInput::new(format!(
                "{fence} is the fencing token of no grant: they are 1 to {}",
                Fence::MAX
            )));
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let is_word = (1..=OWNER_MAX).contains(&owner.len()) && owner.bytes().all(plain);
        if !is_word && owner != Self::SHARED {
            return Err(InvalidInput::new(format!(
                "an owner is `*` or 1 to {OWNER_MAX} letters, digits, `-` and `_`"
            )));
        }
        let owner = owner.into();
        Ok(Sequencer { name, fence, owner })
    }

    /// Returns the lock's name. Fencing tokens of different names cannot be compared.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the fencing token, which grows with every grant of the name.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Returns whose grant it is: a word that is new for each acquisition, or [`SHARED`](Sequencer::SHARED).
    pub fn owner(&self) -> &str {
        &self.owner
    }
}

/// Writes `FENCE.OWNER.NAME`. In the name `%XX` stands for a byte that is no visible ASCII, and for each of `%",;\`.
impl fmt::Display for Sequencer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.", self.fence, self.owner)?;
        for byte in self.name.as_str().bytes() {
            if byte.is_ascii_graphic() && !b"%\",;\\".contains(&byte) {
                write!(f, "{}", char::from(byte))?;
            } else {
                write!(f, "%{byte:02X}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Sequencer {
    type Err = InvalidInput;

    /// Reads what [`Display`](fmt::Display) wrote.
    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        let no_form = || InvalidInput::new(FORM);
        let mut parts = text.splitn(3, '.');
        let mut part = || parts.next().ok_or_else(no_form);
        let (fence, owner, name) = (part()?, part()?, part()?);
        if !fence.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(no_form());
        }
        let fence = Fence::new(fence.parse().map_err(|_| no_form())?);
        let name = Name::new(decoded(name).ok_or_else(no_form)?)?;
        Sequencer::new(name, fence, owner)
    }
}

/// Replaces each `%XX` by its byte.
fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((plain, escaped)) = rest.split_once('%') {
        let (digits, behind) = escaped.split_at_checked(2)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.extend_from_slice(plain.as_bytes());
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = behind;
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_sequencer_is_one_word_of_ascii_that_reads_back(
            name in "\\PC{1,40}",
            fence in 1..=Fence::MAX.get(),
            owner in "\\*|[a-zA-Z0-9_-]{1,64}",
        ) {
            let name = Name::new(name);
            prop_assume!(name.is_ok());
            let shown = Sequencer::new(name.unwrap(), Fence::new(fence), &owner).unwrap();
            let text = shown.to_string();
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{}", text);
            prop_assert_eq!(text.parse::<Sequencer>().unwrap(), shown);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,60}") {
            drop(text.parse::<Sequencer>());
        }
    }

    #[test]
    fn a_name_with_dots_spaces_and_letters_of_all_alphabets_survives() {
        let text = "33.*.jobs.v2/%CE%B1%20%25%22";
        let shown: Sequencer = text.parse().unwrap();
        assert_eq!(shown.name().as_str(), "jobs.v2/α %\"");
        assert_eq!(shown.owner(), Sequencer::SHARED);
        assert_eq!(shown.to_string(), text);
    }

    #[test]
    fn bad_text_is_refused_with_what_would_be_right() {
        let beyond = format!("{}.a.x", Fence::MAX.get() + 1);
        for (bad, says) in [
            ("", "FENCE.OWNER.NAME"),
            ("33", "FENCE.OWNER.NAME"),
            ("33.a", "FENCE.OWNER.NAME"),
            ("+33.a.x", "FENCE.OWNER.NAME"),
            ("99999999999999999999.a.x", "FENCE.OWNER.NAME"),
            ("33.a.%GG", "FENCE.OWNER.NAME"),
            ("33.a.%+1", "FENCE.OWNER.NAME"),
            ("33.a.%FF", "FENCE.OWNER.NAME"),
            ("33.a.%C", "FENCE.OWNER.NAME"),
            ("0.a.x", "no grant"),
            (&beyond, "no grant"),
            ("33..x", "an owner is"),
            ("33.**.x", "an owner is"),
            ("33.a b.x", "an owner is"),
            ("33.a.", "at least one byte"),
            ("33.a.x%0A", "control"),
        ] {
            let refusal = bad.parse::<Sequencer>().unwrap_err().to_string();
            assert!(refusal.contains(says), "{bad:?}: {refusal}");
        }
    }
}
