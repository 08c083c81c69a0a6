//! Random sequences of operations: a small model, the embedded stores and a real server give the same replies.
//!
//! Expiry, a foreign lock and the loss of the fence key are steps of a sequence. Fences are not predicted but checked:
//! a new grant has a larger one than all before, a replay has the same.

mod contract;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use contract::Model;
use leaselock_fence::Fence;

use super::lab::*;
use crate::base::error::LostReason;
use crate::base::token::{Token, client_of, is_broken};
use crate::client::inspection::BreakOptions;
use crate::client::views::*;
use crate::engine::values::calls_optional::*;
use crate::engine::values::grant::*;
use crate::engine::values::kind::{Held, Resource};
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
        at_once: bool,
        foreign: bool,
    },
    /// The lease expires.
    Expire,
    /// Another library takes the lock, whichever client had it.
    Foreign,
    LoseFence,
}

fn a_break(at_once: bool, foreign: bool) -> BreakOptions {
    let mut terms = BreakOptions::default();
    (terms.at_once, terms.foreign) = (at_once, foreign);
    terms
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
        2 => any::<(bool, bool)>().prop_map(|(at_once, foreign)| Op::Break { at_once, foreign }),
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

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Holder {
    #[default]
    Free,
    Actor(usize),
    /// Cannot renew, and may release.
    Broken(usize),
    Foreign,
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
            (true, Some(first)) => {
                let last = Fence::new(first.get() + self.range - 1);
                assert_eq!(fence, Some(last), "a replay has another fence");
            }
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
    fn use_some(&mut self) {
        let used = self
            .present
            .map(|first| Fence::new(first.get() + self.range / 2));
        self.highest = self.highest.max(used);
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
                let answer = self.granted(fence, actor, replay);
                self.range = range;
                answer
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
                    ExtendAnswer::EXPIRED => "expired",
                    ExtendAnswer::BROKEN => "broken",
                    ExtendAnswer::Gone(_) => "taken",
                })
            }
            Op::Release(actor) => {
                self.use_some();
                let token = &self.tokens[actor];
                let mut reply = lab.release(&keys, token).await;
                if reply == ReleaseAnswer::Taken {
                    reply = lab.release(&keys, &token.broken()).await;
                }
                Answer::Said(match reply {
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
                let held = Held::of(&keys, token);
                let step = Detach {
                    script: MUTEX.detach.as_ref().unwrap(),
                    held_for: held.for_ttl(ttl(30_000)),
                    successor,
                };
                Answer::Said(match lab.ask(&step).await {
                    Ok(()) => "yes",
                    Err(LostReason::KeyMissing) => "expired",
                    Err(_) => "taken",
                })
            }
            Op::Break { at_once, foreign } => {
                match lab.ask(&break_of(&keys, a_break(at_once, foreign))).await {
                    Broke::Broken { holder, .. } => {
                        Answer::Broken(holder.map(|client| self.actor_of(&client)))
                    }
                    Broke::Free => Answer::Said("free"),
                    Broke::Foreign => Answer::Said("foreign"),
                    Broke::Changed { .. } => Answer::Said("changed"),
                }
            }
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
            InspectedState::Held(SeenHold { value, .. }) => {
                client_of(&value).map_or(Holder::Foreign, |client| match is_broken(&value) {
                    true => Holder::Broken(self.actor_of(client)),
                    false => Holder::Actor(self.actor_of(client)),
                })
            }
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
        let mut model = Model::default();
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
