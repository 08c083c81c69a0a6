//! Counting votes. Pure: what each node has said comes in, what they say together comes out.
//!
//! A majority is one of all nodes that were configured, never of those that answered. Nodes that turn out to be one
//! server have one vote between them.

use std::time::Duration;

use crate::base::error::StoreError;

/// Why a node has not voted.
#[derive(Debug, Clone)]
pub(crate) enum Absent {
    /// It came up too lately to know what it has granted before, and stays out for so long.
    NotVoting(Duration),
    /// The request failed.
    Failed(StoreError),
}

impl Absent {
    /// The request may have had its effect.
    pub(crate) fn maybe_applied(&self) -> bool {
        match self {
            Absent::NotVoting(_) => false,
            Absent::Failed(error) => error.maybe_applied(),
        }
    }
}

/// What the nodes have answered to one question so far.
#[derive(Debug)]
pub(crate) struct Votes<R> {
    nodes: Vec<Node<R>>,
    /// How long each has to answer.
    within: Duration,
}

#[derive(Debug)]
struct Node<R> {
    /// `None` while it has not answered.
    said: Option<Result<R, Absent>>,
    /// The same number means the same server; `None` when that is not known.
    server: Option<u64>,
}

/// What the votes come to.
#[derive(Debug)]
pub(crate) enum Verdict<R> {
    /// They cannot change that any more.
    Decided(R),
    /// Not yet; and never, when all have answered.
    Open,
    /// This cannot be voted on.
    Never,
}

/// How many of so many are a majority.
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

    /// The same, when they have so long to answer.
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

    /// Those who have answered, whatever they said.
    pub(crate) fn answers(&self) -> impl Iterator<Item = (usize, &R)> {
        let all = self.nodes.iter().enumerate();
        all.filter_map(|(at, node)| Some((at, node.said.as_ref()?.as_ref().ok()?)))
    }

    /// What a node has said; `None` while it is silent.
    pub(crate) fn of(&self, at: usize) -> Option<&Result<R, Absent>> {
        self.nodes[at].said.as_ref()
    }

    /// What has kept nodes from answering.
    pub(crate) fn absent(&self) -> impl Iterator<Item = &Absent> {
        let said = self.nodes.iter().filter_map(|node| node.said.as_ref());
        said.filter_map(|said| said.as_ref().err())
    }

    /// One that has not said anything may have done what it was asked for.
    pub(crate) fn may_have_acted(&self) -> bool {
        self.silent() > 0 || self.absent().any(Absent::maybe_applied)
    }

    /// A node may have done what it was asked for: its answer says so, or none says that it has not.
    pub(crate) fn may_have(&self, at: usize, says_so: impl Fn(&R) -> bool) -> bool {
        match self.of(at) {
            Some(Ok(reply)) => says_so(reply),
            Some(Err(absent)) => absent.maybe_applied(),
            None => true,
        }
    }

    /// A node before this one is the same server, and its vote counts.
    pub(crate) fn is_twin(&self, at: usize, counts: impl Fn(&R) -> bool) -> bool {
        let server = self.nodes[at].server;
        let same = |node: &Node<R>| {
            let counts = matches!(&node.said, Some(Ok(reply)) if counts(reply));
            counts && node.server == server
        };
        server.is_some() && self.nodes[..at].iter().any(same)
    }

    /// How many servers have said something like this.
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

    /// So many have said something like this that a majority cannot say anything else any more.
    pub(crate) fn prevents(&self, like: impl Fn(&R) -> bool) -> bool {
        let those = self.answers().filter(|(_, reply)| like(reply)).count();
        those > self.nodes.len() - self.needed()
    }

    /// How many have not answered yet.
    pub(crate) fn silent(&self) -> usize {
        self.nodes.iter().filter(|node| node.said.is_none()).count()
    }

    /// The same votes on a part of the question; `None` is no answer to it.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::ErrorKind;

    /// One letter for each node: `y`, `n`, `x` for a failure, `.` for silence.
    fn votes(said: &str) -> Votes<bool> {
        let mut votes = Votes::new(said.len());
        for (at, letter) in said.chars().enumerate() {
            match letter {
                '.' => {}
                'x' => {
                    let error = StoreError::unknown(ErrorKind::TimedOut, "silent");
                    votes.record(at, Err(Absent::Failed(error)), None);
                }
                yes => votes.record(at, Ok(yes == 'y'), Some(at as u64)),
            }
        }
        votes
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

    /// Its vote must not be lost because the other one of the pair has said no.
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
