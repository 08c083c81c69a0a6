//! The store in a folder: opens it when needed, takes turns with other processes, and commits the scripts' writes.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::io::Errno;
use tokio::time::timeout;

use super::datagram::{Listener, broadcast_name, file_name};
use super::engine;
use super::file_format;
use super::folder::{Folder, FolderSettings};
use super::gc::{self, Gc};
use super::holds::Life;
use super::io_error::{FileError, lacks_descriptors, system};
use super::lockfile;
use super::open_files::OpenFiles;
use super::opening::Names;
use super::receiver::Receiver;
use super::session::Session;
#[cfg(target_os = "linux")]
use super::session_watch::SessionWatch;
use super::step::{Step, one_tag};
use crate::base::keyed_mutex::{KeyedMutex, KeyedMutexGuard};
use crate::base::{CLOCK, ErrorKind, Moment, Result, StoreError, hold, rounded, slots};
use crate::script::keys::is_broadcast;
use crate::script::{Answer, Call};
use crate::store::{Event, Sink, Traffic};

#[derive(Debug)]
pub(crate) struct FolderStore {
    pub(super) settings: FolderSettings,
    opened: Mutex<OpenedFolder>,
    /// The receiver of messages to this client.
    receiver: Mutex<Option<Arc<Receiver>>>,
    sweep: Gc,
    /// The queues of this client's tasks for lock files that other processes keep busy: one task tries for each.
    ///
    /// Thousands of tasks that all try take the processor from the one that has the file.
    tries: KeyedMutex,
    /// Listings in progress, by number: how far each has read the folder.
    pub(super) listings: OpenFiles<Names>,
}

#[derive(Debug, Default)]
struct OpenedFolder {
    folder: Option<Arc<Folder>>,
    /// How often the folder was opened.
    times: u64,
    /// Outlives the folder: it continues when the same folder is opened again.
    session: Option<Session>,
    /// The longest hold, set before there was a session.
    limit: Option<Moment>,
}

impl FolderStore {
    pub(super) fn new(settings: FolderSettings) -> Self {
        FolderStore {
            sweep: Gc::new(&settings.client),
            settings,
            opened: Mutex::default(),
            receiver: Mutex::default(),
            tries: KeyedMutex::default(),
            listings: OpenFiles::default(),
        }
    }

