//! Building a quorum: its servers and its options.

use std::time::Duration;

use super::handle::Quorum;
use crate::base::error::InvalidInput;
use crate::base::ttl::{TTL_MAX, TTL_MIN};
use crate::client::options::Options;
use crate::client::settings;
use crate::client::settings::{Settings, common_setters};
use crate::quorum::executor::Executor;
use crate::quorum::group::QuorumStore;
use crate::quorum::member::NodeTerms;
use crate::store::url;
use crate::store::url::{RedisUrl, Target};
use crate::store::{RedisStore, Store};

/// The default longest ttl on a quorum: a minute.
///
/// Six times the default ttl, and a bearable delay for a node after its restart.
pub const DEFAULT_LONGEST_TTL: Duration = Duration::from_secs(60);
/// A slower node is of no use to a lease of ten seconds; a request waits so long only if too few others reply.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);
/// More nodes add no safety and slow every request.
const NODES_MAX: usize = 21;

/// Builds a [`Quorum`] without contacting anything.
///
/// # Examples
/// ```
/// use leaselock::Quorum;
/// use std::time::Duration;
///
/// let quorum = Quorum::builder(["redis://one", "redis://two", "redis://three"])
///     .longest_ttl(Duration::from_secs(30)) // all clients agree on it
///     .node_timeout(Duration::from_millis(200))
///     .build()?; // nothing is sent yet
/// # Ok::<_, leaselock::error::InvalidInput>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct QuorumBuilder {
    urls: Vec<String>,
    node_timeout: Duration,
    longest: Duration,
    delayed_restart: bool,
    pub(crate) settings: Settings,
}

impl Quorum {
    /// Creates a quorum of these servers: an odd number, at least three.
    ///
    /// Each is a `redis://`, `rediss://` or `redis+unix://` URL.
    ///
    /// # Errors
    /// [`InvalidInput`] says what is wrong with the URLs or their number. Servers are not contacted.
    ///
    /// # Examples
    /// ```
    /// use leaselock::Quorum;
    ///
    /// let quorum = Quorum::connect(["redis://one", "redis://two", "redis://three"])?;
    /// # Ok::<_, leaselock::error::InvalidInput>(())
    /// ```
    pub fn connect(
        urls: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Quorum, InvalidInput> {
        Quorum::builder(urls).build()
    }

    /// Returns a builder, for a quorum with options of its own.
    pub fn builder(urls: impl IntoIterator<Item = impl Into<String>>) -> QuorumBuilder {
        QuorumBuilder {
            urls: urls.into_iter().map(Into::into).collect(),
            node_timeout: NODE_TIMEOUT,
            longest: DEFAULT_LONGEST_TTL,
            delayed_restart: true,
            settings: Settings::default(),
        }
    }
}

impl QuorumBuilder {
    common_setters!();

    /// Sets how long one node may take, connecting included.
    ///
    /// Half a second by default, and never longer than the request. A request waits for a node only while its reply
    /// could change the outcome.
    pub fn node_timeout(mut self, longest: Duration) -> Self {
        self.node_timeout = longest;
        self
    }

