//! Who a client is: the names and numbers that it gives away only once, and the record in which others read of it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leaselock_fence::Name;
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::base::process::Process;
use crate::base::token::Stock;
use crate::base::{ClientId, Moment, StoreError, Token, Ttl, hold};
use crate::engine::values::operation;
use crate::engine::values::verdicts::written;
use crate::quorum::executor::Executor;
use crate::quorum::tally::{TallyVerdict, Votes, counted};
use crate::script::{Script, Scripts, keys, script};

/// Who a client is, and where it is reached.
pub(crate) struct Ids {
    pub(crate) client: ClientId,
    /// What each of its keys begins with.
    pub(crate) prefix: String,
    /// The channel of the client's own thread.
    pub(crate) channel: String,
    /// The channel of the connection of the requests.
    pub(crate) channel_along: String,
    /// How many owners were made.
    pub(crate) owners: AtomicU64,
    /// The latest number of a change that this client has sent; it never sends another one under the same number.
    pub(crate) numbers: AtomicU64,
    /// In which others read who it is.
    pub(crate) record: Arc<ClientRecord>,
    tokens: Stock,
}

impl Ids {
    pub(crate) fn new(client: ClientId, prefix: String, about: Process) -> Self {
        Ids {
            channel: keys::wake_channel(&prefix, &client),
            channel_along: keys::wake_channel_along(&prefix, &client),
            owners: AtomicU64::new(0),
            numbers: AtomicU64::new(0),
            record: Arc::new(ClientRecord::new(&prefix, about)),
            tokens: Stock::default(),
            client,
            prefix,
        }
    }

    /// `now`: when it is drawn. A forked process draws later.
    pub(crate) fn token(&self, fencing: bool, now: Moment) -> Result<Token, StoreError> {
        let token = self.tokens.token(&self.client, fencing, now);
        token.map_err(StoreError::no_random)
    }
}

pub(crate) static SCRIPTS: Scripts = &[&ANNOUNCE, &WHO];

static ANNOUNCE: Script = script!("client/announce");
static WHO: Script = script!("client/who", reads_only);

operation! {
    /// Writes the record of a client. Runs `lua/client/announce.lua`.
    pub(crate) struct Announce<'a> {
        record: &'a str,
        /// The record, and how long it lasts; `None` deletes it.
        about: Option<(&'a str, Ttl)>,
    }
    script &ANNOUNCE;
    votes elsewhere;
    fn encode(call) {
        let (about, ttl) = about.unwrap_or(("", RECORD_TTL));
        call.key(record).arg(about).arg(ttl.as_ms());
    }
    fn decode(answer) -> () {
        "announced" | "gone" => (),
    }
}

operation! {
    /// Reads the record of a client, without its id, which the caller knows. Runs `lua/client/who.lua`.
    pub(crate) struct Who<'a> {
        record: &'a str,
    }
    script &WHO;
    votes elsewhere;
    fn encode(call) {
        call.key(record);
    }
    fn decode(answer) -> Option<Process> {
        // A record that no client wrote counts as none.
        "known" => answer.text(0).ok().and_then(Process::decode),
        "unknown" => None,
    }
}

counted! {
    Announce<'_> => written,
    Who<'_> => known,
}

/// The record of a client that any node knows; none when a majority knows none.
fn known<T: Clone>(votes: &Votes<Option<T>>) -> TallyVerdict<Option<T>> {
    if let Some((_, known)) = votes.answers().find(|(_, about)| about.is_some()) {
        return TallyVerdict::Decided(known.clone());
    }
    if votes.is_majority(|_| true) {
        return TallyVerdict::Decided(None);
    }
    TallyVerdict::Open
}

/// How long the record of a client lasts without a renewal.
const RECORD_TTL: Ttl = match Ttl::whole_ms(60_000) {
    Some(ttl) => ttl,
    None => panic!("a minute is in range"),
};
/// How often a client that is in use renews its record.
const RECORD_EVERY: Duration = Duration::from_secs(20);
/// How long a request to write or delete it may take.
const WITHIN: Duration = Duration::from_secs(2);

/// No task writes the record.
const IDLE: u8 = 0;
/// A task writes it, and the client asked for it since.
const ASKED: u8 = 1;
/// A task writes it.
const WRITING: u8 = 2;

/// What others read of a client, and whether it is written.
#[derive(Debug)]
pub(crate) struct ClientRecord {
    pub(crate) key: String,
    about: Mutex<Process>,
    /// The state of the task that writes it.
    state: AtomicU8,
    /// Locked while the record is written or deleted, so that no write comes after the last deletion. True once there may
    /// be one to delete.
    is_written: tokio::sync::Mutex<bool>,
}

