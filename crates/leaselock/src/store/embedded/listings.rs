//! Listings of a folder in progress.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::folder::Folder;
use super::io_error::{FileError, system};
use super::names::Names;
use crate::base::sync::hold;

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
    /// Takes a listing out, so that no other call has it until it is put back.
    pub(super) fn take(&self, number: u32, folder: &Folder) -> Result<Names, FileError> {
        if let Some(names) = hold(&self.0).kept.remove(&number) {
            return Ok(names);
        }
        let path = || folder.settings.path.join("locks");
        Ok(Names::of(&folder.locks).map_err(|error| system("list", &path(), error))?)
    }

    /// Puts a listing back and returns its number.
    pub(super) fn put_back(&self, names: Names) -> u32 {
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
