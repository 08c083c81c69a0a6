//! Graphs by hand, and random ones against a model in which every owner that can go on does so.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const LATER: u64 = 1_000_000;

fn hold(digest: &str, share: LockMode) -> GraphHold {
    GraphHold {
        digest: digest.into(),
        client: "client".into(),
        share,
    }
}

fn waiter(digest: &str, share: LockMode, ticket: u64) -> GraphWaiter {
    GraphWaiter {
        digest: digest.into(),
        share,
        priority: 0,
        ticket,
        is_alive: true,
    }
}

fn lock(holds: Vec<GraphHold>, queue: Vec<GraphWaiter>, permits: u64) -> Lock {
    Lock {
        holds,
        queue,
        permits,
        now_us: LATER,
    }
}

/// Owner `o` holds by the tokens of `held` and waits for `lock` by the token `waiter`.
fn waits(owner: &str, held: &[&str], lock: &str, waiter: &str) -> Vec<(Digest, GraphWait)> {
    let wait = GraphWait {
        owner: owner.into(),
        label: owner.to_uppercase(),
        lock: lock.into(),
        waiter: waiter.into(),
    };
    held.iter()
        .map(|digest| ((*digest).to_owned(), wait.clone()))
        .collect()
}

fn graph(locks: Vec<(&str, Lock)>, waits: Vec<Vec<(Digest, GraphWait)>>) -> Graph {
    Graph {
        locks: locks
            .into_iter()
            .map(|(key, lock)| (key.to_owned(), lock))
            .collect(),
        waits: waits.into_iter().flatten().collect(),
    }
}

/// Two owners that hold `x` and `y` alone and wait for the other one.
fn crossed() -> Graph {
    use LockMode::Exclusive;
    graph(
        vec![
            (
                "x",
                lock(
                    vec![hold("ax", Exclusive)],
                    vec![waiter("bx", Exclusive, 2)],
                    0,
                ),
            ),
            (
                "y",
                lock(
                    vec![hold("by", Exclusive)],
                    vec![waiter("ay", Exclusive, 1)],
                    0,
                ),
            ),
        ],
        vec![
            waits("a", &["ax"], "y", "ay"),
            waits("b", &["by"], "x", "bx"),
        ],
    )
}

#[test]
fn the_victim_has_the_lowest_priority_and_of_those_came_last() {
    let mut graph = crossed();
    let circle = graph.circle_of("a").unwrap();
    assert_eq!(
        (circle.owners.as_slice(), circle.victim.as_str()),
        (&["a".into(), "b".into()][..], "b")
    );
    assert_eq!(graph.circle_of("b").unwrap().victim, "b");
    graph.locks.get_mut("x").unwrap().queue[0].priority = 1;
    assert_eq!(graph.circle_of("a").unwrap().victim, "a");
}

#[test]
fn a_waiter_that_hears_nothing_and_a_hold_without_a_wait_let_go() {
    let mut dead = crossed();
    dead.locks.get_mut("x").unwrap().queue[0].is_alive = false;
    assert_eq!(dead.circle_of("a"), None);
    let mut free = crossed();
    free.waits.remove("by");
    assert_eq!(free.circle_of("a"), None);
    let mut gone = crossed();
    gone.locks.get_mut("x").unwrap().queue.clear();
    assert_eq!(
        gone.circle_of("a"),
        None,
        "what it published means nothing without its queue entry"
    );
}

#[test]
fn only_what_is_the_same_in_both_readings_counts() {
    let first = crossed();
    assert!(first.common(&first).circle_of("a").is_some());
    let mut second = crossed();
    second.locks.get_mut("x").unwrap().holds[0].digest = "new".into();
    second
        .waits
        .insert("new".into(), second.waits["ax"].clone());
    assert_eq!(first.common(&second).circle_of("a"), None);
    let mut second = crossed();
    second.waits.get_mut("by").unwrap().waiter = "other".into();
    assert_eq!(first.common(&second).circle_of("a"), None);
}

/// `c` waits for `x` too, and no owner waits for `c`.
#[test]
fn an_owner_behind_a_circle_is_not_in_it() {
    use LockMode::Exclusive;
    let mut graph = crossed();
    graph
        .locks
        .get_mut("x")
        .unwrap()
        .queue
        .push(waiter("cx", Exclusive, 3));
    graph.waits.extend(waits("c", &["cz"], "x", "cx"));
    assert_eq!(graph.circle_of("c"), None);
    assert_eq!(graph.circle_of("a").unwrap().owners.len(), 2);
}

