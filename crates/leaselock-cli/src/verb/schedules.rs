//! `leaselock schedules [PATTERN]`

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use leaselock::cron::{CronError, CronState, TickState};
use leaselock::inspect::Process;
use leaselock::{ErrorKind, Name};
use leaselock_cron::Schedule;
use serde_json::{Value, json};

use super::cron_show::{utc, word};
use crate::args::Globals;
use crate::args::schedules::SchedulesArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::session::Purpose;
use crate::table::or_none;
use crate::{output, session, show, table};

/// A run begins a moment after its time, and its claim takes one.
const GRACE: Duration = Duration::from_secs(2);
const HEADINGS: [&str; 7] = ["NAME", "SCHEDULE", "ZONE", "LAST", "STATE", "NEXT", "HOSTS"];

/// Lists what is known of each schedule, by name. A record that is damaged does not hide the others; a file of a folder does,
/// because which schedules it has is not known.
pub(crate) fn run(args: &SchedulesArgs, globals: &Globals) -> Result<Exit, Failure> {
    let client = session::one_store(globals, Purpose::Operator, "schedules")?;
    session::block_on(async {
        let mut names = client.list_cron(&args.pattern).await?;
        names.sort();
        let clients = match names.is_empty() {
            true => Vec::new(),
            false => client.list_clients().await?,
        };
        let (mut rows, mut failed) = (Vec::new(), Ok(Exit::OK));
        for name in names {
            let state = match client.cron(name.as_str()).state().await {
                Ok(state) => state,
                Err(error) => {
                    let is_about_one = is_damaged(&error);
                    if let Err(before) = std::mem::replace(&mut failed, Err(Failure::cron(&error)))
                    {
                        before.say(globals.json);
                    }
                    if is_about_one {
                        continue;
                    }
                    return failed;
                }
            };
            let row = Row::of(&name, state, &clients);
            if row.is_overdue || !args.overdue {
                rows.push(row);
            }
        }
        let text = match globals.json {
            true => rows
                .iter()
                .map(|row| row.json().map(|row| output::json(&row)))
                .collect(),
            false => table(&rows, table::width()),
        };
        output::print(text?.as_bytes())?;
        match args.overdue && !rows.is_empty() {
            true => failed.and(Ok(Exit::OVERDUE)),
            false => failed,
        }
    })
}

/// True if the record of that schedule is wrong, and not the store.
fn is_damaged(error: &CronError) -> bool {
    use ErrorKind::{Corrupt, Malformed, WrongType};
    let CronError::Store { source, .. } = error else {
        return false;
    };
    matches!(source.kind(), WrongType | Corrupt | Malformed)
}

/// What is known of a name.
#[derive(Debug)]
struct Row {
    name: String,
    state: CronState,
    /// `None` for a claim without a schedule, and for a text that is none.
    schedule: Option<Schedule>,
    zone: TimeZone,
    /// The first time after the latest that was run or left out.
    next: Option<SystemTime>,
    is_overdue: bool,
    /// Where a service runs it now, sorted.
    hosts: BTreeSet<String>,
}

impl Row {
    fn of(name: &Name, state: CronState, clients: &[Process]) -> Row {
        let serving = clients.iter().filter(|client| client.serves.contains(name));
        let told = state.schedule.as_ref();
        let parts = told.and_then(|(_, text)| text.split_once(' '));
        let zone = parts.and_then(|(zone, _)| TimeZone::get(zone).ok());
        let schedule =
            parts.and_then(|(zone, expression)| expression.parse::<Schedule>().ok()?.tz(zone).ok());
        let late = told.map_or(Duration::ZERO, |(late, _)| *late);
        let after = state.known_until().unwrap_or(state.now);
        let next = schedule
            .as_ref()
            .and_then(|schedule| schedule.after(after).next());
        // A sum that no clock reaches is never over.
        let until = next.and_then(|next| next.checked_add(late + GRACE));
        Row {
            // While a run goes on, later ones may wait for its end.
            is_overdue: state.state != Some(TickState::Running)
                && until.is_some_and(|until| state.now > until),
            hosts: serving.filter_map(|client| client.host.clone()).collect(),
            name: name.to_string(),
            state,
            schedule,
            zone: zone.unwrap_or(TimeZone::UTC),
            next,
        }
    }

    fn state(&self) -> Option<&'static str> {
        match self.is_overdue {
            true => Some("overdue"),
            false => self.state.state.map(word),
        }
    }

    fn cells(&self, time_format: &str) -> Result<[String; 7], Failure> {
        let time = |time: Option<SystemTime>| {
            let Some(time) = time else {
                return Ok::<_, Failure>("-".to_owned());
            };
            let time = Timestamp::try_from(time).map_err(Failure::internal)?;
            let local = time.to_zoned(self.zone.clone());
            Ok(local.strftime(time_format).to_string())
        };
        let hosts: Vec<&str> = self.hosts.iter().map(String::as_str).collect();
        let hosts = hosts.join(",");
        Ok([
            output::sanitized(&self.name),
            or_none(
                self.schedule
                    .as_ref()
                    .map(|it| output::sanitized(&it.to_string())),
            ),
            or_none(self.zone.iana_name().map(str::to_owned)),
            time(self.state.latest)?,
            or_none(self.state().map(str::to_owned)),
            time(self.next)?,
            or_none((!self.hosts.is_empty()).then(|| output::sanitized(&hosts))),
        ])
    }

    fn json(&self) -> Result<Value, Failure> {
        let known = self.schedule.as_ref();
        Ok(json!({
            "name": self.name,
            "schedule": known.map(ToString::to_string),
            "zone": known.and(self.zone.iana_name()),
            "late_ms": self.state.schedule.as_ref().map(|(late, _)| show::ms(*late)),
            "state": self.state.state.map(word),
            "overdue": self.is_overdue,
            "tick": utc(self.state.latest)?,
            "left_out": utc(self.state.skipped)?,
            "next": utc(self.next)?,
            "hosts": self.hosts,
        }))
    }
}

/// On a terminal that is too narrow for HOSTS beside short names the times are shorter, and if need be ZONE is left out.
fn table(rows: &[Row], width: Option<usize>) -> Result<String, Failure> {
    let lines = |time_format| -> Result<Vec<_>, Failure> {
        let cells = rows.iter().map(|row| row.cells(time_format));
        let headings = Ok(HEADINGS.map(str::to_owned));
        std::iter::once(headings).chain(cells).collect()
    };
    let mut all = lines("%Y-%m-%d %H:%M:%S")?;
    if !table::fits(&all, width) {
        all = lines("%m-%d %H:%M")?;
    }
    if table::fits(&all, width) {
        return Ok(table::text(&all, width));
    }
    let without_zone = |[name, schedule, _, last, state, next, hosts]: [String; 7]| {
        [name, schedule, last, state, next, hosts]
    };
    let all: Vec<_> = all.into_iter().map(without_zone).collect();
    Ok(table::text(&all, width))
}
