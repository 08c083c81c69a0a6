//! Writers, readers and permits of one name under random operations, against a plain model of what each is granted.

use std::collections::BTreeSet;

use fastrand::Rng;
use leaselock::inspect::Holding;
use leaselock::{Client, Fence};
use tokio::task::JoinHandle;

use self::held::{Held, acquire, attempt, downgrade};
use crate::engine::Engine;
use crate::support::{BEFORE_A_POLL, millis};

mod held;

const NAME: &str = "job";
const ACTORS: usize = 6;
const STEPS: usize = 200;
/// How many permits there are before an operator has said so.
const UNSET: u32 = 9;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Write,
    Read,
    /// Reads, and may become a writer.
    Upgradable,
    Permits(u32),
    /// Waits to become a writer. It is not held in this way.
    Upgrade,
}

/// Before every priority.
const FIRST: i32 = i32::MAX;

impl Kind {
    fn reads(self) -> bool {
        matches!(self, Kind::Read | Kind::Upgradable)
    }
}

#[derive(Debug, Clone, Copy)]
enum Op {
    /// A request that waits, with this priority.
    Acquire(usize, Kind, i32),
    Try(usize, Kind),
    Release(usize),
    /// The lease is dropped.
    Drop(usize),
    /// The future of a waiting request is dropped; with that of an upgrade, its read.
    Cancel(usize),
    /// An upgradable reader waits to become a writer.
    Upgrade(usize),
    TryUpgrade(usize),
    /// It gives up the wait at once when others read, and reads on.
    UpgradeBriefly(usize),
    /// A writer or an upgradable reader goes on as a reader; as an upgradable one, when `true`.
    Downgrade(usize, bool),
    Resize(u32),
    /// On a server: the numbers beside the holds are lost. Not after a resize, which they keep.
    LoseUsage,
}

/// What is promised, in plain Rust.
#[derive(Debug)]
struct Model {
    held: Vec<(usize, Kind)>,
    queue: Vec<(usize, Kind, i32)>,
    permits: u32,
}

impl Model {
    fn used(&self) -> u32 {
        let weights = self.held.iter().map(|(_, kind)| match kind {
            Kind::Permits(count) => *count,
            Kind::Write | Kind::Read | Kind::Upgradable | Kind::Upgrade => 0,
        });
        weights.sum()
    }

    fn fits(&self, actor: usize, kind: Kind) -> bool {
        let only = |allowed: fn(&Kind) -> bool| self.held.iter().all(|(_, held)| allowed(held));
        match kind {
            Kind::Write => self.held.is_empty(),
            Kind::Read => only(|held| held.reads()),
            Kind::Upgradable => only(|held| *held == Kind::Read),
            Kind::Upgrade => self.held == [(actor, Kind::Upgradable)],
            Kind::Permits(count) => {
                only(|held| matches!(held, Kind::Permits(_))) && self.used() + count <= self.permits
            }
        }
    }

    /// Grants from the head on as long as each fits: the head that does not fit keeps all others waiting.
    fn serve(&mut self) {
        while let Some((actor, kind, _)) = self.queue.first().copied() {
            if !self.fits(actor, kind) {
                break;
            }
            self.queue.remove(0);
            self.grant(actor, kind);
        }
    }

    fn grant(&mut self, actor: usize, kind: Kind) {
        if kind == Kind::Upgrade {
            self.held = vec![(actor, Kind::Write)];
        } else {
            self.held.push((actor, kind));
        }
    }

    fn enqueue(&mut self, actor: usize, kind: Kind, priority: i32) {
        let behind = |(_, _, other): &(usize, Kind, i32)| *other < priority;
        let at = self.queue.iter().position(behind);
        let at = at.unwrap_or(self.queue.len());
        self.queue.insert(at, (actor, kind, priority));
    }

    fn upgrading(&self) -> impl Iterator<Item = usize> {
        let waiting = self.queue.iter();
        let upgrades = waiting.filter(|(_, kind, _)| *kind == Kind::Upgrade);
        upgrades.map(|(actor, ..)| *actor)
    }

    fn kind_of(&self, actor: usize) -> Option<Kind> {
        let held = self.held.iter().find(|(holder, _)| *holder == actor)?;
        Some(held.1).filter(|_| !self.waits(actor))
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Acquire(actor, kind, priority) => self.enqueue(actor, kind, priority),
            Op::Upgrade(actor) => self.enqueue(actor, Kind::Upgrade, FIRST),
            Op::Try(actor, kind) => {
                if self.queue.is_empty() && self.fits(actor, kind) {
                    self.held.push((actor, kind));
                }
            }
            // Waiters do not matter: they wait for this reader.
            Op::TryUpgrade(actor) | Op::UpgradeBriefly(actor) => {
                if self.fits(actor, Kind::Upgrade) {
                    self.grant(actor, Kind::Upgrade);
                }
            }
            Op::Downgrade(actor, to_upgradable) => {
                let held = self.held.iter_mut().find(|(holder, _)| *holder == actor);
                let kind = [Kind::Read, Kind::Upgradable][usize::from(to_upgradable)];
                held.unwrap().1 = kind;
            }
            Op::Release(actor) | Op::Drop(actor) => {
                self.held.retain(|(holder, _)| *holder != actor)
            }
            Op::Cancel(actor) => {
                self.queue.retain(|(waiter, ..)| *waiter != actor);
                self.held.retain(|(holder, _)| *holder != actor);
            }
            Op::Resize(permits) => self.permits = permits,
            Op::LoseUsage => {}
        }
        self.serve();
    }

    fn is_idle(&self, actor: usize) -> bool {
        !self.holds(actor) && !self.waits(actor)
    }

    fn holds(&self, actor: usize) -> bool {
        self.held.iter().any(|(holder, _)| *holder == actor)
    }

    fn waits(&self, actor: usize) -> bool {
        self.queue.iter().any(|(waiter, ..)| *waiter == actor)
    }
}