/// Two of three permits come back as soon as the second holder goes on.
#[test]
fn permits_are_counted_and_readers_are_not_in_each_others_way() {
    use LockMode::{Exclusive, Permits, Shared};
    let pool = |permits, wanted| {
        let holds = vec![hold("ap", Permits(1)), hold("free", Permits(2))];
        let pool = lock(holds, vec![waiter("bp", Permits(wanted), 2)], permits);
        let y = lock(
            vec![hold("by", Exclusive)],
            vec![waiter("ay", Exclusive, 1)],
            0,
        );
        let all = vec![
            waits("a", &["ap"], "y", "ay"),
            waits("b", &["by"], "pool", "bp"),
        ];
        graph(vec![("pool", pool), ("y", y)], all)
    };
    assert_eq!(pool(3, 2).circle_of("a"), None);
    assert!(pool(3, 3).circle_of("a").is_some());
    assert_eq!(
        pool(0, 3).circle_of("a"),
        None,
        "how many there are is not known"
    );
    let readers = |asks| {
        let x = lock(vec![hold("ax", Shared)], vec![waiter("bx", asks, 2)], 0);
        let y = lock(
            vec![hold("by", Exclusive)],
            vec![waiter("ay", Exclusive, 1)],
            0,
        );
        let all = vec![
            waits("a", &["ax"], "y", "ay"),
            waits("b", &["by"], "x", "bx"),
        ];
        graph(vec![("x", x), ("y", y)], all)
    };
    assert_eq!(readers(Shared).circle_of("a"), None);
    assert!(readers(Exclusive).circle_of("a").is_some());
}

/// The reader `b` would fit beside the reader `a`, and waits behind a writer that does not.
#[test]
fn a_reader_behind_a_writer_can_be_in_a_circle_and_an_owner_alone_too() {
    use LockMode::{Exclusive, Permits, Shared};
    let queue = vec![waiter("w", Exclusive, 1), waiter("bx", Shared, 2)];
    let x = lock(vec![hold("ax", Shared)], queue, 0);
    let y = lock(
        vec![hold("by", Exclusive)],
        vec![waiter("ay", Exclusive, 1)],
        0,
    );
    let all = vec![
        waits("a", &["ax"], "y", "ay"),
        waits("b", &["by"], "x", "bx"),
    ];
    assert!(
        graph(vec![("x", x), ("y", y)], all)
            .circle_of("b")
            .is_some()
    );
    let pool = lock(
        vec![hold("ap", Permits(2))],
        vec![waiter("aq", Permits(2), 1)],
        3,
    );
    let circle = graph(
        vec![("pool", pool)],
        vec![waits("a", &["ap"], "pool", "aq")],
    );
    assert_eq!(circle.circle_of("a").unwrap().owners, ["a"]);
}

const OWNERS: usize = 5;
const LOCKS: usize = 4;
const PERMITS: u64 = 3;

/// A world of owners, changed step by step; a reading takes several steps.
#[derive(Debug, Clone, Default)]
struct World {
    locks: [Lock; LOCKS],
    /// By owner: the digests of its tokens, and the lock and the token that it waits for.
    held: [Vec<Digest>; OWNERS],
    wait: [Option<(usize, Digest)>; OWNERS],
    published: BTreeMap<Digest, GraphWait>,
    tokens: u64,
}

impl World {
    /// One step of one owner, by three random numbers.
    fn step(&mut self, (owner, what, which): (usize, u8, usize)) {
        if let Some((lock, token)) = self.wait[owner].clone() {
            match what {
                0 => self.leave(owner, lock, &token), // a timeout
                1 => {
                    let mut queue = self.locks[lock].queue.iter_mut();
                    let mine = queue.find(|waiter| waiter.digest == token);
                    mine.into_iter().for_each(|waiter| waiter.is_alive = false); // it crashed
                }
                _ => {}
            }
        } else if what % 3 == 0 && !self.held[owner].is_empty() {
            let at = which % self.held[owner].len();
            let token = self.held[owner].remove(at);
            self.published.remove(&token);
            self.locks
                .iter_mut()
                .for_each(|lock| lock.holds.retain(|hold| hold.digest != token));
        } else {
            self.ask(owner, which % LOCKS, what);
        }
        self.serve();
    }

    fn ask(&mut self, owner: usize, lock: usize, what: u8) {
        self.tokens += 1;
        let token = format!("t{}", self.tokens);
        let share = match (lock, what % 2) {
            (0, _) => LockMode::Permits(1 + u32::from(what % 3)),
            (_, 0) => LockMode::Shared,
            _ => LockMode::Exclusive,
        };
        self.locks[lock].permits = if lock == 0 { PERMITS } else { 0 };
        self.locks[lock]
            .queue
            .push(waiter(&token, share, self.tokens));
        for (digest, wait) in waits(&format!("o{owner}"), &[], "", "") {
            self.published.insert(digest, wait);
        }
        let held: Vec<&str> = self.held[owner].iter().map(String::as_str).collect();
        let said = waits(&format!("o{owner}"), &held, &lock.to_string(), &token);
        self.published.extend(said);
        self.wait[owner] = Some((lock, token));
    }

