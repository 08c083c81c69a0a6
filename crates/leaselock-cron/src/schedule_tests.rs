//! Shows that every tick comes once, in order and by the rules of the page, also where a zone changes its clock.

use std::time::{Duration, SystemTime};

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan as _};
use proptest::prelude::*;

use crate::schedule::Schedule;
use crate::schedule_error::ScheduleError;

const MINUTE: Duration = Duration::from_secs(60);

fn schedule(expression: &str, zone: &str) -> Schedule {
    let schedule: Schedule = expression.parse().unwrap();
    schedule.tz(zone).unwrap()
}

fn time(text: &str) -> SystemTime {
    text.parse::<Timestamp>().unwrap().into()
}

/// The ticks after the first time and up to the second.
fn ticks(schedule: &Schedule, after: SystemTime, until: SystemTime) -> Vec<String> {
    let ticks = schedule.after(after).take_while(|tick| *tick <= until);
    let text = |tick| Timestamp::try_from(tick).unwrap().to_string();
    ticks.map(text).collect()
}

#[track_caller]
fn assert_ticks(expression: &str, zone: &str, after: &str, until: &str, expected: &[&str]) {
    let found = ticks(&schedule(expression, zone), time(after), time(until));
    assert_eq!(found, expected, "{expression} in {zone}");
}

#[test]
fn a_fixed_time_that_is_skipped_runs_at_the_end_of_the_gap() {
    // Berlin, 2026-03-29: from 02:00 to 03:00, at 01:00 UTC.
    let (after, until) = ("2026-03-28T00:00:00Z", "2026-03-30T23:59:00Z");
    for (expression, expected) in [
        (
            "30 2 * * *",
            &[
                "2026-03-28T01:30:00Z",
                "2026-03-29T01:00:00Z",
                "2026-03-30T00:30:00Z",
            ][..],
        ),
        (
            "30 2,14 29 * *",
            &["2026-03-29T01:00:00Z", "2026-03-29T12:30:00Z"],
        ),
        ("0,20,40 2 29 * *", &["2026-03-29T01:00:00Z"]), // three in the gap have one end
        ("0 3 29 * *", &["2026-03-29T01:00:00Z"]),
        ("15 30 2 29 3 *", &["2026-03-29T01:00:00Z"]),
    ] {
        assert_ticks(expression, "Europe/Berlin", after, until, expected);
    }
    // New York, 2026-03-08: from 02:00 to 03:00, at 07:00 UTC.
    let (after, until) = ("2026-03-07T00:00:00Z", "2026-03-09T23:59:00Z");
    let expected = [
        "2026-03-07T07:00:00Z",
        "2026-03-08T07:00:00Z",
        "2026-03-09T06:00:00Z",
    ];
    assert_ticks("0 2 * * *", "America/New_York", after, until, &expected);
    // Lord Howe, 2026-10-04: from 02:00 to 02:30, at 15:30 UTC the day before.
    let (after, until) = ("2026-10-02T00:00:00Z", "2026-10-04T23:59:00Z");
    let expected = [
        "2026-10-02T15:45:00Z",
        "2026-10-03T15:30:00Z",
        "2026-10-04T15:15:00Z",
    ];
    assert_ticks("15 2 * * *", "Australia/Lord_Howe", after, until, &expected);
    // Beirut, 2026-03-29: the day begins at 01:00, at 22:00 UTC the day before.
    let (after, until) = ("2026-03-28T00:00:00Z", "2026-03-30T00:00:00Z");
    let expected = ["2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z"];
    assert_ticks("@daily", "Asia/Beirut", after, until, &expected);
}

