//! The library's events for `-vv` and more, in the command's own form.

use std::fmt;

use serde_json::json;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

use crate::output;

/// Shows them on standard error. `-v` alone has its own lines, in `progress.rs`.
pub(crate) fn show(verbose: u8, as_json: bool) {
    let level = match verbose {
        0 | 1 => return,
        2 => Level::DEBUG,
        _ => Level::TRACE,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .event_format(Form { as_json })
        .init();
}

struct Form {
    as_json: bool,
}

impl<S, N> FormatEvent<S, N> for Form
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut text = String::new();
        context.format_fields(Writer::new(&mut text), event)?;
        let level = event.metadata().level().as_str().to_lowercase();
        let text = output::sanitized(&text);
        if self.as_json {
            let object = json!({ "event": "log", "level": level, "text": text });
            write!(writer, "{}", output::json(&object))
        } else {
            writeln!(writer, "leaselock: {level}: {text}")
        }
    }
}
