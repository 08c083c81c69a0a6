//! Follows the commands of all files.

use std::collections::HashMap;
use std::path::Path;

use super::name::Name;
use super::read;
use super::verdict::Verdict;
use crate::oracle::parse;

/// Judges the files of one server after the other, in the order in which they reigned.
#[derive(Debug, Default)]
pub struct Judge {
    verdict: Verdict,
    names: HashMap<String, Name>,
}

impl Judge {
    /// Reads the files of the next server, which has ended, in its folder.
    ///
    /// # Panics
    ///
    /// When a file cannot be read, or is none.
    pub fn reads(&mut self, folder: &Path) {
        self.names.values_mut().for_each(Name::next_server);
        for (file, is_base) in read::files(folder) {
            self.reads_commands(read::commands(&file), is_base);
        }
    }

    /// All names of locks that were seen.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// What was seen so far.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// The commands of one file. Those of a transaction that was cut off have no effect.
    fn reads_commands(&mut self, commands: impl Iterator<Item = Vec<String>>, is_base: bool) {
        let mut script: Option<Vec<Vec<String>>> = None;
        for command in commands {
            match (command[0].to_uppercase().as_str(), &mut script) {
                ("MULTI", _) => script = Some(Vec::new()),
                ("EXEC", _) => self.request(&script.take().unwrap_or_default(), is_base),
                (_, Some(script)) => script.push(command),
                (_, None) => self.request(&[command], is_base),
            }
        }
    }

    /// All that one request wrote.
    fn request(&mut self, commands: &[Vec<String>], is_base: bool) {
        let mut touched: Vec<&str> = Vec::new();
        for command in commands {
            let (verb, words) = (command[0].to_uppercase(), &command[1..]);
            match verb.as_str() {
                "FLUSHALL" | "FLUSHDB" => {
                    self.verdict.flushes += 1;
                    self.names.values_mut().for_each(Name::flush);
                }
                "DEL" | "UNLINK" => {
                    for key in words {
                        touched.extend(self.apply(&verb, key, &[], is_base));
                    }
                }
                _ => {
                    if let [key, words @ ..] = words {
                        touched.extend(self.apply(&verb, key, words, is_base));
                    }
                }
            }
        }
        for name in touched {
            if let Some(its) = self.names.get_mut(name) {
                its.settle(name, &mut self.verdict);
            }
        }
    }

    /// Returns the name of the key's lock.
    fn apply<'a>(
        &mut self,
        verb: &str,
        key: &'a str,
        words: &[String],
        is_base: bool,
    ) -> Option<&'a str> {
        let (name, part) = parse(key)?;
        if !self.names.contains_key(name) {
            self.names.insert(name.to_owned(), Name::default());
        }
        let its = self.names.get_mut(name)?;
        if is_base {
            its.adopt(part, verb, words);
        } else {
            its.apply((name, part), verb, words, &mut self.verdict);
        }
        Some(name)
    }
}
