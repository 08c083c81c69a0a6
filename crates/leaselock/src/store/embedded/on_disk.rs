//! The store in a folder: opens it when needed, takes turns with other processes, and commits the scripts' writes.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::timeout;

use super::datagram::{Listener, file_name};
use super::engine;
use super::file_format;
use super::folder::{Folder, FolderSettings};
use super::gc::{self, Gc};
use super::image::Image;
use super::io_error::{FileError, is_lack_of_descriptors, lacks_descriptors};
use super::listings::Listings;
use super::lockfile;
use super::receiver::Receiver;
use super::session::Session;
use super::session_watch::SessionWatch;
use super::step::{Step, one_tag};
use crate::base::keyed_mutex::KeyedMutex;
use crate::base::{CLOCK, ErrorKind, Moment, StoreError, hold, rounded, slots};
use crate::script::{Answer, Call};
use crate::store::{Event, Sink, Traffic};

#[derive(Debug)]
pub(crate) struct FolderStore {
    pub(super) settings: FolderSettings,
    opened: Mutex<OpenedFolder>,
    /// The receiver of messages to this client.
    ear: Mutex<Option<Arc<Receiver>>>,
    sweep: Gc,
    /// The queues of this client's tasks for lock files that other processes keep busy: one task tries for each.
    ///
    /// Thousands of tasks that all try take the processor from the one that has the file.
    tries: KeyedMutex,
    pub(super) listings: Listings,
}

#[derive(Debug, Default)]
struct OpenedFolder {
    folder: Option<Arc<Folder>>,
    /// How often the folder was opened.
    times: u64,
    /// Outlives the folder: it continues when the same folder is opened again.
    session: Option<Arc<Session>>,
    /// The longest hold, set before there was a session.
    limit: Option<Moment>,
}

impl FolderStore {
    pub(super) fn new(settings: FolderSettings) -> Self {
        FolderStore {
            sweep: Gc::new(&settings.client),
            settings,
            opened: Mutex::default(),
            ear: Mutex::default(),
            tries: KeyedMutex::default(),
            listings: Listings::default(),
        }
    }

    /// Returns the open folder. A caller that finds it gone calls `forget`, and it is opened again.
    pub(super) fn folder(&self) -> Result<Arc<Folder>, FileError> {
        let mut opened = hold(&self.opened);
        if let Some(folder) = &opened.folder {
            return Ok(Arc::clone(folder));
        }
        let folder = Arc::new(Folder::open(&self.settings, opened.session.clone())?);
        opened.session.clone_from(&folder.session);
        if let (Some(session), Some(until)) = (&opened.session, opened.limit) {
            limit(session, until);
        }
        opened.folder = Some(Arc::clone(&folder));
        opened.times += 1;
        Ok(folder)
    }

    pub(super) fn epoch(&self) -> u64 {
        hold(&self.opened).times
    }

    fn forget(&self, gone: &Arc<Folder>) {
        let mut opened = hold(&self.opened);
        drop(opened.folder.take_if(|folder| Arc::ptr_eq(folder, gone)));
    }

    /// Retries while other processes hold the file.
    ///
    /// Between two tries it holds nothing; once it takes long, it holds its turn among the tasks of this client.
    pub(super) async fn keep_trying<T>(
        &self,
        what: &str,
        within: Duration,
        mut attempt: impl FnMut(&Arc<Folder>) -> Result<T, FileError>,
    ) -> Result<T, StoreError> {
        let began = CLOCK.now();
        let (mut turn, mut head) = (0, None);
        loop {
            let outcome = self.folder().and_then(|folder| {
                let outcome = match attempt(&folder) {
                    // Idle files give way to the one that a call needs: a release must not fail for want of it.
                    Err(FileError::Store(error))
                        if lacks_descriptors(&error) && folder.close_idle() =>
                    {
                        attempt(&folder)
                    }
                    outcome => outcome,
                };
                if matches!(outcome, Err(FileError::Gone)) {
                    self.forget(&folder);
                }
                outcome
            });
            let (file, is_busy) = match outcome {
                Ok(value) => return Ok(value),
                Err(FileError::Store(error)) => return Err(error),
                Err(FileError::Busy) => (what, true),
                Err(FileError::Gone) => (what, false),
                Err(FileError::Taken(other)) => (other, true),
            };
            let waited = CLOCK.now().saturating_since(began);
            if waited >= within {
                let (path, waited) = (self.settings.path.display(), rounded(waited));
                let message = format!("{path}: {file} was held by other processes for {waited}");
                return Err(if is_busy {
                    StoreError::contended(message)
                } else {
                    StoreError::refused(ErrorKind::NoReply, message)
                });
            }
            if is_busy && head.is_none() && (turn >= NAPS_UNTIL || self.tries.has(what)) {
                let interest = self.tries.interest(&what.into());
                let turn = timeout(within - waited, interest.turn()).await;
                head = turn.ok().map(|turn| interest.enter(turn));
                continue;
            }
            pause(turn, CLOCK.now()).await;
            turn += 1;
        }
    }

