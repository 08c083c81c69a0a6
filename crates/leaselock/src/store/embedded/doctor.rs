//! The operator's report about a folder of locks.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::Stat;

use super::folder::Folder;
use super::io_error::{FileError, system};
use super::on_disk::FolderStore;
use super::opening::Names;
use super::time;
use crate::base::hex::hex;
use crate::base::{ErrorKind, Result, clock, span};
use crate::store::report::{Finding, Guarantee, Verdict};

/// Free space below which a warning is due. A lock file takes 4 KiB.
const LITTLE_SPACE: u64 = 64 << 20;

impl FolderStore {
    /// Examines the folder. One that cannot carry locks is a finding and not an error.
    pub(super) async fn examine(&self, within: Duration) -> Result<Vec<Finding>> {
        let outcome = self
            .keep_trying("its time", within, |folder| checks(folder))
            .await;
        outcome.or_else(|error| match error.kind() {
            ErrorKind::UnsupportedFilesystem | ErrorKind::Forbidden | ErrorKind::CannotCreate => {
                let advice = "use another folder or a server";
                Ok(vec![Finding::unfit("folder", error.to_string(), advice)])
            }
            _ => Err(error),
        })
    }
}

pub(super) fn memory() -> (Vec<Finding>, Vec<Guarantee>) {
    let advice = "use file: or a server for locks between processes";
    let reach = Finding::new("reach", "this process only", Verdict::Fit, Some(advice));
    let alone = "other processes are not excluded: each has a memory of its own";
    (vec![reach], vec![Guarantee::broken(alone)])
}

/// Lists the promises of a folder, which do not depend on settings.
pub(super) fn of_a_folder() -> Vec<Guarantee> {
    vec![
        Guarantee::kept(
            "no lease is forgotten while a holder lives: a power failure ends holders and leases together",
        ),
        Guarantee::kept("what a process holds is free at once when it and its job are gone"),
        Guarantee::kept("time runs by this machine's own clock, which never steps"),
        Guarantee::broken("other machines are not excluded: that needs a server"),
    ]
}

fn checks(folder: &Folder) -> Result<Vec<Finding>, FileError> {
    let path = &folder.settings.path;
    let failed = |error| system("look at", path, error);
    let now_us = folder.time_us()?;
    let stat = rustix::fs::fstat(&folder.root).map_err(failed)?;
    let mut checks = vec![Finding::fit("folder", path.display().to_string())];
    #[cfg(target_os = "linux")]
    checks.push(file_system(folder).map_err(failed)?);
    checks.push(permissions(stat.st_uid, stat.st_mode));
    checks.extend(owners(folder, &stat).map_err(failed)?);
    checks.push(space(folder).map_err(failed)?);
    checks.push(Finding::fit("format", time::FORMAT.to_string()));
    checks.push(boot(now_us));
    for (topic, files) in [
        ("lock files", &folder.locks),
        ("session files", &folder.sessions),
        ("wake-up sockets", &*folder.wakes),
    ] {
        checks.push(count(topic, files));
    }
    Ok(checks)
}

/// Counts files, for a limited time.
fn count(topic: &'static str, folder: &OwnedFd) -> Finding {
    const MANY: usize = 100_000;
    let count = Names::of(folder).map_or(0, |names| names.take(MANY).count());
    if count < MANY {
        return Finding::fit(topic, count.to_string());
    }
    let advice = "a listing takes long; another user may have put them there";
    Finding::warn(topic, format!("{count} or more"), advice)
}

/// Reports the file system; an unfit one is refused when the folder is opened.
#[cfg(target_os = "linux")]
fn file_system(folder: &Folder) -> rustix::io::Result<Finding> {
    use super::fitness;
    let kind = fitness::kind(&rustix::fs::fstatfs(&folder.root)?);
    let (known, number) = (fitness::find(fitness::FIT, kind), format!("type {kind:#x}"));
    let advice = match known {
        None => Some("it is not known: make sure that no other machine mounts it"),
        Some("tmpfs") => Some("fencing tokens go on from the wall clock after a reboot"),
        Some(_) => None,
    };
    let found = known.unwrap_or(&number);
    Ok(Finding::advised("file system", found, advice))
}

fn permissions(owner: u32, mode: rustix::fs::RawMode) -> Finding {
    let found = format!("{:04o}, owned by user {owner}", mode & 0o7777);
    if mode & 0o002 != 0 && mode & 0o1000 == 0 {
        let advice = "every user can delete the locks of others: chmod 1777";
        return Finding::warn("permissions", found, advice);
    }
    let shared = match mode & 0o022 {
        0 => "private",
        _ => "shared",
    };
    Finding::fit("permissions", format!("{found}, {shared}"))
}

/// Reports the owners of sub-folders, who may delete any file there, with the sticky bit or without.
fn owners(folder: &Folder, root: &Stat) -> rustix::io::Result<Vec<Finding>> {
    let mut checks = Vec::new();
    for (name, part) in [
        ("locks", &folder.locks),
        ("sessions", &folder.sessions),
        ("wake", &*folder.wakes),
    ] {
        let owner = rustix::fs::fstat(part)?.st_uid;
        if root.st_mode & 0o1000 != 0 && owner != root.st_uid && owner != 0 {
            let found =
                format!("{name}/ belongs to user {owner}, who can delete the locks of others");
            let advice = "give locks/, sessions/ and wake/ to the owner of the folder with chown";
            checks.push(Finding::warn("sub-folder", found, advice));
        }
    }
    Ok(checks)
}

fn space(folder: &Folder) -> rustix::io::Result<Finding> {
    let found = rustix::fs::fstatvfs(&folder.root)?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let text = format!("{} MiB free, {} inodes free", free >> 20, found.f_favail);
    let few_inodes = found.f_files > 0 && found.f_favail < 1000;
    let advice = "when it is full, locks can be released but new names cannot be acquired";
    let advice = (free < LITTLE_SPACE || few_inodes).then_some(advice);
    Ok(Finding::advised("space", text, advice))
}

fn boot(now_us: u64) -> Finding {
    let boot = hex(&time::boot_id());
    let ahead = Duration::from_micros(now_us.abs_diff(clock::wall_us()));
    let found = format!("boot {boot}, {} from the wall clock", span::rounded(ahead));
    Finding::fit("time", found)
}
