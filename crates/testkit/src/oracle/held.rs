//! What is held under a name.

use std::collections::BTreeMap;
use std::fmt;

/// How long before its end a lease of a string key no longer counts. The server takes the time of such an end before
/// it shows the command, and a busy machine may do other things in between.
pub(super) const SLACK_US: u64 = 100_000;
/// The mark beside an upgradable reader.
pub(super) const MARK: &str = "u";
const TOKEN_LENGTH: usize = 31;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Alone,
    Reads,
    /// Reads, and may become exclusive.
    Upgradable,
    Permits(u64),
}

impl How {
    pub(crate) fn reads(self) -> bool {
        matches!(self, How::Reads | How::Upgradable)
    }
}

/// Whether its grant has a fencing token.
pub(crate) fn is_fenced(token: &str) -> bool {
    token.as_bytes().get(22) == Some(&b'.')
}

/// What a hold was, token first, before an operator broke it: until it ends it has another sign. `None` for any other.
pub(crate) fn before_break(text: &str) -> Option<String> {
    let (secret, rest) = text.split_at_checked(22)?;
    let (sign, client) = rest.split_at_checked(1)?;
    match sign {
        "!" => Some(format!("{secret}.{client}")),
        "?" => Some(format!("{secret}~{client}")),
        _ => None,
    }
}

/// The number of the readers, which lies beside their holds; `None` for any other member.
pub(crate) fn readers_number(text: &str) -> Option<u64> {
    text.strip_prefix('f')?.parse().ok()
}

/// One hold. It surely lasts while the time is below `sure_until_us`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) token: String,
    pub(crate) how: How,
    pub(super) sure_until_us: u64,
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.token, self.how)
    }
}

/// What the lock's key is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Held {
    #[default]
    Nothing,
    Alone {
        token: String,
        ends_us: u64,
    },
    /// Members and their ends.
    Set(BTreeMap<String, u64>),
}

/// What a member of a set says; `None` for the marks.
pub(crate) fn member(text: &str, ends_us: u64) -> Option<Hold> {
    let (token, how) = text.split_at_checked(TOKEN_LENGTH)?;
    let how = match how {
        "" => How::Reads,
        MARK => How::Upgradable,
        digits => How::Permits(digits.parse().ok()?),
    };
    Some(Hold {
        token: token.to_owned(),
        how,
        sure_until_us: ends_us,
    })
}

impl Held {
    /// All that have not been given back in the stream, those that are over too.
    pub(super) fn each(&self) -> Vec<Hold> {
        match self {
            Held::Nothing => Vec::new(),
            Held::Alone { token, ends_us } => vec![Hold {
                token: token.clone(),
                how: How::Alone,
                sure_until_us: ends_us.saturating_sub(SLACK_US),
            }],
            Held::Set(members) => members
                .iter()
                .filter_map(|(text, ends)| member(text, *ends))
                .collect(),
        }
    }

    /// Those that surely last.
    pub(super) fn lasting(&self, at_us: u64) -> Vec<Hold> {
        let mut holds = self.each();
        holds.retain(|hold| at_us < hold.sure_until_us);
        holds
    }

    /// The number that the readers have.
    pub(super) fn readers_number(&self) -> Option<u64> {
        match self {
            Held::Set(members) => members.keys().filter_map(|text| readers_number(text)).max(),
            Held::Nothing | Held::Alone { .. } => None,
        }
    }

    /// Takes the number of the readers out.
    pub(super) fn remove_marks(&mut self) {
        if let Held::Set(members) = self {
            members.retain(|text, _| readers_number(text).is_none());
        }
    }

    /// Writes a member, when this is a set.
    pub(super) fn put(&mut self, text: &str, ends: u64) {
        if let Held::Set(members) = self {
            members.insert(text.to_owned(), ends);
        }
    }

    /// How the token holds.
    pub(super) fn of(&self, token: &str) -> Option<How> {
        let mut holds = self.each().into_iter();
        holds.find(|hold| hold.token == token).map(|hold| hold.how)
    }

    /// When the hold of this token ends, by the last command that said so.
    pub(super) fn end_us(&self, token: &str) -> Option<u64> {
        match self {
            Held::Alone {
                token: its,
                ends_us,
            } => (its == token).then_some(*ends_us),
            Held::Set(members) => {
                let its = |text: &&String| text.starts_with(token);
                members
                    .iter()
                    .find(|(text, _)| its(text))
                    .map(|(_, ends)| *ends)
            }
            Held::Nothing => None,
        }
    }

    /// How many permits are in the set and what they weigh.
    pub(super) fn weighed(&self) -> (u64, u64) {
        let weights = self.each().into_iter().filter_map(|hold| match hold.how {
            How::Permits(weight) => Some(weight),
            _ => None,
        });
        weights.fold((0, 0), |(count, sum), weight| (count + 1, sum + weight))
    }
}

/// Whether two holds may last at the same time.
pub(super) fn fit(one: How, other: How) -> bool {
    let permits = |how| matches!(how, How::Permits(_));
    let both_upgradable = (one, other) == (How::Upgradable, How::Upgradable);
    one.reads() && other.reads() && !both_upgradable || permits(one) && permits(other)
}
