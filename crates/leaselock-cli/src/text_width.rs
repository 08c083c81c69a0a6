//! Text in cells of a terminal: a wide character takes two, and one that joins the character before it none.

use unicode_width::UnicodeWidthStr as _;

pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The text with spaces behind it, so wide at least.
pub(crate) fn padded(text: &str, to: usize) -> String {
    let missing = to.saturating_sub(width(text));
    format!("{text}{:missing$}", "")
}

/// As much of the text as fits.
pub(crate) fn cut(text: &str, to: usize) -> &str {
    if width(text) <= to {
        return text;
    }
    let ends = text.char_indices().map(|(end, _)| &text[..end]);
    ends.take_while(|begin| width(begin) <= to)
        .last()
        .unwrap_or_default()
}

/// The text if it fits, and else its begin with a mark that more follows.
pub(crate) fn shortened(text: &str, to: usize) -> String {
    match width(text) <= to {
        true => text.to_owned(),
        false => format!("{}…", cut(text, to.saturating_sub(1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_cells_and_joined_ones_none() {
        for (text, cells) in [("job", 3), ("夜間", 4), ("e\u{301}", 1), ("🔒", 2), ("", 0)] {
            assert_eq!(width(text), cells, "{text}");
            assert_eq!(width(&padded(text, 6)), 6, "{text}");
        }
        assert_eq!(padded("longer", 2), "longer");
    }

    #[test]
    fn what_is_shortened_ends_with_a_mark_and_takes_no_more_room() {
        for (text, to, expected) in [
            ("nightly", 7, "nightly"),
            ("nightly", 6, "night…"),
            ("夜間便", 4, "夜…"),
        ] {
            assert_eq!(shortened(text, to), expected);
        }
    }

    #[test]
    fn a_cut_splits_no_wide_character_and_keeps_what_belongs_to_the_last_one() {
        for (text, to, expected) in [
            ("夜間便", 4, "夜間"),
            ("夜間便", 3, "夜"),
            ("夜", 1, ""),
            ("e\u{301}e\u{301}e", 2, "e\u{301}e\u{301}"),
            ("abc", 3, "abc"),
        ] {
            assert_eq!(cut(text, to), expected);
        }
    }
}