    fn leave(&mut self, owner: usize, lock: usize, token: &str) {
        self.wait[owner] = None; // what it published stays, as a late withdrawal does
        self.locks[lock]
            .queue
            .retain(|waiter| waiter.digest != token);
    }

    /// Grants as the store does: in order, and a waiter that is dead keeps no other one waiting.
    fn serve(&mut self) {
        for at in 0..LOCKS {
            let queue = self.locks[at].queue.clone();
            for next in queue {
                if !next.is_alive {
                    continue;
                }
                let shares: Vec<LockMode> =
                    self.locks[at].holds.iter().map(|hold| hold.share).collect();
                let used = shares.iter().map(|share| {
                    if let LockMode::Permits(count) = share {
                        u64::from(*count)
                    } else {
                        0
                    }
                });
                let fits = match next.share {
                    LockMode::Permits(count) => used.sum::<u64>() + u64::from(count) <= PERMITS,
                    LockMode::Shared => !shares.contains(&LockMode::Exclusive),
                    _ => shares.is_empty(),
                };
                if !fits {
                    break;
                }
                let is_theirs = |wait: &Option<(usize, Digest)>| {
                    wait.as_ref()
                        .is_some_and(|(_, token)| *token == next.digest)
                };
                let owner = self.wait.iter().position(is_theirs).unwrap();
                self.wait[owner] = None;
                self.held[owner].push(next.digest.clone());
                self.locks[at].holds.push(hold(&next.digest, next.share));
                self.locks[at]
                    .queue
                    .retain(|waiter| waiter.digest != next.digest);
            }
        }
    }

    /// Whether this owner is never granted although all that do not wait let go of everything.
    fn is_stuck(&self, owner: usize) -> bool {
        let mut world = self.clone();
        for _ in 0..=OWNERS * LOCKS {
            for other in 0..OWNERS {
                let crashed = world.wait[other].as_ref().is_some_and(|(lock, token)| {
                    let mut queue = world.locks[*lock].queue.iter();
                    queue.any(|waiter| waiter.digest == *token && !waiter.is_alive)
                });
                if crashed || world.wait[other].is_none() {
                    let held = std::mem::take(&mut world.held[other]);
                    for lock in &mut world.locks {
                        lock.holds.retain(|hold| !held.contains(&hold.digest));
                    }
                }
            }
            world.serve();
        }
        world.wait[owner].as_ref().is_some_and(|(lock, token)| {
            let mut queue = world.locks[*lock].queue.iter();
            queue.any(|waiter| waiter.digest == *token && waiter.is_alive)
        })
    }

    /// A reading as the detector makes it, with steps of others between any two requests.
    fn read(&mut self, me: usize, others: &mut impl Iterator<Item = (usize, u8, usize)>) -> Graph {
        let mut graph = Graph::default();
        let mut open = vec![self.wait[me].as_ref().unwrap().0.to_string()];
        let mut between = |world: &mut World| {
            for step in others.next().into_iter().filter(|(owner, ..)| *owner != me) {
                world.step(step);
            }
        };
        while let Some(key) = open.pop() {
            if graph.locks.contains_key(&key) {
                continue;
            }
            let seen = self.locks[key.parse::<usize>().unwrap()].clone();
            between(self);
            for hold in &seen.holds {
                if let Some(wait) = self.published.get(&hold.digest).cloned() {
                    open.push(wait.lock.clone());
                    graph.waits.insert(hold.digest.clone(), wait);
                }
            }
            between(self);
            graph.locks.insert(key, seen);
        }
        graph
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// The truth is that of the moment between the two readings, and an atomic reading finds every deadlock.
    #[test]
    fn what_is_reported_was_a_deadlock_at_one_moment_and_none_is_missed(
        before in prop::collection::vec((0..OWNERS, 0..8_u8, 0..12_usize), 8..40),
        during in prop::collection::vec((0..OWNERS, 0..8_u8, 0..12_usize), 0..24),
    ) {
        let mut world = World::default();
        before.into_iter().for_each(|step| world.step(step));
        let mut others = during.into_iter();
        for me in 0..OWNERS {
            if world.wait[me].is_none() || world.held[me].is_empty() {
                continue;
            }
            let name = format!("o{me}");
            let atomic = world.clone().read(me, &mut std::iter::empty());
            let circle = atomic.circle_of(&name);
            prop_assert!(circle.is_none() || world.is_stuck(me), "{world:?}");
            let any = (0..OWNERS).any(|other| {
                let other = format!("o{other}");
                atomic.waits.values().any(|wait| wait.owner == other) && atomic.circle_of(&other).is_some()
            });
            prop_assert!(any || !world.is_stuck(me) , "{world:?}");
            let first = world.read(me, &mut others);
            if world.wait[me].is_none() {
                continue;
            }
            let truth = world.is_stuck(me);
            let second = world.read(me, &mut others);
            let found = first.common(&second).circle_of(&name);
            prop_assert!(found.is_none() || truth, "{found:?} of {world:?}");
        }
    }
}