impl Kind {
    fn random(rng: &mut Rng) -> Kind {
        match rng.u32(..9) {
            0 => Kind::Write,
            1 | 2 => Kind::Read,
            3..=5 => Kind::Upgradable,
            count => Kind::Permits(count - 5),
        }
    }
}

impl Op {
    /// An operation that is possible now.
    fn random(rng: &mut Rng, model: &Model, step: usize) -> Op {
        loop {
            let actor = rng.usize(..ACTORS);
            let op = match rng.usize(..20) {
                0..=4 => Op::Acquire(actor, Kind::random(rng), [0, 0, 0, 2][rng.usize(..4)]),
                5 => Op::Try(actor, Kind::random(rng)),
                6..=8 => Op::Release(actor),
                9 => Op::Drop(actor),
                10 => Op::Cancel(actor),
                11 | 12 => Op::LoseUsage,
                13..=15 => Op::Upgrade(actor),
                16 => Op::TryUpgrade(actor),
                17 => Op::UpgradeBriefly(actor),
                18 => Op::Downgrade(actor, rng.bool()),
                _ => Op::Resize(rng.u32(3..6)),
            };
            let is_possible = match op {
                Op::Acquire(actor, ..) | Op::Try(actor, _) => model.is_idle(actor),
                Op::Release(actor) | Op::Drop(actor) => model.kind_of(actor).is_some(),
                Op::Upgrade(actor) | Op::TryUpgrade(actor) | Op::UpgradeBriefly(actor) => {
                    model.kind_of(actor) == Some(Kind::Upgradable)
                }
                Op::Downgrade(actor, to_upgradable) => match model.kind_of(actor) {
                    Some(Kind::Write) => true,
                    Some(Kind::Upgradable) => !to_upgradable,
                    _ => false,
                },
                Op::Cancel(actor) => model.waits(actor),
                Op::Resize(_) => step > STEPS / 2,
                Op::LoseUsage => model.permits == UNSET,
            };
            if is_possible {
                return op;
            }
        }
    }
}

/// What a store does.
struct Subject {
    clients: Vec<Client>,
    asking: Vec<Option<JoinHandle<Held>>>,
    /// The actors that read while they wait.
    upgrading: BTreeSet<usize>,
    held: Vec<Option<Held>>,
    /// The largest fencing token so far, and that of the readers since a writer or permits were granted.
    highest: Option<Fence>,
    shared: Option<Fence>,
}

impl Subject {
    async fn new(engine: &Engine) -> Self {
        let mut clients = Vec::new();
        for _ in 0..ACTORS {
            clients.push(engine.client_of_one_store().await);
        }
        Subject {
            clients,
            asking: (0..ACTORS).map(|_| None).collect(),
            held: (0..ACTORS).map(|_| None).collect(),
            upgrading: BTreeSet::new(),
            highest: None,
            shared: None,
        }
    }

    async fn apply(&mut self, engine: &Engine, op: Op) {
        match op {
            Op::Acquire(actor, kind, priority) => {
                let client = self.clients[actor].clone();
                self.asking[actor] = Some(tokio::spawn(acquire(client, kind, priority)));
            }
            Op::Try(actor, kind) => {
                self.held[actor] = attempt(&self.clients[actor], kind).await;
            }
            Op::Upgrade(actor) => {
                let up = self.held[actor].take().unwrap().upgradable();
                let upgrade = async move { Held::Writer(up.upgrade().await.unwrap()) };
                self.asking[actor] = Some(tokio::spawn(upgrade));
                self.upgrading.insert(actor);
            }
            Op::TryUpgrade(actor) | Op::UpgradeBriefly(actor) => {
                let up = self.held[actor].take().unwrap().upgradable();
                let upgraded = match op {
                    Op::TryUpgrade(_) => up.try_upgrade().await,
                    _ => up.upgrade_within(millis(20)).await,
                };
                self.held[actor] = Some(match upgraded {
                    Ok(lease) => Held::Writer(lease),
                    Err(busy) => Held::Upgradable(busy.lease),
                });
            }
            Op::Downgrade(actor, to_upgradable) => {
                let held = self.held[actor].take().unwrap();
                let held = downgrade(&self.clients[actor], held, to_upgradable).await;
                self.held[actor] = Some(held);
            }
            Op::Release(actor) => self.held[actor].take().unwrap().release().await,
            Op::Drop(actor) => drop(self.held[actor].take()),
            Op::Cancel(actor) => {
                self.asking[actor].take().unwrap().abort();
                self.upgrading.remove(&actor);
            }
            Op::Resize(permits) => {
                let pool = self.clients[0].semaphore(NAME, UNSET);
                pool.set_permits(permits).await.unwrap();
            }
            Op::LoseUsage => {
                let usage = format!("{{{}{NAME}}}:ll:usage", engine.prefix);
                if let Some(server) = engine.server() {
                    server.cli(&["DEL", &usage]);
                }
            }
        }
    }

