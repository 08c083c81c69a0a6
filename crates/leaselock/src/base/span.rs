//! Times in texts for people: lengths as "250 ms", "1.5 s", "2 min", and moments.

use std::time::Duration;

/// Returns a length of time that a caller has chosen, exactly: "1.5 s", "1 h 30 min".
pub fn span(time: Duration) -> String {
    let (mut parts, mut seconds) = (Vec::new(), time.as_secs());
    for (unit, size) in [("d", 86_400), ("h", 3_600), ("min", 60)] {
        if seconds >= size {
            parts.push(format!("{} {unit}", seconds / size));
            seconds %= size;
        }
    }
    let rest = Duration::new(seconds, time.subsec_nanos());
    if !rest.is_zero() {
        let short = format!("{rest:?}"); // "1.5s"
        let number = short.trim_end_matches(char::is_alphabetic);
        parts.push(format!("{number} {}", &short[number.len()..]));
    }
    match parts.is_empty() {
        true => "0 s".to_owned(),
        false => parts.join(" "),
    }
}

/// Returns a length of time that was measured, without the digits that mean nothing: "8.6 s", "1 h 30 min".
pub fn rounded(time: Duration) -> String {
    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let unit_ns = match ns {
        0..10_000_000 => 1_000,
        10_000_000..1_000_000_000 => 1_000_000,
        1_000_000_000..60_000_000_000 => 100_000_000,
        60_000_000_000..3_600_000_000_000 => 1_000_000_000,
        3_600_000_000_000..86_400_000_000_000 => 60_000_000_000,
        _ => 3_600_000_000_000,
    };
    span(Duration::from_nanos(ns - ns % unit_ns))
}

/// Returns a moment in seconds since 1970: "2026-11-27 02:30:00 UTC".
pub(crate) fn utc(seconds: u64) -> String {
    // Days are counted from 0000-03-01 on, in eras of 400 years, so that a leap day ends its year.
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
    let year = year + 400 * era + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chosen_time_is_shown_exactly_and_a_measured_one_without_digits_that_mean_nothing() {
        for (ns, exact, measured) in [
            (0, "0 s", "0 s"),
            (999, "999 ns", "0 s"),
            (620_378, "620.378 µs", "620 µs"),
            (9_999_999, "9.999999 ms", "9.999 ms"),
            (99_999_999, "99.999999 ms", "99 ms"),
            (250_000_000, "250 ms", "250 ms"),
            (1_000_000_000, "1 s", "1 s"),
            (100_000_001, "100.000001 ms", "100 ms"),
            (1_001_000_000, "1.001 s", "1 s"),
            (2_002_037_277, "2.002037277 s", "2 s"),
            (2_340_000_000, "2.34 s", "2.3 s"),
            (10_000_000_001, "10.000000001 s", "10 s"),
            (59_999_000_000, "59.999 s", "59.9 s"),
            (60_000_000_000, "1 min", "1 min"),
            (61_500_000_000, "1 min 1.5 s", "1 min 1 s"),
            (3_600_050_000_000, "1 h 50 ms", "1 h"),
            (5_400_000_000_000, "1 h 30 min", "1 h 30 min"),
            (90_060_000_000_000, "1 d 1 h 1 min", "1 d 1 h"),
            (2_592_000_000_000_000, "30 d", "30 d"),
        ] {
            let time = Duration::from_nanos(ns);
            assert_eq!((&*span(time), &*rounded(time)), (exact, measured));
        }
    }
}
