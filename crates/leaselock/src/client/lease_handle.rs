//! The handle of a detached lease of any kind, as one line of text.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::{Fence, Name, Sequencer};

use crate::base::{InvalidInput, Token, Ttl, fence, token};
use crate::engine::services::{Engine, LeaseRecord};
use crate::engine::values::{Held, Kind, LockMode, Resource};
use crate::script::LockKeys;

const VERSION: &str = "ll1";
/// The end of a handle that extends only.
const LENT: &str = ".lent";

/// Everything that another process needs to extend or release a detached lease of any kind, or to extend a lent one.
///
/// **A secret**: every process that has it can keep the lease. So pass it by file, pipe or environment, and not on a
/// command line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "without its handle no client can release a detached lease before its ttl"]
pub struct Handle {
    name: Name,
    token: Token,
    fence: Option<Fence>,
    /// Whose grant it is, by the token with which the lease was acquired.
    owner: String,
    ttl: Ttl,
    /// The name of the kind of lock.
    kind: String,
    /// How it is held, for kinds with several ways.
    mode: Option<Arc<str>>,
    may_release: bool,
}

impl Handle {
    /// Creates the handle of this lease, whose token is this one.
    pub(crate) fn new(record: &LeaseRecord, token: Token) -> Self {
        let resource = &record.held.resource;
        Handle {
            name: record.name.clone(),
            token,
            fence: record.fence,
            owner: record.held.token.owner_id(),
            ttl: record.ttl(),
            kind: resource.kind.name.to_owned(),
            mode: resource.mode.clone(),
            may_release: true,
        }
    }

    /// Makes it one that extends only.
    pub(crate) fn lent(mut self) -> Self {
        self.may_release = false;
        self
    }

    pub(crate) fn token(&self) -> &Token {
        &self.token
    }

    /// Returns what is held, as a lock of one of these kinds.
    pub(crate) fn held(
        &self,
        engine: &Engine,
        kinds: &[&'static Kind],
    ) -> Result<Held, InvalidInput> {
        let refused = |why: &str| InvalidInput::new(format!("a lease of a {}: {why}", self.kind));
        let kind = kinds.iter().find(|kind| kind.name == self.kind);
        let kind = kind.ok_or_else(|| refused("this version does not know that kind of lock"))?;
        if let Some(reason) = kind.no_majority {
            engine.needs_one_server(kind.name, reason)?;
        }
        let keys = LockKeys::new(&engine.ids.prefix, &self.name)?.behind(engine.gate());
        let resource = Resource::new(kind, keys).with_mode(self.mode.clone());
        Ok(Held::of(&resource, &self.token))
    }

    /// Returns the lock's name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the fencing token of the lease.
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// Returns the ttl of the lease when it was detached or lent: what to extend it by, unless you know better.
    pub fn ttl(&self) -> Duration {
        self.ttl.as_duration()
    }

    /// Returns what its bearer shows to the resource that the lease protects, as its holder did before; `None` without
    /// fencing.
    pub fn sequencer(&self) -> Option<Sequencer> {
        let mode = LockMode::of_mode(self.mode.as_deref());
        mode.sequencer(&self.name, self.fence?, &self.owner)
    }

    /// Returns what is locked: `mutex`, `read-write lock` (the lease is that of a reader) or `semaphore`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns true if it can release the lease: it was detached, and not lent.
    pub fn may_release(&self) -> bool {
        self.may_release
    }

    /// Returns one line of text, `ll1.…`, that [`FromStr`] reads back.
    pub fn to_secret_string(&self) -> String {
        let (name, token) = (self.name.as_str(), self.token.secret());
        let mode = self.mode.as_deref().unwrap_or_default();
        let fence = self.fence.map_or(0, Fence::get);
        let texts = [name, token, &self.owner, &self.kind, mode];
        let [name, token, owner, kind, mode] = texts.map(|text| token::base64url(text.as_bytes()));
        let lent = if self.may_release { "" } else { LENT };
        let ttl_ms = self.ttl.as_ms();
        format!("{VERSION}.{name}.{token}.{fence}.{owner}.{kind}.{mode}.{ttl_ms}{lent}")
    }
}

impl FromStr for Handle {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        let text = text.trim();
        parse(text).ok_or_else(|| {
            let says = "this is not a handle; a handle is the line that begins with `ll1.`, as `acquire` printed it";
            InvalidInput::new(says)
        })
    }
}

