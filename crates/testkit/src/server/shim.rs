//! Small libraries in front of the C library, under which a server sees another clock or another disk.
//!
//! Each is built with the system's C compiler when it is needed for the first time, and reads one number from a file in
//! the server's folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// One such library.
pub(super) struct Shim {
    /// Of its source beside this file, without `.c`.
    pub(super) name: &'static str,
    /// The same for all servers of this process.
    pub(super) built: OnceLock<PathBuf>,
}

impl Shim {
    /// The program is to run with it, beside those that it runs with already.
    ///
    /// # Panics
    ///
    /// When there is no C compiler: a test that cannot run must not seem to have passed.
    pub(super) fn apply(&self, command: &mut Command) {
        let built = self.built.get_or_init(|| {
            let folder = super::binary::target();
            fs::create_dir_all(&folder).expect("the target folder can be made");
            self.build(&folder).unwrap_or_else(|problem| {
                let name = self.name;
                panic!("{name} cannot be built with `cc` (Debian: apt-get install gcc): {problem}")
            })
        });
        let mut all = built.clone().into_os_string();
        let others = command
            .get_envs()
            .find_map(|(name, value)| value.filter(|_| name == "LD_PRELOAD"));
        if let Some(others) = others {
            all.push(":");
            all.push(others);
        }
        command.env("LD_PRELOAD", all);
    }

    /// Under a name of its own, then renamed: other test programs may be building it too, or running with it. The
    /// compiler reads the source where it lies, beside the header that all shims include.
    fn build(&self, folder: &Path) -> Result<PathBuf, String> {
        let built = folder.join(format!("{}.so", self.name));
        let object = folder.join(format!("{}.{}.so", self.name, std::process::id()));
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/server");
        let source = sources.join(format!("{}.c", self.name));
        let output = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&object, &source])
            .output()
            .map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        fs::rename(&object, &built).map_err(|error| error.to_string())?;
        Ok(built)
    }
}

/// The number that a running server reads next. One write in place, as the server has the file mapped.
pub(super) fn write(file: &Path, number: i64) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    let file = fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(file)?;
    file.write_all_at(&number.to_ne_bytes(), 0)
}

/// Whether the program asks a C library that another can stand in front of: it names an interpreter in its head, or is a
/// script that starts one which may.
pub(super) fn can_be(program: &Path) -> bool {
    use std::io::Read as _;
    let mut head = Vec::new();
    let read = fs::File::open(program).and_then(|file| file.take(4096).read_to_end(&mut head));
    let names_one = || head.windows(4).any(|word| word == b"/ld-");
    read.is_ok() && (!head.starts_with(b"\x7fELF") || names_one())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_bring_their_own_c_library_are_told_from_others() {
        let dir = tempfile::tempdir().unwrap();
        let program = |name: &str, head: &[u8]| {
            let path = dir.path().join(name);
            fs::write(&path, head).unwrap();
            can_be(&path)
        };
        assert!(program(
            "dynamic",
            b"\x7fELF\x02\x01 /lib64/ld-linux-x86-64.so.2"
        ));
        assert!(program("script", b"#!/bin/sh"));
        assert!(!program("static", b"\x7fELF\x02\x01 nothing"));
        assert!(!can_be(&dir.path().join("missing")));
        assert!(can_be(&std::env::current_exe().unwrap()));
    }
}
