//! How do five hosts with the same timetable write one report a day?
//!
//! A lock alone is not enough: a host that comes late finds it free and would do the work again. A schedule is: each day
//! belongs to the first host that claims it, and is over for all others.
//!
//! `cargo run -p leaselock-cron --example daily_report [URL]`

use std::error::Error;
use std::time::{Duration, SystemTime};

use leaselock::{Client, Fence};
use leaselock_cron::{CatchUp, Schedule, TickView};
use tokio::sync::{mpsc, watch};

const HOSTS: usize = 5;
const DAYS: usize = 2;

/// What the hosts share, such as a bucket or a database: which day's report was written, by which host, and under which
/// fencing token.
type Reports = mpsc::UnboundedSender<(SystemTime, usize, Fence)>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:daily_report")).await
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    // A day lasts a second here; "30 2 * * *" with .tz("Europe/Berlin") is half past two every night.
    let schedule: Schedule = "* * * * * *".parse()?;
    let (writes, mut reports) = mpsc::unbounded_channel();
    let (stop, stopped) = watch::channel(false);
    let hosts: Vec<_> = (0..HOSTS)
        .map(|host| {
            let (url, schedule) = (url.to_owned(), schedule.clone());
            let (writes, stopped) = (writes.clone(), stopped.clone());
            tokio::spawn(async move {
                let served = serve(&url, host, &schedule, writes, stopped).await;
                served.map_err(|error| error.to_string())
            })
        })
        .collect();
    drop(writes);

    let mut days = Vec::new();
    while days.len() < DAYS {
        let report = tokio::time::timeout(Duration::from_secs(30), reports.recv()).await?;
        days.extend(report);
    }
    stop.send(true)?; // as a signal would
    for host in hosts {
        host.await??;
    }
    while let Some(report) = reports.recv().await {
        days.push(report); // by a host that was at work then
    }
    for (day, host, fence) in &days {
        println!("the report of {day:?} is by host-{host}, under {fence}");
    }
    let each_once = days.is_sorted_by(|(one, ..), (next, ..)| one < next);
    assert!(each_once, "{days:?}");
    // A later run has a larger number, so what keeps the reports can refuse a run that is late.
    let fences_grow = days.is_sorted_by(|(.., one), (.., next)| one < next);
    assert!(fences_grow, "{days:?}");
    Ok(())
}

/// What each of the hosts does.
async fn serve(
    url: &str,
    host: usize,
    schedule: &Schedule,
    reports: Reports,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), Box<dyn Error>> {
    let client = Client::builder()
        .url(url)
        .process_name(&format!("host-{host}"))
        .open()?;
    // A day on which all hosts were down gets its report later.
    let daily = client.cron("daily-report");
    let stop = async move { drop(stopped.wait_for(|stop| *stop).await) };
    let body = |run| write_report(run, host, reports.clone());
    let runs = schedule.runs(daily).catch_up(CatchUp::All);
    runs.run_until(stop, body).await?;
    client.close().await;
    Ok(())
}

async fn write_report(run: TickView, host: usize, reports: Reports) -> Result<(), String> {
    tokio::time::sleep(Duration::from_millis(20)).await; // the work
    reports
        .send((run.tick(), host, run.fence()))
        .map_err(|error| error.to_string())
}