fn parse(text: &str) -> Option<Handle> {
    let (text, may_release) = match text.strip_suffix(LENT) {
        Some(text) => (text, false),
        None => (text, true),
    };
    let mut parts = text.split('.');
    let version = parts.next()?;
    let decoded = |part: Option<&str>| String::from_utf8(token::from_base64url(part?)?).ok();
    let (name, token) = (decoded(parts.next())?, decoded(parts.next())?);
    let fence = parts.next()?.parse().ok()?;
    let owner = decoded(parts.next())?;
    let (kind, mode) = (decoded(parts.next())?, decoded(parts.next())?);
    let ttl = Ttl::whole_ms(parts.next()?.parse().ok()?)?;
    let whole = version == VERSION && parts.next().is_none();
    let handle = Handle {
        name: Name::new(name).ok()?,
        token: Token::parse(&token)?,
        fence: fence::of_reply(fence),
        owner,
        ttl,
        kind,
        mode: (!mode.is_empty()).then(|| mode.into()),
        may_release,
    };
    let can_show = handle.fence.is_none() || handle.sequencer().is_some();
    (whole && can_show).then_some(handle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::token::ClientId;

    fn handle() -> Handle {
        let client = ClientId::random().unwrap();
        Handle {
            name: Name::new("jobs/α.1").unwrap(),
            token: Token::random(&client, true).unwrap(),
            fence: Some(Fence::new(7)),
            owner: "0123456789abcdef".to_owned(),
            ttl: Ttl::DEFAULT,
            kind: "mutex".to_owned(),
            mode: None,
            may_release: true,
        }
    }

    fn of_permits() -> Handle {
        Handle {
            kind: "semaphore".to_owned(),
            mode: Some("w2 5".into()),
            ..handle()
        }
    }

    #[test]
    fn a_handle_survives_the_way_through_text() {
        for handle in [handle(), of_permits(), of_permits().lent()] {
            let text = format!(" {}\n", handle.to_secret_string());
            assert_eq!(text.parse::<Handle>().unwrap(), handle);
        }
    }

    #[test]
    fn a_handle_of_a_kind_of_a_later_version_is_refused_by_its_name() {
        let later = Handle {
            kind: "rate limiter".to_owned(),
            ..handle()
        };
        let later: Handle = later.to_secret_string().parse().unwrap();
        let client = crate::Client::open("mem:").unwrap();
        let refusal = later.held(client.engine(), &[&crate::mutex::MUTEX]);
        assert!(refusal.unwrap_err().to_string().contains("a rate limiter"));
    }

    #[test]
    fn what_is_no_handle_is_refused_without_being_repeated() {
        let good = handle().to_secret_string();
        let bad = [
            String::new(),
            "ll1".into(),
            good.replace("ll1", "ll2"),
            good.replace(&token::base64url(b"0123456789abcdef"), "IQ"), // an owner of no grant
            format!("{good}.x"),
            format!("{good}.bXV0ZXg"),
            format!("{good}.bXV0ZXg.."),
            good[..good.len() - 3].to_owned() + "..",
            good.rsplitn(4, '.').last().unwrap().into(), // without its kind
            good.replace(".10000", ".9"),
            good.rsplitn(2, '.').last().unwrap().into(), // without its ttl
            "ll1.a.b.c".into(),
        ];
        for bad in bad {
            let refusal = bad.parse::<Handle>().unwrap_err().to_string();
            assert!(
                refusal.contains("ll1.") && (bad.len() < 10 || !refusal.contains(&bad)),
                "{bad}"
            );
        }
    }

    #[test]
    fn debug_does_not_show_the_secret() {
        for handle in [handle(), of_permits()] {
            assert!(!format!("{handle:?}").contains(handle.token.secret()));
        }
    }
}
