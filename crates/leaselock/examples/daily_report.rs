//! How do five hosts with the same timetable write one report a day?
//!
//! A lock alone is not enough: a host that comes late finds it free and would do the work again. So the holder leaves
//! a mark that the day is done, and reads it under the lock.
//!
//! `cargo run -p leaselock --example daily_report [URL]`

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use leaselock::Client;

const HOSTS: usize = 5;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:daily_report")).await
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let shared = tempfile::tempdir()?; // what the hosts share, such as a bucket or a database
    for (day, reports) in [("2026-07-01", 1), ("2026-07-02", 2)] {
        let hosts: Vec<_> = (0..HOSTS)
            .map(|host| {
                let (url, folder) = (url.to_owned(), shared.path().to_owned());
                tokio::spawn(async move {
                    let outcome = report_once(&url, &folder, day, host).await;
                    outcome.map_err(|error| error.to_string())
                })
            })
            .collect();
        let mut wrote = 0;
        for host in hosts {
            wrote += u32::from(host.await??);
        }
        assert_eq!(wrote, 1, "hosts that wrote the report of {day}");
        let lines = fs::read_to_string(shared.path().join("reports"))?;
        assert_eq!(lines.lines().count(), reports);
    }
    Ok(())
}

/// True when this host wrote the report of the day.
async fn report_once(
    url: &str,
    folder: &Path,
    day: &str,
    host: usize,
) -> Result<bool, Box<dyn Error>> {
    let client = Client::builder()
        .url(url)
        .process_name(&format!("host-{host}"))
        .build()?;
    let mutex = client.mutex("daily-report").note(day);
    let lease = mutex.acquire_within(Duration::from_secs(1)).await?;
    let mark = folder.join(format!("{day}.done"));
    let open = !mark.exists();
    if open {
        // The report first: a crash in between means one report too many, and not one that is missing.
        // Where that is not right either, the mark and the report are one write, or the report checks the fence.
        write_report(folder, day, host).await?;
        fs::write(mark, host.to_string())?;
    }
    lease.release().await?;
    Ok(open)
}

async fn write_report(folder: &Path, day: &str, host: usize) -> std::io::Result<()> {
    tokio::time::sleep(Duration::from_millis(20)).await; // the work
    let mut options = fs::OpenOptions::new();
    let mut reports = options
        .create(true)
        .append(true)
        .open(folder.join("reports"))?;
    writeln!(reports, "{day} by host-{host}")
}
