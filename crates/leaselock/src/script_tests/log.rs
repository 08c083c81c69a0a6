//! The event log: what is kept, in which order, and what strangers write there.

use std::time::Duration;

use super::lab::*;
use crate::engine::values::log::{AT_ONCE, KEPT, LogEntry, LogEvent, NoteEvents, ReadLog, entries};
use crate::script::Value;

const EVENTS: &str = "ll:events";

fn lost(number: u64) -> String {
    LogEvent::new("lost", "x".repeat(700)).encode("client", number)
}

async fn note(lab: &Lab, entries: &[String]) {
    lab.ask(&NoteEvents {
        events: EVENTS,
        entries,
    })
    .await;
}

async fn read(lab: &Lab, back: Duration) -> Vec<LogEntry> {
    let (events, most) = (EVENTS, KEPT);
    entries(&lab.ask(&ReadLog { events, back, most }).await)
}

#[test]
fn of_1100_entries_the_newest_1000_stay_and_are_read_oldest_first() {
    on_every_engine(async |lab| {
        let all: Vec<String> = (0..1_100).map(lost).collect();
        for some in all.chunks(AT_ONCE) {
            note(lab, some).await;
        }
        let Value::Int(count) = lab.meddle(&COUNT, EVENTS, &[]).await[0] else {
            panic!()
        };
        assert_eq!(count, 1_000, "{}", lab.engine);
        let read = read(lab, Duration::MAX).await;
        assert_eq!(read.len(), 1_000, "{}", lab.engine);
        assert!(read.is_sorted_by_key(|entry| entry.at));
        // Those of one call, and of one millisecond, are one age.
        let number = |entry: &LogEntry| entry.id.split_once('-').unwrap().1.parse::<u64>().unwrap();
        assert!(
            read.iter()
                .all(|entry| number(entry) >= 100 - AT_ONCE as u64),
            "{}",
            lab.engine
        );
        let Value::Int(left) = lab.meddle(&TTL_OF, EVENTS, &[]).await[0] else {
            panic!()
        };
        let week = 7 * 24 * 3_600_000;
        assert!((week - 60_000..=week).contains(&left), "{left}");
    });
}

#[test]
fn an_entry_that_is_written_again_keeps_its_time() {
    on_every_engine(async |lab| {
        note(lab, &[lost(1)]).await;
        let first = lab.meddle(&SCORES, EVENTS, &[]).await;
        let times = lab.meddle(&TTL_OF, EVENTS, &[]).await;
        // Until the store's clock has gone on.
        while lab.meddle(&TTL_OF, EVENTS, &[]).await == times {}
        note(lab, &[lost(1)]).await;
        assert_eq!(
            lab.meddle(&SCORES, EVENTS, &[]).await,
            first,
            "{}",
            lab.engine
        );
    });
}

#[test]
fn old_entries_are_not_read_when_new_ones_are_asked_for() {
    on_every_engine(async |lab| {
        lab.meddle(&OF_STRANGERS, EVENTS, &["1000", "old", "3"])
            .await;
        note(lab, &[lost(1)]).await;
        assert_eq!(read(lab, Duration::from_secs(3_600)).await.len(), 1);
        assert_eq!(
            read(lab, Duration::MAX).await.len(),
            1,
            "none is older than a week"
        );
    });
}

#[test]
fn entries_of_strangers_are_cut_and_their_times_are_possible_ones() {
    on_every_engine(async |lab| {
        note(lab, &[lost(1)]).await;
        for (score, text) in [("inf", "\u{1b}[2J"), ("-inf", "never"), ("1e300", "later")] {
            lab.meddle(&OF_STRANGERS, EVENTS, &[score, text, "1"]).await;
        }
        let found = read(lab, Duration::MAX).await;
        let texts: Vec<&str> = found.iter().map(|entry| &*entry.text).collect();
        assert!(
            texts.contains(&"\u{fffd}[2J1") && texts.contains(&"later1"),
            "{texts:?}"
        );
        assert_eq!(found.len(), 3, "{}", lab.engine);
        let latest = found.last().unwrap().at;
        assert!(
            found
                .iter()
                .all(|entry| latest.duration_since(entry.at).unwrap() < LONG_AGO)
        );
        // A megabyte each: no more than two of them are read, and the part that is sent of each is the same.
        let huge = "x".repeat(1 << 20);
        lab.meddle(&OF_STRANGERS, EVENTS, &["inf", &huge, "5"])
            .await;
        let found = read(lab, Duration::MAX).await;
        assert_eq!(found.len(), 1, "{}", lab.engine);
        assert!(
            found
                .iter()
                .all(|entry| entry.kind == "unknown" && entry.text.len() == 1_024)
        );
    });
}

const LONG_AGO: Duration = Duration::from_secs(3_600);
