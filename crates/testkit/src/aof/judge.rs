//! Follows the commands of all files.

use std::collections::HashMap;

use super::name::Name;
use super::verdict::Verdict;
use crate::oracle::parse;

#[derive(Debug, Default)]
pub(super) struct Judge {
    pub(super) verdict: Verdict,
    names: HashMap<String, Name>,
}

impl Judge {
    /// What it holds is in its own files.
    pub(super) fn next_server(&mut self) {
        self.names.values_mut().for_each(Name::flush);
    }

    /// The commands of one file. Those of a transaction that was cut off have no effect.
    pub(super) fn reads(&mut self, commands: &mut dyn Iterator<Item = Vec<String>>, is_base: bool) {
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
