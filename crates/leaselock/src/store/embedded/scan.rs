//! Listing locks: page by page over the names of the files.

use std::time::Duration;

use super::folder::Folder;
use super::lockfile;
use super::on_disk::FolderStore;
use crate::base::{CLOCK, StoreError};

/// How many files one page reads, and for how long: files may be large.
const PAGE: usize = 256;
const PAGE_TIME: Duration = Duration::from_millis(10);
impl FolderStore {
    /// Returns a page of names; the cursor is the number of the listing.
    pub(super) async fn scan(
        &self,
        from: u64,
        pattern: &str,
        within: Duration,
    ) -> Result<(u64, Vec<String>), StoreError> {
        let number = u32::try_from(from).unwrap_or(0);
        self.keep_trying("its time", within, |folder| {
            let mut names = self.listings.take(number, folder)?;
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
            Ok((u64::from(self.listings.put_back(names)), locks))
        })
        .await
    }
}

/// Lists the locks in a file. An unreadable one has none to show; using its lock reports why.
fn locks_in_file(folder: &Folder, name: &str, pattern: &str) -> Vec<String> {
    let time = folder.time();
    let image = time.and_then(|time| lockfile::snapshot(folder, name, time));
    let image = image.ok().flatten();
    image.map_or_else(Vec::new, |image| image.locks(pattern))
}
