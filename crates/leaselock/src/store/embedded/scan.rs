//! Listing locks: page by page over the names of the files.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::folder::Folder;
use super::glob;
use super::image::Image;
use super::io_error::{FileError, system};
use super::lockfile;
use super::names::Names;
use super::on_disk::FolderStore;
use crate::base::clock::Clock;
use crate::base::error::StoreError;
use crate::base::token;

/// How many files one page looks at, and for how long: files may be large.
const PAGE: usize = 256;
const PAGE_TIME: Duration = Duration::from_millis(10);
/// Listings kept at once. An older one that goes on begins anew.
const KEPT: usize = 16;

/// The listings under way, by number: how far each has read the folder.
#[derive(Debug, Default)]
pub(super) struct Listings(Mutex<UnderWay>);

#[derive(Debug, Default)]
struct UnderWay {
    last: u32,
    kept: BTreeMap<u32, Names>,
}

impl Listings {
    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody else has it until it is put back.
    fn take(&self, number: u32, folder: &Folder) -> Result<Names, FileError> {
        if let Some(names) = self.under_way().kept.remove(&number) {
            return Ok(names);
        }
        let path = || folder.settings.path.join("locks");
        Ok(Names::of(&folder.locks).map_err(|error| system("list", &path(), error))?)
    }

    /// The number under which it goes on.
    fn put_back(&self, names: Names) -> u32 {
        let mut under_way = self.under_way();
        under_way.last = under_way.last.wrapping_add(1).max(1);
        let number = under_way.last;
        under_way.kept.insert(number, names);
        while under_way.kept.len() > KEPT {
            under_way.kept.pop_first();
        }
        number
    }
}

impl FolderStore {
    /// The cursor is the number of the listing.
    pub(super) async fn scan(
        &self,
        from: u64,
        pattern: &str,
        within: Duration,
    ) -> Result<(u64, Vec<String>), StoreError> {
        let number = u32::try_from(from).unwrap_or(0);
        let clock = Clock::boot();
        self.keep_trying("its time", within, |folder| {
            let mut names = self.listings.take(number, folder)?;
            let until = clock.now().plus(PAGE_TIME);
            let mut locks = Vec::new();
            for looked_at in 1..=PAGE {
                let Some(name) = names.next() else {
                    return Ok((0, locks));
                };
                let keys = locks_in_file(folder, &name).into_iter();
                locks.extend(keys.filter(|key| matches(pattern, key)));
                if looked_at < PAGE && clock.now() > until {
                    break;
                }
            }
            Ok((u64::from(self.listings.put_back(names)), locks))
        })
        .await
    }
}

pub(super) fn matches(pattern: &str, key: &str) -> bool {
    glob::matches(pattern.as_bytes(), key.as_bytes())
}

/// A file that cannot be read has no locks to show; using them says why.
fn locks_in_file(folder: &Folder, name: &str) -> Vec<String> {
    let Ok(anchor_us) = folder.anchor_us() else {
        return Vec::new();
    };
    let now_us = folder.boot_us().saturating_add(anchor_us);
    let image = lockfile::snapshot(folder, name, anchor_us, now_us)
        .ok()
        .flatten();
    image.map_or_else(Vec::new, |image| locks_in(&image))
}

/// The keys whose value is one of our tokens.
pub(super) fn locks_in(image: &Image) -> Vec<String> {
    let locks = image
        .entries
        .iter()
        .filter(|entry| entry.text().and_then(token::client_of).is_some());
    locks.map(|entry| entry.key.clone()).collect()
}
