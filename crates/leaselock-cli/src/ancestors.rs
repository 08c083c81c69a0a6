//! Whether the holder of a lock is an ancestor of this process: then its job waits for us, and we would wait for it.
//!
//! The holder's record in the store says on which host and under which number it runs and when it began. That is
//! compared with the processes above this one in `/proc`. So a variable that was inherited and is out of date, another
//! store, or an environment that sudo or `env -i` has emptied makes no difference. Only verbs that run a job count: they
//! let go when it has ended, and any other program may let go while a child of it waits.

use std::task::Poll;
use std::time::Duration;

use leaselock::inspect::{Holder, Process};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::look::Look;
use crate::procfs::{self, Stat};
use crate::session::JOB_VERBS;
use crate::{boottime, show};

/// The holder has had its lock since before we were started, so it is found soon or never.
const FIRST: Duration = Duration::from_millis(100);
const AGAIN: Duration = Duration::from_millis(500);
/// A job that leaves us behind in the background ends meanwhile, and then the wait does end.
const SURE_AFTER: Duration = Duration::from_millis(200);
/// A holder writes its record just after the grant.
const TRIES_FOR_RECORD: usize = 10;

/// The ancestors of this process that may hold a lock.
#[derive(Debug)]
pub(crate) struct Ancestors {
    host: String,
    wrappers: Vec<Wrapper>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wrapper {
    pid: u32,
    started_unix_ms: u64,
}

impl Ancestors {
    /// Reads `/proc`; asks nothing of the store.
    pub(crate) fn of_this_process() -> Ancestors {
        let wrappers = procfs::ancestors()
            .into_iter()
            .filter(|(pid, _)| procfs::is_this_program(*pid))
            .filter_map(|(pid, stat)| {
                Some(Wrapper {
                    pid: u32::try_from(pid).ok()?,
                    started_unix_ms: unix_ms(&stat),
                })
            });
        Ancestors {
            wrappers: wrappers.collect(),
            host: procfs::host_name(),
        }
    }

    /// Whether there is any `leaselock` among them.
    pub(crate) fn are_there(&self) -> bool {
        !self.wrappers.is_empty()
    }

    /// Whether this holder is one of them.
    fn has(&self, process: Option<&Process>) -> bool {
        let Some(process) = process else {
            return false;
        };
        let (Some(pid), Some(started)) = (process.pid, process.started) else {
            return false;
        };
        process.host.as_deref() == Some(&*self.host)
            && (process.via.as_deref()).is_some_and(|via| JOB_VERBS.contains(&via))
            && self.wrappers.iter().any(|wrapper| {
                wrapper.pid == pid && wrapper.may_have_begun_at(show::unix_ms(started))
            })
    }

    /// What to add where a holder is named.
    pub(crate) fn remark(&self, holders: &[Holder]) -> &'static str {
        match holders {
            [one] if self.has(one.process.as_ref()) => "; it is an ancestor of this process",
            [_] => "",
            several if several.iter().any(|one| self.has(one.process.as_ref())) => {
                "; one of them is an ancestor of this process"
            }
            _ => "",
        }
    }

    /// Completes with the failure when an ancestor holds one of the locks, and never otherwise, so put it beside the wait
    /// in a `select!`. Asks the store only when `run` is an ancestor. A job that reads or takes permits (not `alone`)
    /// may be granted beside an ancestor that does so too.
    pub(crate) async fn holds(
        &self,
        look: &Look<'_>,
        names: &[String],
        alone: bool,
        busy: Exit,
    ) -> Failure {
        let names = names.iter();
        let watches = names.map(|name| Box::pin(self.holds_one(look, name, alone, busy)));
        let mut watches: Vec<_> = watches.collect();
        std::future::poll_fn(|cx| {
            let mut polled = watches.iter_mut().map(|watch| watch.as_mut().poll(cx));
            polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }

    /// The same for one lock.
    async fn holds_one(&self, look: &Look<'_>, name: &str, alone: bool, busy: Exit) -> Failure {
        let mut without_record = 0;
        let mut pause = FIRST;
        while !self.wrappers.is_empty() && without_record < TRIES_FOR_RECORD {
            tokio::time::sleep(pause).await;
            pause = AGAIN;
            match self.holder(look, name, alone).await {
                Some(found) if self.has(found.process.as_ref()) => {
                    tokio::time::sleep(SURE_AFTER).await;
                    let again = self.holder(look, name, alone).await;
                    let same = again.filter(|again| again.digest == found.digest);
                    let now = Ancestors::of_this_process();
                    if same.is_some() && now.has(found.process.as_ref()) {
                        return failure(name, &found, busy);
                    }
                }
                Some(found) if found.is_foreign() || is_known(&found) => break,
                // Its record is not written yet, or the store does not answer.
                _ => without_record += 1,
            }
        }
        std::future::pending().await
    }

    /// The holder; of several the one that is an ancestor, else one that is not known yet.
    async fn holder(&self, look: &Look<'_>, name: &str, alone: bool) -> Option<Holder> {
        let seen = look.see(name).await.ok()?;
        if seen.is_shared() && !alone {
            return None;
        }
        let known_last = |one: &Holder| match one {
            one if self.has(one.process.as_ref()) => 0,
            one if !is_known(one) => 1,
            _ => 2,
        };
        let first = seen.holders().iter().min_by_key(|one| known_last(one));
        first.cloned()
    }
}

/// Whether its record was read.
fn is_known(holder: &Holder) -> bool {
    holder
        .process
        .as_ref()
        .is_some_and(|process| process.pid.is_some())
}

fn failure(name: &str, holder: &Holder, busy: Exit) -> Failure {
    let who = show::who(holder.process.as_ref());
    let text =
        format!("`{name}` is held by an ancestor of this process ({who}); this wait cannot end");
    Failure::new(text, busy)
}

impl Wrapper {
    /// Its client was built a moment after the process began. Clocks of two hosts that have the same name and the same
    /// numbers for processes, such as containers, would have to agree to that as well.
    fn may_have_begun_at(self, client_unix_ms: u64) -> bool {
        const BEFORE_MS: u64 = 2_000;
        const AFTER_MS: u64 = 10_000;
        let earliest = self.started_unix_ms.saturating_sub(BEFORE_MS);
        (earliest..=self.started_unix_ms.saturating_add(AFTER_MS)).contains(&client_unix_ms)
    }
}

/// By the wall clock of now, as in the record, unless that was set since.
fn unix_ms(stat: &Stat) -> u64 {
    let began = Duration::from_secs(stat.started) / procfs::TICKS_PER_SECOND;
    let age = Duration::from_nanos(boottime::now()).saturating_sub(began);
    boottime::unix_ms().saturating_sub(show::ms(age))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_belongs_to_a_process_that_began_just_before_it() {
        let wrapper = Wrapper {
            pid: 7,
            started_unix_ms: 1_000_000,
        };
        for (client, belongs) in [
            (997_000, false),
            (999_000, true),
            (1_000_003, true),
            (1_009_000, true),
            (1_011_000, false),
        ] {
            assert_eq!(wrapper.may_have_begun_at(client), belongs, "{client}");
        }
    }

    #[test]
    fn the_start_of_this_very_process_is_a_moment_ago() {
        let me = i32::try_from(std::process::id()).unwrap();
        let started = unix_ms(&Stat::of(me).unwrap());
        let now = boottime::unix_ms();
        assert!(started <= now + 100 && now - started.min(now) < 600_000);
    }
}
