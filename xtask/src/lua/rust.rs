//! The Rust half of a script: `encode` gives what the header asks for, `decode` knows its answers.
//!
//! It reads tokens and not types, and so knows only these shapes:
//! - `static WHO: Script = script!("client/who", …)`, read by `impl Operation for Who { … fn encode … fn decode … }` of
//!   the same file, or of another one in its folder, or by `operation! { … struct Who … fn encode … fn decode … }` there;
//! - `acquire: … script!("mutex/acquire") …`, or `step!(…)`, in the table of a kind, read by `impl Operation for Acquire` of the engine,
//!   or by `impl RunTerms for Asked { … }` where a file of the folder says `type Acquire = BeginRun<Asked>`.
//!
//! A `decode` has its arms itself, or says `Reply::decode(answer)`: such a decoder serves the scripts of all kinds.

use std::collections::{BTreeMap, BTreeSet};

use super::rules::listed_tags;
use super::sources::Script;
use crate::complaint::Complaint;
use crate::lex::{Token, matches_at, skip_brackets};

type Sources = [(String, Vec<Token>)];

/// Where operations of all kinds of locks are.
const ENGINE: &str = "/src/engine/";

/// The answers that each shared decoder is used for, by its name.
#[derive(Debug, Default)]
pub(super) struct SharedDecoders(BTreeMap<String, BTreeSet<String>>);

/// What encodes and decodes a script.
struct Operation<'a> {
    path: &'a str,
    file: &'a [Token],
    region: &'a [Token],
}

pub(super) fn check_decoder(
    script: &Script,
    sources: &Sources,
    shared: &mut SharedDecoders,
    found: &mut Vec<Complaint>,
) {
    let place = sources.iter().find_map(|(path, tokens)| {
        Some((
            path.as_str(),
            tokens.as_slice(),
            mention(tokens, &script.name)?,
        ))
    });
    let Some((path, file, at)) = place else {
        let right = format!(
            "one value with `script!(\"{}\", …)` in the library",
            script.name
        );
        found.push(Complaint::new(
            &script.file.path,
            0,
            "has no Rust half",
            right,
        ));
        return;
    };
    let line = file[at].line;
    let changes_nothing = script.header.writes.text().starts_with("nothing");
    if matches_at(file, at + 4, &[",", "reads_only"]) != changes_nothing {
        let wrong = format!("`reads_only` and what {} writes", script.name);
        let right =
            "`reads_only` for a script whose header says `Writes nothing`, and for no other";
        found.push(Complaint::new(path, line, wrong, right));
    }
    let Some(operation) = operation(sources, path, file, at) else {
        let wrong = format!("{} has no operation of its name", script.name);
        let right = "`impl Operation for` the name of the static or of the field in camel case";
        found.push(Complaint::new(path, line, wrong, right));
        return;
    };
    let side_keys = keys_of_kind(file, at, "side_keys");
    let release_keys = keys_of_kind(file, at, "release_keys").unwrap_or(0);
    count(
        script,
        &operation,
        side_keys.map(|keys| (keys, release_keys)),
        line,
        found,
    );
    compare_tags(script, &operation, sources, shared, found);
}

/// Where the file says `script!("name"`, or `step!("name"`.
fn mention(tokens: &[Token], name: &str) -> Option<usize> {
    let here = |at: &usize| {
        let makers = ["script", "step"];
        makers
            .iter()
            .any(|maker| matches_at(tokens, *at, &[maker, "!", "("]))
            && tokens.get(at + 3).and_then(Token::string) == Some(name)
    };
    (0..tokens.len()).find(here)
}

fn operation<'a>(
    sources: &'a Sources,
    path: &'a str,
    file: &'a [Token],
    at: usize,
) -> Option<Operation<'a>> {
    let name = camel_case(&owner(file, at)?);
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let beside = |other: &str| {
        other
            .rsplit_once('/')
            .is_some_and(|(other, _)| other == folder)
    };
    let near = sources.iter().filter(|(path, _)| beside(path));
    let engine = sources.iter().filter(|(path, _)| path.contains(ENGINE));
    let others = near
        .chain(engine)
        .map(|(path, file)| (path.as_str(), file.as_slice()));
    let mut places = std::iter::once((path, file)).chain(others);
    places.find_map(|(path, file)| {
        let region = block(file, &["Operation", "for", &name])
            .or_else(|| table(file, &name))
            .or_else(|| terms(file, &name))?;
        Some(Operation { path, file, region })
    })
}

