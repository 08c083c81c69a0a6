//! What each field of an expression may say.
//!
//! The crate that searches for the next time says neither which field is wrong nor what would be right, and takes a name
//! of a day for a minute. So all of it is read here first.

use crate::schedule_error::ScheduleError;

/// A field: its name, and what stands in it.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    /// Names of its values, the first for `first_word`.
    words: &'static [&'static str],
    first_word: u32,
}

const fn numbers(name: &'static str, least: u32, most: u32) -> Field {
    Field {
        name,
        least,
        most,
        words: &[],
        first_word: 0,
    }
}

const DAY_OF_MONTH: &str = "day of month";
const DAY_OF_WEEK: &str = "day of week";

const FIELDS: [Field; 6] = [
    numbers("second", 0, 59),
    numbers("minute", 0, 59),
    numbers("hour", 0, 23),
    numbers(DAY_OF_MONTH, 1, 31),
    Field {
        name: "month",
        least: 1,
        most: 12,
        words: &[
            "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
        ],
        first_word: 1,
    },
    Field {
        name: DAY_OF_WEEK,
        least: 0,
        most: 7, // Sunday is 0 and 7
        words: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
        first_word: 0,
    },
];

/// Returns the six fields of an expression, all in capitals.
pub(crate) fn fields(expression: &str) -> Result<Vec<String>, ScheduleError> {
    let text = expression.trim().to_uppercase();
    let text = match text.as_str() {
        "@YEARLY" | "@ANNUALLY" => "0 0 1 1 *",
        "@MONTHLY" => "0 0 1 * *",
        "@WEEKLY" => "0 0 * * 0",
        "@DAILY" | "@MIDNIGHT" => "0 0 * * *",
        "@HOURLY" => "0 * * * *",
        word if word.starts_with('@') => {
            let word = expression.trim().to_owned();
            return Err(ScheduleError::Nickname { word });
        }
        fields => fields,
    };
    let mut fields: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    match fields.len() {
        5 => fields.insert(0, "0".to_owned()),
        6 => {}
        count => return Err(ScheduleError::FieldCount { count }),
    }
    for (field, text) in FIELDS.iter().zip(&fields) {
        text.split(',').try_for_each(|item| field.check(item))?;
    }
    Ok(fields)
}

impl Field {
    /// Refuses an item of a list that is no value, range or step.
    fn check(&self, item: &str) -> Result<(), ScheduleError> {
        if self.is_special(item) {
            return Ok(());
        }
        if let Some((day, _)) = item.split_once('#')
            && self.name == DAY_OF_WEEK
            && self.is_value(day)
        {
            return self.refuse(item, format!("a month has {day}#1 to {day}#5"));
        }
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (item, None),
        };
        let is_range = range == "*" || range.contains('-');
        if let Some(step) = step {
            if !step
                .parse()
                .is_ok_and(|step| (1..=self.most).contains(&step))
            {
                return self.refuse(item, format!("a step is 1 to {}", self.most));
            }
            if !is_range {
                let right = format!("write {range}-{}/{step}", self.most);
                return self.refuse(item, right);
            }
        }
        if range == "*" {
            return Ok(());
        }
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Some(from), Some(to)) = (self.value(first), self.last_value(last)) else {
            return self.refuse(item, format!("give {}", self.values()));
        };
        if from > to {
            let (least, most) = (self.least, self.most);
            return self.refuse(item, format!("write {first}-{most},{least}-{last}"));
        }
        Ok(())
    }

    /// The last day of a month, the workday nearest to a day, the n-th or last such day of a month, and any day.
    fn is_special(&self, item: &str) -> bool {
        match self.name {
            DAY_OF_MONTH => {
                let workday = item.strip_suffix('W');
                matches!(item, "?" | "L" | "LW") || workday.is_some_and(|day| self.is_value(day))
            }
            DAY_OF_WEEK => {
                let last = item.strip_suffix('L').is_some_and(|day| self.is_value(day));
                let nth = item.split_once('#').is_some_and(|(day, nth)| {
                    self.is_value(day) && matches!(nth, "1" | "2" | "3" | "4" | "5")
                });
                item == "?" || last || nth
            }
            _ => false,
        }
    }

    fn is_value(&self, text: &str) -> bool {
        self.value(text).is_some()
    }

    fn value(&self, text: &str) -> Option<u32> {
        let named = self.words.iter().zip(self.first_word..);
        if let Some((_, value)) = named.into_iter().find(|(word, _)| **word == text) {
            return Some(value);
        }
        // `parse` would take a sign.
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let value = text.parse().ok().filter(|_| is_number)?;
        (self.least..=self.most).contains(&value).then_some(value)
    }

    /// The same at the end of a range, where Sunday comes after Saturday.
    fn last_value(&self, text: &str) -> Option<u32> {
        match text {
            "SUN" => self.value(text).map(|_| self.most),
            _ => self.value(text),
        }
    }

    fn values(&self) -> String {
        let (least, most) = (self.least, self.most);
        match (self.words.first(), self.words.last()) {
            (Some(first), Some(last)) => format!("{least} to {most}, or {first} to {last}"),
            _ => format!("{least} to {most}"),
        }
    }

    fn refuse(&self, value: &str, right: String) -> Result<(), ScheduleError> {
        Err(ScheduleError::Field {
            field: self.name,
            value: value.to_owned(),
            right,
        })
    }
}
