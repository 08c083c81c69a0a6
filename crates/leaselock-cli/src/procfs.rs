//! What the kernel shows about processes under `/proc`.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getppid};

/// Reads one of the kernel's short texts. Its length is unknown, so a plain read would grow its buffer in small steps.
fn read(path: &str) -> io::Result<Vec<u8>> {
    const ROOM: usize = 4096;
    let mut text = Vec::with_capacity(ROOM);
    fs::File::open(path)?
        .take(ROOM as u64)
        .read_to_end(&mut text)?;
    Ok(text)
}

/// The error with the file's name, or the sentence that `/proc` is not mounted.
fn about(path: &str, error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::NotFound && !Path::new("/proc/self").exists() {
        let text = "/proc is not mounted; it is needed to see which signals are ignored and which processes are the job's";
        return io::Error::new(io::ErrorKind::Unsupported, text);
    }
    io::Error::new(error.kind(), format!("{path}: {error}"))
}

/// What this process was started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) threads: u32,
    /// Bit n − 1 stands for signal n.
    ignored: u64,
}

impl Status {
    /// This process, now.
    pub(crate) fn read() -> io::Result<Status> {
        const PATH: &str = "/proc/self/status";
        let text = String::from_utf8(read(PATH).map_err(|error| about(PATH, error))?);
        text.ok()
            .and_then(|text| Status::parse(&text))
            .ok_or_else(|| io::Error::other("/proc/self/status is unreadable"))
    }

    fn parse(text: &str) -> Option<Status> {
        let field = |name| {
            text.lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::trim)
        };
        Some(Status {
            threads: field("Threads:")?.parse().ok()?,
            ignored: u64::from_str_radix(field("SigIgn:")?, 16).ok()?,
        })
    }

    /// Whether the parent of this process wants this signal ignored, as nohup(1) does.
    pub(crate) fn ignores(&self, signal: Signal) -> bool {
        self.ignored >> (signal.as_raw() - 1) & 1 == 1
    }
}

/// One process, as its `stat` line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Neither running nor stopped any more; only its parent has still to ask how it ended.
    pub(crate) dead: bool,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    /// Clock ticks since boot; with the pid it names a process for ever.
    pub(crate) started: u64,
}

impl Stat {
    /// `None` also when it could not be read.
    pub(crate) fn of(pid: i32) -> Option<Stat> {
        Stat::read(pid).ok()
    }

    /// The error says why: one other than that there is no such process may pass.
    pub(crate) fn read(pid: i32) -> rustix::io::Result<Stat> {
        // Bytes, because the program's name is whatever its author liked.
        let line =
            read(&format!("/proc/{pid}/stat")).map_err(|error| {
                match Errno::from_io_error(&error) {
                    None | Some(Errno::NOENT) => Errno::SRCH,
                    Some(other) => other,
                }
            })?;
        Stat::parse(&line).ok_or(Errno::SRCH)
    }

