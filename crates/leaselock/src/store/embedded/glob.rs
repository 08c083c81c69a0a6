//! Patterns as Redis matches them: `*`, `?`, `[abc]`, `[^a]`, `[a-z]`, and `\` before a character that means itself.

/// True if the text matches. Only the last star is retried, so the cost is at most the product of both lengths.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    let mut again: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            pattern = rest;
            again = Some((rest, text));
            continue;
        }
        let stepped = match text {
            [] if pattern.is_empty() => return true,
            [] => return false,
            [byte, later @ ..] => one(pattern, *byte).map(|rest| (rest, later)),
        };
        match (stepped, again) {
            (Some(next), _) => (pattern, text) = next,
            (None, Some((after_star, [_, later @ ..]))) => {
                again = Some((after_star, later));
                (pattern, text) = (after_star, later);
            }
            (None, _) => return false,
        }
    }
}

/// Returns the rest of the pattern when its first element matches this byte.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'[', rest @ ..] => class(rest, byte),
        [b'\\', literal, rest @ ..] => (*literal == byte).then_some(rest),
        [literal, rest @ ..] => (*literal == byte).then_some(rest),
        [] => None,
    }
}

/// Matches a class; one without its `]` ends with the pattern.
fn class(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    let (negated, mut pattern) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        other => (false, other),
    };
    let mut hit = false;
    loop {
        (hit, pattern) = match pattern {
            [] => return (hit != negated).then_some(pattern),
            [b']', rest @ ..] => return (hit != negated).then_some(rest),
            [b'\\', literal, rest @ ..] => (hit || *literal == byte, rest),
            [low, b'-', high, rest @ ..] => (
                hit || (*low.min(high)..=*low.max(high)).contains(&byte),
                rest,
            ),
            [literal, rest @ ..] => (hit || *literal == byte, rest),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "anything", true),
            ("", "", true),
            ("", "a", false),
            ("job:*", "job:1", true),
            ("job:*", "jab:1", false),
            ("*a*b*c", "xxaxxbxxbc", true),
            ("*a*b*c", "xxaxxbxxbd", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]x", "bx", true),
            ("[c-a]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            (r"\*", "*", true),
            (r"\*", "a", false),
            (r"[\]]", "]", true),
            ("[abc", "b", true),
            ("ä*", "äö", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        let pattern = "*a".repeat(200);
        assert!(!matches(
            format!("{pattern}b").as_bytes(),
            "a".repeat(500).as_bytes()
        ));
    }
}