    pub(super) async fn run(&self, call: &Call, within: Duration) -> Result<Answer, StoreError> {
        self.lend_ear(call);
        let name = lockfile::file_name(one_tag(call)?);
        let answer = self
            .keep_trying(&name, within, |folder| attempt(folder, &name, call))
            .await?;
        if self.sweep.is_due()
            && let Ok(folder) = self.folder()
        {
            self.sweep.step(&folder);
        }
        Ok(answer)
    }

    pub(super) async fn listen(&self, channel: &str, sink: Sink) {
        /// The pause before a retry with a folder that cannot be used now.
        const AGAIN: Duration = Duration::from_secs(1);
        let sink = Arc::new(sink);
        loop {
            let bound = self.bind(|folder| {
                let wakes = Arc::clone(&folder.wakes);
                Listener::bind(wakes, file_name(channel.as_bytes()), folder.file_mode)
            });
            match bound {
                Ok(listener) => {
                    let ear = Arc::new(Receiver::new(listener, channel, Arc::clone(&sink)));
                    self.attend(ear, &sink).await;
                    sink(Event::Gap);
                }
                Err(error) => {
                    tracing::warn!(target: "leaselock", %error, "cannot listen for wake-ups");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    async fn attend(&self, ear: Arc<Receiver>, sink: &Sink) {
        /// Closes the receiver when the listener stops, for whatever reason.
        struct Open<'a>(&'a FolderStore, Arc<Receiver>);
        impl Drop for Open<'_> {
            fn drop(&mut self) {
                *hold(&self.0.ear) = None;
                self.1.close();
            }
        }
        let open = Open(self, ear);
        *hold(&self.ear) = Some(Arc::clone(&open.1));
        self.hear(&open.1, sink).await;
    }

    /// Reports messages, and the ends of processes that may have held a lock, until senders cannot find the socket.
    pub(super) async fn hear(&self, ear: &Receiver, sink: &Sink) {
        let endings = async {
            let folder = self.folder().ok();
            match folder.and_then(|folder| SessionWatch::watch(&folder.sessions)) {
                Some(endings) => endings.report(sink).await,
                None => std::future::pending().await,
            }
        };
        if !ear.can_hear() {
            return; // no descriptor is left
        }
        sink(Event::Ready);
        tokio::select! {
            () = ear.attend() => {}
            () = endings => {}
        }
    }

    /// Removes what dead processes left in the folder, now and again, for ever.
    ///
    /// On the client's own thread. A process that ends soon sweeps as far as it comes, and the next one goes on.
    pub(super) async fn sweep_dead_processes(&self) {
        /// How often the leftovers of dead processes are removed.
        const AGAIN: Duration = Duration::from_secs(30);
        loop {
            if let Ok(folder) = self.folder() {
                gc::dead_processes(&folder).await;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Moves the receiver to a task that waits: its call names the channel as one word of an argument.
    fn lend_ear(&self, call: &Call) {
        let Some(ear) = hold(&self.ear).clone() else {
            return;
        };
        let names = |arg: &str| arg.rsplit(' ').any(|word| word == ear.channel());
        if call.parameters.args().any(names) {
            ear.follow();
        }
    }

    pub(super) fn bind(
        &self,
        create: impl Fn(&Folder) -> std::io::Result<Listener>,
    ) -> std::io::Result<Listener> {
        const TRIES: u32 = 100;
        for _ in 0..TRIES {
            let folder = match self.folder() {
                Ok(folder) => folder,
                Err(FileError::Store(error)) => return Err(std::io::Error::other(error)),
                Err(FileError::Busy | FileError::Taken(_) | FileError::Gone) => {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
            };
            match folder.time() {
                Ok(_) => {
                    let created = create(&folder);
                    let lacks = created.as_ref().is_err_and(is_lack_of_descriptors);
                    return match lacks && folder.close_idle() {
                        true => create(&folder),
                        false => created,
                    };
                }
                Err(_) => self.forget(&folder),
            }
        }
        Err(std::io::ErrorKind::TimedOut.into())
    }

    /// Returns how often a lock file was written, without its lock and without reading it.
    pub(super) fn traffic(&self, key: &str) -> Option<Traffic> {
        let name = lockfile::file_name(slots::tag(key));
        let (commits, bytes) = file_format::newest(&self.folder().ok()?.locks, &name)?;
        Some(Traffic { commits, bytes })
    }

    pub(super) fn describe(&self) -> String {
        format!("the folder {}", self.settings.path.display())
    }

    pub(super) fn session_descriptor(&self) -> Option<OwnedFd> {
        hold(&self.opened)
            .session
            .as_ref()
            .and_then(|session| session.descriptor())
    }

    pub(super) fn limit_session(&self, until: Moment) {
        let mut opened = hold(&self.opened);
        if opened.limit.is_some_and(|limit| limit >= until) {
            return; // another lease of this client may be held longer
        }
        opened.limit = Some(until);
        if let Some(session) = &opened.session {
            limit(session, until);
        }
    }
}

fn limit(session: &Session, until: Moment) {
    if let Err(error) = session.limit(until) {
        tracing::warn!(target: "leaselock", %error, "the longest hold could not be written; a job that goes on alone is not limited");
    }
}

/// From this try on a task sleeps between two tries.
const NAPS_UNTIL: u32 = 96;

/// Pauses between two tries, in three steps.
///
/// A process rarely holds a lock file for more than microseconds, so the task first yields the processor. A holder that
/// was interrupted takes longer. So the task then takes short naps, shorter than the runtime's timers, because a task
/// that sleeps is overtaken by those that do not. After that it sleeps, the longer the more it has tried: thousands
/// that try every millisecond take the processor from the holder. Varied lengths keep processes from trying in step.
async fn pause(turn: u32, now: Moment) {
    const SPINS: u32 = 4;
    const YIELDS: u32 = 64;
    /// The first pause of a task that finds a lock file busy; it doubles four times.
    const NAP: Duration = Duration::from_micros(30);
    const DOUBLES_EACH: u32 = 16;
    const DOUBLES: u32 = 4;
    let dice = now.as_nanos() / 16;
    if turn < SPINS {
        (0..20 << turn).for_each(|_| std::hint::spin_loop());
    } else if turn < YIELDS {
        std::thread::yield_now();
    } else if turn < NAPS_UNTIL {
        std::thread::sleep(NAP);
    } else {
        let least = 500 << ((turn - NAPS_UNTIL) / DOUBLES_EACH).min(DOUBLES);
        tokio::time::sleep(Duration::from_micros(least + dice % (3 * least))).await;
    }
    // Lets other tasks of this runtime run; not at once, because that wakes a second thread of it.
    if (turn + 1).is_multiple_of(16) {
        tokio::task::yield_now().await;
    }
}

/// Tries once. Everything between lock and unlock of the file happens here, without waiting.
fn attempt(folder: &Arc<Folder>, name: &str, call: &Call) -> Result<Answer, FileError> {
    let time = folder.time()?;
    if call.script.reads_only {
        let image = match lockfile::snapshot(folder, name, time)? {
            Some(image) => image,
            None => match lockfile::lock(folder, name, false)? {
                Some(held) => held.load(time)?.0,
                None => Image::default(),
            },
        };
        return Ok(engine::execute(call, Step::new(call, image, time.now_us, folder))?.0);
    }
    let Some(held) = lockfile::lock(folder, name, true)? else {
        return Err(FileError::Gone);
    };
    // Time is read again under the lock, so that times are in the order of the commits.
    let time = folder.time_by(time.anchor_us);
    let (image, present) = held.load(time)?;
    let (answer, step) = engine::execute(call, Step::new(call, image, time.now_us, folder))?;
    held.commit(&step.image, present, time.anchor_us)?;
    drop(held);
    for (channel, message) in &step.outbox {
        folder.wake.send(channel, message);
    }
    let mut anchor = hold(&folder.anchor);
    anchor.record(&folder.root, time.now_us, folder.file_mode);
    Ok(answer)
}
