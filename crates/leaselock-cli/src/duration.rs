//! Durations as people type them: `250ms`, `10s`, `1h30m`; a bare number is seconds.
//!
//! All arithmetic is on whole nanoseconds and checked: no text can become an endless, a negative
//! or a wrapped-round duration. What is refused is answered with what would be right.

use std::fmt;
use std::time::Duration;

use leaselock::satellite::tame;

/// Longest unit first: a text must name its units in this order, each at most once.
const UNITS: [(&str, u128); 6] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
];

const SECOND: u128 = 1_000_000_000;

/// Why a text is no duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BadDuration {
    Empty,
    Negative,
    NotANumber,
    UnknownUnit(String),
    MissingUnit(String),
    OutOfOrder(&'static str),
    TooLong,
}

impl fmt::Display for BadDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadDuration::Empty => write!(f, "it is empty"),
            BadDuration::Negative => write!(f, "it is negative"),
            BadDuration::NotANumber => write!(f, "it is not made of decimal numbers and units"),
            BadDuration::UnknownUnit(unit) => {
                write!(f, "`{unit}` is not one of the units d, h, m, s, ms, us")
            }
            BadDuration::MissingUnit(number) => write!(f, "`{number}` needs a unit"),
            BadDuration::OutOfOrder(unit) => {
                write!(
                    f,
                    "`{unit}` is out of place: long units come first, each once"
                )
            }
            BadDuration::TooLong => write!(f, "it is too long to count"),
        }?;
        write!(
            f,
            "; write for example 250ms, 10s, 1.5, 5m or 1h30m (a bare number is seconds)"
        )
    }
}

impl std::error::Error for BadDuration {}

/// Parses a duration; the signature is that of a clap value parser.
pub(crate) fn parse(text: &str) -> Result<Duration, BadDuration> {
    let text = text.trim();
    if text.is_empty() {
        return Err(BadDuration::Empty);
    }
    if text.starts_with('-') {
        return Err(BadDuration::Negative);
    }
    let mut rest = text;
    let mut total: u128 = 0;
    let mut longest_allowed = 0;
    while !rest.is_empty() {
        let (number, after) = split_while(rest, |c| c.is_ascii_digit() || c == '.');
        let (unit, after) = split_while(after, |c| !c.is_ascii_digit() && c != '.');
        let size = match unit {
            // Only a number that stands alone is seconds: `1h30` may mean minutes or seconds.
            "" if number.len() == text.len() => SECOND,
            "" => return Err(BadDuration::MissingUnit(shown(number))),
            _ if number.is_empty() => return Err(BadDuration::NotANumber),
            _ => {
                let place = UNITS.iter().position(|(name, _)| *name == unit);
                let place = place.ok_or_else(|| BadDuration::UnknownUnit(shown(unit)))?;
                if place < longest_allowed {
                    return Err(BadDuration::OutOfOrder(UNITS[place].0));
                }
                longest_allowed = place + 1;
                UNITS[place].1
            }
        };
        total = total
            .checked_add(nanoseconds(number, size)?)
            .ok_or(BadDuration::TooLong)?;
        rest = after;
    }
    // A lease lives on a clock of 64-bit nanoseconds, which is 584 years.
    u64::try_from(total)
        .map(Duration::from_nanos)
        .map_err(|_| BadDuration::TooLong)
}

/// `number`, which may have a fraction, times `size`, rounded down to nanoseconds.
fn nanoseconds(number: &str, size: u128) -> Result<u128, BadDuration> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(BadDuration::NotANumber);
    }
    let mut sum: u128 = 0;
    for digit in whole.bytes() {
        let grown = sum
            .checked_mul(10)
            .and_then(|n| n.checked_add(u128::from(digit - b'0')));
        sum = grown.ok_or(BadDuration::TooLong)?;
    }
    sum = sum.checked_mul(size).ok_or(BadDuration::TooLong)?;
    let mut weight = size;
    for digit in fraction.bytes() {
        weight /= 10;
        sum += u128::from(digit - b'0') * weight;
    }
    Ok(sum)
}

fn split_while(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// A part of the user's text, short and without control bytes, for a message on one line.
fn shown(part: &str) -> String {
    tame(part, 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn reads_what_people_type() {
        let cases = [
            ("0", ms(0)),
            ("5", ms(5_000)),
            ("1.5", ms(1_500)),
            (".5", ms(500)),
            ("5.", ms(5_000)),
            ("250ms", ms(250)),
            ("10s", ms(10_000)),
            ("5m", ms(300_000)),
            ("1h30m", ms(5_400_000)),
            ("1h0.5s", ms(3_600_500)),
            ("2d1h1m1s1ms1us", Duration::from_micros(176_461_001_001)),
            ("0.1", ms(100)),
            ("1.0000000019", Duration::from_nanos(1_000_000_001)),
            ("1.5h", ms(5_400_000)),
            (" 3s\n", ms(3_000)),
            ("18446744073s", Duration::from_secs(18_446_744_073)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn refuses_what_is_no_duration_and_says_why() {
        use BadDuration::*;
        let cases = [
            ("", Empty),
            ("  ", Empty),
            ("-1", Negative),
            ("-0.5s", Negative),
            ("--5", Negative),
            ("NaN", NotANumber),
            ("inf", NotANumber),
            ("s", NotANumber),
            (".", NotANumber),
            (".s", NotANumber),
            ("1.2.3", NotANumber),
            ("+5", NotANumber),
            ("1e400", UnknownUnit("e".into())),
            ("1e400s", UnknownUnit("e".into())),
            ("5 s", UnknownUnit(" s".into())),
            ("5x", UnknownUnit("x".into())),
            ("5S", UnknownUnit("S".into())),
            ("5\u{1b}[31m", UnknownUnit("\u{fffd}[".into())),
            ("٣s", NotANumber),
            ("1h30", MissingUnit("30".into())),
            ("30m1h", OutOfOrder("h")),
            ("5m5m", OutOfOrder("m")),
            ("18446744074s", TooLong),
            ("300000d", TooLong),
            ("99999999999999999999999999999999999999999999", TooLong),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), Err(expected), "{text:?}");
        }
    }

    #[test]
    fn every_refusal_says_what_would_be_right() {
        for text in ["", "-1", "NaN", "5x", "1h30", "5m5m", "300000d"] {
            let message = parse(text).unwrap_err().to_string();
            assert!(
                message.contains("write for example 250ms, 10s, 1.5, 5m"),
                "{message}"
            );
            assert!(!message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn every_whole_number_of_every_unit_is_exact() {
        for (unit, size) in UNITS {
            for number in (0..2_000).chain([9_999, 86_399]) {
                let expected = u64::try_from(number * size)
                    .map(Duration::from_nanos)
                    .unwrap();
                assert_eq!(parse(&format!("{number}{unit}")), Ok(expected));
                assert_eq!(parse(&format!("{number}.0{unit}")), Ok(expected));
            }
        }
    }

    #[test]
    fn no_text_of_these_letters_makes_it_panic() {
        const LETTERS: &[u8] = b"019.-msdhu e";
        let mut indexes = [0usize; 5];
        loop {
            let text: String = indexes.iter().map(|&i| char::from(LETTERS[i])).collect();
            if let Ok(duration) = parse(&text) {
                assert!(!text.contains('-') && duration <= Duration::from_secs(99_999 * 86_400));
            }
            let Some(next) = indexes.iter().position(|&i| i + 1 < LETTERS.len()) else {
                break;
            };
            indexes[..next].fill(0);
            indexes[next] += 1;
        }
    }
}
