//! Random sequences of operations: a small model, the embedded stores and a real server give the same replies.
//!
//! Expiry, a foreign lock and the loss of the fence key are steps of a sequence. Fences are not predicted but checked:
//! a new grant has a larger one than all before, a replay has the same.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::lab::*;
use crate::base::fence::Fence;
use crate::base::token::{Token, client_of};
use crate::client::views::*;
use crate::engine::calls::*;
use crate::engine::detach::*;
use crate::engine::grant::*;
use crate::engine::resource::Resource;
use crate::mutex::MUTEX;

const ACTORS: usize = 6;
const CASES: u32 = 2_000;

/// Each actor has its own channel, priority and choice of fencing; the third actor never has a receiver.
fn channel(actor: usize) -> &'static str {
    ["here", "there", "away"][actor % 3]
}

fn is_there(actor: usize) -> bool {
    channel(actor) != "away"
}

fn priority(actor: usize) -> i32 {
    [0, 0, 3, 0, -2, 3][actor % ACTORS]
}

fn fenced(actor: usize) -> bool {
    actor % 4 != 3
}

#[derive(Debug, Clone)]
enum Op {
    Acquire {
        actor: usize,
        waits: bool,
    },
    Extend(usize),
    Release(usize),
    Cancel(usize),
    Detach(usize),
    Break {
        foreign: bool,
    },
    /// The lease expires.
    Expire,
    /// Another library takes the lock, whichever client had it.
    Foreign,
    LoseFence,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let actor = 0..ACTORS;
    // The successors of detached leases release and extend too.
    let anybody = 0..2 * ACTORS;
    let op = prop_oneof![
        6 => (actor.clone(), any::<bool>()).prop_map(|(actor, waits)| Op::Acquire { actor, waits }),
        1 => anybody.clone().prop_map(Op::Extend),
        4 => anybody.clone().prop_map(Op::Release),
        2 => anybody.prop_map(Op::Cancel),
        1 => actor.prop_map(Op::Detach),
        1 => any::<bool>().prop_map(|foreign| Op::Break { foreign }),
        2 => Just(Op::Expire),
        1 => Just(Op::Foreign),
        1 => Just(Op::LoseFence),
    ];
    prop::collection::vec(op, 1..40)
}

