//! What became of a run, for node_exporter: the file of `--textfile`, in the text format of Prometheus.

use std::cell::Cell;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::args::Globals;
use crate::args::run::RunArgs;
use crate::exit::Exit;
use crate::held::Held;
use crate::secrets::without_secrets;
use crate::{boottime, event, output, regular_file};

/// The collector wants one text for a metric in all files, so these never depend on the run.
const START: (&str, &str) = (
    "start_time_seconds",
    "When the job began last, in seconds since 1970; if it never has, when the first run without it ended.",
);
const WAIT: (&str, &str) = (
    "wait_seconds",
    "How long the run waited for the lock; of a tick of a schedule, how long after its time it began.",
);
const END: (&str, &str) = (
    "end_time_seconds",
    "When the job ended, in seconds since 1970, or the run without a job; missing while the job runs.",
);
const DURATION: (&str, &str) = (
    "duration_seconds",
    "How long the job ran; 0 if there was no lock, missing while it runs.",
);
const EXIT_CODE: (&str, &str) = (
    "exit_code",
    "The exit code of leaselock: that of the job, 75 for a busy lock, 79 for a lost one; missing while the job runs.",
);

/// The file, and what is known of the run so far. Without `--textfile` it writes nothing.
pub(crate) struct Textfile<'a> {
    file: Option<&'a Path>,
    name: &'a str,
    globals: &'a Globals,
    /// On the clock that counts suspend, like all but what is shown.
    began: u64,
    waited: Cell<Option<Duration>>,
    /// The start and the end of the job; of both the time since 1970 follows from the first.
    job: Cell<Option<(u64, u64)>>,
    job_began_ms: Cell<u64>,
    is_told: Cell<bool>,
}

impl<'a> Textfile<'a> {
    /// The run begins to wait now.
    pub(crate) fn of(args: &'a RunArgs, globals: &'a Globals) -> Textfile<'a> {
        Textfile {
            file: args.textfile.as_deref(),
            name: &args.name,
            globals,
            began: boottime::now(),
            waited: Cell::default(),
            job: Cell::default(),
            job_began_ms: Cell::default(),
            is_told: Cell::default(),
        }
    }

    /// The wait is over.
    pub(crate) fn granted(&self, held: &Held) {
        let waited = match held.due_ms() {
            // By this machine's clock, which may be behind that of the store.
            Some(due_ms) => Duration::from_millis(boottime::unix_ms().saturating_sub(due_ms)),
            None => since(self.began),
        };
        self.waited.set(Some(waited));
    }

    pub(crate) fn job_began(&self) {
        let now = boottime::now();
        self.job.set(Some((now, now)));
        self.job_began_ms.set(boottime::unix_ms());
        self.write(None);
    }

    pub(crate) fn job_ended(&self) {
        let began = self.job.get().map(|(began, _)| began);
        self.job.set(began.map(|began| (began, boottime::now())));
    }

    /// The run has ended, with a job or without one.
    pub(crate) fn run_ended(&self, exit: Exit) {
        if self.waited.get().is_none() {
            self.waited.set(Some(since(self.began)));
        }
        if self.job.get().is_none() {
            // A run that began no job must not seem to have begun one.
            let now_ms = boottime::unix_ms();
            let last_ms = self.last_began_ms().filter(|last_ms| *last_ms <= now_ms);
            self.job_began_ms.set(last_ms.unwrap_or(now_ms));
        }
        self.write(Some(exit));
    }

    /// A run is worth more than its metrics, so a file that cannot be written is told once, even with `-q`, and changes
    /// nothing.
    fn write(&self, exit: Option<Exit>) {
        let Some(file) = self.file else {
            return;
        };
        let written = regular_file::target(file).and_then(|file| replace(&file, &self.text(exit)));
        let Err(error) = written else {
            return;
        };
        if self.is_told.replace(true) {
            return;
        }
        let text = format!("--textfile: {} cannot be written: {error}", file.display());
        let text = without_secrets(&text);
        output::say(&match self.globals.json {
            true => event::line("textfile-failed", self.name, &text, Value::Null),
            false => format!("leaselock: {}\n", output::sanitized(&text)),
        });
    }

    /// What the file says of the latest start, by an earlier run or by one that goes on.
    fn last_began_ms(&self) -> Option<u64> {
        let file = regular_file::target(self.file?).ok()?;
        let text = fs::read_to_string(file).ok()?;
        let (metric, _) = START;
        let head = format!("{} ", self.series(metric));
        text.lines()
            .find_map(|line| milliseconds(line.strip_prefix(&head)?))
    }

    fn series(&self, metric: &str) -> String {
        let name = escaped(&without_secrets(self.name));
        format!("leaselock_run_{metric}{{name=\"{name}\"}}")
    }

    fn text(&self, exit: Option<Exit>) -> String {
        let mut text = String::new();
        let mut add = |(metric, help): (&str, &str), value: String| {
            let line = format!("{} {value}", self.series(metric));
            let metric = format!("leaselock_run_{metric}");
            writeln!(
                text,
                "# HELP {metric} {help}\n# TYPE {metric} gauge\n{line}"
            )
            .ok();
        };
        let start = Duration::from_millis(self.job_began_ms.get());
        let (ran, end) = match self.job.get() {
            Some((began, ended)) => {
                let ran = Duration::from_nanos(ended.saturating_sub(began));
                (ran, start.saturating_add(ran))
            }
            None => (Duration::ZERO, Duration::from_millis(boottime::unix_ms())),
        };
        add(START, seconds(start));
        add(WAIT, seconds(self.waited.get().unwrap_or_default()));
        if let Some(exit) = exit {
            add(END, seconds(end));
            add(DURATION, seconds(ran));
            add(EXIT_CODE, exit.code().to_string());
        }
        text
    }
}

