//! One node of a quorum: its server, over one connection, and whether the server may vote.

use std::future::poll_fn;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use super::proposals::Proposals;
use super::requests::RequestCounts;
use super::tally::Absent;
use crate::base::{CLOCK, Drift, Moment, Result, StoreError, hold, refusal};
use crate::script::{Answer, Call, Value};
use crate::store::{RedisStore, Store};

/// Settings that all clients of a quorum's locks agree on, and how nodes are queried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeTerms {
    /// How long one node may take; the whole request's timeout when that is less.
    pub(crate) node_timeout: Duration,
    /// No lease lasts longer.
    pub(crate) longest: Duration,
    /// True if a server that started within the longest lease does not vote.
    pub(crate) delayed_restart: bool,
    pub(crate) drift: Drift,
}

/// What the connections of a quorum share.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) terms: NodeTerms,
    pub(super) times: Proposals,
    pub(super) requests: RequestCounts,
    /// Each cleanup request has a clone, from its creation until it ends or goes to the repair.
    pub(super) cleaning: Arc<()>,
    /// Which server each node was at the latest check; 0 for never.
    servers: Vec<AtomicU64>,
}

impl Common {
    pub(super) fn new(terms: NodeTerms, nodes: usize) -> Self {
        Common {
            terms,
            times: Proposals::new(nodes),
            requests: RequestCounts::default(),
            cleaning: Arc::default(),
            servers: (0..nodes).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub(super) fn server(&self, at: usize) -> Option<u64> {
        let server = self.servers[at].load(Ordering::SeqCst);
        (server != 0).then_some(server)
    }

    /// Returns an earlier node that is the same server.
    pub(super) fn twin(&self, at: usize) -> Option<usize> {
        let server = self.server(at)?;
        (0..at).find(|before| self.server(*before) == Some(server))
    }
}

/// The right to send the next request, for callers that waited for the connection.
pub(super) type MemberTurn<'a> = tokio::sync::MutexGuard<'a, ()>;

/// Ends the turn when the request has left, which is when it is first polled.
async fn in_turn<T>(turn: Option<MemberTurn<'_>>, request: impl Future<Output = T>) -> T {
    let mut request = pin!(request);
    if turn.is_some() {
        let asked = poll_fn(|cx| Poll::Ready(request.as_mut().poll(cx))).await;
        drop(turn);
        if let Poll::Ready(answer) = asked {
            return answer;
        }
    }
    request.await
}

/// One node, over one connection.
#[derive(Debug)]
pub(super) struct QuorumMember {
    pub(super) store: RedisStore,
    at: usize,
    common: Arc<Common>,
    /// The server behind each connection.
    known: Mutex<Option<KnownNode>>,
    /// Held by the task that finds that out, so that waiting requests leave in their order of arrival.
    first: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct KnownNode {
    /// The connection to which this applies.
    epoch: Option<u64>,
    birth: Eligibility,
    /// Scripts that the server has run for us, and that need not be sent again as a whole.
    scripts: Vec<&'static str>,
}

impl QuorumMember {
    pub(super) fn new(store: RedisStore, at: usize, common: &Arc<Common>) -> Self {
        QuorumMember {
            store,
            at,
            common: Arc::clone(common),
            known: Mutex::new(None),
            first: tokio::sync::Mutex::new(()),
        }
    }

    pub(super) fn unshared(&self) -> Self {
        QuorumMember::new(self.store.unshared(), self.at, &self.common)
    }

    /// Runs a call on a server that may vote.
    ///
    /// `over`: the outcome is known, and a vote that has not left yet is not sent any more. Its withdrawal may have
    /// overtaken it while it waited for a connection.
    pub(super) async fn vote(
        &self,
        call: &Call,
        within: Duration,
        over: &AtomicBool,
    ) -> Result<Answer, Absent> {
        let until = CLOCK.now().plus(within);
        let turn = self.may_vote(until).await?;
        if over.load(Ordering::SeqCst) {
            let node = self.store.describe();
            return Err(Absent::Failed(
                refusal!(NoReply: "{node} was not needed any more"),
            ));
        }
        let left = CLOCK.left(until);
        let answer = in_turn(turn, self.run(call, left)).await?;
        // If the connection has changed, the reply came over another one, and perhaps from an earlier process of the
        // server.
        drop(
            self.may_vote(until)
                .await
                .map_err(Absent::after_an_answer)?,
        );
        Ok(answer)
    }

    /// Runs a call on the server, however recently it started.
    pub(super) async fn ask(&self, call: &Call, within: Duration) -> Result<Answer, Absent> {
        let until = CLOCK.now().plus(within);
        let born = self.birth(until).await; // so that one server that is listed twice counts once
        let turn = born.ok().and_then(|(_, turn)| turn);
        let left = CLOCK.left(until);
        in_turn(turn, self.run(call, left)).await
    }

    /// Runs a script, sent as a whole the first time.
    ///
    /// By its hash, it would be sent a second time when the server does not have it. Requests that were sent meanwhile,
    /// such as a withdrawal of this vote, would have overtaken it.
    async fn run(&self, call: &Call, within: Duration) -> Result<Answer, Absent> {
        let script = call.script.name;
        let is_new = self.now_known(|known| !known.scripts.contains(&script)) == Some(true);
        let counted = (self.common.requests).begin(call, &self.store);
        let answer = match is_new {
            true => self.store.run_whole(call, within).await,
            false => self.store.run(call, within).await,
        };
        counted.end(&answer);
        if answer.is_ok() && is_new {
            self.now_known(|known| known.scripts.push(script));
        }
        answer.map_err(Absent::Failed)
    }

    async fn may_vote(&self, until: Moment) -> Result<Option<MemberTurn<'_>>, Absent> {
        let terms = &self.common.terms;
        match self.birth(until).await {
            Ok((birth, turn)) if terms.delayed_restart => {
                let out = birth.stays_out(terms.longest, terms.drift, CLOCK.now());
                match out {
                    Duration::ZERO => Ok(turn),
                    out => Err(Absent::NotVoting(out)),
                }
            }
            Err(error) if terms.delayed_restart => Err(Absent::Failed(error)),
            Ok((_, turn)) => Ok(turn),
            Err(_) => Ok(None),
        }
    }

    /// Returns the server behind the present connection, with one request for each connection.
    ///
    /// A caller that waited for that has a turn. Later callers wait until the turn ends, even when the server is known
    /// by then.
    pub(super) async fn birth(
        &self,
        until: Moment,
    ) -> Result<(Eligibility, Option<MemberTurn<'_>>)> {
        if let Some(birth) = self.known_birth()
            && self.first.try_lock().is_ok()
        {
            return Ok((birth, None));
        }
        let first = tokio::time::timeout(CLOCK.left(until), self.first.lock());
        let turn = first.await.map_err(|_| self.silent())?;
        loop {
            if let Some(birth) = self.known_birth() {
                return Ok((birth, Some(turn)));
            }
            let epoch = self.store.epoch();
            let left = CLOCK.left(until);
            let info = self.store.plain(&["INFO", "server"], left).await?;
            let now = CLOCK.now();
            let latest = self.store.epoch();
            let birth = match &info {
                Value::Bytes(text) => Eligibility::read(&String::from_utf8_lossy(text), now),
                _ => None,
            };
            let birth = birth.ok_or_else(|| {
                let node = self.store.describe();
                refusal!(Malformed: "{node} does not say in INFO which server it is and since when")
            })?;
            // With no connection before and one since, the reply came over that one.
            if epoch == latest || (epoch, latest) == (Some(0), Some(1)) {
                *hold(&self.known) = Some(KnownNode {
                    epoch: latest,
                    birth,
                    scripts: Vec::new(),
                });
                self.common.servers[self.at].store(birth.server, Ordering::SeqCst);
                if let Some(time_us) = birth.time_us {
                    self.common.times.showed(self.at, time_us, now);
                }
                return Ok((birth, Some(turn)));
            }
        }
    }

    fn known_birth(&self) -> Option<Eligibility> {
        let is_connected = self.store.is_connected(); // else the next caller waits too, and could be the first to leave
        self.now_known(|known| known.birth).filter(|_| is_connected)
    }

    /// Reads what is known of the server behind the present connection.
    fn now_known<T>(&self, about: impl FnOnce(&mut KnownNode) -> T) -> Option<T> {
        let epoch = self.store.epoch();
        let mut known = hold(&self.known);
        known
            .as_mut()
            .filter(|known| known.epoch == epoch)
            .map(about)
    }

    fn silent(&self) -> StoreError {
        refusal!(NoReply: "no connection to {} in time", self.store.describe())
    }
}

// Which server replies, and when it may vote. Pure.
//
// A server that starts empty has forgotten what it granted. So it stays out of votes until the longest lease that it
// could have known has expired. This is the delayed restart of the Redlock algorithm (redis.io, *Distributed locks
// with Redis*). A restart breaks every connection, so one request for each connection is enough.

/// The server counts whole seconds, by a clock that it reads at intervals.
const ROUNDING: Duration = Duration::from_secs(1);

/// What a server reports about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Eligibility {
    /// A hash of its run id, which is new with every start.
    pub(crate) server: u64,
    /// How long it had been running, at least,
    up: Duration,
    /// at this moment.
    at: Moment,
    /// Its clock, in microseconds, when it reports that.
    pub(crate) time_us: Option<u64>,
}

impl Eligibility {
    /// Parses `INFO server`, whose reply came at `received`.
    pub(crate) fn read(info: &str, received: Moment) -> Option<Self> {
        let field = |name: &str| {
            let lines = info.lines();
            lines
                .filter_map(|line| line.split_once(':'))
                .find_map(|(key, value)| (key == name).then_some(value.trim()))
        };
        let up: u64 = field("uptime_in_seconds")?.parse().ok()?;
        let run_id = field("run_id").filter(|id| !id.is_empty())?;
        let mut hasher = DefaultHasher::new();
        run_id.hash(&mut hasher);
        Some(Eligibility {
            server: hasher.finish(),
            up: Duration::from_secs(up).saturating_sub(ROUNDING),
            at: received,
            time_us: field("server_time_usec").and_then(|us| us.parse().ok()),
        })
    }

