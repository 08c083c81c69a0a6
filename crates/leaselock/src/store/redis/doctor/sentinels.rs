//! The Sentinels of a service: whether they can choose another primary, and when. No I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::base::{Result, span};
use crate::store::report::{Finding, Guarantee};

/// How long a switch usually takes at most, once a primary is found to be down.
const ELECTION: Duration = Duration::from_secs(2);
/// The longest bearable pause before the next try of a switch.
const NEXT_TRY_WITHIN: Duration = Duration::from_secs(60);

/// The reports of all Sentinels of one service.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) service: String,
    pub(crate) told: Vec<SentinelReply>,
}

/// The report of one Sentinel.
#[derive(Debug)]
pub(crate) struct SentinelReply {
    pub(crate) place: String,
    /// `None` when it does not know the service.
    pub(crate) said: Result<Option<About>>,
}

/// One Sentinel's view of the service.
#[derive(Debug, Clone)]
pub(crate) struct About {
    /// Its own id, or its address when it does not report an id.
    pub(crate) id: String,
    pub(crate) primary: String,
    /// How many there are, itself included, even those that are down.
    pub(crate) sentinels: u64,
    /// How many must find the primary down.
    pub(crate) quorum: u64,
    pub(crate) replicas: u64,
    pub(crate) down_after: Duration,
    pub(crate) failover_timeout: Duration,
}

impl View {
    pub(crate) fn checks(&self, ttl: Duration) -> Vec<Finding> {
        if self.voters().next().is_none() {
            return vec![self.answering()];
        }
        let mut checks = vec![self.answering(), self.number(), self.agreement()];
        checks.extend([self.primary(), self.switch(ttl), self.failed_switch(ttl)]);
        checks
    }

    /// Says whether locks survive a failure of the primary; `None` when no replica can take its place.
    pub(crate) fn promise(&self) -> Option<Guarantee> {
        if self.voters().all(|about| about.replicas == 0) {
            return None;
        }
        let (answer, needed) = (self.answer(), self.needed());
        Some(if answer < needed {
            let text = format!(
                "when the primary dies no other is chosen: {needed} Sentinels must agree, and {answer} answer"
            );
            Guarantee::broken(text)
        } else {
            let spare = answer - needed;
            let text = format!(
                "when the primary dies the Sentinels choose another, also while {spare} more of them are down"
            );
            Guarantee::kept(text)
        })
    }

    /// Lists the Sentinels that know the service, each once.
    fn voters(&self) -> impl Iterator<Item = &About> {
        let mut seen = BTreeSet::new();
        let those = self
            .told
            .iter()
            .filter_map(|one| one.said.as_ref().ok()?.as_ref());
        those.filter(move |about| seen.insert(&about.id))
    }

    fn answer(&self) -> u64 {
        self.voters().map(|_| 1).sum()
    }

    fn known(&self) -> u64 {
        let told = self.voters().map(|about| about.sentinels).max();
        told.unwrap_or(0).max(self.answer())
    }

    /// Returns how many a switch needs: enough to find the primary down, and a majority of all to choose.
    fn needed(&self) -> u64 {
        let quorum = self.voters().map(|about| about.quorum).max();
        quorum.unwrap_or(0).max(most_of(self.known()))
    }

    fn answering(&self) -> Finding {
        let (answer, known) = (self.answer(), self.known());
        let mut found = format!("{answer} of {known} answer");
        let mut all = answer == known;
        for one in &self.told {
            found += &match &one.said {
                Ok(Some(_)) => continue,
                Ok(None) => format!("; {} does not know {}", one.place, self.service),
                Err(error) => format!("; {error}"),
            };
            all = false;
        }
        let advice = format!(
            "bring the others back; for one that is gone for good send `SENTINEL RESET {}` to each of the rest, half a \
             minute apart, because it is counted until then",
            self.service
        );
        Finding::advised("Sentinels", found, (!all).then_some(advice))
    }

