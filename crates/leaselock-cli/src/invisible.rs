//! Invisible characters that must not reach a terminal.

use leaselock::inspect::printable;

/// JSON with these characters written as `\\uXXXX`, which means the same. They occur only in strings.
pub(crate) fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for (c, shown) in json.chars().zip(printable(json).chars()) {
        if c == shown {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            text.push_str(&format!("\\u{unit:04x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_means_the_same_and_has_nothing_unseen_in_it() {
        let value = serde_json::json!({ "name": "a\u{202e}b\u{e0041}\u{9b}\n", "é": "文" });
        let text = escaped(&value.to_string());
        assert!(text.contains("a\\u202eb\\udb40\\udc41\\u009b\\n"), "{text}");
        assert!(printable(&text) == text && text.contains('文'));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
    }
}
