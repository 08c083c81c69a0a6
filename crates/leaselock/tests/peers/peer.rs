//! What is known of a library: where it comes from, and how a lock of it is stored on the server.

use std::path::{Path, PathBuf};

/// A lock library of others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) registry: Registry,
    /// As its driver calls it: the package, and its generation where there are several.
    pub(crate) library: &'static str,
    pub(crate) version: &'static str,
    pub(crate) value: Value,
    prefix: &'static str,
    suffix: &'static str,
    /// Whether it can make a lock's time longer when asked to.
    pub(crate) extends: bool,
    /// Whether its release says that the lock was gone.
    pub(crate) tells: bool,
}

/// Where a library is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registry {
    Npm,
    PyPi,
    CratesIo,
}

/// What it writes under the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    Uuid,
    /// So many hexadecimal digits.
    Hex(usize),
    /// So many letters of base64.
    Base64(usize),
    /// So many bytes of any kind.
    Bytes(usize),
}

impl Peer {
    pub(crate) const fn npm(library: &'static str, version: &'static str, value: Value) -> Peer {
        Peer::new(Registry::Npm, library, version, value)
    }

    pub(crate) const fn pypi(library: &'static str, version: &'static str, value: Value) -> Peer {
        Peer::new(Registry::PyPi, library, version, value)
    }

    pub(crate) const fn crates_io(
        library: &'static str,
        version: &'static str,
        value: Value,
    ) -> Peer {
        Peer::new(Registry::CratesIo, library, version, value)
    }

    const fn new(
        registry: Registry,
        library: &'static str,
        version: &'static str,
        value: Value,
    ) -> Peer {
        Peer {
            registry,
            library,
            version,
            value,
            prefix: "",
            suffix: "",
            extends: true,
            tells: true,
        }
    }

    pub(crate) const fn prefix(mut self, prefix: &'static str) -> Peer {
        self.prefix = prefix;
        self
    }

    pub(crate) const fn suffix(mut self, suffix: &'static str) -> Peer {
        self.suffix = suffix;
        self
    }

    pub(crate) const fn without_extension(mut self) -> Peer {
        self.extends = false;
        self
    }

    pub(crate) const fn silent(mut self) -> Peer {
        self.tells = false;
        self
    }

    /// The key of the lock that it calls `name`, which is what leaselock calls it.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}{}", self.prefix, self.suffix)
    }

    /// Where it is installed; `None` when it is not.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        let all = std::env::var_os("LEASELOCK_TEST_PEERS")?;
        let folder = Path::new(&all).join(self.registry.folder());
        // Written last, by the installer.
        folder.join("ready").exists().then_some(folder)
    }
}

impl Registry {
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Registry::Npm => "node",
            Registry::PyPi => "python",
            Registry::CratesIo => "rust",
        }
    }
}

impl Value {
    pub(crate) fn fits(self, bytes: &[u8]) -> bool {
        let hex = |text: &[u8]| text.iter().all(u8::is_ascii_hexdigit);
        match self {
            Value::Uuid => {
                let parts: Vec<&[u8]> = bytes.split(|byte| *byte == b'-').collect();
                let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
                lengths == [8, 4, 4, 4, 12] && parts.iter().all(|part| hex(part))
            }
            Value::Hex(length) => bytes.len() == length && hex(bytes),
            Value::Base64(length) => {
                let letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
                bytes.len() == length && bytes.iter().all(letter)
            }
            Value::Bytes(length) => bytes.len() == length,
        }
    }

    /// As peers/README.md says it.
    pub(crate) fn in_words(self) -> String {
        match self {
            Value::Uuid => "uuid".to_owned(),
            Value::Hex(length) => format!("{length} hex digits"),
            Value::Base64(length) => format!("{length} letters of base64"),
            Value::Bytes(length) => format!("{length} bytes"),
        }
    }
}
