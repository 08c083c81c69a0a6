//! Files of functions that scripts include.

use std::collections::{BTreeMap, BTreeSet};

use super::body;
use super::markers::{FOLDER, name_of};
use crate::complaint::Complaint;
use crate::files::File;
use crate::lex::{Kind, Language, Token, lex, matches_at};

#[derive(Debug)]
pub(super) struct Fragments {
    files: Vec<(File, Vec<Token>)>,
    /// The tokens of each function, by its name.
    functions: BTreeMap<String, Vec<Token>>,
}

impl Fragments {
    pub(super) fn parse(files: Vec<File>) -> Fragments {
        let lexed = |file: File| {
            let tokens = lex(&file.text, Language::Lua);
            (file, tokens)
        };
        let files: Vec<_> = files.into_iter().map(lexed).collect();
        let functions = files
            .iter()
            .flat_map(|(_, tokens)| functions(tokens))
            .collect();
        Fragments { files, functions }
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// The name of each, and the first sentence of its comment behind that.
    pub(super) fn summaries(&self) -> impl Iterator<Item = (&str, String)> {
        let ours = self.files.iter().map(|(file, _)| file);
        let ours = ours.filter(|file| file.path.starts_with(FOLDER));
        ours.map(|file| {
            let lines = file.text.lines().map_while(|line| line.strip_prefix("--"));
            let comment = lines.map(str::trim).collect::<Vec<_>>().join(" ");
            let (name, said) = (name_of(file), comment.split_once(": "));
            let said = said.map_or("", |(_, said)| said);
            let end = said.find(". ").map_or(said.len(), |end| end + 1);
            (name, said[..end].to_owned())
        })
    }

    /// The code of a fragment; `None` when there is none of this name.
    pub(super) fn code_of(&self, name: &str) -> Option<&[Token]> {
        let one = self.files.iter().find(|(file, _)| name_of(file) == name);
        one.map(|(_, tokens)| tokens.as_slice())
    }

    /// Where `tokens` use what another file defines: the line, the name, and the fragment that defines it.
    pub(super) fn used_by<'a>(&'a self, tokens: &'a [Token]) -> Vec<(usize, &'a str, &'a str)> {
        let own: BTreeSet<String> = body::definitions(tokens).collect();
        let others: BTreeMap<String, &str> = self
            .files
            .iter()
            .flat_map(|(file, tokens)| {
                let outside = outside_functions(tokens);
                let names: Vec<String> = body::definitions(&outside).collect();
                names.into_iter().map(|name| (name, name_of(file)))
            })
            .collect();
        let used = tokens.iter().filter(|token| token.kind == Kind::Word);
        let used = used.filter(|token| !own.contains(&token.text));
        used.filter_map(|token| {
            let fragment = others.get(&token.text)?;
            Some((token.line, token.text.as_str(), *fragment))
        })
        .collect()
    }

    pub(super) fn tokens(&self) -> impl Iterator<Item = (&str, &[Token])> {
        self.files
            .iter()
            .map(|(file, tokens)| (file.path.as_str(), tokens.as_slice()))
    }

    /// Those that the embedded store runs too.
    pub(super) fn run_everywhere(&self) -> impl Iterator<Item = (&str, &[Token])> {
        let everywhere = |(file, _): &&(File, Vec<Token>)| {
            let comment = file.text.lines().take_while(|line| line.starts_with("--"));
            !comment
                .into_iter()
                .any(|line| line.contains("On servers only."))
        };
        self.files
            .iter()
            .filter(everywhere)
            .map(|(file, tokens)| (file.path.as_str(), tokens.as_slice()))
    }

    /// The code of all functions that `tokens` call, directly or through each other.
    pub(super) fn reached_by(&self, tokens: &[Token]) -> Vec<&[Token]> {
        let mut names = BTreeSet::new();
        let mut todo: Vec<&str> = self.called_by(tokens).collect();
        while let Some(name) = todo.pop() {
            if names.insert(name) {
                todo.extend(self.called_by(&self.functions[name]));
            }
        }
        names
            .into_iter()
            .map(|name| self.functions[name].as_slice())
            .collect()
    }