    async fn take_what_was_granted(&mut self) {
        for actor in 0..ACTORS {
            if self.asking[actor]
                .as_ref()
                .is_some_and(JoinHandle::is_finished)
            {
                let granted = self.asking[actor].take().unwrap().await.unwrap();
                self.held[actor] = Some(granted);
                self.upgrading.remove(&actor);
            }
        }
    }

    /// The actors that hold, by their own word and by the store's, those that wait, in order, and those that do both.
    async fn state(&mut self) -> ([BTreeSet<usize>; 2], Vec<usize>, BTreeSet<usize>) {
        self.take_what_was_granted().await;
        let holds = |actor: &usize| self.held[*actor].is_some() || self.upgrading.contains(actor);
        let held = (0..ACTORS).filter(holds);
        let of = |client: &str| self.clients.iter().position(|one| one.id() == client);
        let seen = self.clients[0].inspect(NAME).await.unwrap();
        let queue = seen
            .queue
            .iter()
            .map(|waiter| of(&waiter.process.client).unwrap());
        let there: BTreeSet<_> = match &seen.state {
            Holding::Free => BTreeSet::new(),
            Holding::Held { holders, .. } => holders
                .iter()
                .map(|holder| of(&holder.process.as_ref().unwrap().client).unwrap())
                .collect(),
            _ => panic!("{:?}", seen.state),
        };
        // What was dropped is given back a moment later, and who reads meanwhile joins it.
        (
            [held.collect(), there],
            queue.collect(),
            self.upgrading.clone(),
        )
    }

    /// Readers that join others have their number. Every other grant has a larger one than all before it.
    fn check_fences(&mut self, new: &[(usize, Kind)], joins: bool) {
        let before = self.highest;
        self.shared = self.shared.filter(|_| joins);
        let mut numbers = BTreeSet::new();
        for (actor, kind) in new {
            let fence = self.held[*actor].as_ref().unwrap().fence();
            if kind.reads() && self.shared.is_some() {
                assert_eq!(fence, self.shared);
                continue;
            }
            assert!(
                fence > before && numbers.insert(fence),
                "{fence:?} {before:?}"
            );
            self.shared = fence.filter(|_| kind.reads());
            self.highest = self.highest.max(fence);
        }
    }
}

async fn follows_the_model(engine: &Engine, seed: u64) {
    let mut subject = Subject::new(engine).await;
    let (mut rng, mut done) = (Rng::with_seed(seed), Vec::new());
    let mut model = Model {
        held: Vec::new(),
        queue: Vec::new(),
        permits: UNSET,
    };
    for step in 0..STEPS {
        let op = Op::random(&mut rng, &model, step);
        done.push(op);
        let before = model.held.clone();
        model.apply(op);
        subject.apply(engine, op).await;
        let held: BTreeSet<_> = model.held.iter().map(|(actor, _)| *actor).collect();
        let expected = (
            [held.clone(), held],
            model.queue.iter().map(|(actor, ..)| *actor).collect(),
            model.upgrading().collect(),
        );
        // Not later: a wake-up that is lost would show after a poll only.
        let end = testkit::clock::now() + BEFORE_A_POLL;
        loop {
            let state = subject.state().await;
            if state == expected {
                break;
            }
            assert!(
                testkit::clock::now() < end,
                "seed {seed}: {state:?}, not {expected:?}, after {:?}: {model:?}",
                &done[done.len().saturating_sub(12)..]
            );
            tokio::time::sleep(std::time::Duration::from_millis(1)).await; // between two checks of the condition
        }
        let is_new = |held: &&(usize, Kind)| !before.contains(held);
        let new: Vec<_> = model.held.iter().filter(is_new).copied().collect();
        let reads = |one| model.held.iter().any(|x| x.0 == one && x.1.reads());
        let joins = before.iter().any(|x| x.1.reads() && reads(x.0)); // one who reads on
        subject.check_fences(&new, joins);
    }
}

macro_rules! on {
    ($($engine:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $engine() {
                for seed in 1..=3 {
                    follows_the_model(&Engine::$engine(), seed).await;
                }
            }
        )*
    };
}

mod writers_readers_and_permits_of_one_name_are_granted_as_a_model_says {
    use super::*;

    on! { mem file redis redis_cluster }
}
