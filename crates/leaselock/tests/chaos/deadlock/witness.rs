//! Judges what victims were told, without the library: by what the servers show, and by what each client has written down.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leaselock::error::Link;
use testkit::Value;
use testkit::resp::Connection;

use super::history;
use super::history::{Asked, End, Told};

/// How long a reply of a server may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// A wait that was dropped is cancelled in the background by then; a lease that its holder finds lost was lost by then.
const WITHIN: Duration = Duration::from_secs(1);
/// What was held by a killed process, or waited for by it, has ended by then.
pub(super) const DEAD_FOR: Duration = Duration::from_secs(8);

/// Which clients of the circle do not hold or wait any more as the victim was told. It still holds what it held.
/// Without servers, as in a folder, nothing is read.
pub(super) fn moved(ports: &[u16], circle: &[Link]) -> BTreeSet<String> {
    if ports.is_empty() {
        return BTreeSet::new();
    }
    let ask = |port: &u16, command: &[&str]| {
        let mut connection = Connection::open(*port, PATIENCE).unwrap();
        let reply = connection.call(command).unwrap();
        let list = reply.list().unwrap_or(std::slice::from_ref(&reply));
        let texts: Vec<&str> = list.iter().filter_map(Value::text).collect();
        texts.join(" ")
    };
    // Each token names its client. A node that has not the key refuses.
    let has = |command: &[&str], link: &Link| {
        ports
            .iter()
            .any(|port| ask(port, command).contains(&link.client))
    };
    let is_there = |link: &Link| {
        let (held, waiters) = (
            link.holds.as_str(),
            format!("{{{}}}:ll:waiters", link.waits_for),
        );
        let holds = has(&["GET", held], link) || has(&["ZRANGE", held, "0", "-1"], link);
        holds && has(&["HKEYS", &waiters], link)
    };
    let others = circle.iter().skip(1);
    let moved = others.filter(|link| !is_there(link));
    moved.map(|link| link.client.clone()).collect()
}

/// What came of all that victims were told.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) deadlocks: usize,
    /// In which every other member was where it was said to be after the victim had been told.
    pub(super) seen_whole: usize,
    /// What cannot have been a deadlock, and why.
    pub(super) wrong: Vec<String>,
}

/// `killed`: each process that was killed, and when.
pub(super) fn judge(told: &Told, killed: &BTreeMap<u32, Duration>) -> Verdict {
    let mut verdict = Verdict::default();
    for (client, asked) in told.all() {
        let Some((at, End::Deadlock(circle))) = &asked.end else {
            continue;
        };
        verdict.deadlocks += 1;
        verdict.seen_whole += usize::from(circle.iter().all(|link| !link.has_moved));
        if let Err(why) = was_one(told, killed, *at, circle) {
            let text = format!("{client} was told at {at:?} of {circle:?}: {why}");
            verdict.wrong.push(text);
        }
    }
    verdict
}

/// Whether there was a moment before `at` at which all held and waited as the victim was told, and whether afterwards none
/// of them was granted while no one gave anything up.
fn was_one(
    told: &Told,
    killed: &BTreeMap<u32, Duration>,
    at: Duration,
    circle: &[history::Link],
) -> Result<(), String> {
    let ended = |asked: &Asked| match &asked.end {
        Some((at, _)) => *at,
        None => killed.get(&asked.pid).copied().unwrap_or(Duration::MAX),
    };
    let mut waits = Vec::new();
    for link in circle {
        let of_client = told.clients.get(&link.client).map(Vec::as_slice);
        let mut of_client = of_client.unwrap_or_default().iter().rev();
        let wait = of_client.find(|asked| {
            asked.began < at && asked.name == link.waits_for && asked.held.contains(&link.holds)
        });
        waits.push(wait.ok_or_else(|| format!("{} has never waited so", link.client))?);
    }
    let together = waits
        .iter()
        .map(|wait| wait.began)
        .max()
        .unwrap_or_default();
    for (link, wait) in circle.iter().zip(&waits) {
        if ended(wait) <= together {
            return Err(format!(
                "{} waited no more when the last one began",
                link.client
            ));
        }
        let granted = match &wait.end {
            Some((granted, End::Granted { .. })) => *granted,
            _ => continue,
        };
        // The victim has let go only after `at`; before that, or when the store showed it, another client must have.
        let early = granted <= at || link.has_moved;
        if early && !lets_go(told, killed, together, granted) {
            return Err(format!("{} was granted without any giving up", link.client));
        }
    }
    Ok(())
}