    /// Returns how long it stays out of votes, given the longest lease; zero for a server that votes.
    pub(crate) fn stays_out(&self, longest: Duration, drift: Drift, now: Moment) -> Duration {
        let up = self.up + now.saturating_since(self.at);
        (longest + drift.over(longest)).saturating_sub(up)
    }
}

#[cfg(test)]
mod eligibility_tests {
    use super::*;

    const DRIFT: Drift = Drift { ppm: 10_000 };

    fn info(up: u64) -> String {
        format!(
            "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nuptime_in_seconds:{up}\r\nserver_time_usec:17\r\n"
        )
    }

    #[test]
    fn a_server_stays_out_until_the_longest_lease_of_its_former_life_has_ended() {
        let now = Moment::from_nanos(100_000_000_000);
        let minute = Duration::from_secs(60);
        let out = |up| {
            let birth = Eligibility::read(&info(up), now).unwrap();
            birth.stays_out(minute, DRIFT, now)
        };
        assert_eq!(out(0), Duration::from_millis(60_600)); // a minute and 1 %
        assert_eq!(out(60), Duration::from_millis(1_600)); // and the second that it may be younger
        assert_eq!(out(61), Duration::from_millis(600));
        assert_eq!(out(62), Duration::ZERO);
        let birth = Eligibility::read(&info(60), now).unwrap();
        let later = now.plus(Duration::from_millis(1_600));
        assert_eq!(birth.stays_out(minute, DRIFT, later), Duration::ZERO);
    }

    #[test]
    fn one_that_is_older_than_our_own_machine_votes() {
        let now = Moment::from_nanos(5_000_000_000);
        let birth = Eligibility::read(&info(1_000_000), now).unwrap();
        let out = birth.stays_out(Duration::from_secs(60), DRIFT, now);
        assert_eq!(out, Duration::ZERO);
    }

    #[test]
    fn what_does_not_say_which_server_it_is_is_not_understood() {
        let now = Moment::from_nanos(0);
        for bad in [
            "",
            "run_id:a",
            "uptime_in_seconds:5",
            "run_id:\r\nuptime_in_seconds:5",
        ] {
            assert_eq!(Eligibility::read(bad, now), None, "{bad:?}");
        }
        let known = Eligibility::read(&info(5), now).unwrap();
        assert_eq!(known.time_us, Some(17));
    }
}
