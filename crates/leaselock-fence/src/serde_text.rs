//! What the feature `serde` writes and reads as text.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::name::Name;
use crate::sequencer::Sequencer;

/// By `Display` and `FromStr`: what is read was checked, and the error of a refused text is that of `FromStr`.
macro_rules! as_text {
    ($($Type:ty)*) => {
        $(impl Serialize for $Type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $Type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from)?.parse().map_err(D::Error::custom)
            }
        })*
    };
}

as_text!(Name Sequencer);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::Fence;

    #[test]
    fn names_and_sequencers_are_text_and_fencing_tokens_numbers() {
        let shown: Sequencer = "1785000000123456.a.invoices/2026%2007".parse().unwrap();
        let told = (shown.name(), shown.fence(), &shown);
        let json = serde_json::to_string(&told).unwrap();
        let written =
            r#"["invoices/2026 07",1785000000123456,"1785000000123456.a.invoices/2026%2007"]"#;
        assert_eq!(json, written);
        let read: (Name, Fence, Sequencer) = serde_json::from_str(&json).unwrap();
        assert_eq!((&read.0, read.1, &read.2), told);
        let quoted: Name = serde_json::from_str(r#""a\"b""#).unwrap();
        assert_eq!(quoted.as_str(), "a\"b");
    }

    /// What reads JSON into doubles, as JavaScript does, loses no digit of a fencing token.
    #[test]
    fn the_largest_fencing_token_is_exact_in_a_double() {
        assert!(Fence::MAX.get() < 1 << 53);
        let json = serde_json::to_string(&Fence::MAX).unwrap();
        assert_eq!(json.parse::<f64>().unwrap().to_string(), json);
    }

    #[test]
    fn a_refused_text_is_refused_in_the_words_of_its_constructor() {
        let refused = serde_json::from_str::<Name>(r#""{}x""#).unwrap_err();
        let said = Name::new("{}x").unwrap_err().to_string();
        assert!(refused.to_string().starts_with(&said), "{refused}");
        let refused = serde_json::from_str::<Sequencer>(r#""7.a""#).unwrap_err();
        let said = "7.a".parse::<Sequencer>().unwrap_err().to_string();
        assert!(refused.to_string().starts_with(&said), "{refused}");
        assert!(serde_json::from_str::<Fence>("-1").is_err());
    }
}
