//! Characters that text from other clients must not bring to a terminal or into a log.

use std::borrow::Cow;

/// Returns text that another client wrote, as a name or a note, with its unseen characters replaced by U+FFFD.
///
/// These turn text round, hide a part of it or control a terminal: control characters, line breaks too, those that format
/// text (Unicode's category Cf, and the whole block of the tags), and the two line separators. Text without them is
/// borrowed.
///
/// ```
/// use leaselock::inspect::printable;
///
/// assert_eq!(printable("report\u{1b}[31m"), "report\u{fffd}[31m");
/// assert_eq!(printable("Größe 文字"), "Größe 文字");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    match text.contains(is_unseen) {
        true => Cow::Owned(text.replace(is_unseen, "\u{fffd}")),
        false => Cow::Borrowed(text),
    }
}

fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}'
            | '\u{8e2}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_turns_text_round_or_hides_it_is_unseen_and_letters_of_any_script_are_not() {
        let turns = "\u{202a}\u{202e}\u{2066}\u{2069}\u{200b}\u{200f}\u{61c}\u{feff}\u{ad}\u{e0001}\u{e007f}";
        let rest = "\u{2028}\u{2029}\u{2060}\u{1b}\u{9b}\n\u{7f}";
        assert!(turns.chars().chain(rest.chars()).all(is_unseen));
        assert!(
            !"Größe e\u{301} नमस्ते ναι 文字 שלום 🔒 *?["
                .chars()
                .any(is_unseen)
        );
    }
}
