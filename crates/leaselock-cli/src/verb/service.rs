//! What `elect` and `cron` do between two jobs: they wait for their store, and become the same command anew. And the URLs
//! that a file has by then, which those who follow read too.

use std::fmt::Display;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use leaselock::{Client, ErrorKind, OperationError, StoreError};
use serde_json::Value;
use tokio::sync::Notify;

use crate::args::Globals;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job::HANDED_OVER;
use crate::process::SignalSet;
use crate::procfs::Status;
use crate::signals::{self, BLOCKED, Signals};
use crate::url_file::{self, UrlFile};
use crate::{event, output, session};

/// Between two questions whether the store answers.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// A store that failed once may serve again: its file is read less and less often.
const LONGEST_UNREAD: Duration = Duration::from_secs(5);

/// What reads its URLs again.
#[derive(Clone, Copy)]
pub(super) struct Service<'a> {
    /// The name of its lock, for messages.
    pub(super) name: &'a str,
    pub(super) open: fn(&Globals) -> Result<Client, Failure>,
}

/// Becomes this command again, with these URLs if they are from a file, and with the signals of `mask` as those that were
/// blocked at the start. It returns only if that fails.
///
/// The guardian of the next job must be forked while there is one thread, and this process has several by now. So it is
/// this process that reads the file, on a thread.
pub(super) fn begin_anew(globals: &Globals, mask: &SignalSet) -> Failure {
    let mut words = std::env::args_os();
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0(words.next().unwrap_or_default())
        .args(words)
        .env_remove(HANDED_OVER)
        .env(BLOCKED, signals::blocked_in(mask));
    let of_file = globals.url_file().map(|_| globals.given_urls());
    let handed_over = of_file.and_then(|urls| url_file::hand_over(urls).ok());
    if let Some(urls) = &handed_over {
        command.env(HANDED_OVER, urls.as_raw_fd().to_string());
    }
    Failure::internal(format!("cannot begin anew: {}", command.exec()))
}

/// The options with the URLs that the file has now; those of before when there is no file, or it is no use.
pub(super) fn with_urls_of_now(globals: &Globals, service: Service<'_>) -> Globals {
    let changed = ReadAgain::new(globals, service).changed(globals);
    changed.map_or_else(|| globals.clone(), |(globals, _)| globals)
}

/// Waits until the file has other URLs that are usable, and forever without a file. Cancel safe.
pub(super) async fn until_the_file_has_other_urls(
    globals: &Globals,
    service: Service<'_>,
    failed: &Notify,
) {
    let mut again = ReadAgain::new(globals, service);
    let mut pause = ASK_EVERY;
    while again.changed(globals).is_none() {
        pause = tokio::select! {
            () = tokio::time::sleep(pause) => LONGEST_UNREAD.min(pause * 2),
            () = failed.notified() => ASK_EVERY,
        };
    }
}

/// Asks until the store answers, with the URLs that the file has by then. `Err` when a signal comes. Signals stay blocked
/// for the command that begins anew.
///
/// `is_told`: it was said already that the server refuses the login.
pub(super) fn until_the_store_answers<E: OperationError>(
    globals: &Globals,
    service: Service<'_>,
    mut is_told: bool,
    ask: impl AsyncFn(&Client) -> Result<(), E>,
) -> Result<Result<Globals, Exit>, Failure> {
    let signals = Signals::block(&Status::read()?)?;
    session::block_on(async {
        let signals = signals.listen()?;
        let answers = async {
            let mut again = ReadAgain::new(globals, service);
            let (mut globals, mut client) = match again.changed(globals) {
                Some(changed) => changed,
                None => (globals.clone(), (service.open)(globals)?),
            };
            while let Err(error) = ask(&client).await {
                let is_refused = is_refused_login(&error);
                if is_refused && !std::mem::replace(&mut is_told, true) {
                    tell_retry(&globals, service.name, &error, true);
                }
                match again.changed(&globals) {
                    Some(changed) => ((globals, client), is_told) = (changed, false),
                    None => tokio::time::sleep(ASK_EVERY).await,
                }
            }
            Ok(globals)
        };
        tokio::select! {
            answered = answers => answered.map(Ok),
            signal = signals.ending() => Ok(Err(Exit::by_signal(signal?))),
        }
    })
}

/// Whether the server knows neither the user nor the password of the URL: only another URL helps.
pub(super) fn is_refused_login(error: &impl OperationError) -> bool {
    error.store_error().map(StoreError::kind) == Some(ErrorKind::Auth)
}

/// Says why the store is asked again: a service that only seems to run is worse than one that ends.
pub(super) fn tell_retry(globals: &Globals, name: &str, why: &dyn Display, is_refused_login: bool) {
    let how = match globals.url_file().filter(|_| is_refused_login) {
        Some(_) => "retrying, with the URL that the file has by then",
        None => "retrying",
    };
    tell(globals, name, &format!("{why}; {how}"));
}

/// The event `retrying`.
pub(super) fn tell(globals: &Globals, name: &str, text: &str) {
    match globals.json {
        _ if globals.quiet => {}
        true => output::say(&event::line("retrying", name, text, Value::Null)),
        false => output::say(&format!("leaselock: {}\n", output::sanitized(text))),
    }
}

/// The file of URLs, which may change while a service runs.
pub(super) struct ReadAgain<'a> {
    file: Option<UrlFile>,
    service: Service<'a>,
    is_told: bool,
}

impl<'a> ReadAgain<'a> {
    pub(super) fn new(globals: &Globals, service: Service<'a>) -> Self {
        ReadAgain {
            file: globals.url_file().map(UrlFile::new),
            service,
            is_told: false,
        }
    }

    /// The options with other URLs than before, and their client, if the file has others that are usable.
    pub(super) fn changed(&mut self, before: &Globals) -> Option<(Globals, Client)> {
        let usable = self.file.as_mut()?.read().and_then(|urls| {
            let mut globals = before.clone();
            globals.take_urls(urls);
            if globals.given_urls() == before.given_urls() {
                return Ok(None);
            }
            let client = (self.service.open)(&globals)?;
            Ok(Some((globals, client)))
        });
        match usable {
            Ok(changed) => {
                self.is_told = false;
                changed
            }
            Err(failure) => {
                if !std::mem::replace(&mut self.is_told, true) {
                    let text = format!("{failure}; going on with the URL of before");
                    tell(before, self.service.name, &text);
                }
                None
            }
        }
    }
}
