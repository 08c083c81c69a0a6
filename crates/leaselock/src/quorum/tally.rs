//! Counting votes: from the reply of each node to the combined reply. Pure.
//!
//! A majority is one of all configured nodes, never of those that replied. Nodes that turn out to be one server have
//! one vote between them.

use std::time::Duration;

use crate::base::error::{Result, StoreError};
use crate::script::{Answer, Call, Operation, Script};

/// Why a node has not voted.
#[derive(Debug, Clone)]
pub(crate) enum Absent {
    /// It started too recently to know what it has granted before, and stays out for this long.
    NotVoting(Duration),
    /// The request failed.
    Failed(StoreError),
}

impl Absent {
    /// The node has answered before: it may have acted, and is asked to take that back.
    pub(super) fn after_an_answer(self) -> Self {
        match self {
            Absent::NotVoting(_) => self,
            Absent::Failed(error) => {
                Absent::Failed(StoreError::unknown(error.kind(), error.to_string()))
            }
        }
    }

    /// True if the request may have had its effect.
    pub(crate) fn maybe_applied(&self) -> bool {
        match self {
            Absent::NotVoting(_) => false,
            Absent::Failed(error) => error.maybe_applied(),
        }
    }
}

/// The replies of the nodes to one request so far.
#[derive(Debug)]
pub(crate) struct Votes<R> {
    nodes: Vec<Node<R>>,
    /// How long each has to reply.
    within: Duration,
}

#[derive(Debug)]
struct Node<R> {
    /// `None` while it has not replied.
    said: Option<Result<R, Absent>>,
    /// Equal numbers mean one server; `None` when that is not known.
    server: Option<u64>,
}

/// The combined result of the votes.
#[derive(Debug)]
pub(crate) enum TallyVerdict<R> {
    /// Further votes cannot change it any more.
    Decided(R),
    /// Not yet; and never, when all have replied.
    Open,
    /// The operation has no vote.
    Never,
}

pub(crate) fn majority(of: usize) -> usize {
    of / 2 + 1
}

impl<R> Votes<R> {
    pub(crate) fn new(nodes: usize) -> Self {
        let silent = || Node {
            said: None,
            server: None,
        };
        Votes {
            nodes: std::iter::repeat_with(silent).take(nodes).collect(),
            within: Duration::ZERO,
        }
    }

    /// Sets how long the nodes have to reply.
    pub(super) fn due(self, within: Duration) -> Self {
        Votes { within, ..self }
    }

    pub(super) fn within(&self) -> Duration {
        self.within
    }

    pub(crate) fn record(&mut self, at: usize, said: Result<R, Absent>, server: Option<u64>) {
        self.nodes[at] = Node {
            said: Some(said),
            server,
        };
    }

    pub(crate) fn needed(&self) -> usize {
        majority(self.nodes.len())
    }

    /// Lists the replies of the nodes that have replied, whatever they are.
    pub(crate) fn answers(&self) -> impl Iterator<Item = (usize, &R)> {
        let all = self.nodes.iter().enumerate();
        all.filter_map(|(at, node)| Some((at, node.said.as_ref()?.as_ref().ok()?)))
    }

    /// Returns a node's reply; `None` while it is silent.
    pub(crate) fn of(&self, at: usize) -> Option<&Result<R, Absent>> {
        self.nodes[at].said.as_ref()
    }

    /// Lists why nodes have not replied.
    pub(crate) fn absent(&self) -> impl Iterator<Item = &Absent> {
        let said = self.nodes.iter().filter_map(|node| node.said.as_ref());
        said.filter_map(|said| said.as_ref().err())
    }

    /// True if a node without a reply may have carried the request out.
    pub(crate) fn may_have_acted(&self) -> bool {
        self.silent() > 0 || self.absent().any(Absent::maybe_applied)
    }

    /// True if a node may have carried the request out: its reply says so, or no reply denies it.
    pub(crate) fn may_have(&self, at: usize, says_so: impl Fn(&R) -> bool) -> bool {
        match self.of(at) {
            Some(Ok(reply)) => says_so(reply),
            Some(Err(absent)) => absent.maybe_applied(),
            None => true,
        }
    }

    /// True if an earlier node is the same server, and its vote counts.
    pub(crate) fn is_twin(&self, at: usize, counts: impl Fn(&R) -> bool) -> bool {
        let server = self.nodes[at].server;
        let same = |node: &Node<R>| {
            let counts = matches!(&node.said, Some(Ok(reply)) if counts(reply));
            counts && node.server == server
        };
        server.is_some() && self.nodes[..at].iter().any(same)
    }

    /// Counts the servers with such a reply.
    pub(crate) fn count(&self, like: impl Fn(&R) -> bool) -> usize {
        let those = self.answers().filter(|(_, reply)| like(reply));
        those.filter(|(at, _)| !self.is_twin(*at, &like)).count()
    }

    pub(crate) fn is_majority(&self, like: impl Fn(&R) -> bool) -> bool {
        self.count(like) >= self.needed()
    }

    pub(crate) fn is_unanimous(&self, like: impl Fn(&R) -> bool) -> bool {
        self.count(like) == self.nodes.len()
    }

    /// True if so many replied like this that a majority of any other reply is impossible.
    pub(crate) fn prevents(&self, like: impl Fn(&R) -> bool) -> bool {
        let those = self.answers().filter(|(_, reply)| like(reply)).count();
        those > self.nodes.len() - self.needed()
    }

    /// Counts the nodes that have not replied yet.
    pub(crate) fn silent(&self) -> usize {
        self.nodes.iter().filter(|node| node.said.is_none()).count()
    }