    fn number(&self) -> Finding {
        let known = self.known();
        let found = format!("{known}, a majority is {}", most_of(known));
        let advice = match known {
            0..3 => Some(
                "with fewer than three the failure of one leaves too few to choose another primary: use three or five, each \
                 on a machine of its own"
                    .to_owned(),
            ),
            _ if known.is_multiple_of(2) => Some(format!(
                "the last one adds a Sentinel that can fail and no failure that is outlived: use {} or {}",
                known - 1,
                known + 1
            )),
            _ => None,
        };
        Finding::advised("number of Sentinels", found, advice)
    }

    /// Checks that enough Sentinels can agree.
    fn agreement(&self) -> Finding {
        let (known, answer) = (self.known(), self.answer());
        let quorums: BTreeSet<u64> = self.voters().map(|about| about.quorum).collect();
        let all: Vec<String> = quorums.iter().map(u64::to_string).collect();
        let found = format!(
            "{} of {known} must find the primary down, and {} choose another",
            all.join(" or "),
            most_of(known)
        );
        let set = format!(
            "`SENTINEL SET {} quorum {}` on each",
            self.service,
            most_of(known)
        );
        let most = quorums.last().copied().unwrap_or(0);
        let advice = if most > known {
            let never = "so many there are not, so no other primary is ever chosen";
            Some(format!("{never}: {set}"))
        } else if answer < self.needed() {
            let not_now = "answer, so no other primary is chosen now: bring the others back";
            Some(format!("{answer} {not_now}"))
        } else {
            (quorums.len() > 1).then(|| format!("they do not agree on the number: {set}"))
        };
        Finding::advised("Sentinel quorum", found, advice)
    }

    fn primary(&self) -> Finding {
        let mut named: BTreeMap<&str, u64> = BTreeMap::new();
        for about in self.voters() {
            *named.entry(&about.primary).or_default() += 1;
        }
        let mut all = named.iter();
        if let (Some((primary, _)), None) = (all.next(), all.next()) {
            let found = format!("{primary}, by all that answer");
            return Finding::fit("primary named", found);
        }
        let each: Vec<String> = named
            .iter()
            .map(|(primary, votes)| format!("{primary} by {votes}"))
            .collect();
        let advice = "two servers may be written to at once: when it stays so for longer than a switch takes, see what cuts \
                      some of them off, or which of them watches another server under this name";
        Finding::unfit("primary named", each.join(", "), advice)
    }

    /// Checks how long the primary is away, by the slowest Sentinel.
    fn switch(&self, ttl: Duration) -> Finding {
        let down_after = self.longest(|about| about.down_after);
        let away = down_after + ELECTION;
        let found = format!(
            "takes {} and more (down-after-milliseconds {})",
            span(away),
            down_after.as_millis()
        );
        let advice = format!(
            "leases of {} may end meanwhile: ask for a ttl of {} or more, or lower down-after-milliseconds on each Sentinel",
            span(ttl),
            span(2 * away)
        );
        // Renewal begins after a third of the time, so half of it remains at least.
        Finding::advised("a switch", found, (away > ttl / 2).then_some(advice))
    }

    fn failed_switch(&self, ttl: Duration) -> Finding {
        let timeout = self.longest(|about| about.failover_timeout);
        let again = 2 * timeout;
        let found = format!(
            "is tried again after {} (failover-timeout {})",
            span(again),
            timeout.as_millis()
        );
        let advice = format!(
            "leases of {} have ended by then, and no client gets a lock before: lower failover-timeout on each Sentinel, \
             to {} or so",
            span(ttl),
            NEXT_TRY_WITHIN.as_millis() / 2
        );
        let advice = (again > ttl.max(NEXT_TRY_WITHIN)).then_some(advice);
        Finding::advised("a switch that fails", found, advice)
    }

    fn longest(&self, setting: impl Fn(&About) -> Duration) -> Duration {
        self.voters().map(setting).max().unwrap_or_default()
    }
}

fn most_of(sentinels: u64) -> u64 {
    sentinels / 2 + 1
}
