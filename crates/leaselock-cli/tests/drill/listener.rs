//! A job's part: writes down every signal as it comes, which no shell does reliably.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::ExitCode;

use crate::procfs::Status;
use crate::signals::Signals;

/// The first argument that makes this program a listening job.
pub(crate) const PART: &str = "play-the-listener";

/// Writes its number to `job` once it listens, and a line to `heard` for each signal.
pub(crate) fn play() -> ExitCode {
    let signals = Signals::block(&Status::read().unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let signals = signals.listen().unwrap();
        std::fs::write("job", format!("{}\n", std::process::id())).unwrap();
        let mut heard = OpenOptions::new()
            .create(true)
            .append(true)
            .open("heard")
            .unwrap();
        loop {
            let received = signals.next().await.unwrap();
            writeln!(
                heard,
                "{}",
                if received.from_terminal {
                    "key"
                } else {
                    "process"
                }
            )
            .unwrap();
        }
    })
}
