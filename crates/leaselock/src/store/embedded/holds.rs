//! What the session of a holder says about its lease; and the sorted set at a lock's key: many holds, each of which ends with
//! the session of its client.
//!
//! A hold is a member that begins with a token. The token alone shares the lock. With `u` behind it it may become
//! exclusive, with digits behind it it has so many permits. The score is the end of the hold in the store's time.
//! Beside a hold with `u` lies the member `u` with the same score. Before readers lies `f` and their fencing token, which
//! is no hold.
//!
//! No member of a queue begins with a token: it begins with 16 digits, so that the separator within the token is not
//! where it is in a token.

use std::collections::{BTreeSet, HashMap};

use super::packed::{Members, PackedMember};
use crate::base::token;

/// A lease that only a job's session keeps alive has no known end; a second makes waiters poll again soon.
const SESSION_HELD_US: u64 = 1_000_000;

/// The state of the holder's session, read anew by every call and never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Life {
    /// The ttl decides.
    #[default]
    Ttl,
    /// The process is dead and its job still runs: held until this point of the store's clock, whatever the ttl.
    Session { until_us: Option<u64> },
    /// Process and job have ended.
    Over,
}

impl Life {
    /// True if the lease is over; `ends_us` is where its ttl ends.
    pub(super) fn is_over(self, ends_us: Option<u64>, now_us: u64) -> bool {
        match self {
            Life::Ttl => ends_us.is_some_and(|ends_us| now_us > ends_us),
            Life::Session { until_us } => until_us.is_some_and(|until_us| now_us > until_us),
            Life::Over => true,
        }
    }
}

/// Returns the end that others see of a lease that only a job's session keeps alive.
pub(super) fn shown_end_us(until_us: Option<u64>, now_us: u64) -> u64 {
    let soon_us = now_us.saturating_add(SESSION_HELD_US);
    until_us.map_or(soon_us, |until_us| until_us.min(soon_us))
}

/// Names of holds whose client had no session at the write: their score alone decides.
pub(super) type Sessionless = BTreeSet<Vec<u8>>;

/// What is behind the token of a hold that may become exclusive, and the whole member beside it.
const UPGRADABLE: &[u8] = b"u";

/// Holds of which some were not as their sessions want them.
#[derive(Debug, PartialEq)]
pub(super) struct SettledHold {
    pub(super) members: Members,
    /// The latest end of the holds that only a job keeps alive: the key must not expire before.
    pub(super) held_until_us: Option<u64>,
}

/// True if these are holds of ours, and not a queue or the set of another program.
pub(super) fn are_holds(members: &Members) -> bool {
    members.iter().all(|member| {
        let is_mark = member.name == UPGRADABLE || is_fence(member.name);
        is_mark || token::leading(member.name).is_some()
    })
}

