//! Entries: written, read back, and of strangers.

use super::*;

fn event() -> LogEvent {
    let name = Name::new("night\\ly \"é\"").unwrap();
    LogEvent::new("broken", "stuck\nsince \"3\" \\ é")
        .of(&name, Some(Fence::new(7)))
        .by("alice@office")
}

#[test]
fn an_entry_is_read_as_it_was_written() {
    let entry = LogEntry::read(&event().encode("client", 9), 1_795_000_000_123);
    assert_eq!(entry.name.as_deref(), Some("night\\ly \"é\""));
    assert_eq!(
        (entry.fence, entry.id.as_str()),
        (Some(Fence::new(7)), "client-9")
    );
    assert_eq!(entry.client.as_deref(), Some("client"));
    assert_eq!(
        entry.to_string(),
        "broken by alice@office: stuck\u{fffd}since \"3\" \\ é"
    );
    let since = entry.at.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(since.as_millis(), 1_795_000_000_123);
}

#[test]
fn a_fact_says_nothing_of_the_client_that_saw_it() {
    let seen_by = |client, number| event().fact("tick/1").encode(client, number);
    assert_eq!(seen_by("one", 1), seen_by("other", 2));
}

#[test]
fn an_entry_has_a_kilobyte_at_most_whatever_is_to_be_said() {
    for unit in ["x", "\"", "é", "🔒", "\u{1b}"] {
        let long = LogEvent::new("lost", unit.repeat(5_000)).by(unit.repeat(5_000));
        let written = long.encode("client", 1);
        assert!(written.len() <= ENTRY_MAX, "{unit}: {}", written.len());
        let read = LogEntry::read(&written, 1);
        assert_eq!(read.kind, "lost");
        assert!(
            !read.text.is_empty()
                && unit
                    .repeat(5_000)
                    .replace('\u{1b}', "\u{fffd}")
                    .starts_with(&read.text)
        );
    }
}

#[test]
fn text_of_strangers_is_shown_without_what_controls_a_terminal() {
    for (entry, kind, text) in [
        ("", "unknown", ""),
        ("\u{1b}[2J\n", "unknown", "\u{fffd}[2J\u{fffd}"),
        ("[1]", "unknown", "[1]"),
        ("{\"kind\":\"lost\"", "unknown", "{\"kind\":\"lost\""),
        ("{\"kind\":\"lost\",}", "unknown", "{\"kind\":\"lost\",}"),
        ("{\"text\":\"a\\u001b[2J\"}", "unknown", "a\u{fffd}001b[2J"),
        (
            " { \"kind\" : \"x\\\"y\" , \"text\" : 5 , \"fence\" : -1 } ",
            "x\"y",
            "5",
        ),
        (
            "{\"kind\":\"a\u{202e}b\",\"text\":\"\\",
            "unknown",
            "{\"kind\":\"a\u{fffd}b\",\"text\":\"\\",
        ),
    ] {
        let read = LogEntry::read(entry, u64::MAX);
        assert_eq!(
            (read.kind.as_str(), read.text.as_str()),
            (kind, text),
            "{entry:?}"
        );
        assert_eq!(read.fence, None);
    }
    let huge = LogEntry::read(&"é".repeat(1 << 20), 0);
    assert_eq!(huge.text.chars().count(), READ_MAX);
}