/// Whether anyone gave up a wait or lost a hold between these moments, or may have.
fn lets_go(told: &Told, killed: &BTreeMap<u32, Duration>, from: Duration, to: Duration) -> bool {
    // The end of a wait may have let another waiter of that name go on.
    let lets_in = |name: &str| {
        told.all().any(|(_, asked)| match &asked.end {
            Some((at, End::Granted { .. })) => asked.name == name && from <= *at && *at < to,
            _ => false,
        })
    };
    let gave_up = |(_, asked): (&str, &Asked)| match &asked.end {
        Some((at, End::GaveUp)) => {
            let earliest = asked.until.unwrap_or(asked.began);
            earliest <= to && from <= *at + WITHIN
        }
        // A victim lets go of what it holds after it was told.
        Some((at, End::Deadlock(_))) => {
            let near = asked.began <= to && from <= *at;
            from <= *at && *at <= to || near && lets_in(&asked.name)
        }
        _ => false,
    };
    told.all().any(gave_up)
        || killed
            .values()
            .any(|at| *at <= to && from <= *at + DEAD_FOR)
        || told
            .losses
            .iter()
            .any(|at| at.saturating_sub(WITHIN) <= to && from <= *at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn asked(name: &str, held: &str, began: u64, end: Option<(u64, End)>) -> Asked {
        Asked {
            pid: 1,
            name: name.to_owned(),
            held: BTreeSet::from([held.to_owned()]),
            began: millis(began),
            until: None,
            end: end.map(|(at, end)| (millis(at), end)),
        }
    }

    /// `a` holds `x` and is told at 100 that it and `b`, which holds `y`, wait for each other.
    fn told(b: Asked) -> Verdict {
        let link = |client: &str, holds: &str, waits_for: &str| history::Link {
            client: client.to_owned(),
            holds: holds.to_owned(),
            waits_for: waits_for.to_owned(),
            has_moved: false,
        };
        let circle = vec![link("a", "x", "y"), link("b", "y", "x")];
        let a = asked("y", "x", 10, Some((100, End::Deadlock(circle))));
        let clients = [("a", a), ("b", b)].map(|(client, asked)| (client.to_owned(), vec![asked]));
        let told = Told {
            clients: clients.into(),
            losses: Vec::new(),
        };
        judge(&told, &BTreeMap::new())
    }

    #[test]
    fn a_circle_of_two_that_both_waited_was_one() {
        let granted = End::Granted { has_waited: true };
        for end in [None, Some((200, granted)), Some((50, End::GaveUp))] {
            let verdict = told(asked("x", "y", 20, end));
            assert_eq!((verdict.wrong, verdict.deadlocks), (vec![], 1));
        }
    }

    #[test]
    fn what_was_never_so_or_not_at_one_time_or_let_one_go_on_was_none() {
        let granted = |at| Some((at, End::Granted { has_waited: true }));
        for (b, why) in [
            (asked("z", "y", 20, None), "never"),
            (asked("x", "z", 20, None), "never"),
            (asked("x", "y", 2, granted(5)), "no more"),
            (asked("x", "y", 20, granted(50)), "without any giving up"),
        ] {
            let wrong = told(b).wrong;
            assert!(wrong.len() == 1 && wrong[0].contains(why), "{wrong:?}");
        }
    }
}
