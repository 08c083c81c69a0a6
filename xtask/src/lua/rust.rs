//! The Rust half of a script: `encode` gives what the header asks for, `decode` knows its answers.
//!
//! It reads tokens and not types, and so knows only this shape:
//! `impl Operation for X { … script!("mutex/acquire", …) … fn encode … fn decode … }`.

use std::collections::BTreeMap;

use super::rules::listed_tags;
use super::sources::Script;
use crate::complaint::Complaint;
use crate::lex::{Token, matches_at, skip_brackets};

pub(super) fn check_decoder(
    script: &Script,
    sources: &[(String, Vec<Token>)],
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
    let changes_nothing = script.header.writes.text().starts_with("nothing");
    if matches_at(file, at + 4, &[",", "reads_only"]) != changes_nothing {
        let wrong = format!("`reads_only` and what {} writes", script.name);
        let right =
            "`reads_only` for a script whose header says `Writes nothing`, and for no other";
        found.push(Complaint::new(path, file[at].line, wrong, right));
    }
    let region = enclosing_impl(file, at);
    count(script, path, region, file[at].line, found);
    compare_tags(script, path, region, file, found);
}

/// Where the file says `script!("name"`.
fn mention(tokens: &[Token], name: &str) -> Option<usize> {
    let here = |at: &usize| {
        matches_at(tokens, *at, &["script", "!", "("])
            && tokens.get(at + 3).and_then(Token::string) == Some(name)
    };
    (0..tokens.len()).find(here)
}

/// The `impl` block around a token; the whole file when there is none.
fn enclosing_impl(tokens: &[Token], at: usize) -> &[Token] {
    let blocks = (0..at).rev().filter(|open| {
        tokens[*open].is("{") && skip_brackets(tokens, *open) > at && opens_impl(tokens, *open)
    });
    let innermost = blocks.into_iter().next();
    innermost.map_or(tokens, |open| &tokens[open..skip_brackets(tokens, open)])
}

fn opens_impl(tokens: &[Token], open: usize) -> bool {
    let before = tokens[..open].iter().rev();
    let mut head = before.take_while(|t| !["{", "}", ";"].iter().any(|end| t.is(end)));
    head.any(|token| token.is("impl"))
}

fn function<'a>(tokens: &'a [Token], name: &str) -> Option<&'a [Token]> {
    let at = (0..tokens.len()).find(|at| matches_at(tokens, *at, &["fn", name]))?;
    let open = at + tokens[at..].iter().position(|token| token.is("{"))?;
    Some(&tokens[open..skip_brackets(tokens, open)])
}

fn count(script: &Script, path: &str, region: &[Token], line: usize, found: &mut Vec<Complaint>) {
    let Some(encode) = function(region, "encode") else {
        let wrong = format!("{} has no `encode` beside its `script!`", script.name);
        found.push(Complaint::new(
            path,
            line,
            wrong,
            "give the keys and arguments there",
        ));
        return;
    };
    for (array, one, many) in [("KEYS", "key", "keys"), ("ARGV", "arg", "args")] {
        let calls =
            |name| (0..encode.len()).filter(move |at| matches_at(encode, *at, &[".", name, "("]));
        let listed = script.header.of(array).count();
        let open_ended = script.header.of(array).any(|slot| slot.open_ended);
        let given = calls(one).count();
        if !open_ended && calls(many).next().is_none() && given != listed {
            let wrong = format!(
                "{} gives {given} {array}, the header lists {listed}",
                script.name
            );
            let right = format!("one `.{one}(…)` for each, in the order of the header");
            found.push(Complaint::new(path, encode[0].line, wrong, right));
        }
    }
}

fn compare_tags(
    script: &Script,
    path: &str,
    region: &[Token],
    file: &[Token],
    found: &mut Vec<Complaint>,
) {
    let own = function(region, "decode").map(arms).unwrap_or_default();
    // `decode` may leave the work to a function beside it.
    let known = if own.is_empty() { arms(file) } else { own };
    let listed = listed_tags(script);
    let line = region.first().map_or(0, |token| token.line);
    for tag in listed
        .keys()
        .filter(|tag| !known.contains_key(tag.as_str()))
    {
        let wrong = format!("{} does not decode {tag:?}", script.name);
        found.push(Complaint::new(
            path,
            line,
            wrong,
            "a match arm for each answer of the header",
        ));
    }
    for (tag, line) in known.iter().filter(|(tag, _)| !listed.contains_key(**tag)) {
        let wrong = format!(
            "{} decodes {tag:?}, which the script never answers",
            script.name
        );
        found.push(Complaint::new(
            path,
            *line,
            wrong,
            "take the arm out, or list the answer",
        ));
    }
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