/// True for the fencing token that readers share.
fn is_fence(name: &[u8]) -> bool {
    let digits = name.strip_prefix(b"f").unwrap_or_default();
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// Applies the sessions: a hold of a dead process and job is gone, and one of a living job has an end that is near.
///
/// `None` when that changes nothing. It asks once for each client, and for none of a sessionless hold.
pub(super) fn settle<E>(
    members: &Members,
    sessionless: &Sessionless,
    now_us: u64,
    mut life_of: impl FnMut(&str) -> Result<Life, E>,
) -> Result<Option<SettledHold>, E> {
    let mut lives = HashMap::new();
    let mut kept = Vec::with_capacity(members.len());
    let (mut changed, mut held_until_us) = (false, None);
    for mut member in members.iter() {
        let life = match token::leading(member.name) {
            Some((client, _)) if !sessionless.contains(member.name) => match lives.get(client) {
                Some(life) => *life,
                None => *lives.entry(client).or_insert(life_of(client)?),
            },
            _ => Life::Ttl,
        };
        changed |= life != Life::Ttl;
        // What is over by its score is left to the scripts, which clear it away before they judge.
        if life.is_over(None, now_us) {
            continue;
        }
        if let Life::Session { until_us } = life {
            let end_us = shown_end_us(until_us, now_us);
            held_until_us = held_until_us.max(Some(end_us));
            member.score = score(end_us);
        }
        kept.push(member);
    }
    if !changed {
        return Ok(None);
    }
    kept = beside_upgradable(kept);
    if kept.iter().all(|member| is_fence(member.name)) {
        kept.clear();
    }
    let members = Members::of(kept);
    Ok(Some(SettledHold {
        members,
        held_until_us,
    }))
}

/// Gives the member `u` the score of the hold that it stands for, and removes it without such a hold.
fn beside_upgradable(mut kept: Vec<PackedMember<'_>>) -> Vec<PackedMember<'_>> {
    let is_upgradable = |member: &&PackedMember<'_>| {
        token::leading(member.name).is_some_and(|(_, kind)| kind == UPGRADABLE)
    };
    let holds = kept.iter().filter(is_upgradable);
    let score = holds.map(|member| member.score).reduce(f64::max);
    match score {
        None => kept.retain(|member| member.name != UPGRADABLE),
        Some(score) => {
            let beside = kept.iter_mut().find(|member| member.name == UPGRADABLE);
            beside.into_iter().for_each(|beside| beside.score = score);
        }
    }
    kept
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a score is a double, which is exact for microseconds until the year 2255"
)]
fn score(us: u64) -> f64 {
    us as f64
}

/// Separates the holds that end with a session from those that do not.
pub(super) fn split(members: &Members, sessionless: &Sessionless) -> [Members; 2] {
    let part = |wanted: bool| {
        let is_in = |member: &PackedMember<'_>| sessionless.contains(member.name) == wanted;
        Members::of(members.iter().filter(is_in).collect())
    };
    [part(false), part(true)]
}

