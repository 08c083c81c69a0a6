//! The operator's report about a quorum: each node, and all of them together.

use std::time::Duration;

use futures_util::future::join_all;

use super::group::QuorumStore;
use super::member::QuorumMember;
use super::tally::majority;
use crate::base::{CLOCK, Result, rounded};
use crate::store::{Finding, Guarantee, Report, Store};

impl QuorumStore {
    /// Examines every node. One that does not reply is a finding and not an error.
    pub(super) async fn examine_nodes(&self, within: Duration) -> Result<Report> {
        let asked = join_all(self.nodes.iter().map(|node| node.store.examine(within))).await;
        let (mut nodes, mut answered) = (Vec::new(), 0);
        for (at, (node, examined)) in self.nodes.iter().zip(asked).enumerate() {
            let checks = match examined {
                Ok(its) => {
                    answered += 1;
                    let mut checks = self.identity(at, node, within).await;
                    checks.extend(its.findings);
                    checks
                }
                Err(error) => vec![silent(&error.to_string())],
            };
            let store = node.store.describe();
            nodes.push(Report::new(store, checks, Vec::new()));
        }
        let checks = vec![together(answered, self.nodes.len())];
        let report = Report::new(self.describe(), checks, self.promises(answered));
        Ok(Report { nodes, ..report })
    }

    fn promises(&self, answered: usize) -> Vec<Guarantee> {
        let (nodes, needed) = (self.nodes.len(), majority(self.nodes.len()));
        let spare = answered.saturating_sub(needed);
        let had = if answered < needed {
            Guarantee::broken("no lock can be had until a majority of the nodes answers")
        } else {
            let text = format!("locks can be had while {spare} more of the {nodes} nodes are down");
            Guarantee::kept(text)
        };
        let restart = if self.common.terms.delayed_restart {
            let text = "a node that restarts without its data lets no second holder in: it stays out of votes for the \
                        longest ttl";
            Guarantee::kept(text)
        } else {
            let text = "nodes vote at once after a restart: one that has lost its data may let a second holder in";
            Guarantee::unknown(text)
        };
        let order = "waiters are served in no certain order: there is no queue on several servers";
        vec![had, restart, Guarantee::broken(order)]
    }

    /// Reports whether it is a server of its own, and whether it votes.
    async fn identity(&self, at: usize, node: &QuorumMember, within: Duration) -> Vec<Finding> {
        let terms = &self.common.terms;
        let Ok((birth, _)) = node.birth(self.until(within)).await else {
            let advice = "allow this user INFO: without it a restart is not noticed";
            let found = "does not say which server it is and since when";
            return vec![match terms.delayed_restart {
                true => Finding::unfit("vote", found, advice),
                false => Finding::warn("vote", found, advice),
            }];
        };
        let mut checks = Vec::new();
        if let Some(twin) = self.common.twin(at) {
            let found = format!("the same server as {}", self.nodes[twin].store.describe());
            let advice = "name another server: one that is listed twice has one vote";
            checks.push(Finding::unfit("identity", found, advice));
        }
        let out = birth.stays_out(terms.longest, terms.drift, CLOCK.now());
        checks.push(voting(out, terms.delayed_restart));
        checks
    }
}

fn voting(out: Duration, delayed_restart: bool) -> Finding {
    if !delayed_restart {
        let advice = "only for servers that keep every write across a crash (appendfsync always)";
        return Finding::warn("vote", "votes at once after a restart", advice);
    }
    if out.is_zero() {
        return Finding::fit("vote", "votes");
    }
    let up = rounded(Duration::from_secs(out.as_secs() + 1));
    let found = format!("started recently and votes in {up}");
    Finding::warn("vote", found, "wait: it may have forgotten what it granted")
}

fn silent(why: &str) -> Finding {
    let advice = "bring it back: the others can spare fewer now";
    Finding::warn("reachable", why, advice)
}

fn together(answered: usize, nodes: usize) -> Finding {
    let needed = majority(nodes);
    let found = format!("{answered} of {nodes} nodes answer, {needed} are needed");
    if answered < needed {
        return Finding::unfit("quorum", found, "no lock can be had: bring the others back");
    }
    let advice = match answered {
        all if all == nodes => None,
        just if just == needed => Some("bring the others back: one more and no lock can be had"),
        _ => Some("bring the others back"),
    };
    Finding::advised("quorum", found, advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::report::Verdict;

    #[test]
    fn a_majority_must_answer_and_every_further_failure_is_counted() {
        for (answered, nodes, expected) in [
            (5, 5, Verdict::Fit),
            (4, 5, Verdict::Warn),
            (3, 5, Verdict::Warn),
            (2, 5, Verdict::Unfit),
            (1, 1, Verdict::Fit),
        ] {
            let fit = together(answered, nodes).verdict;
            assert_eq!(fit, expected, "{answered} of {nodes}");
        }
    }
}