/// The name of the static, or of the field, whose value holds what is at `at`: the nearest `name:` before it.
fn owner(tokens: &[Token], at: usize) -> Option<String> {
    let colon = |at: usize| tokens.get(at).is_some_and(|token| token.is(":"));
    let names = |at: &usize| !colon(*at) && colon(at + 1) && !colon(at + 2);
    let at = (0..at).rev().find(names)?;
    Some(tokens[at].text.clone())
}

/// `acquire_many` and `ACQUIRE_MANY` are `AcquireMany`.
fn camel_case(name: &str) -> String {
    let capital = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + &rest.to_lowercase()
    };
    name.split('_').map(capital).collect()
}

/// The block in braces behind the first place with these words.
fn block<'a>(tokens: &'a [Token], words: &[&str]) -> Option<&'a [Token]> {
    let at = (0..tokens.len()).find(|at| matches_at(tokens, *at, words))?;
    let open = at + tokens[at..].iter().position(|token| token.is("{"))?;
    Some(&tokens[open..skip_brackets(tokens, open)])
}

/// The block of `operation!` that declares this request.
fn table<'a>(tokens: &'a [Token], name: &str) -> Option<&'a [Token]> {
    let tables = (0..tokens.len()).filter(|at| matches_at(tokens, *at, &["operation", "!", "{"]));
    let mut tables = tables.map(|at| &tokens[at + 2..skip_brackets(tokens, at + 2)]);
    tables.find(|table| (0..table.len()).any(|at| matches_at(table, at, &["struct", name])))
}

/// The block of the terms of which this request is made.
fn terms<'a>(tokens: &'a [Token], name: &str) -> Option<&'a [Token]> {
    let alias = ["type", name, "=", "BeginRun", "<"];
    let at = (0..tokens.len()).find(|at| matches_at(tokens, *at, &alias))?;
    let asked = tokens.get(at + alias.len())?;
    block(tokens, &["RunTerms", "for", &asked.text])
}

/// How many keys beside the lock the kind has in whose table the script is, in this field of the table.
fn keys_of_kind(file: &[Token], at: usize, field: &str) -> Option<usize> {
    let table = (0..at)
        .rev()
        .find(|at| matches_at(file, *at, &["side_keys", ":"]))?;
    let here = (table..file.len()).find(|at| matches_at(file, *at, &[field, ":"]))?;
    let open = here + file[here..].iter().position(|token| token.is("["))?;
    let inside = &file[open..skip_brackets(file, open)];
    Some(
        inside
            .iter()
            .filter(|token| token.string().is_some())
            .count(),
    )
}

fn count(
    script: &Script,
    operation: &Operation<'_>,
    of_kind: Option<(usize, usize)>,
    line: usize,
    found: &mut Vec<Complaint>,
) {
    let Some(encode) = block(operation.region, &["fn", "encode"]) else {
        let wrong = format!("{} has no `encode` beside its `script!`", script.name);
        found.push(Complaint::new(
            operation.path,
            line,
            wrong,
            "give the keys and arguments there",
        ));
        return;
    };
    let calls =
        |name| (0..encode.len()).filter(move |at| matches_at(encode, *at, &[".", name, "("]));
    // The lock, those beside it, and the gate; a release may take more of them.
    let of_kind = of_kind.map_or(0, |(side_keys, release_keys)| {
        calls("write_keys").count() * (side_keys + 2)
            + calls("write_release_keys").count() * (side_keys + release_keys + 2)
    });
    let gate_key = calls("write_gate_key").count();
    let gate = calls("write_gate").count() * 2;
    for (array, one, many, more) in [
        ("KEYS", "key", "keys", of_kind + gate_key),
        ("ARGV", "arg", "args", gate),
    ] {
        let listed = script.header.of(array).count();
        let open_ended = script.header.of(array).any(|slot| slot.open_ended);
        let given = calls(one).count() + more;
        if !open_ended && calls(many).next().is_none() && given != listed {
            let wrong = format!(
                "{} gives {given} {array}, the header lists {listed}",
                script.name
            );
            let right = format!("one `.{one}(…)` for each, in the order of the header");
            found.push(Complaint::new(operation.path, encode[0].line, wrong, right));
        }
    }
}

