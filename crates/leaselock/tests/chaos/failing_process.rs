//! A process that works at many points at once, and is killed, or frozen past its leases, when it has reached all of them.
//!
//! It has a proxy for each point, so that requests and replies there can be held back.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use testkit::notes::{lines, note};
use testkit::process::Signal;
use testkit::{Child, Fault, Proxy, Server, TempDir, Way, clock, tempdir};

const PATIENCE: Duration = Duration::from_secs(30);

/// How a process fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure {
    /// Frozen past its leases, and not killed.
    freezes: bool,
    /// What was held back arrives only after others have asked.
    heals_late: bool,
}

impl Failure {
    pub(crate) fn all() -> impl Iterator<Item = Failure> {
        [(false, false), (false, true), (true, false), (true, true)]
            .into_iter()
            .map(|(freezes, heals_late)| Failure {
                freezes,
                heals_late,
            })
    }

    /// A word for the names of a round.
    pub(crate) fn word(self) -> String {
        format!("{}-{}", self.freezes, self.heals_late)
    }
}

/// The place of one such process, and of those who ask behind it.
pub(crate) struct FailingProcess {
    failure: Failure,
    place: TempDir,
    proxies: Vec<Proxy>,
}

impl FailingProcess {
    pub(crate) fn at(server: &Server, points: usize, failure: Failure) -> FailingProcess {
        FailingProcess {
            failure,
            place: tempdir().unwrap(),
            proxies: (0..points).map(|_| Proxy::to(server.port())).collect(),
        }
    }

    /// Where its processes note what they do.
    pub(crate) fn folder(&self) -> &Path {
        self.place.path()
    }

    /// Starts the process. Its words are these, and the URL of each point.
    pub(crate) fn start(&self, order: &str, words: &[&str]) -> Child {
        let urls: Vec<String> = self.proxies.iter().map(Proxy::url).collect();
        let urls = urls.iter().map(String::as_str);
        let words: Vec<&str> = words.iter().copied().chain(urls).collect();
        Child::start(order, &words)
    }

    /// Holds back what goes this way, for each point.
    pub(crate) fn hold(&self, ways: impl IntoIterator<Item = Option<Way>>) {
        for (way, proxy) in ways.into_iter().zip(&self.proxies) {
            if let Some(way) = way {
                proxy.set(way, Fault::Hold);
            }
        }
    }

    fn heal(&self) {
        self.proxies.iter().for_each(Proxy::heal);
    }

    pub(crate) async fn until(&self, what: &str, mut condition: impl AsyncFnMut() -> bool) {
        let end = clock::now() + PATIENCE;
        while !condition().await {
            assert!(clock::now() < end, "{:?}: {what}", self.failure);
            tokio::time::sleep(Duration::from_millis(2)).await; // between two reads of the condition
        }
    }

    /// The names that the process has noted there, or has ended with: on a slow machine it may lose a lease before.
    pub(crate) fn noted(&self, file: &str) -> BTreeSet<String> {
        let noted = [file, "ended"].into_iter();
        noted.flat_map(|file| lines(self.folder(), file)).collect()
    }

    /// Lets it fail. Others ask while it is dead or frozen, and once more when everything has arrived or gone on.
    pub(crate) async fn fails(&self, mut child: Child, others_ask: impl AsyncFn()) {
        if self.failure.freezes {
            child.stop();
        } else {
            child.kill();
        }
        if !self.failure.heals_late {
            self.heal();
        }
        others_ask().await;
        self.heal();
        note(self.folder(), "go on", "");
        if self.failure.freezes {
            child.signal(Signal::CONT);
            child.ends_well();
        }
        others_ask().await;
    }
}

/// Between processes: the file is there.
pub(crate) async fn until_told(folder: &Path, what: &str) {
    while !folder.join(what).exists() {
        tokio::time::sleep(Duration::from_millis(2)).await; // between two reads of the condition
    }
}
