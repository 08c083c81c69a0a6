//! Invisible characters that must not reach a terminal. The library has the same list for texts that it reads from a
//! store; this one is for other texts, such as the names of keys.

/// Whether a character is invisible and changes the text around it: control characters, those that format text
/// (Unicode's category Cf, and all in the block of the tags), and the two that separate lines. One can reverse a text or
/// hide a part.
pub(crate) fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}'
            | '\u{8e2}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// JSON with these characters written as `\\uXXXX`, which means the same. They occur only in strings.
pub(crate) fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if is_invisible(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            text.push(c);
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
        assert!(!text.chars().any(is_invisible) && text.contains('文'));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
    }
}