    /// How often the code asks for the time, functions counted at every place that calls them.
    pub(super) fn times(&self, tokens: &[Token]) -> usize {
        self.times_within(tokens, self.functions.len())
    }

    /// `depth` ends a recursion, which would otherwise be counted for ever.
    fn times_within(&self, tokens: &[Token], depth: usize) -> usize {
        let commands = body::commands(tokens);
        let own = commands
            .iter()
            .filter(|c| c.name.as_deref() == Some("TIME"))
            .count();
        let called = self.called_by(tokens).filter(|_| depth > 0);
        own + called
            .map(|name| self.times_within(&self.functions[name], depth - 1))
            .sum::<usize>()
    }

    fn called_by<'a>(&'a self, tokens: &'a [Token]) -> impl Iterator<Item = &'a str> {
        tokens.iter().enumerate().filter_map(|(at, token)| {
            let defined = at > 0 && tokens[at - 1].is("function");
            let called = token.kind == Kind::Word && matches_at(tokens, at + 1, &["("]);
            let known = self
                .functions
                .get_key_value(&token.text)
                .filter(|_| called && !defined);
            known.map(|(name, _)| name.as_str())
        })
    }

    pub(super) fn check(&self, found: &mut Vec<Complaint>) {
        for (file, tokens) in &self.files {
            if !file.text.starts_with("--") {
                let right = "say in a comment what the functions are for";
                found.push(Complaint::new(
                    &file.path,
                    1,
                    "begins without a comment",
                    right,
                ));
            }
            for used in body::uses(tokens) {
                let wrong = format!("a fragment uses {}", used.array);
                let right = "take it as an argument: each script numbers its own";
                found.push(Complaint::new(&file.path, used.line, wrong, right));
            }
            for line in work_outside_functions(tokens) {
                let wrong = "a fragment does something by itself";
                let right = "only functions and constants: it stands in front of every script";
                found.push(Complaint::new(&file.path, line, wrong, right));
            }
        }
    }
}

fn functions(tokens: &[Token]) -> Vec<(String, Vec<Token>)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let end = block_end(tokens, at);
        let name = tokens.get(at + 1).filter(|name| name.kind == Kind::Word);
        if let Some(name) = name.filter(|_| tokens[at].is("function")) {
            found.push((name.text.clone(), tokens[at + 2..end].to_vec()));
            at = end;
        } else {
            at += 1;
        }
    }
    found
}

/// What a file shows to those it is joined with: all but what its functions do.
fn outside_functions(tokens: &[Token]) -> Vec<Token> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        found.push(token.clone());
        at += 1;
        if token.is("function") {
            found.extend(tokens.get(at).cloned()); // its name
            at = block_end(tokens, at - 1).max(at);
        }
    }
    found
}

/// Behind the `end` of the block that opens at `at`; `at` itself when none does.
fn block_end(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        depth += depth_change(token);
        if depth <= 0 {
            return if index == at { at } else { index + 1 };
        }
    }
    tokens.len()
}

/// `for` and `while` open with their `do`.
fn depth_change(token: &Token) -> i32 {
    let opens = ["function", "if", "do", "repeat"]
        .iter()
        .any(|word| token.is(word));
    let closes = ["end", "until"].iter().any(|word| token.is(word));
    i32::from(opens) - i32::from(closes)
}

fn work_outside_functions(tokens: &[Token]) -> Vec<usize> {
    let mut lines = Vec::new();
    let mut depth = 0;
    for token in tokens {
        depth += depth_change(token);
        let works = ["redis", "return", "if", "do", "repeat"]
            .iter()
            .any(|word| token.is(word));
        // An `if` outside has just opened its own block.
        let outside = depth == 0 || (depth == 1 && depth_change(token) == 1);
        if works && outside {
            lines.push(token.line);
        }
    }
    lines
}
