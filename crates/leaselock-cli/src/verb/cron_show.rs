//! `leaselock cron SPEC NAME --show` and `leaselock cron SPEC --next N`

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use leaselock::cron::{CronState, TickState};
use leaselock_cron::Schedule;
use serde_json::{Value, json};

use crate::args::Globals;
use crate::args::cron::CronArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::session::Purpose;
use crate::{boottime, output, session};

/// Prints the latest tick, what became of it, and the next one by the clock of the store.
pub(crate) fn show(
    args: &CronArgs,
    schedule: &Schedule,
    globals: &Globals,
) -> Result<Exit, Failure> {
    let name = args.name_to_show();
    let name = name.map_err(|wrong| Failure::new(wrong, Exit::USAGE))?;
    let zone = zone(args)?;
    let client = session::one_store(globals, Purpose::Operator, "cron")?;
    session::block_on(async {
        let state = client.cron(name).state().await;
        let state = state.map_err(|error| Failure::cron(&error))?;
        let next = schedule.after(state.now).next();
        let text = match globals.json {
            true => output::json(&json_of(name, &state, next)?),
            false => text(name, &state, next, &zone)?,
        };
        output::print(text.as_bytes())?;
        Ok(Exit::OK)
    })
}

/// Prints the next ticks by the clock of this machine: in the zone, and in UTC.
pub(crate) fn print_next(
    schedule: &Schedule,
    count: u16,
    args: &CronArgs,
    globals: &Globals,
) -> Result<Exit, Failure> {
    let zone = zone(args)?;
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(boottime::unix_ms());
    let mut text = String::new();
    for tick in schedule.after(now).take(count.into()) {
        let (local, utc) = times(tick, &zone)?;
        match globals.json {
            true => text.push_str(&output::json(&json!({ "tick": utc, "local": local }))),
            false => text.push_str(&format!("{local}  {utc}\n")),
        }
    }
    output::print(text.as_bytes())?;
    Ok(Exit::OK)
}

fn zone(args: &CronArgs) -> Result<TimeZone, Failure> {
    TimeZone::get(args.zone()).map_err(|error| Failure::new(error, Exit::USAGE))
}

/// In the zone, and in UTC.
fn times(tick: SystemTime, zone: &TimeZone) -> Result<(String, String), Failure> {
    let tick = Timestamp::try_from(tick).map_err(Failure::internal)?;
    Ok((tick.to_zoned(zone.clone()).to_string(), tick.to_string()))
}

fn text(
    name: &str,
    state: &CronState,
    next: Option<SystemTime>,
    zone: &TimeZone,
) -> Result<String, Failure> {
    let both = |tick| times(tick, zone).map(|(local, utc)| format!("{local}  {utc}"));
    let name = output::sanitized(name);
    let mut text = match (state.latest, state.state) {
        (Some(latest), Some(became)) => format!(
            "{name}: {}, run {}\n  latest    {}\n",
            word(became),
            state.attempt,
            both(latest)?
        ),
        _ => format!("{name}: no tick has begun\n"),
    };
    for (what, tick) in [("left out", state.skipped), ("next    ", next)] {
        if let Some(tick) = tick {
            text.push_str(&format!("  {what}  {}\n", both(tick)?));
        }
    }
    Ok(text)
}

/// In UTC alone.
pub(super) fn utc(tick: Option<SystemTime>) -> Result<Option<String>, Failure> {
    let times = tick.map(|tick| times(tick, &TimeZone::UTC)).transpose()?;
    Ok(times.map(|(_, utc)| utc))
}

fn json_of(name: &str, state: &CronState, next: Option<SystemTime>) -> Result<Value, Failure> {
    Ok(json!({
        "name": name,
        "state": state.state.map(word),
        "tick": utc(state.latest)?,
        "attempt": state.latest.map(|_| state.attempt),
        "left_out": utc(state.skipped)?,
        "next": utc(next)?,
    }))
}

pub(super) fn word(state: TickState) -> &'static str {
    match state {
        TickState::Running => "running",
        TickState::Done => "done",
        TickState::Crashed => "crashed",
        _ => "unknown", // the library knows more than we do
    }
}