    /// Returns the open folder. A caller that finds it gone calls `forget`, and it is opened again.
    pub(super) fn folder(&self) -> Result<Arc<Folder>, FileError> {
        let mut opened = hold(&self.opened);
        if let Some(folder) = &opened.folder {
            return Ok(Arc::clone(folder));
        }
        let folder = Arc::new(Folder::open(&self.settings)?);
        let is_there = |session: &Session| session.is_linked(&folder.sessions);
        if self.settings.session && !opened.session.as_ref().is_some_and(is_there) {
            opened.session = Some(folder.begin_session()?);
        }
        if let (Some(session), Some(until)) = (&opened.session, opened.limit) {
            limit(session, until); // again for one that goes on: it may have failed before
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
    /// Between two tries it holds nothing; once it takes long, its turn among this client's tasks, while it is polled.
    pub(super) async fn keep_trying<T>(
        &self,
        what: &str,
        within: Duration,
        mut attempt: impl FnMut(&Arc<Folder>) -> Result<T, FileError>,
    ) -> Result<T> {
        let began = CLOCK.now();
        let (mut tried, mut head) = (0, None::<KeyedMutexGuard>);
        loop {
            head.iter().for_each(|head| head.tries(CLOCK.now()));
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
            if is_busy && head.is_none() && (tried >= SLEEPS_FROM || self.tries.has(what)) {
                let interest = self.tries.interest(&what.into());
                let first = interest.turn_unless_stalled(&CLOCK, NOT_POLLED);
                match timeout(within - waited, first).await.ok().flatten() {
                    Some(first) => head = Some(interest.enter(first)),
                    None => tried = SLEEPS_FROM, // it queues again at once, as all behind it do
                }
                continue;
            }
            pause(tried, CLOCK.now()).await;
            tried += 1;
        }
    }

    pub(super) async fn run(&self, call: &Call, within: Duration) -> Result<Answer> {
        self.move_receiver(call);
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

    /// Delivers the messages of a channel, and the ends of processes that may have held a lock, until dropped.
    pub(super) async fn listen(&self, channel: &str, sink: Sink) {
        /// The pause before a retry with a folder that cannot be used now.
        const AGAIN: Duration = Duration::from_secs(1);
        let (sink, is_broadcast) = (Arc::new(sink), is_broadcast(channel.as_bytes()));
        let name = match is_broadcast {
            true => broadcast_name(channel.as_bytes(), &self.settings.client),
            false => file_name(channel.as_bytes()),
        };
        loop {
            match self.bind(&name).await {
                Ok(listener) => {
                    let receiver = Arc::new(Receiver::new(listener, channel, Arc::clone(&sink)));
                    let heard = match is_broadcast {
                        true => self.receive(&receiver, &sink).await,
                        false => self.receive_movably(receiver, &sink).await,
                    };
                    sink(Event::Gap);
                    if heard {
                        continue;
                    }
                }
                Err(error) if is_broadcast => {
                    tracing::warn!(target: "leaselock", %error, "cannot hear broadcasts");
                }
                Err(error) => {
                    tracing::warn!(target: "leaselock", %error, "cannot listen for wake-ups");
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Creates the socket of this name.
    async fn bind(&self, name: &str) -> Result<Listener> {
        /// How long other processes may keep the folder's own files before a pause.
        const WITHIN: Duration = Duration::from_millis(100);
        self.keep_trying("its time", WITHIN, |folder| {
            folder.time_us()?; // one that is gone is opened anew
            let wakes = Arc::clone(&folder.wakes);
            let bound = Listener::bind(wakes, name.to_owned(), folder.file_mode);
            Ok(bound.map_err(|error| {
                let error = Errno::from_io_error(&error).unwrap_or(Errno::ADDRINUSE);
                system("listen in", &folder.settings.path.join("wake"), error)
            })?)
        })
        .await
    }

    /// As `receive`; a task that waits may take the receiver to its runtime meanwhile.
    async fn receive_movably(&self, receiver: Arc<Receiver>, sink: &Sink) -> bool {
        /// Closes the receiver when the listener stops, for whatever reason.
        struct Open<'a>(&'a FolderStore, Arc<Receiver>);
        impl Drop for Open<'_> {
            fn drop(&mut self) {
                *hold(&self.0.receiver) = None;
                self.1.close();
            }
        }
        let open = Open(self, receiver);
        *hold(&self.receiver) = Some(Arc::clone(&open.1));
        self.receive(&open.1, sink).await
    }

    /// Reports messages, and the ends of processes that may have held a lock, until senders cannot find the socket.
    ///
    /// False when no descriptor is left.
    async fn receive(&self, receiver: &Receiver, sink: &Sink) -> bool {
        let endings = async {
            #[cfg(target_os = "linux")]
            if let Ok(folder) = self.folder()
                && let Some(endings) = SessionWatch::watch(&folder.sessions)
            {
                drop(folder);
                endings.report(sink).await;
            }
            std::future::pending().await
        };
        if !receiver.can_hear() {
            return false;
        }
        sink(Event::Ready);
        tokio::select! {
            () = receiver.attend() => {}
            () = endings => {}
        }
        true
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
    fn move_receiver(&self, call: &Call) {
        let Some(receiver) = hold(&self.receiver).clone() else {
            return;
        };
        let names = |arg: &str| arg.rsplit(' ').any(|word| word == receiver.channel());
        if call.parameters.args().any(names) {
            receiver.follow();
        }
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
        let opened = hold(&self.opened);
        opened.session.as_ref()?.descriptor()
    }

    pub(super) fn only_job_lives(&self, client: &str) -> bool {
        let life = self.folder().map(|folder| folder.life_of(client));
        matches!(life, Ok(Ok(Life::Session { .. })))
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
const SLEEPS_FROM: u32 = 96;
/// Several times the longest sleep between two tries: the task that tries is not polled any more.
const NOT_POLLED: Duration = Duration::from_millis(500);

/// Pauses between two tries, in three steps.
///
/// A process rarely holds a lock file for more than microseconds, so the task first yields the processor. A holder that
/// was interrupted takes longer. So the task then blocks its thread, for less time than the runtime's timers can, because
/// a task that sleeps is overtaken by those that do not. After that it sleeps, the longer the more it has tried: thousands
/// that try every millisecond take the processor from the holder. Varied lengths keep processes from trying in step.
async fn pause(tried: u32, now: Moment) {
    const SPINS: u32 = 4;
    const YIELDS: u32 = 64;
    /// How long a task blocks its thread that has yielded in vain, before it sleeps by the runtime's timers.
    const BLOCKED_FOR: Duration = Duration::from_micros(30);
    const DOUBLES_EACH: u32 = 16;
    const DOUBLES: u32 = 4;
    let dice = now.as_nanos() / 16;
    if tried < SPINS {
        (0..20 << tried).for_each(|_| std::hint::spin_loop());
    } else if tried < YIELDS {
        std::thread::yield_now();
    } else if tried < SLEEPS_FROM {
        std::thread::sleep(BLOCKED_FOR);
    } else {
        let least = 500 << ((tried - SLEEPS_FROM) / DOUBLES_EACH).min(DOUBLES);
        tokio::time::sleep(Duration::from_micros(least + dice % (3 * least))).await;
    }
    // Lets other tasks of this runtime run; not at once, because that wakes a second thread of it.
    if (tried + 1).is_multiple_of(16) {
        tokio::task::yield_now().await;
    }
}

/// Tries once. Everything between lock and unlock of the file happens here, without waiting.
fn attempt(folder: &Arc<Folder>, name: &str, call: &Call) -> Result<Answer, FileError> {
    let now_us = folder.time_us()?;
    if call.script.reads_only {
        let image = lockfile::snapshot(folder, name, now_us)?;
        return Ok(engine::execute(call, Step::new(call, image, now_us, folder))?.0);
    }
    let Some(held) = lockfile::lock(folder, name, true)? else {
        return Err(FileError::Gone);
    };
    // Time is read again under the lock, so that times are in the order of the commits.
    let now_us = folder.now_us();
    let (image, present) = held.load(now_us)?;
    let (answer, step) = engine::execute(call, Step::new(call, image, now_us, folder))?;
    held.commit(&step.image, present)?;
    drop(held);
    for (channel, message) in &step.outbox {
        folder.wake.send(channel, message);
    }
    folder.anchor.record(&folder.root, now_us, folder.file_mode);
    Ok(answer)
}
