//! Rules about Rust code. They read tokens: comments and strings may say what they like.

use super::source::Source;
use crate::complaint::Complaint;
use crate::lex::{Kind, Language, Token, lex, matches_at};

pub(super) fn check(source: &Source<'_>, found: &mut Vec<Complaint>) {
    let tokens = lex(source.text, Language::Rust);
    let rules: [Rule; 4] = [unsafe_code, clocks, redis, ports];
    for rule in rules {
        for (line, wrong, right) in rule(source, &tokens) {
            found.push(Complaint::new(source.path, line, wrong, right));
        }
    }
}

/// Line, what is wrong, what would be right.
type Found = Vec<(usize, String, &'static str)>;
type Rule = fn(&Source<'_>, &[Token]) -> Found;

/// An auditor of the unsafe code reads two kinds of file and no more.
fn unsafe_code(source: &Source<'_>, tokens: &[Token]) -> Found {
    if ["clock.rs", "process.rs"].contains(&source.file_name()) {
        return Vec::new();
    }
    let uses = tokens.iter().filter(|token| token.is("unsafe"));
    let right = "a safe call from rustix, or a function in clock.rs or process.rs";
    uses.map(|token| (token.line, "unsafe code".to_owned(), right))
        .collect()
}

/// A deadline computed from another clock than the lease's is wrong by as much as they differ.
fn clocks(source: &Source<'_>, tokens: &[Token]) -> Found {
    if ["clock.rs", "boottime.rs"].contains(&source.file_name()) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let reads = ["Instant", "SystemTime"].iter().any(|kind| token.is(kind))
            && matches_at(tokens, at + 1, &[":", ":", "now"]);
        if reads || (token.is("clock_gettime") && matches_at(tokens, at + 1, &["("])) {
            let right = "take the time as an argument, or from the clock in clock.rs";
            found.push((token.line, "reads a clock".to_owned(), right));
        }
    }
    found
}

/// The other stores must not come to depend on one client library, nor the public API on its types.
/// Where a user hands in a connection is the exception.
fn redis(source: &Source<'_>, tokens: &[Token]) -> Found {
    let library = "crates/leaselock/src/";
    let allowed = ["store/redis/", "store/redis.rs", "client/builder.rs"];
    let Some(rest) = source.path.strip_prefix(library) else {
        return Vec::new();
    };
    if allowed.iter().any(|start| rest.starts_with(start)) || source.is_test() {
        return Vec::new();
    }
    // Beside `mod redis;` the name means that module.
    let module = (0..tokens.len()).any(|at| matches_at(tokens, at, &["mod", "redis"]));
    let mut found = Vec::new();
    let tests_from = source.tests_from();
    let before_tests = tokens.iter().take_while(|token| token.line < tests_from);
    for (at, token) in before_tests.enumerate() {
        // `store::redis::` and `self::redis::` are our own module.
        let path = at > 2 && tokens[at - 1].is(":") && tokens[at - 3].kind == Kind::Word;
        let own = path && !tokens[at - 3].is("use");
        if token.is("redis") && matches_at(tokens, at + 1, &[":", ":"]) && !own && !module {
            let right = "go through store/redis, which alone knows that crate";
            found.push((token.line, "names the redis crate".to_owned(), right));
        }
    }
    found
}

/// On the usual port may be a server that a user needs. Unit tests in the file may parse it, and so may those of URLs.
fn ports(source: &Source<'_>, tokens: &[Token]) -> Found {
    if !source.is_test() || source.path.contains("/url/") {
        return Vec::new();
    }
    let usual = concat!("63", "79");
    let uses = tokens.iter().filter(|token| match token.kind {
        Kind::Number => token.text.replace('_', "") == usual,
        Kind::Text => token.text.contains(&format!(":{usual}")),
        Kind::Word | Kind::Symbol => false,
    });
    let right = "a server of the test's own, on a free port: testkit::Server";
    uses.map(|token| (token.line, format!("port {usual} in a test"), right))
        .collect()
}