/// Joins what `split` separated; `None` if both have the same member.
pub(super) fn join(bound: &Members, others: &Members) -> Option<(Members, Sessionless)> {
    let sessionless: Sessionless = others.iter().map(|member| member.name.to_vec()).collect();
    let is_twice = bound.iter().any(|member| sessionless.contains(member.name));
    let all = Members::of(bound.iter().chain(others.iter()).collect());
    (!is_twice).then_some((all, sessionless))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_US: u64 = 1_795_224_695_691_371;
    const NOW: f64 = 1_795_224_695_691_371.0;
    const SECOND: f64 = 1_000_000.0;

    /// A token of a client of eight letters.
    fn token(number: u32, client: &str) -> String {
        format!("{number:022}.{client}")
    }

    fn set(members: &[(f64, &str)]) -> Members {
        members.iter().copied().collect()
    }

    /// Settles a set whose clients live as the first letter of their name says.
    fn settled(members: &Members, sessionless: &[&str]) -> (Option<SettledHold>, Vec<String>) {
        let names = sessionless.iter().map(|name| name.as_bytes().to_vec());
        let mut asked = Vec::new();
        let settled = settle(members, &names.collect(), NOW_US, |client| {
            asked.push(client.to_owned());
            Ok::<_, ()>(match client.as_bytes()[0] {
                b'p' => Life::Ttl,
                b'j' => Life::Session { until_us: None },
                b'l' => Life::Session {
                    until_us: Some(NOW_US + 300_000),
                },
                b'e' => Life::Session {
                    until_us: Some(NOW_US - 1),
                },
                _ => Life::Over,
            })
        });
        (settled.unwrap(), asked)
    }

    #[test]
    fn a_fencing_token_of_readers_is_among_holds_and_goes_with_the_last_of_them() {
        let (fence, dead) = (
            (f64::NEG_INFINITY, "f1795224695691003"),
            token(1, "dead0000"),
        );
        let living = token(2, "p0000000");
        let both = set(&[fence, (NOW + SECOND, &dead), (NOW + SECOND, &living)]);
        assert!(are_holds(&both));
        assert!(!are_holds(&set(&[(NOW, "f12x")])));
        let (settled_both, _) = settled(&both, &[]);
        assert_eq!(
            settled_both.unwrap().members,
            set(&[fence, (NOW + SECOND, &living)])
        );
        let (settled_one, _) = settled(&set(&[fence, (NOW + SECOND, &dead)]), &[]);
        assert!(settled_one.unwrap().members.is_empty());
    }

    #[test]
    fn each_hold_is_as_its_own_client() {
        let [process, job, limited, ended, dead] =
            ["process1", "job_1234", "limited1", "ended123", "dead1234"].map(|name| token(1, name));
        let all = [&process, &job, &limited, &ended, &dead].map(|name| (NOW + 9.0, name.as_str()));
        let (found, _) = settled(&set(&all), &[]);
        let expected = [
            (NOW + 9.0, process.as_str()),
            (NOW + SECOND, job.as_str()),
            (NOW + 0.3 * SECOND, limited.as_str()),
        ];
        let expected = SettledHold {
            members: set(&expected),
            held_until_us: Some(NOW_US + 1_000_000),
        };
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn it_asks_once_for_each_client_and_never_for_a_hold_without_a_session() {
        let names = [
            token(1, "process1"),
            token(2, "process1") + "u",
            token(3, "process2") + "12",
            token(4, "dead1234"),
            token(5, "process1") + "3",
        ];
        let all: Vec<_> = names.iter().map(|name| (NOW, name.as_str())).collect();
        let (found, asked) = settled(&set(&all), &[&names[3]]);
        assert_eq!(
            (found, asked.as_slice()),
            (None, &["process1".to_owned(), "process2".to_owned()][..])
        );
    }

    #[test]
    fn an_error_about_a_session_leaves_nothing_settled() {
        let members = set(&[(NOW, &token(1, "process1"))]);
        let failed = settle(&members, &Sessionless::new(), NOW_US, |_| {
            Err("no descriptor")
        });
        assert_eq!(failed, Err("no descriptor"));
    }

    #[test]
    fn the_member_beside_an_upgradable_hold_has_its_score_or_is_gone() {
        let (upgradable, of_a_job) = (token(1, "dead1234") + "u", token(2, "job_1234") + "u");
        // The last letter of a client is no kind of hold.
        let sharing = token(3, "procesuu");
        let score = |hold: &str, beside: f64| {
            let (found, _) = settled(&set(&[(beside, hold), (beside, "u"), (NOW, &sharing)]), &[]);
            found.unwrap().members.score(b"u")
        };
        assert_eq!(score(&upgradable, NOW + 5.0), None);
        assert_eq!(score(&of_a_job, NOW + 5.0), Some(NOW + SECOND));
        assert_eq!(score(&of_a_job, NOW - 5.0), Some(NOW + SECOND));
    }

    #[test]
    fn what_is_no_hold_is_left_alone() {
        let hold = token(1, "dead1234");
        let member = format!("1795224695691371{hold}1795224695691371 0 5000 1 channel");
        let queue = set(&[(0.0, &member), (0.0, "u"), (0.0, "dead1234")]);
        assert_eq!(settled(&queue, &[]), (None, vec![]));
        assert!(!are_holds(&queue) && are_holds(&set(&[(0.0, &hold), (0.0, "u")])));
    }

    #[test]
    fn separated_holds_join_again_unless_one_is_there_twice() {
        let names = ["a", "b", "c", "d"].map(|letter| token(1, &letter.repeat(8)));
        let all: Vec<_> = names.iter().map(|name| (NOW, name.as_str())).collect();
        let sessionless: Sessionless = [&names[1], &names[3]]
            .map(|name| name.clone().into_bytes())
            .into();
        let [bound, others] = split(&set(&all), &sessionless);
        assert_eq!((bound.len(), others.len()), (2, 2));
        assert_eq!(join(&bound, &others), Some((set(&all), sessionless)));
        assert_eq!(join(&bound, &bound), None);
    }
}
