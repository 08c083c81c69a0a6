//! Listing locks: page by page over the names of the files.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use super::folder::Folder;
use super::io_error::{FileError, system};
use super::lockfile;
use super::opening::Names;
use crate::base::{CLOCK, hold};

/// How many files one page reads, and for how long: files may be large.
const PAGE: usize = 256;
const PAGE_TIME: Duration = Duration::from_millis(10);
/// Listings kept at once. An older one that continues starts again.
const KEPT: usize = 16;

/// The listings in progress, by number: how far each has read the folder.
#[derive(Debug, Default)]
pub(super) struct Listings(Mutex<UnderWay>);

#[derive(Debug, Default)]
struct UnderWay {
    last: u32,
    kept: BTreeMap<u32, Names>,
}

impl Listings {
    /// Returns a page of names; the cursor is the number of the listing.
    pub(super) fn page(
        &self,
        folder: &Folder,
        from: u64,
        pattern: &str,
    ) -> Result<(u64, Vec<String>), FileError> {
        let mut names = self.take(u32::try_from(from).unwrap_or(0), folder)?;
        let until = CLOCK.now().plus(PAGE_TIME);
        let mut locks = Vec::new();
        for looked_at in 1..=PAGE {
            let Some(name) = names.next() else {
                return Ok((0, locks));
            };
            locks.extend(locks_in_file(folder, &name, pattern));
            if looked_at < PAGE && CLOCK.now() > until {
                break;
            }
        }
        Ok((u64::from(self.put_back(names)), locks))
    }

    /// Takes a listing out, so that no other call has it until it is put back.
    fn take(&self, number: u32, folder: &Folder) -> Result<Names, FileError> {
        if let Some(names) = hold(&self.0).kept.remove(&number) {
            return Ok(names);
        }
        let path = || folder.settings.path.join("locks");
        Ok(Names::of(&folder.locks).map_err(|error| system("list", &path(), error))?)
    }

    /// Puts a listing back and returns its number.
    fn put_back(&self, names: Names) -> u32 {
        let mut under_way = hold(&self.0);
        under_way.last = under_way.last.wrapping_add(1).max(1);
        let number = under_way.last;
        under_way.kept.insert(number, names);
        while under_way.kept.len() > KEPT {
            under_way.kept.pop_first();
        }
        number
    }
}

/// Lists the locks in a file. An unreadable one has none to show; using its lock reports why.
fn locks_in_file(folder: &Folder, name: &str, pattern: &str) -> Vec<String> {
    let time_us = folder.time_us();
    let image = time_us.and_then(|now_us| lockfile::snapshot(folder, name, now_us));
    let image = image.ok().flatten();
    image.map_or_else(Vec::new, |image| image.locks(pattern))
}