fn compare_tags(
    script: &Script,
    operation: &Operation<'_>,
    sources: &Sources,
    shared: &mut SharedDecoders,
    found: &mut Vec<Complaint>,
) {
    let listed = listed_tags(script);
    let decode = block(operation.region, &["fn", "decode"]).unwrap_or_default();
    let own = arms(decode);
    let decoder = delegate(decode).filter(|_| own.is_empty());
    let known = match decoder {
        Some(decoder) => {
            let uses = shared.0.entry(decoder.to_owned()).or_default();
            uses.extend(listed.keys().map(ToString::to_string));
            shared_arms(sources, decoder).map_or_else(BTreeMap::new, |(_, arms)| arms)
        }
        // `decode` may leave the work to a function beside it.
        None if own.is_empty() => arms(operation.file),
        None => own,
    };
    let line = operation.region.first().map_or(0, |token| token.line);
    for tag in listed
        .keys()
        .filter(|tag| !known.contains_key(tag.as_str()))
    {
        let wrong = format!("{} does not decode {tag:?}", script.name);
        found.push(Complaint::new(
            operation.path,
            line,
            wrong,
            "a match arm for each answer of the header",
        ));
    }
    let strange = known.iter().filter(|(tag, _)| !listed.contains_key(**tag));
    for (tag, line) in strange.filter(|_| decoder.is_none()) {
        let wrong = format!(
            "{} decodes {tag:?}, which the script never answers",
            script.name
        );
        let right = "take the arm out, or list the answer";
        found.push(Complaint::new(operation.path, *line, wrong, right));
    }
}

impl SharedDecoders {
    /// Complains about arms of which no script that uses the decoder knows.
    pub(super) fn check(&self, sources: &Sources, found: &mut Vec<Complaint>) {
        for (decoder, answers) in &self.0 {
            let Some((path, arms)) = shared_arms(sources, decoder) else {
                continue;
            };
            for (tag, line) in arms.iter().filter(|(tag, _)| !answers.contains(**tag)) {
                let wrong = format!("{decoder} decodes {tag:?}, which no script answers");
                let right = "take the arm out, or list the answer";
                found.push(Complaint::new(path, *line, wrong, right));
            }
        }
    }
}

/// `Reply` of `Reply::decode(`.
fn delegate(decode: &[Token]) -> Option<&str> {
    let at = (1..decode.len()).find(|at| matches_at(decode, *at, &[":", ":", "decode", "("]))?;
    Some(&decode[at - 1].text)
}

fn shared_arms<'a>(
    sources: &'a Sources,
    decoder: &str,
) -> Option<(&'a str, BTreeMap<&'a str, usize>)> {
    sources.iter().find_map(|(path, file)| {
        let own = block(file, &["impl", decoder, "{"])?;
        Some((path.as_str(), arms(block(own, &["fn", "decode"])?)))
    })
}

/// The strings of match arms: `"granted" =>`, `"kept" | "held" =>`, `"busy" if …`.
fn arms(tokens: &[Token]) -> BTreeMap<&str, usize> {
    let is_arm = |at: usize| {
        let next = at + 1;
        matches_at(tokens, next, &["=", ">"])
            || (matches_at(tokens, next, &["|"]) && !matches_at(tokens, next + 1, &["|"]))
            || matches_at(tokens, next, &["if"])
    };
    let strings = tokens.iter().enumerate().filter(|(at, _)| is_arm(*at));
    strings
        .filter_map(|(_, token)| Some((token.string()?, token.line)))
        .collect()
}
