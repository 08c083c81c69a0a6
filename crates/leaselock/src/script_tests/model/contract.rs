//! The scripts' contract, as a small model.

use super::{ACTORS, Answer, Holder, Op, is_there, priority};

/// The scripts' contract in plain Rust.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) holder: Holder,
    pub(super) queue: Vec<usize>,
    /// Waiters that a visit could not reach, until they poll.
    pub(super) aside: Vec<usize>,
    /// Since which step each actor waits.
    since: [usize; ACTORS],
    pub(super) step: usize,
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
            Holder::Actor(actor) | Holder::Broken(actor) => Some(actor),
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
            Holder::Actor(_) | Holder::Broken(_) | Holder::Foreign => "taken",
        }
    }

    pub(super) fn apply(&mut self, op: &Op) -> Answer {
        match *op {
            Op::Acquire { actor, waits } => self.acquire(actor, waits),
            Op::Extend(actor) if self.holder == Holder::Broken(actor) => Answer::Said("broken"),
            Op::Extend(actor) => Answer::Said(self.as_holder(actor, "yes")),
            Op::Release(actor) => {
                let said = match self.holder == Holder::Broken(actor) {
                    true => "yes",
                    false => self.as_holder(actor, "yes"),
                };
                if said == "yes" {
                    self.pass_on();
                }
                Answer::Said(said)
            }
            Op::Cancel(actor) => {
                let was_first = self.queue.first() == Some(&actor);
                let left = self.leave(actor);
                if [Holder::Actor(actor), Holder::Broken(actor)].contains(&self.holder) {
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
            Op::Break { at_once, foreign } => match self.holder {
                Holder::Free => Answer::Said("free"),
                Holder::Foreign if !foreign || !at_once => Answer::Said("foreign"),
                Holder::Actor(actor) | Holder::Broken(actor) if !at_once => {
                    self.holder = Holder::Broken(actor);
                    Answer::Broken(self.holder_actor())
                }
                Holder::Foreign | Holder::Actor(_) | Holder::Broken(_) => {
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
