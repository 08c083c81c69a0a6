//! What the commands of a request make of a lock's fencing tokens.

use std::mem;

use super::call::Ended;
use super::fence::number;
use super::held::{self, Hold, How};
use super::lock::{Command, Lock};
use super::report::Rule;

/// A key ends up to so much before its ttl is over by the time of the command: it counts whole milliseconds, from the
/// beginning of the script.
const KEY_EARLY_US: u64 = 2_000;

impl Lock {
    pub(super) fn apply_to_fence(&mut self, command: Command<'_>) {
        match command.verb {
            "XADD" => {
                if command.has("NOMKSTREAM") && !self.fence.exists {
                    return; // the reply was nil, and a script creates the key by another
                }
                self.fence.exists = true;
                let id = command.words.iter().rev().nth(2);
                let chosen = id.and_then(|id| number(id));
                let fences = &mut self.now.fences;
                // A chosen id behind another mint is the end of its range, or the next millisecond.
                fences.unused += u32::from(chosen.is_none() || !fences.any);
                fences.any = true;
                if let Some(number) = chosen {
                    self.show(number);
                    self.now.fences.chosen.push(number);
                }
            }
            "DEL" => self.fence.exists = false,
            _ => {}
        }
    }

    /// A number was written that is a new grant's.
    fn show(&mut self, number: u64) {
        let before = self.fence.known.max(self.now.fences.largest);
        if number <= before && !self.now.fences.chosen.contains(&number) {
            let what = format!("{number} is not larger than {before}");
            self.now.accuse(Rule::Fence, what);
        }
        self.now.fences.largest = before.max(number);
    }

    /// The number of the readers is written beside their holds.
    pub(super) fn mark_readers(&mut self, at_us: u64, mark: &str, number: u64) {
        let before = self.held.readers_number();
        self.held.remove_marks();
        self.held.put(mark, 0);
        let may_be_gone = mem::take(&mut self.number_may_be_gone);
        if before == Some(number) {
            return;
        }
        let lasting = self.held.lasting(at_us);
        let goes_on = |hold: &Hold| hold.how.reads() && !self.now.was_granted(&hold.token);
        let goes_on = !may_be_gone && lasting.iter().any(goes_on);
        let what = if let Some(before) = before.filter(|_| goes_on) {
            format!("readers with {before} have {number} from now on")
        } else if !self.now.fences.take() {
            format!("readers have {number}, which was not minted")
        } else {
            self.show(number);
            self.now.fences.marked = Some(number);
            return;
        };
        self.now.accuse(Rule::Fence, what);
    }

    /// A number of permits is written.
    pub(super) fn number_permits(&mut self, member: &str, number: &str) {
        let is_new = |number: &u64| *number > self.fence.known.max(self.now.fences.largest);
        if let Ok(number) = number.parse()
            && held::member(member, 0).is_some_and(|hold| matches!(hold.how, How::Permits(_)))
        {
            if is_new(&number) || self.now.fences.chosen.contains(&number) {
                self.now.fences.permits.push((member.to_owned(), number));
            }
            self.now.fences.largest = self.now.fences.largest.max(number);
        }
    }

    /// A hold begins: it uses a mint, or readers have a number, which is judged when all of the request is known.
    pub(super) fn mint_for(&mut self, at_us: u64, token: &str, how: How) {
        let ends_us = self.key_ends_us.unwrap_or(u64::MAX);
        self.number_may_be_gone |= ends_us <= at_us + KEY_EARLY_US;
        if how.reads() {
            let is_other = |hold: &Hold| hold.token != token || hold.how != how;
            // It may have gone on from an upgradable read.
            let went_on = |ended: &Ended| {
                ended.hold.token == token && ended.hold.how.reads() && ended.lasted()
            };
            self.now.fences.phase_begins |=
                !self.held.each().iter().any(is_other) && !self.now.ended.iter().any(went_on);
        } else if held::is_fenced(token) && !self.now.fences.take() {
            let what = format!("{token} is granted without a fencing token of its own");
            self.now.accuse(Rule::Fence, what);
        }
    }
}
