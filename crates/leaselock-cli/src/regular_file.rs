//! Which file is replaced when a file is written by a rename.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// As many symbolic links in a row as the system follows.
const LINKS_MAX: usize = 40;

/// Returns the file to which symbolic links lead. It need not exist.
///
/// The error: what is there is no regular file. A rename would take a pipe, a socket or a device away from those who use it.
pub(crate) fn target(file: &Path) -> io::Result<PathBuf> {
    let mut target = file.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(to) = fs::read_link(&target) else {
            break;
        };
        target = target.parent().unwrap_or(Path::new("")).join(to);
    }
    let is_other = |found: fs::Metadata| !found.is_file();
    match fs::metadata(file).is_ok_and(is_other)
        || fs::symlink_metadata(&target).is_ok_and(is_other)
    {
        true => Err(io::Error::other("is no regular file")),
        false => Ok(target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_lead_to_a_file_that_may_be_missing_and_a_circle_of_links_to_none() {
        let folder = testkit::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("in")).unwrap();
        symlink("in/next", at("first")).unwrap();
        symlink("../file", at("in/next")).unwrap();
        assert_eq!(target(&at("first")).unwrap(), at("in/../file"));
        fs::write(at("file"), "").unwrap();
        assert_eq!(target(&at("first")).unwrap(), at("in/../file"));
        assert_eq!(target(&at("file")).unwrap(), at("file"));
        symlink("circle", at("circle")).unwrap();
        for other in [at("in"), at("circle")] {
            assert!(target(&other).is_err(), "{other:?}");
        }
    }
}