#[test]
fn a_fixed_time_that_is_repeated_runs_the_first_time() {
    // Berlin, 2026-10-25: from 03:00 back to 02:00, at 01:00 UTC.
    let (after, until) = ("2026-10-24T00:00:00Z", "2026-10-26T23:59:00Z");
    let expected = [
        "2026-10-24T00:30:00Z",
        "2026-10-25T00:30:00Z",
        "2026-10-26T01:30:00Z",
    ];
    assert_ticks("30 2 * * *", "Europe/Berlin", after, until, &expected);
    // Also when the search begins in the second of the two hours.
    let (after, until) = ("2026-10-25T01:10:00Z", "2026-10-26T23:59:00Z");
    assert_ticks(
        "30 2 * * *",
        "Europe/Berlin",
        after,
        until,
        &["2026-10-26T01:30:00Z"],
    );
    // New York, 2026-11-01: from 02:00 back to 01:00, at 06:00 UTC.
    let (after, until) = ("2026-10-31T00:00:00Z", "2026-11-02T23:59:00Z");
    let expected = [
        "2026-10-31T05:30:00Z",
        "2026-11-01T05:30:00Z",
        "2026-11-02T06:30:00Z",
    ];
    assert_ticks("30 1 * * *", "America/New_York", after, until, &expected);
    // Lord Howe, 2026-04-05: from 02:00 back to 01:30, at 15:00 UTC the day before.
    let (after, until) = ("2026-04-04T00:00:00Z", "2026-04-05T23:59:00Z");
    let expected = ["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"];
    assert_ticks("45 1 * * *", "Australia/Lord_Howe", after, until, &expected);
}

#[test]
fn intervals_follow_the_clock_on_the_wall() {
    let (spring, fall) = ("2026-03-28T22:59:00Z", "2026-10-24T21:59:00Z");
    for (expression, after, until, expected) in [
        (
            "*/30 * * * *",
            "2026-03-29T00:00:00Z",
            "2026-03-29T02:00:00Z",
            &[
                "2026-03-29T00:30:00Z",
                "2026-03-29T01:00:00Z",
                "2026-03-29T01:30:00Z",
                "2026-03-29T02:00:00Z",
            ][..],
        ),
        (
            "*/30 * * * *",
            "2026-10-25T00:00:00Z",
            "2026-10-25T02:00:00Z",
            &[
                "2026-10-25T00:30:00Z",
                "2026-10-25T01:00:00Z",
                "2026-10-25T01:30:00Z",
                "2026-10-25T02:00:00Z",
            ],
        ),
        // 00:00 and 04:00; 02:00 is skipped.
        (
            "0 */2 * * *",
            spring,
            "2026-03-29T03:00:00Z",
            &["2026-03-28T23:00:00Z", "2026-03-29T02:00:00Z"],
        ),
        // 00:00, 02:00 twice, and 04:00.
        (
            "0 */2 * * *",
            fall,
            "2026-10-25T03:00:00Z",
            &[
                "2026-10-24T22:00:00Z",
                "2026-10-25T00:00:00Z",
                "2026-10-25T01:00:00Z",
                "2026-10-25T03:00:00Z",
            ],
        ),
    ] {
        assert_ticks(expression, "Europe/Berlin", after, until, expected);
    }
}

#[test]
fn a_day_that_the_zone_never_had_has_no_ticks_and_hides_none() {
    // Samoa went from 2011-12-29 to 2011-12-31, at 10:00 UTC on the 30th.
    let (after, until) = ("2011-12-29T12:00:00Z", "2011-12-31T23:00:00Z");
    let noon = [
        "2011-12-29T22:00:00Z",
        "2011-12-30T22:00:00Z",
        "2011-12-31T22:00:00Z",
    ];
    assert_ticks("0 12 * * *", "Pacific/Apia", after, until, &noon);
    let sixth = [
        "2011-12-30T04:00:00Z",
        "2011-12-30T10:00:00Z",
        "2011-12-30T16:00:00Z",
    ];
    let (after, until) = ("2011-12-29T22:00:00Z", "2011-12-30T20:00:00Z");
    assert_ticks("0 */6 * * *", "Pacific/Apia", after, until, &sixth);
    let (after, until) = ("2010-12-31T00:00:00Z", "2013-01-01T00:00:00Z");
    assert_ticks(
        "0 12 30 12 *",
        "Pacific/Apia",
        after,
        until,
        &["2012-12-29T22:00:00Z"],
    );
}