impl ClientRecord {
    pub(crate) fn new(prefix: &str, about: Process) -> Self {
        ClientRecord {
            key: keys::client_record(prefix, &about.client),
            about: Mutex::new(about),
            state: AtomicU8::new(IDLE),
            is_written: tokio::sync::Mutex::default(),
        }
    }

    /// Returns this process, as others read of it.
    pub(crate) fn about(&self) -> Process {
        hold(&self.about).clone()
    }

    pub(super) fn serves_any(&self) -> bool {
        !hold(&self.about).serves.is_empty()
    }

    /// Returns true if a task is going to write it.
    pub(super) fn is_asked(&self) -> bool {
        self.state.load(Ordering::SeqCst) == ASKED
    }

    /// Has the record written now, and as long as it is wanted: `is_wanted` is asked before each writing, and told
    /// whether the record was asked for since the latest.
    pub(super) fn announce(
        self: &Arc<Self>,
        thread: &Handle,
        store: &Executor,
        is_wanted: impl Fn(bool) -> bool + Send + 'static,
    ) {
        if self.state.swap(ASKED, Ordering::SeqCst) != IDLE {
            return;
        }
        let (record, store) = (Arc::clone(self), store.clone());
        drop(thread.spawn(async move {
            loop {
                let mut is_written = record.is_written.lock().await;
                // A request in flight counts as use, because it has asked for the record.
                let asked = record.state.swap(WRITING, Ordering::SeqCst) == ASKED;
                if !is_wanted(asked) {
                    match record.turn(WRITING, IDLE) {
                        true => break,
                        false => continue, // it was asked for meanwhile
                    }
                }
                *is_written = true;
                let about = record.about().encode();
                let about = Some((about.as_str(), RECORD_TTL));
                drop(store.ask(&record.say(about), WITHIN).await);
                drop(is_written);
                sleep(RECORD_EVERY).await;
            }
        }));
    }

    fn turn(&self, from: u8, to: u8) -> bool {
        let turned = (self.state).compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
        turned.is_ok()
    }

    fn say<'a>(&'a self, about: Option<(&'a str, Ttl)>) -> Announce<'a> {
        let record = &self.key;
        Announce { record, about }
    }

    /// Deletes the record, if it may have been written.
    pub(crate) async fn delete(&self, store: &Executor) {
        let is_written = self.is_written.lock().await;
        if *is_written {
            // The record is only information.
            drop(store.ask(&self.say(None), WITHIN).await);
        }
    }

    /// Says from the next writing on that the client runs the schedule of this name, until the result is dropped.
    pub(crate) fn serve(self: &Arc<Self>, name: &Name) -> Serving {
        hold(&self.about).serves.push(name.clone());
        let (name, record) = (name.clone(), Arc::clone(self));
        Serving { name, record }
    }
}

/// A name whose schedule a client runs, as its record says.
#[derive(Debug)]
pub struct Serving {
    name: Name,
    record: Arc<ClientRecord>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let serves = &mut hold(&self.record.about).serves;
        if let Some(at) = serves.iter().position(|it| *it == self.name) {
            serves.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod known_tests {
    use super::known;
    use crate::quorum::tally::said::{decided, votes};

    #[test]
    fn what_one_node_knows_of_a_client_is_known() {
        let about = |letter: char| (letter == 'k').then(|| "host".to_owned());
        assert_eq!(
            decided(known(&votes("n.k", about))),
            Some(Some("host".into()))
        );
        assert_eq!(decided(known(&votes("nn.", about))), Some(None));
        assert_eq!(decided(known(&votes("n..", about))), None);
    }
}

#[cfg(all(test, feature = "embedded"))]
mod record_tests {
    use crate::Client;

    #[tokio::test]
    async fn a_closed_client_writes_no_record_unless_it_still_holds_a_lease() {
        let [idle, holding] = ["mem:", "mem:"].map(|url| Client::open(url).unwrap());
        assert!(!idle.engine().has_ended());
        let lease = holding.mutex("job").acquire().await.unwrap();
        let other = idle.mutex("job").acquire().await.unwrap();
        other.release().await.unwrap();
        idle.close().await;
        holding.close().await;
        assert!(idle.engine().has_ended());
        assert!(!holding.engine().has_ended());
        lease.release().await.unwrap();
    }
}