/// Replies without times and fences, so that they can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    Granted {
        replay: bool,
    },
    Waiting {
        position: u64,
        holder: Option<usize>,
    },
    Busy {
        holder: Option<usize>,
    },
    Said(&'static str),
    Broken(Option<usize>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Free,
    Actor(usize),
    Foreign,
}

/// The scripts' contract in plain Rust.
#[derive(Debug)]
struct Model {
    holder: Holder,
    queue: Vec<usize>,
    /// Waiters that a visit could not reach, until they poll.
    aside: Vec<usize>,
    /// Since which step each actor waits.
    since: [usize; ACTORS],
    step: usize,
}

impl Model {
    fn position_of(&self, actor: usize) -> Option<usize> {
        self.queue.iter().position(|waiter| *waiter == actor)
    }

    fn leave(&mut self, actor: usize) -> bool {
        let before = self.queue.len() + self.aside.len();
        self.queue.retain(|waiter| *waiter != actor);
        self.aside.retain(|waiter| *waiter != actor);
        self.queue.len() + self.aside.len() < before
    }

    fn enqueue(&mut self, actor: usize) {
        if self.position_of(actor).is_none() {
            if !self.leave(actor) {
                self.since[actor] = self.step;
            }
            let order = |waiter: &usize| (-priority(*waiter), self.since[*waiter]);
            let at = self
                .queue
                .partition_point(|waiter| order(waiter) < order(&actor));
            self.queue.insert(at, actor);
        }
    }

    /// Returns the first waiter that is alive, as `asking` is, and sets those before it aside.
    fn visit(&mut self, asking: Option<usize>) -> Option<usize> {
        let is_alive = |waiter: &usize| Some(*waiter) == asking || is_there(*waiter);
        let first = self.queue.iter().position(is_alive);
        let lost = self.queue.drain(..first.unwrap_or(self.queue.len()));
        self.aside.extend(lost);
        self.queue.first().copied()
    }

    fn holder_actor(&self) -> Option<usize> {
        match self.holder {
            Holder::Actor(actor) => Some(actor),
            Holder::Free | Holder::Foreign => None,
        }
    }

    fn not_granted(&self, actor: usize, waits: bool) -> Answer {
        let holder = self.holder_actor();
        match self.position_of(actor).filter(|_| waits) {
            Some(index) => Answer::Waiting {
                position: index as u64 + 1,
                holder,
            },
            None => Answer::Busy { holder },
        }
    }

    fn acquire(&mut self, actor: usize, waits: bool) -> Answer {
        if self.holder == Holder::Actor(actor) {
            return Answer::Granted { replay: true };
        }
        let is_queue = !self.queue.is_empty() || !self.aside.is_empty();
        if waits && (self.holder != Holder::Free || is_queue) {
            self.enqueue(actor);
        }
        if self.holder == Holder::Free {
            let next = self.visit(Some(actor)).unwrap_or(actor);
            self.leave(next);
            self.holder = Holder::Actor(next);
            if next == actor {
                return Answer::Granted { replay: false };
            }
        }
        self.not_granted(actor, waits)
    }

    fn pass_on(&mut self) {
        let next = self.visit(None);
        self.holder = next.map_or(Holder::Free, Holder::Actor);
        next.map(|next| self.leave(next));
    }

    /// Returns `yes` if the actor holds the lock, otherwise the refusal.
    fn as_holder(&self, actor: usize, yes: &'static str) -> &'static str {
        match self.holder {
            Holder::Actor(holder) if holder == actor => yes,
            Holder::Free => "expired",
            Holder::Actor(_) | Holder::Foreign => "taken",
        }
    }

    fn apply(&mut self, op: &Op) -> Answer {
        match *op {
            Op::Acquire { actor, waits } => self.acquire(actor, waits),
            Op::Extend(actor) => Answer::Said(self.as_holder(actor, "yes")),
            Op::Release(actor) => {
                let said = self.as_holder(actor, "yes");
                if said == "yes" {
                    self.pass_on();
                }
                Answer::Said(said)
            }
            Op::Cancel(actor) => {
                let was_first = self.queue.first() == Some(&actor);
                let left = self.leave(actor);
                if self.holder == Holder::Actor(actor) {
                    self.pass_on();
                    return Answer::Said("released");
                }
                if left && self.holder == Holder::Free {
                    self.pass_on();
                } else if left && !was_first {
                    self.visit(None);
                }
                Answer::Said(if left { "left" } else { "absent" })
            }
            Op::Detach(actor) => {
                let successor = Holder::Actor(actor + ACTORS);
                let said = if self.holder == successor {
                    "yes"
                } else {
                    self.as_holder(actor, "yes")
                };
                if said == "yes" {
                    self.holder = successor;
                }
                Answer::Said(said)
            }
            Op::Break { foreign } => match self.holder {
                Holder::Free => Answer::Said("free"),
                Holder::Foreign if !foreign => Answer::Said("foreign"),
                Holder::Foreign | Holder::Actor(_) => {
                    let broken = Answer::Broken(self.holder_actor());
                    self.pass_on();
                    broken
                }
            },
            Op::Expire => {
                self.holder = Holder::Free;
                Answer::Said("done")
            }
            Op::Foreign => {
                self.holder = Holder::Foreign;
                Answer::Said("done")
            }
            Op::LoseFence => Answer::Said("done"),
        }
    }
}

/// Runs the same sequence on a store.
struct Subject<'a> {
    lab: &'a Lab,
    keys: Resource,
    tokens: Vec<Token>,
    highest: Option<Fence>,
    /// The fence of the present grant, once a reply showed it, and how many were reserved with it.
    present: Option<Fence>,
    range: u64,
}

impl Subject<'_> {
    fn actor_of(&self, client: &str) -> usize {
        let is = |token: &Token| client_of(token.secret().as_bytes()) == Some(client);
        self.tokens.iter().position(is).expect("a known client")
    }

    fn granted(&mut self, fence: Option<Fence>, actor: usize, replay: bool) -> Answer {
        assert_eq!(fence.is_some(), fenced(actor));
        match (replay, self.present) {
            (true, Some(present)) => assert_eq!(fence, Some(present), "a replay has another fence"),
            _ if fence.is_some() => assert!(
                fence > self.highest,
                "{fence:?} is not above {:?}",
                self.highest
            ),
            _ => {}
        }
        self.highest = self.highest.max(fence);
        self.present = fence;
        Answer::Granted { replay }
    }

    /// Uses half of the reserved fences, as tasks of the holder's process would.
    fn use_some(&mut self) -> Option<Fence> {
        let used = self
            .present
            .map(|first| Fence::new(first.get() + self.range / 2));
        self.highest = self.highest.max(used);
        used
    }

    async fn acquire(&mut self, actor: usize, waits: bool, replay: bool) -> Answer {
        let how = How {
            waits,
            channel: channel(actor),
            priority: priority(actor),
            fencing: fenced(actor),
            range: [1, 64, 8][actor % 3],
            ..TRY
        };
        let holder = |subject: &Self, seen: &Seen| {
            seen.holder
                .as_deref()
                .map(|client| subject.actor_of(client))
        };
        match self
            .lab
            .acquire(&self.keys, &self.tokens[actor], &how)
            .await
        {
            Acquired::Granted { fence, range, .. } => {
                self.range = range;
                self.granted(fence, actor, replay)
            }
            Acquired::Waiting { seen, position } => Answer::Waiting {
                position,
                holder: holder(self, &seen),
            },
            Acquired::Never { .. } | Acquired::Gone { .. } | Acquired::Disagrees { .. } => {
                panic!("neither permits nor a gate were asked for")
            }
            Acquired::Busy { seen } => Answer::Busy {
                holder: holder(self, &seen),
            },
        }
    }

    async fn apply(&mut self, op: &Op, replay: bool) -> Answer {
        let (lab, keys) = (self.lab, self.keys.clone());
        match *op {
            Op::Acquire { actor, waits } => self.acquire(actor, waits, replay).await,
            Op::Extend(actor) => {
                Answer::Said(match lab.extend(&keys, &self.tokens[actor], 30_000).await {
                    ExtendAnswer::Extended { .. } => "yes",
                    ExtendAnswer::Expired => "expired",
                    ExtendAnswer::Taken => "taken",
                })
            }
            Op::Release(actor) => {
                let used = self.use_some();
                let release = Release {
                    resource: &keys,
                    token: &self.tokens[actor],
                    used,
                };
                Answer::Said(match lab.ask(&release).await {
                    ReleaseAnswer::Released => "yes",
                    ReleaseAnswer::Expired => "expired",
                    ReleaseAnswer::Taken => "taken",
                })
            }
            Op::Cancel(actor) => Answer::Said(match lab.cancel(&keys, &self.tokens[actor]).await {
                CancelAnswer::Left => "left",
                CancelAnswer::Released => "released",
                CancelAnswer::Absent => "absent",
                CancelAnswer::Upgraded => panic!("only a reader is upgraded"),
            }),
            Op::Detach(actor) => {
                let (token, successor) = (&self.tokens[actor], &self.tokens[actor + ACTORS]);
                let step = Detach {
                    script: MUTEX.detach.as_ref().unwrap(),
                    resource: &keys,
                    token,
                    successor,
                    ttl: ttl(30_000),
                };
                Answer::Said(match lab.ask(&step).await {
                    Detached::Passed => "yes",
                    Detached::Expired => "expired",
                    Detached::Taken => "taken",
                })
            }
            Op::Break { foreign } => match lab
                .ask(&Break {
                    keys: &keys,
                    only: None,
                    foreign,
                })
                .await
            {
                Broke::Broken { holder, .. } => {
                    Answer::Broken(holder.map(|client| self.actor_of(&client)))
                }
                Broke::Free => Answer::Said("free"),
                Broke::Foreign => Answer::Said("foreign"),
                Broke::Changed { .. } => Answer::Said("changed"),
            },
            Op::Expire => self.meddle(&EXPIRE, &keys.lock, &[]).await,
            Op::Foreign => self.meddle(&SET, &keys.lock, &["foreign"]).await,
            Op::LoseFence => {
                self.present = None;
                self.meddle(&DELETE, &keys.fence().to_string(), &[]).await
            }
        }
    }

    async fn meddle(
        &self,
        script: &'static crate::script::Script,
        key: &str,
        args: &[&str],
    ) -> Answer {
        self.lab.meddle(script, key, args).await;
        Answer::Said("done")
    }

    /// Returns the holder and the queue as an inspection shows them.
    async fn state(&self) -> (Holder, Vec<usize>) {
        let seen = self.lab.inspect(&self.keys).await;
        let holder = match seen.state {
            InspectedState::Free => Holder::Free,
            InspectedState::Held { value, .. } => client_of(&value)
                .map_or(Holder::Foreign, |client| {
                    Holder::Actor(self.actor_of(client))
                }),
            InspectedState::Shared { .. } => panic!("shared"),
            InspectedState::Other { kind } => panic!("{kind} under the lock"),
        };
        (
            holder,
            seen.queue
                .iter()
                .map(|waiter| self.actor_of(&waiter.client))
                .collect(),
        )
    }
}

