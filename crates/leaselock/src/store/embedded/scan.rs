//! Listing locks: page by page over the names of the files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::engine;
use super::folder::Folder;
use super::io_error::{FileError, system};
use super::lockfile;
use super::on_disk::FolderStore;
use super::opening::Names;
use super::step::Step;
use crate::base::{CLOCK, Result, slots};
use crate::script::{Call, Listed};

/// How many files one page reads, and for how long: files may be large.
const PAGE: usize = 256;
const PAGE_TIME: Duration = Duration::from_millis(10);

impl FolderStore {
    /// Returns a page; the cursor is the number of the listing. One that is not kept any more starts again.
    pub(super) async fn scan(
        &self,
        from: u64,
        pattern: &str,
        about: Option<fn(&str) -> Call>,
        within: Duration,
    ) -> Result<(u64, Vec<Listed>)> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        self.keep_trying("its time", within, |folder| {
            folder.time_us()?; // one that is gone is opened anew
            let kept = self.listings.take(&from.to_string());
            let names = kept.map_or_else(|| Names::of(&folder.locks), Ok);
            let path = || folder.settings.path.join("locks");
            let mut names = names.map_err(|error| system("list", &path(), error))?;
            let until = CLOCK.now().plus(PAGE_TIME);
            let mut locks = Vec::new();
            for looked_at in 1..=PAGE {
                let Some(name) = names.find(|name| !lockfile::is_unnamed(name)) else {
                    return Ok((0, locks));
                };
                match locks_in_file(folder, &name, pattern, about) {
                    Err(error) if about.is_none() => return Err(error),
                    found => locks.extend(found.unwrap_or_default()),
                }
                if looked_at < PAGE && CLOCK.now() > until {
                    break;
                }
            }
            let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            self.listings.put_back(&number.to_string(), names);
            Ok((number, locks))
        })
        .await
    }
}

/// Lists the locks in a file. Using the lock of an unreadable one reports why; a record that is left out would seem well.
fn locks_in_file(
    folder: &Arc<Folder>,
    name: &str,
    pattern: &str,
    about: Option<fn(&str) -> Call>,
) -> Result<Vec<Listed>, FileError> {
    let now_us = folder.now_us();
    let image = lockfile::snapshot(folder, name, now_us)?;
    let (keys, mut image) = (image.listed(pattern, about.is_some()), Some(image));
    let answered = keys.into_iter().map(|key| {
        // A copy of a file has a lock that is in another one.
        let is_here = lockfile::file_name(slots::tag(&key)) == name;
        let call = about.filter(|_| is_here).map(|about| about(&key));
        let ran = call.zip(image.take()).and_then(|(call, image)| {
            engine::execute(&call, Step::new(&call, image, now_us, folder)).ok()
        });
        let (answer, step) = ran.unzip();
        image = step.map(|step| step.image);
        (key, answer)
    });
    Ok(answered.collect())
}