    fn parse(line: &[u8]) -> Option<Stat> {
        // The name stands in parentheses and may hold blanks and parentheses itself.
        let end_of_name = line.iter().rposition(|byte| *byte == b')')?;
        let text = std::str::from_utf8(&line[end_of_name + 1..]).ok()?;
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        Some(Stat {
            dead: matches!(*fields.first()?, "Z" | "X"),
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }
}

/// In which `Stat::started` counts: `USER_HZ`, which is the same wherever Linux runs on hardware of this century.
pub(crate) const TICKS_PER_SECOND: u32 = 100;

/// The processes above this one, nearest first, as far as this one may see them.
pub(crate) fn ancestors() -> Vec<(i32, Stat)> {
    const MOST: usize = 1000;
    let mut found = Vec::new();
    let mut next = getppid().map(Pid::as_raw_pid);
    while let Some(pid) = next.filter(|pid| *pid > 0 && found.len() < MOST) {
        let Some(stat) = Stat::of(pid) else {
            break;
        };
        found.push((pid, stat));
        next = Some(stat.parent);
    }
    found
}

/// Whether a process has the name of this command. Every user may read the name, but not the program's path.
pub(crate) fn is_this_program(pid: i32) -> bool {
    let name = |pid: &str| read(&format!("/proc/{pid}/comm")).ok();
    let its = name(&pid.to_string());
    its.is_some() && (its.as_deref() == Some(b"leaselock\n") || its == name("self"))
}

/// The name of the program that a process runs, as far as this one may see it.
pub(crate) fn program_name(pid: Pid) -> Option<String> {
    let name = read(&format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}

/// The host's name, as holders write it into their record.
pub(crate) fn host_name() -> String {
    let name = read("/proc/sys/kernel/hostname").unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

/// The children of all threads of a process.
pub(crate) fn children(pid: Pid) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let lists = tasks
        .flatten()
        .filter_map(|task| fs::read(task.path().join("children")).ok());
    lists.flat_map(|list| numbers(&list)).collect()
}

/// Every process that this one may see.
pub(crate) fn everybody() -> io::Result<Vec<i32>> {
    let entries = fs::read_dir("/proc")?;
    Ok(entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect())
}

fn numbers(list: &[u8]) -> Vec<i32> {
    let text = str::from_utf8(list).unwrap_or_default();
    text.split_ascii_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, id};

    #[test]
    fn the_signals_ignored_at_start_are_read_from_their_bits() {
        let text = "Name:\tx\nThreads:\t3\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000003\n";
        let status = Status::parse(text).unwrap();
        assert_eq!(status.threads, 3);
        assert!(status.ignores(Signal::HUP) && status.ignores(Signal::INT));
        assert!(!status.ignores(Signal::QUIT) && !status.ignores(Signal::SYS));
        assert!(Status::read().unwrap().threads >= 1);
    }

    #[test]
    fn a_name_with_parentheses_and_blanks_does_not_shift_the_fields() {
        let line =
            b"42 (a ) Z 7 (\xff) S 1 40 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2\n";
        let expected = Stat {
            dead: false,
            parent: 1,
            group: 40,
            started: 98765,
        };
        assert_eq!(Stat::parse(line), Some(expected));
        assert_eq!(Stat::parse(b"42 (x"), None);
        assert_eq!(Stat::parse(b"42 (x) S 1"), None);
    }

    #[test]
    fn the_ancestors_begin_with_the_parent_and_go_up() {
        let above = ancestors();
        assert_eq!(above[0].0, getppid().unwrap().as_raw_pid());
        let parents: Vec<i32> = above.iter().map(|(_, stat)| stat.parent).collect();
        let pids: Vec<i32> = above.iter().skip(1).map(|(pid, _)| *pid).collect();
        assert_eq!(parents[..pids.len()], pids);
        let me = i32::try_from(id()).unwrap();
        assert!(is_this_program(me) && !is_this_program(-1));
        assert!(!host_name().is_empty());
    }

    #[test]
    fn a_child_is_found_and_known_as_dead_once_it_ended() {
        let me = i32::try_from(id()).unwrap();
        let mut child = Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(children(Pid::from_raw(me).unwrap()).contains(&pid));
        assert!(everybody().unwrap().contains(&pid));
        let stat = Stat::of(pid).unwrap();
        assert!(stat.parent == me && !stat.dead);

        child.kill().unwrap();
        // Waiting without reaping leaves exactly the state that is asked about.
        let options =
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        let id = rustix::process::WaitId::Pid(Pid::from_raw(pid).unwrap());
        rustix::process::waitid(id, options).unwrap();
        assert_eq!(Stat::of(pid), Some(Stat { dead: true, ..stat }));
        child.wait().unwrap();
        assert_eq!(
            Stat::of(pid).filter(|now| now.started == stat.started),
            None
        );
    }
}