    /// Returns the same votes on a part of the request; `None` is no reply to it.
    pub(crate) fn map<P>(&self, part: impl Fn(&R) -> Option<P>) -> Votes<P> {
        let nodes = self.nodes.iter().map(|node| Node {
            said: match &node.said {
                Some(Ok(reply)) => part(reply).map(Ok),
                Some(Err(absent)) => Some(Err(absent.clone())),
                None => None,
            },
            server: node.server,
        });
        Votes {
            nodes: nodes.collect(),
            within: self.within,
        }
    }
}

/// An operation's behaviour on the nodes of a quorum.
///
/// The defaults: each node gets the very operation, and their replies are not combined.
pub(crate) trait Votable: Operation {
    /// True if it is repeated in the background on a node that does not confirm it.
    const CLEANS_UP: bool = false;

    fn on_a_node(&self) -> Call {
        self.call()
    }

    /// Reads a node's answer to that call.
    fn of_a_node(script: &Script, answer: &Answer) -> Result<Self::Reply> {
        Self::read(script, answer)
    }

    /// Combines the nodes' replies.
    fn count(_votes: &Votes<Self::Reply>) -> TallyVerdict<Self::Reply> {
        TallyVerdict::Never
    }

    /// True if the node had what was to be cleaned up; otherwise that may still be on its way.
    fn is_found(_reply: &Self::Reply) -> bool {
        true
    }
}

/// Says for operations which function combines the nodes' replies.
macro_rules! counted {
    ($($operation:ty => $verdict:path),+ $(,)?) => {
        $(
            impl $crate::quorum::tally::Votable for $operation {
                fn count(
                    votes: &$crate::quorum::tally::Votes<Self::Reply>,
                ) -> $crate::quorum::tally::TallyVerdict<Self::Reply> {
                    $verdict(votes)
                }
            }
        )+
    };
}
pub(crate) use counted;

/// Votes for tests, as text.
#[cfg(test)]
pub(crate) mod said {
    use super::*;
    use crate::base::error::ErrorKind;

    /// Builds votes from one letter for each node: `.` has not replied, `x` has failed.
    pub(crate) fn votes<R>(said: &str, reply: impl Fn(char) -> R) -> Votes<R> {
        let mut votes = Votes::new(said.len());
        for (at, letter) in said.chars().enumerate() {
            match letter {
                '.' => {}
                'x' => {
                    let error = StoreError::unknown(ErrorKind::NoReply, "silent");
                    votes.record(at, Err(Absent::Failed(error)), None);
                }
                letter => votes.record(at, Ok(reply(letter)), Some(at as u64 + 1)),
            }
        }
        votes
    }

    /// Returns what the nodes decided; `None` when they did not.
    pub(crate) fn decided<R>(count: TallyVerdict<R>) -> Option<R> {
        match count {
            TallyVerdict::Decided(reply) => Some(reply),
            TallyVerdict::Open | TallyVerdict::Never => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::ErrorKind;

    fn votes(said: &str) -> Votes<bool> {
        super::said::votes(said, |letter| letter == 'y')
    }

    #[test]
    fn a_vote_whose_node_is_out_of_reach_after_its_answer_may_have_been_given() {
        let refused = StoreError::refused(ErrorKind::Unreachable, "gone");
        assert!(!Absent::Failed(refused.clone()).maybe_applied());
        assert!(Absent::Failed(refused).after_an_answer().maybe_applied());
    }

    #[test]
    fn a_majority_is_one_of_all_nodes_and_not_of_those_that_answered() {
        for (said, yes) in [
            ("yy.", true),
            ("y..", false),
            ("yxx", false),
            ("yyxxx", false),
            ("yyyxx", true),
            ("nnyyy", true),
            ("yy", true),
            ("y", true),
            ("yyy....", false),
        ] {
            assert_eq!(votes(said).is_majority(|vote| *vote), yes, "{said}");
        }
        assert_eq!([1, 2, 3, 4, 5, 7].map(majority), [1, 2, 2, 3, 3, 4]);
    }

    #[test]
    fn a_majority_is_prevented_by_those_who_said_no_and_never_by_silence() {
        for (said, prevented) in [
            ("nn.", true),
            ("n..", false),
            ("nxx", false),
            ("xxxxx", false),
            ("nn...", false),
            ("nnn..", true),
            ("yynnn", true),
        ] {
            assert_eq!(votes(said).prevents(|vote| !*vote), prevented, "{said}");
        }
    }

    #[test]
    fn one_server_that_is_listed_twice_has_one_vote() {
        let mut votes = Votes::new(3);
        votes.record(0, Ok(true), Some(7));
        votes.record(2, Ok(true), Some(7));
        assert_eq!(votes.count(|vote| *vote), 1);
        assert!(votes.is_twin(2, |vote| *vote) && !votes.is_twin(0, |vote| *vote));
        votes.record(1, Ok(true), Some(8));
        assert!(votes.is_majority(|vote| *vote));
    }

    /// Its vote must not be lost because the other node of the pair has said no.
    #[test]
    fn of_two_that_are_one_server_the_one_that_said_so_counts() {
        let mut votes = Votes::new(3);
        votes.record(0, Ok(false), Some(7));
        votes.record(1, Ok(true), Some(7));
        votes.record(2, Ok(true), None);
        assert_eq!(votes.count(|vote| *vote), 2);
    }

    #[test]
    fn silence_and_failures_are_told_apart() {
        let votes = votes("yx.n.");
        assert_eq!((votes.silent(), votes.absent().count()), (2, 1));
        assert_eq!(votes.answers().count(), 2);
        assert!(votes.absent().all(Absent::maybe_applied));
    }
}