    /// Sets the longest ttl that any client uses on these servers; a minute by default.
    ///
    /// **All clients that share them must agree on it**: a node stays out of votes for this long after it has started,
    /// because it may have forgotten what it granted. A longer ttl is refused. Where no ttl was set, the default is the
    /// shorter of 10 s and this.
    pub fn longest_ttl(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// Sets whether a recently started node stays out of votes.
    ///
    /// Recently means within [`longest_ttl`](QuorumBuilder::longest_ttl); `true` by default. Switch it off only when
    /// every node syncs each write before it replies (`appendfsync always`). Without either, a node that restarts empty
    /// lets a second client acquire a held lock.
    pub fn delayed_restart(mut self, on: bool) -> Self {
        self.delayed_restart = on;
        self
    }

    /// Builds the quorum.
    ///
    /// # Errors
    /// [`InvalidInput`]: an option or a URL is not well-formed, or the nodes are too few, an even number, or not
    /// different. A server that is down is not an error here.
    pub fn build(mut self) -> Result<Quorum, InvalidInput> {
        let mut nodes = nodes(&self.urls)?;
        self.settings.tell(&mut nodes)?;
        self.check()?;
        let terms = NodeTerms {
            node_timeout: self.node_timeout,
            longest: self.longest,
            delayed_restart: self.delayed_restart,
            drift: self.settings.drift(),
        };
        let servers = nodes.into_iter().map(RedisStore::from_url).collect();
        let store = QuorumStore::new(servers, terms);
        let defaults = &mut self.settings.defaults;
        defaults.longest = Some(self.longest);
        let (priority, ttl) = (defaults.priority, defaults.length());
        self.settings.check()?;
        store.check_limits(priority, ttl)?;
        let (id, store) = (settings::new_id()?, Executor::Majority(store));
        let state = self.settings.client(id, store, None);
        Ok(Quorum { state })
    }

    fn check(&self) -> Result<(), InvalidInput> {
        if !(TTL_MIN..=TTL_MAX).contains(&self.longest) {
            return Err(InvalidInput::new(format!(
                "longest ttl {:?} is out of range: from 10 ms to 30 days (a minute is the default)",
                self.longest
            )));
        }
        if self.node_timeout.is_zero() {
            let wrong = "a node timeout of zero leaves no time for an answer";
            return Err(InvalidInput::new(wrong));
        }
        Ok(())
    }
}

/// Parses the URLs: an odd number of different servers, at least three.
fn nodes(urls: &[String]) -> Result<Vec<RedisUrl>, InvalidInput> {
    let count = urls.len();
    if count < 3 || count.is_multiple_of(2) || count > NODES_MAX {
        let why = match count {
            0..3 => "a majority of fewer than three is lost with the first of them",
            even if even.is_multiple_of(2) => {
                "an even number tolerates no more failures than one less"
            }
            _ => "more make nothing safer",
        };
        return Err(InvalidInput::new(format!(
            "a quorum of {count} servers: {why}; name an odd number from 3 to {NODES_MAX}, such as 3 or 5"
        )));
    }
    let mut nodes: Vec<RedisUrl> = Vec::with_capacity(count);
    for (index, url) in urls.iter().enumerate() {
        let Target::Redis(node) = url::parse(url)? else {
            return Err(InvalidInput::new(
                "a quorum consists of servers: name redis://, rediss:// or redis+unix:// URLs",
            ));
        };
        let same = |other: &RedisUrl| other.place == node.place;
        if let Some(first) = nodes.iter().position(same) {
            return Err(InvalidInput::new(format!(
                "nodes {} and {} are one server, {node}: name another, because one that is listed twice has one vote",
                first + 1,
                index + 1
            )));
        }
        nodes.push(node);
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(builder: QuorumBuilder) -> String {
        builder.build().unwrap_err().to_string()
    }

    #[test]
    fn too_few_an_even_number_and_the_same_server_twice_are_refused_with_what_would_be_right() {
        for (urls, says) in [
            (vec![], "odd number from 3"),
            (vec!["redis://a", "redis://b"], "fewer than three"),
            (
                vec!["redis://a", "redis://b", "redis://c", "redis://d"],
                "even number",
            ),
            (vec!["redis://a"; 23], "nothing safer"),
            (
                vec!["redis://a", "redis://b", "redis://a"],
                "nodes 1 and 3 are one server",
            ),
            (
                vec!["redis://a", "redis://u:p@b", "redis://b/3"],
                "nodes 2 and 3",
            ),
            (
                vec!["redis://a", "redis://b", "mem:"],
                "a quorum consists of servers",
            ),
            (vec!["redis://a", "redis://b", "nonsense"], "redis://"),
        ] {
            let refusal = refusal(Quorum::builder(urls));
            assert!(
                refusal.contains(says) && !refusal.contains(":p@"),
                "{refusal}"
            );
        }
    }

    #[test]
    fn terms_out_of_range_are_refused() {
        let three = || Quorum::builder(["redis://a", "redis://b", "redis://c"]);
        let second = Duration::from_secs(1);
        for (builder, says) in [
            (three().node_timeout(Duration::ZERO), "node timeout"),
            (three().longest_ttl(Duration::ZERO), "10 ms to 30 days"),
            (
                three()
                    .longest_ttl(second)
                    .defaults(Options::default().ttl(2 * second)),
                "agree",
            ),
            (three().defaults(Options::default().priority(1)), "priority"),
        ] {
            let refusal = refusal(builder);
            assert!(refusal.contains(says), "{refusal}");
        }
        assert!(three().build().is_ok());
    }

    #[test]
    fn the_default_ttl_fits_itself_to_a_shorter_longest_ttl_and_one_that_was_asked_for_is_refused()
    {
        let urls = ["redis://a", "redis://b", "redis://c"];
        let second = Duration::from_secs(1);
        let quorum = Quorum::builder(urls).longest_ttl(4 * second).build();
        let quorum = quorum.unwrap();
        assert!(quorum.mutex("job").validate().is_ok());
        assert!(quorum.mutex("job").ttl(4 * second).validate().is_ok());
        let refusal = quorum.mutex("job").ttl(5 * second).validate().unwrap_err();
        assert!(refusal.to_string().contains("4s"), "{refusal}");
    }
}
