//! Limits of the system, for errors that one of them causes.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// The text with the limit in it, when it is about too many open files; nothing otherwise.
pub(crate) fn named(text: &str) -> Option<String> {
    let ours = || match getrlimit(Resource::Nofile).current {
        Some(most) => format!("too many open files (limit {most}; ulimit -n raises it)"),
        None => "too many open files".to_owned(),
    };
    replaced(text, Errno::MFILE, ours).or_else(|| replaced(text, Errno::NFILE, of_the_machine))
}

fn replaced(text: &str, error: Errno, by: impl Fn() -> String) -> Option<String> {
    let words = io::Error::from(error).to_string();
    text.contains(&words).then(|| text.replace(&words, &by()))
}

fn of_the_machine() -> String {
    let most = fs::read_to_string("/proc/sys/fs/file-max").unwrap_or_default();
    let most = most.trim();
    format!("too many open files on this machine (limit {most}; sysctl fs.file-max raises it)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_open_files_are_told_with_their_limit_and_nothing_else_is_touched() {
        let text = |error: Errno| format!("cannot read x: {}", io::Error::from(error));
        let ours = named(&text(Errno::MFILE)).unwrap();
        assert!(
            ours.starts_with("cannot read x: too many open files (limit "),
            "{ours}"
        );
        assert!(ours.ends_with("; ulimit -n raises it)"), "{ours}");
        let all = named(&text(Errno::NFILE)).unwrap();
        assert!(
            all.contains("on this machine (limit ") && all.contains("fs.file-max"),
            "{all}"
        );
        assert_eq!(named(&text(Errno::NOENT)), None);
    }
}