#[test]
fn days_are_those_of_crontab() {
    let july = "2026-06-30T23:59:59Z"; // 2026-07-01 is a Wednesday
    for (expression, first) in [
        ("0 0 * * SUN", "2026-07-05T00:00:00Z"),
        ("0 0 * * 7", "2026-07-05T00:00:00Z"),
        ("0 0 * * fri-sun", "2026-07-03T00:00:00Z"),
        ("0 0 13 * FRI", "2026-07-03T00:00:00Z"), // either is enough
        ("0 0 L * *", "2026-07-31T00:00:00Z"),
        ("0 0 LW 8 ?", "2026-08-31T00:00:00Z"),
        ("0 0 15W 8 *", "2026-08-14T00:00:00Z"), // the 15th is a Saturday
        ("0 0 * * FRI#2", "2026-07-10T00:00:00Z"),
        ("0 0 * * 5L", "2026-07-31T00:00:00Z"),
        ("0 0 29 FEB *", "2028-02-29T00:00:00Z"),
        ("*/7 * * * * *", "2026-07-01T00:00:00Z"),
        ("@Hourly", "2026-07-01T00:00:00Z"),
        ("@midnight", "2026-07-01T00:00:00Z"),
        ("@weekly", "2026-07-05T00:00:00Z"),
        ("@monthly", "2026-07-01T00:00:00Z"),
        ("@yearly", "2027-01-01T00:00:00Z"),
    ] {
        let found = schedule(expression, "UTC").after(time(july)).next();
        assert_eq!(found, Some(time(first)), "{expression}");
    }
}

#[test]
fn a_refusal_names_the_field_the_value_and_what_would_be_right() {
    for (expression, words) in [
        ("0 24 * * *", "hour: `24` is wrong: give 0 to 23"),
        ("60 * * * * *", "second: `60` is wrong: give 0 to 59"),
        ("0 0 0 * *", "day of month: `0` is wrong: give 1 to 31"),
        (
            "0 0 * 1,13 *",
            "month: `13` is wrong: give 1 to 12, or JAN to DEC",
        ),
        (
            "0 0 * * fun",
            "day of week: `FUN` is wrong: give 0 to 7, or SUN to SAT",
        ),
        ("fri 0 * * *", "minute: `FRI` is wrong: give 0 to 59"),
        ("0 22-4 * * *", "hour: `22-4` is wrong: write 22-23,0-4"),
        ("0 0 * * 6-1", "day of week: `6-1` is wrong: write 6-7,0-1"),
        ("5/10 * * * *", "minute: `5/10` is wrong: write 5-59/10"),
        ("*/0 * * * *", "minute: `*/0` is wrong: a step is 1 to 59"),
        ("0 0,,2 * * *", "hour: `` is wrong: give 0 to 23"),
        ("+5 * * * *", "minute: `+5` is wrong: give 0 to 59"),
        (
            "0 0 * * FRI#6",
            "day of week: `FRI#6` is wrong: a month has FRI#1 to FRI#5",
        ),
        (
            "0 0 * * 8#2",
            "day of week: `8#2` is wrong: give 0 to 7, or SUN to SAT",
        ),
        ("0 0 L-3 * *", "day of month: `L-3` is wrong"),
        ("0 0 * *", "this one has 4"),
        ("0 0 0 1 1 * 2026", "this one has 7"),
        ("", "this one has 0"),
        ("@reboot", "`@reboot` is no schedule: use @yearly"),
        ("0 0 30 2 *", "`0 0 30 2 *` has no next time"),
        ("0 0 31 4,6,9,11 *", "has no next time"),
    ] {
        let refusal = expression.parse::<Schedule>().unwrap_err().to_string();
        assert!(refusal.contains(words), "{expression}: {refusal}");
    }
}

#[test]
fn an_unknown_zone_is_refused_with_those_that_are_like_it() {
    let noon: Schedule = "0 12 * * *".parse().unwrap();
    for (name, near) in [
        ("Berlin", "did you mean Europe/Berlin?"),
        ("europe/berln", "did you mean Europe/Berlin?"),
        ("New York", "did you mean America/New_York?"),
        (
            "../../etc/passwd",
            "use a name such as Europe/Berlin or UTC",
        ),
        ("+02:00", "use a name"),
        ("", "use a name"),
    ] {
        let refusal = noon.clone().tz(name).unwrap_err();
        assert!(matches!(refusal, ScheduleError::UnknownZone { .. }));
        assert!(refusal.to_string().contains(near), "{refusal}");
    }
    assert!(noon.tz("europe/berlin").is_ok());
}

#[test]
fn a_tick_is_never_before_1970_and_the_last_one_ends_the_schedule() {
    let hourly: Schedule = "@hourly".parse().unwrap();
    let long_ago = SystemTime::UNIX_EPOCH - Duration::from_secs(1 << 33);
    assert_eq!(hourly.after(long_ago).next(), Some(SystemTime::UNIX_EPOCH));
    let half_past = SystemTime::UNIX_EPOCH + MINUTE / 2;
    let next = hourly.after(half_past + Duration::from_nanos(1)).next();
    assert_eq!(next, Some(SystemTime::UNIX_EPOCH + 60 * MINUTE));
    assert_eq!(hourly.after(time("9999-01-01T00:00:00Z")).next(), None);
}

