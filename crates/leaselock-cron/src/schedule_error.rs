//! Why an expression or a zone is no schedule.

use thiserror::Error;

/// An expression or a time zone that is refused. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The expression has another number of fields.
    #[error(
        "an expression has 5 fields, `minute hour day-of-month month day-of-week`, or 6 with the second in front; \
         this one has {count}"
    )]
    FieldCount {
        /// How many there are.
        count: usize,
    },
    /// A field says something that it cannot say.
    #[error("{field}: `{value}` is wrong: {right}")]
    Field {
        /// The name of the field.
        field: &'static str,
        /// The part of the field that is wrong.
        value: String,
        /// What would be right.
        right: String,
    },
    /// A word such as `@daily` that is none.
    #[error(
        "`{word}` is no schedule: use @yearly, @monthly, @weekly, @daily or @hourly, or five fields"
    )]
    Nickname {
        /// The word.
        word: String,
    },
    /// No day has this date.
    #[error("`{expression}` has no next time: no month has such a day")]
    NeverDue {
        /// The expression.
        expression: String,
    },
    /// The zone database has no such zone.
    #[error("`{name}` is no time zone{}", if_near(.near))]
    UnknownZone {
        /// The name.
        name: String,
        /// Zones with a name like it; none if nothing is like it.
        near: Vec<String>,
    },
}

fn if_near(near: &[String]) -> String {
    match near {
        [] => ": use a name such as Europe/Berlin or UTC".to_owned(),
        _ => format!(": did you mean {}?", near.join(", ")),
    }
}
