//! Listing locks: page by page over the names of the files as they were when the listing began.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::folder::Folder;
use super::glob;
use super::image::Image;
use super::lockfile;
use super::on_disk::FolderStore;
use super::trouble::{Trouble, system};
use crate::error::StoreError;
use crate::token;

/// How many files one page looks at, so that a page takes about a millisecond.
const PAGE: usize = 256;
/// Listings kept at once. An older one that goes on begins anew at its place.
const KEPT: usize = 4;

/// The listings under way, by number.
#[derive(Debug, Default)]
pub(super) struct Listings(Mutex<UnderWay>);

#[derive(Debug, Default)]
struct UnderWay {
    last: u32,
    kept: BTreeMap<u32, Arc<Vec<String>>>,
}

impl Listings {
    fn get(&self, number: u32, folder: &Folder) -> Result<(u32, Arc<Vec<String>>), Trouble> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let UnderWay { last, kept } = &mut *guard;
        if let Some(names) = kept.get(&number) {
            return Ok((number, Arc::clone(names)));
        }
        let path = folder.settings.path.join("locks");
        let entries = std::fs::read_dir(&path).map_err(|error| {
            let errno = rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO);
            system("list", &path, errno)
        })?;
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        let names = Arc::new(names);
        *last = last.wrapping_add(1).max(1);
        kept.insert(*last, Arc::clone(&names));
        while kept.len() > KEPT {
            kept.pop_first();
        }
        Ok((*last, names))
    }

    fn end(&self, number: u32) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .kept
            .remove(&number);
    }
}

/// A cursor is the number of the listing and the place in it.
fn cursor(number: u32, place: usize) -> u64 {
    u64::from(number) << 32 | u64::from(u32::try_from(place).unwrap_or(u32::MAX))
}

impl FolderStore {
    pub(super) async fn scan(
        &self,
        from: u64,
        pattern: &str,
        within: Duration,
    ) -> Result<(u64, Vec<String>), StoreError> {
        let number = u32::try_from(from >> 32).unwrap_or(0);
        let place = usize::try_from(from & u64::from(u32::MAX)).unwrap_or(usize::MAX);
        self.keep_trying("its time", within, |folder| {
            let (number, names) = self.listings.get(number, folder)?;
            let page = names.iter().skip(place).take(PAGE);
            let locks = page
                .flat_map(|name| locks_in_file(folder, name))
                .filter(|key| matches(pattern, key))
                .collect();
            if names.len() > place.saturating_add(PAGE) {
                return Ok((cursor(number, place + PAGE), locks));
            }
            self.listings.end(number);
            Ok((0, locks))
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