/// Changes of clocks, with the zone and the day: by an hour, half an hour, two hours, at midnight, over the date line.
const CHANGES: [(&str, &str); 9] = [
    ("Europe/Berlin", "2026-03-29T00:00:00Z"),
    ("Europe/Berlin", "2026-10-25T00:00:00Z"),
    ("America/New_York", "2026-03-08T00:00:00Z"),
    ("America/New_York", "2026-11-01T00:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T00:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T00:00:00Z"),
    ("Asia/Beirut", "2026-03-28T12:00:00Z"),
    ("Antarctica/Troll", "2026-03-29T00:00:00Z"),
    ("Pacific/Apia", "2011-12-30T00:00:00Z"),
];

/// All ticks between two times, both included, minute by minute.
fn by_brute_force(
    expression: &str,
    zone: &TimeZone,
    from: Timestamp,
    until: Timestamp,
) -> Vec<String> {
    let times: croner::Cron = expression.parse().unwrap();
    let matches = |wall: DateTime| times.is_time_matching(&wall).unwrap();
    let minutes = || {
        let minutes = from.as_second() / 60..=until.as_second() / 60;
        minutes.map(|minute| Timestamp::from_second(minute * 60).unwrap())
    };
    let fields: Vec<&str> = expression.split(' ').collect();
    let mut found: Vec<Timestamp> = if fields[..2].iter().any(|field| field.contains('*')) {
        let is_due = |instant: &Timestamp| matches(zone.to_datetime(*instant));
        minutes().filter(is_due).collect()
    } else {
        let first = zone.to_datetime(from);
        let days = 4 * 24 * 60;
        let walls = (0..days).map(|minute: i64| first.checked_add(minute.minutes()).unwrap());
        let instant = |wall: DateTime| match zone.to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Gap { before, after } => {
                let is_a_day = after.seconds() - before.seconds() >= 86_400;
                let mut later = minutes().filter(|instant| zone.to_datetime(*instant) > wall);
                later.next().filter(|_| !is_a_day)
            }
            _ => zone.to_ambiguous_timestamp(wall).earlier().ok(),
        };
        walls
            .filter(|wall| matches(*wall))
            .filter_map(instant)
            .collect()
    };
    found.retain(|instant| (from..=until).contains(instant));
    found.sort();
    found.dedup();
    found.iter().map(Timestamp::to_string).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn around_a_change_of_the_clock_each_tick_comes_once_and_none_is_lost(
        minute in prop::sample::select(vec!["*", "0", "30", "*/15", "5-20/5", "0,45", "59"]),
        hour in prop::sample::select(vec!["*", "2", "1,2,3", "*/2", "0-4", "0", "1", "23"]),
        change in prop::sample::select(CHANGES.to_vec()),
        start in 0i64..24 * 60,
    ) {
        let (zone, day) = change;
        let expression = format!("{minute} {hour} * * *");
        let day: Timestamp = day.parse().unwrap();
        let after = day.checked_sub(start.minutes()).unwrap();
        let (from, until) = (
            after.checked_add(1.minute()).unwrap(),
            day.checked_add(48.hours()).unwrap(),
        );
        let expected = by_brute_force(&expression, &TimeZone::get(zone).unwrap(), from, until);
        let found = ticks(&schedule(&expression, zone), after.into(), until.into());
        prop_assert_eq!(found, expected, "{} in {}", expression, zone);
    }

    #[test]
    fn any_text_is_refused_or_has_a_next_time(
        text in "[ -~]{0,24}",
        fields in prop::collection::vec("[0-9*/,#LWSUNFRIJ?-]{1,4}", 5..=6),
    ) {
        for text in [text, fields.join(" ")] {
            let parsed = text.parse::<Schedule>();
            // What our own reading accepts, the search accepts too.
            let is_ours = !matches!(&parsed, Err(ScheduleError::Field { field: "expression", .. }));
            prop_assert!(is_ours, "{:?}", parsed);
            if let Ok(schedule) = parsed {
                prop_assert!(schedule.after(SystemTime::UNIX_EPOCH).next().is_some());
            }
        }
    }
}
