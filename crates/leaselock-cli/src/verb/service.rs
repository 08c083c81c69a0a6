//! What `elect` and `cron` do between two jobs: they wait for their store, and become the same command anew.

use std::fmt::Display;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use leaselock::{Client, ErrorKind, OperationError, StoreError};
use serde_json::json;

use crate::args::Globals;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job::HANDED_OVER;
use crate::procfs::Status;
use crate::session::Purpose;
use crate::signals::Signals;
use crate::url_file::{self, UrlFile};
use crate::{output, session};

/// Between two questions whether the store answers.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Becomes this command again, with these URLs if they are from a file. It returns only if that fails.
///
/// The guardian of the next job must be forked while there is one thread, and this process has several by now. So it is
/// this process that reads the file, on a thread.
pub(super) fn begin_anew(globals: &Globals) -> Failure {
    let mut words = std::env::args_os();
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0(words.next().unwrap_or_default())
        .args(words)
        .env_remove(HANDED_OVER);
    let of_file = globals.url_file().map(|_| globals.given_urls());
    let handed_over = of_file.and_then(|urls| url_file::hand_over(urls).ok());
    if let Some(urls) = &handed_over {
        command.env(HANDED_OVER, urls.as_raw_fd().to_string());
    }
    Failure::internal(format!("cannot begin anew: {}", command.exec()))
}

/// The options with the URLs that the file has now; those of before when there is no file, or it is no use.
pub(super) fn with_urls_of_now(globals: &Globals, verb: &str) -> Globals {
    let mut again = ReadAgain::new(globals, verb);
    again.changed(globals).unwrap_or_else(|| globals.clone())
}

/// Waits until the file has other URLs that are usable, and forever without a file. Cancel safe.
pub(super) async fn until_the_file_has_other_urls(globals: &Globals, verb: &str) {
    let mut again = ReadAgain::new(globals, verb);
    while again.changed(globals).is_none() {
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Asks until the store answers, with the URLs that the file has by then. `Err` when a signal comes. Signals stay blocked
/// for the command that begins anew.
///
/// `is_told`: it was said already that the server refuses the login.
pub(super) fn until_the_store_answers<E: OperationError>(
    globals: &Globals,
    verb: &str,
    mut is_told: bool,
    ask: impl AsyncFn(&Client) -> Result<(), E>,
) -> Result<Result<Globals, Exit>, Failure> {
    let signals = Signals::block(&Status::read()?)?;
    session::block_on(async {
        let signals = signals.listen()?;
        let answers = async {
            let mut again = ReadAgain::new(globals, verb);
            let mut globals = again.changed(globals).unwrap_or_else(|| globals.clone());
            let mut client = session::one_store(&globals, Purpose::Operator, verb)?;
            while let Err(error) = ask(&client).await {
                let is_refused = is_refused_login(&error);
                if is_refused && !std::mem::replace(&mut is_told, true) {
                    tell_retry(&globals, &error, true);
                }
                match again.changed(&globals) {
                    Some(changed) => {
                        client = session::one_store(&changed, Purpose::Operator, verb)?;
                        (globals, is_told) = (changed, false);
                    }
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

/// Says why the store is asked again: a service that only looks as if it ran is worse than one that ends.
pub(super) fn tell_retry(globals: &Globals, why: &dyn Display, is_refused_login: bool) {
    let how = match globals.url_file().filter(|_| is_refused_login) {
        Some(_) => "retrying, with the URL that the file has by then",
        None => "retrying",
    };
    tell(globals, "retrying", &format!("{why}; {how}"));
}

pub(super) fn tell(globals: &Globals, event: &str, text: &str) {
    let text = output::sanitized(text);
    match globals.json {
        _ if globals.quiet => {}
        true => output::say(&output::json(&json!({ "event": event, "text": text }))),
        false => output::say(&format!("leaselock: {text}\n")),
    }
}

/// The file of URLs, which may change while a service runs.
struct ReadAgain<'a> {
    file: Option<UrlFile>,
    verb: &'a str,
    is_told: bool,
}

impl<'a> ReadAgain<'a> {
    fn new(globals: &Globals, verb: &'a str) -> Self {
        ReadAgain {
            file: globals.url_file().map(UrlFile::new),
            verb,
            is_told: false,
        }
    }

    /// The options with other URLs than before, if the file has others that are usable.
    fn changed(&mut self, before: &Globals) -> Option<Globals> {
        let usable = self.file.as_mut()?.read().and_then(|urls| {
            let mut globals = before.clone();
            globals.take_urls(urls);
            if globals.given_urls() != before.given_urls() {
                session::one_store(&globals, Purpose::Operator, self.verb)?;
            }
            Ok(globals)
        });
        match usable {
            Ok(now) => {
                self.is_told = false;
                Some(now).filter(|now| now.given_urls() != before.given_urls())
            }
            Err(failure) => {
                if !std::mem::replace(&mut self.is_told, true) {
                    let text = format!("{failure}; going on with the URL of before");
                    tell(before, "retrying", &text);
                }
                None
            }
        }
    }
}
