//! Processes seen from outside: signals, life signs, children, and waiting for something to be so.

use std::fs;
use std::time::Duration;

use rustix::process::Pid;
pub use rustix::process::Signal;

use crate::clock;

/// Any thread stops as soon as it is its turn to run.
const STOPS_WITHIN: Duration = Duration::from_secs(20);

/// Polls `condition` until it holds; panics with `what` when it does not within `limit`.
///
/// It blocks the thread: in an async test use a multi-threaded runtime or poll by hand.
#[track_caller]
pub fn wait_until(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = clock::now() + limit;
    while !condition() {
        assert!(clock::now() < deadline, "not within {limit:?}: {what}");
        // Short against every limit in use, long enough to leave the processor to the others.
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Sends a signal. Says whether the process was there to get it.
pub fn signal(pid: u32, signal: Signal) -> bool {
    rustix::process::kill_process(as_pid(pid), signal).is_ok()
}

/// Stops a process in its tracks, and comes back when all its threads stand still: the signal alone leaves those that
/// run on another processor some time more. Says whether the process was there.
#[track_caller]
pub fn stop(pid: u32) -> bool {
    let sent = signal(pid, Signal::STOP);
    if sent {
        wait_until(STOPS_WITHIN, "a stopped process", || is_stopped(pid));
    }
    sent
}

/// Whether all its threads stand still.
pub fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat"));
        // One that has ended meanwhile does nothing any more.
        !stat.is_ok_and(|stat| parse_stat(&stat).is_some_and(|stat| stat.state != 'T'))
    })
}

/// Whether the process still runs. A zombie does not.
pub fn is_alive(pid: u32) -> bool {
    !matches!(state(pid), None | Some('Z' | 'X'))
}

/// The letter of the process's state in `/proc`: `R` running, `S` asleep, `T` stopped, `Z` zombie.
pub fn state(pid: u32) -> Option<char> {
    stat(pid).map(|stat| stat.state)
}

/// The processes whose parent is `pid`, in the order of their numbers.
pub fn children(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc can be listed");
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut found: Vec<u32> = numbers
        .filter(|child| stat(*child).is_some_and(|stat| stat.parent == pid))
        .collect();
    found.sort_unstable();
    found
}

struct Stat {
    state: char,
    parent: u32,
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name stands in parentheses and may hold any character, so reading starts behind the last one.
fn parse_stat(line: &str) -> Option<Stat> {
    let mut fields = line.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    Some(Stat { state, parent })
}

fn as_pid(pid: u32) -> Pid {
    let raw = i32::try_from(pid).expect("a process number fits in 31 bits");
    Pid::from_raw(raw).expect("a process number is not 0")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn stat_survives_a_name_with_parentheses_and_spaces() {
        let stat = parse_stat("71 (a) S (b)) T 70 71 71 0").unwrap();
        assert_eq!((stat.state, stat.parent), ('T', 70));
    }

    #[test]
    fn child_is_seen_stopped_resumed_and_gone() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = child.id();
        assert!(is_alive(pid));
        assert!(children(std::process::id()).contains(&pid));

        assert!(stop(pid) && is_stopped(pid));
        assert!(is_alive(pid), "a stopped process is alive");

        assert!(signal(pid, Signal::KILL));
        wait_until(Duration::from_secs(5), "a zombie is not alive", || {
            !is_alive(pid)
        });
        child.wait().unwrap();
        assert!(!signal(pid, Signal::CONT), "no process is there to get it");
        assert!(!stop(pid) && !is_stopped(pid));
    }

    #[test]
    #[should_panic(expected = "not within 1ms: pigs fly")]
    fn waiting_in_vain_says_for_what() {
        wait_until(Duration::from_millis(1), "pigs fly", || false);
    }
}