fn since(began: u64) -> Duration {
    Duration::from_nanos(boottime::now().saturating_sub(began))
}

fn seconds(time: Duration) -> String {
    format!("{}.{:03}", time.as_secs(), time.subsec_millis())
}

/// Reads what [`seconds`] has written, to the millisecond.
fn milliseconds(seconds: &str) -> Option<u64> {
    let (whole, ms) = seconds.split_once('.').filter(|(_, ms)| ms.len() == 3)?;
    let whole: u64 = whole.parse().ok()?;
    whole.checked_mul(1000)?.checked_add(ms.parse().ok()?)
}

/// As the value of a label.
fn escaped(name: &str) -> String {
    let name = name.replace('\\', "\\\\").replace('"', "\\\"");
    name.replace('\n', "\\n")
}

/// The collector reads the old text or the new one, and no part of either. It passes over the temporary file, whose name
/// ends otherwise.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let mut temporary = file.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = Path::new(&temporary);
    fs::remove_file(temporary).ok(); // of an earlier process of this number
    let create = || {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(temporary)
    };
    let written = create().and_then(|mut open| open.write_all(text.as_bytes()));
    let replaced = written.and_then(|()| fs::rename(temporary, file));
    if replaced.is_err() {
        fs::remove_file(temporary).ok();
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_end_its_label() {
        assert_eq!(escaped("a\"} 1\nb\\"), "a\\\"} 1\\nb\\\\");
    }

    #[test]
    fn times_have_whole_milliseconds() {
        assert_eq!(seconds(Duration::from_micros(1_002_999)), "1.002");
        assert_eq!(seconds(Duration::ZERO), "0.000");
    }

    #[test]
    fn a_time_that_is_read_again_is_the_same_to_the_millisecond() {
        for ms in [0, 7, 1_795_746_600_999, 9_007_199_254_740_993] {
            assert_eq!(milliseconds(&seconds(Duration::from_millis(ms))), Some(ms));
        }
        for other in ["", "1", "1.5", "1.x00", "-1.000", "1.000 2"] {
            assert_eq!(milliseconds(other), None, "{other}");
        }
    }
}