async fn same_answers(labs: &[Lab], name: &str, ops: &[Op]) {
    for lab in labs {
        let mut model = Model {
            holder: Holder::Free,
            queue: Vec::new(),
            aside: Vec::new(),
            since: [0; ACTORS],
            step: 0,
        };
        let tokens = (0..2 * ACTORS).map(|actor| {
            let client = crate::base::token::ClientId::random().unwrap();
            Token::random(&client, fenced(actor % ACTORS)).unwrap()
        });
        let mut subject = Subject {
            lab,
            keys: keys(name),
            tokens: tokens.collect(),
            highest: None,
            present: None,
            range: 1,
        };
        for (step, op) in ops.iter().enumerate() {
            let holder_before = model.holder;
            model.step = step;
            let expected = model.apply(op);
            let replay = expected == Answer::Granted { replay: true };
            let answer = subject.apply(op, replay).await;
            assert_eq!(answer, expected, "{}: step {step}, {op:?}", lab.engine);
            if model.holder != holder_before {
                subject.present = subject
                    .present
                    .filter(|_| matches!(expected, Answer::Granted { .. }));
            }
            let (holder, mut queue) = subject.state().await;
            let mut waiters = model.queue.clone();
            // The order of those that were set aside is that of their polls, which says nothing.
            waiters.extend(&model.aside);
            for all in [&mut queue, &mut waiters] {
                all[model.queue.len()..].sort_unstable();
            }
            assert_eq!(
                (holder, queue),
                (model.holder, waiters),
                "{}: after step {step}, {op:?}",
                lab.engine
            );
        }
    }
}

#[test]
fn a_model_the_embedded_stores_and_a_server_give_the_same_replies() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let labs = every_engine();
    let _ears = runtime.block_on(async {
        let mut ears = Vec::new();
        for lab in &labs {
            ears.push(lab.listen("here").await);
            ears.push(lab.listen("there").await);
        }
        ears
    });
    let case = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config {
        cases: CASES,
        ..Config::default()
    });
    let outcome = runner.run(&ops(), |ops| {
        case.set(case.get() + 1);
        runtime.block_on(same_answers(&labs, &format!("case-{}", case.get()), &ops));
        Ok(())
    });
    outcome.unwrap();
    println!("{} cases on {} stores", case.get(), labs.len());
}
