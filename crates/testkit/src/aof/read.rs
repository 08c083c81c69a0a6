//! The commands of a server's append-only files.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use crate::resp::{Value, decode};

const FOLDER: &str = "appendonlydir";
const NAME: &str = "appendonly.aof";

/// The files of this folder in order, and whether each is what the server began with. Version 6 has one file, which does
/// not show where that ends.
pub(super) fn files(folder: &Path) -> Vec<(PathBuf, bool)> {
    let several = folder.join(FOLDER);
    assert!(
        several.exists(),
        "a server before version 7 does not tell grants from what it began with: run this test with another one"
    );
    let manifest = fs::read_to_string(several.join(format!("{NAME}.manifest")));
    let manifest = manifest.expect("a server writes a manifest");
    let file = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["file", name, "seq", _, "type", kind @ ("b" | "i")] => {
                Some((several.join(name), kind == "b"))
            }
            _ => None, // of the past
        }
    };
    manifest.lines().filter_map(file).collect()
}

/// One command after the other. The last one is cut off when the server was killed while it wrote.
pub(super) fn commands(file: &Path) -> impl Iterator<Item = Vec<String>> {
    let opened = File::open(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    from(BufReader::with_capacity(1 << 20, opened), file)
}

fn from(mut reader: impl BufRead, file: &Path) -> impl Iterator<Item = Vec<String>> {
    let file = file.to_owned();
    std::iter::from_fn(move || match decode(&mut reader) {
        Ok(Value::List(words)) => Some(words.iter().map(text).collect()),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => None,
        other => panic!("{} is no file of commands: {other:?}", file.display()),
    })
}

fn text(word: &Value) -> String {
    match word {
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}
