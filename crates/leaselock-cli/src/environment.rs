//! What a job may know of the URL of the store.
//!
//! A URL with a password is taken out of the job's environment. A `leaselock` in the job that is given none would then
//! lock in the default folder and exclude no other process. So a mark stays behind, and `leaselock` refuses.

use std::ffi::OsStr;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::job::{URL, WITHHELD};
use crate::secrets::has_password;

/// Whether the job must not get the URL: it has a password, or an outer `leaselock` removed it.
pub(crate) fn withholds_url(keep: bool) -> bool {
    let has_password = || std::env::var_os(URL).is_some_and(|url| has_password(&url));
    is_withheld() || (!keep && has_password())
}

/// Whether an outer `leaselock` removed the URL, and no other was set since.
fn is_withheld() -> bool {
    let given = std::env::var_os(URL).is_some_and(|url| !url.is_empty());
    !given && std::env::var_os(WITHHELD).as_deref() == Some(OsStr::new(URL))
}

/// Refuses to guess where the locks are. To be asked when no URL was given.
pub(crate) fn not_withheld() -> Result<(), Failure> {
    if !is_withheld() {
        return Ok(());
    }
    let text = "LEASELOCK_URL has a password in it and was kept from this process by `leaselock run`: give a URL \
                here, or --keep-url there; --url file: is the default folder";
    Err(Failure::new(text, Exit::USAGE))
}
