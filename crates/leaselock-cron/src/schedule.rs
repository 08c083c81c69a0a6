//! Expressions in a time zone, and their next times.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

use crate::schedule_error::ScheduleError;
use crate::schedule_fields;

const DAY_SECONDS: i32 = 24 * 60 * 60;
/// So many letters may be wrong in a name for which a zone is proposed, and one in three at most.
const NEAR: usize = 2;
const PROPOSED: usize = 3;

/// When something is to run: a cron expression in a time zone.
///
/// The fields are `minute hour day-of-month month day-of-week`, with a second in front if there are six. Each is `*`, a
/// number, a range `9-17`, a step `*/5` or `9-17/2`, or a list of these with commas. Months and days have names too,
/// `JAN` and `MON`; Sunday is 0 and 7. `L` is the last day of the month, `LW` its last workday, `15W` the workday nearest
/// to the 15th, `FRIL` the last Friday and `FRI#2` the second. With a day of the month and a day of the week, either is
/// enough. `@yearly`, `@monthly`, `@weekly`, `@daily` and `@hourly` are short for such expressions.
///
/// The zone is UTC unless [`tz`](Schedule::tz) names one, because the zones of hosts differ.
///
/// # Daylight saving time
/// *Fixed times* are those of an expression without `*` in second, minute and hour. One that the clock skips runs at the
/// end of the skipped time, and one that the clock repeats runs at the first of the two. All other expressions are
/// *intervals*, which follow the clock on the wall: none runs in skipped time, and all run in both repeated hours.
///
/// # Examples
/// ```
/// use std::time::{Duration, SystemTime};
///
/// let nightly: leaselock_cron::Schedule = "30 2 * * *".parse()?;
/// let nightly = nightly.tz("Europe/Berlin")?;
/// let first_of_july = SystemTime::UNIX_EPOCH + Duration::from_secs(1_782_864_000); // 2026-07-01T00:00:00Z
/// let tick = nightly.after(first_of_july).next().unwrap();
/// assert_eq!(tick, first_of_july + Duration::from_secs(30 * 60)); // 2:30 in Berlin
/// # Ok::<(), leaselock_cron::ScheduleError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Schedule {
    expression: String,
    times: croner::Cron,
    has_fixed_times: bool,
    zone: TimeZone,
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(expression: &str) -> Result<Self, ScheduleError> {
        let fields = schedule_fields::fields(expression)?;
        let has_fixed_times = !fields[..3].iter().any(|field| field.contains('*'));
        let parsed = fields.join(" ").parse::<croner::Cron>();
        let expression = expression.trim().to_owned();
        let times = parsed.map_err(|error| ScheduleError::Field {
            field: "expression",
            value: expression.clone(),
            right: error.to_string(),
        })?;
        let schedule = Schedule {
            expression,
            times,
            has_fixed_times,
            zone: TimeZone::UTC,
        };
        // The calendar repeats itself, so an expression that is due once is due again.
        match schedule.next_after(SystemTime::UNIX_EPOCH) {
            Some(_) => Ok(schedule),
            None => Err(ScheduleError::NeverDue {
                expression: schedule.expression,
            }),
        }
    }
}

impl Schedule {
    /// Sets the time zone, by its name in the IANA database such as `Europe/Berlin`; UTC by default.
    ///
    /// The database is the system's, or one that is compiled in where the system has none. Hosts with different
    /// databases see different ticks for a zone whose rules were changed.
    ///
    /// # Errors
    /// [`ScheduleError::UnknownZone`] names zones like it.
    ///
    /// # Examples
    /// ```
    /// let noon: leaselock_cron::Schedule = "0 12 * * *".parse()?;
    /// let error = noon.tz("Berlin").unwrap_err();
    /// assert_eq!(error.to_string(), "`Berlin` is no time zone: did you mean Europe/Berlin?");
    /// # Ok::<(), leaselock_cron::ScheduleError>(())
    /// ```
    pub fn tz(mut self, name: &str) -> Result<Self, ScheduleError> {
        self.zone = TimeZone::get(name).map_err(|_| ScheduleError::UnknownZone {
            name: name.to_owned(),
            near: near(name),
        })?;
        Ok(self)
    }

    /// Returns the ticks after a time, in their order and each once. They end with the year 4999.
    pub fn after(&self, time: SystemTime) -> impl Iterator<Item = SystemTime> + use<> {
        let (schedule, mut last) = (self.clone(), Some(time));
        std::iter::from_fn(move || {
            last = schedule.next_after(last?);
            last
        })
    }

    /// Returns the first tick after a time.
    pub(crate) fn next_after(&self, time: SystemTime) -> Option<SystemTime> {
        // A tick is a whole second, and none is before 1970.
        let before_1970 = Timestamp::from_second(-1).ok()?;
        let second = Timestamp::try_from(time).ok()?.as_second();
        let after = Timestamp::from_second(second).ok()?.max(before_1970);
        let next = match self.has_fixed_times {
            true => self.next_fixed_time(after),
            false => {
                let after = after.to_zoned(self.zone.clone());
                let next = self.times.find_next_occurrence(&after, false);
                next.ok().map(|next| next.timestamp())
            }
        };
        next.map(SystemTime::from)
    }

    /// Searches on the wall clock, where nothing is skipped or repeated.
    ///
    /// An earlier wall time is never a later instant, so nothing before the wall time of `after` is still to come.
    fn next_fixed_time(&self, after: Timestamp) -> Option<Timestamp> {
        let mut wall = self.zone.to_datetime(after);
        loop {
            wall = self.times.find_next_occurrence(&wall, false).ok()?;
            if let Some(instant) = self.instant(wall)
                && instant > after
            {
                return Some(instant);
            }
        }
    }

    /// The instant of a fixed time; `None` on a day that the zone never had, as when it moved over the date line.
    fn instant(&self, wall: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(wall);
        let offset = ambiguous.offset();
        let earlier = ambiguous.earlier().ok()?;
        match offset {
            AmbiguousOffset::Gap { before, after }
                if after.seconds() - before.seconds() >= DAY_SECONDS =>
            {
                None
            }
            AmbiguousOffset::Gap { .. } => {
                let end_of_gap = self.zone.following(earlier).next()?;
                Some(end_of_gap.timestamp())
            }
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => Some(earlier),
        }
    }
}

/// The expression.
impl Schedule {
    /// What operators are shown: the zone and the expression.
    pub(crate) fn described(&self) -> String {
        format!("{} {self}", self.zone.iana_name().unwrap_or("UTC"))
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.expression)
    }
}

/// Zones with a name like this one, or with a city like it.
fn near(name: &str) -> Vec<String> {
    let wanted = name.trim().replace(' ', "_").to_ascii_lowercase();
    let distance_to = |zone: &str| {
        let zone = zone.to_ascii_lowercase();
        distance(&wanted, &zone).min(distance(city(&wanted), city(&zone)))
    };
    let most = NEAR.min(city(&wanted).len() / 3);
    let zones = jiff::tz::db().available().map(|zone| zone.to_string());
    let mut near: Vec<(usize, String)> = zones
        .filter(|zone| !zone.starts_with("posix/") && !zone.starts_with("right/"))
        .map(|zone| (distance_to(&zone), zone))
        .filter(|(distance, _)| *distance <= most)
        .collect();
    near.sort();
    let best = near.first().map_or(0, |(distance, _)| *distance);
    let best = near.into_iter().filter(|(distance, _)| *distance == best);
    best.map(|(_, zone)| zone).take(PROPOSED).collect()
}

fn city(zone: &str) -> &str {
    zone.rsplit('/').next().unwrap_or(zone)
}

/// How many letters must be added, removed or replaced: the Levenshtein distance, a row of its table at a time.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (added, letter) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], added + 1);
        for (column, theirs) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(letter != theirs);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}
