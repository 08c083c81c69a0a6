//! Facts about Lua code, read off its tokens.

use crate::lex::{Kind, Token, matches_at, skip_brackets};

/// A use of `KEYS` or `ARGV`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) line: usize,
    pub(super) at: usize,
    pub(super) array: &'static str,
    /// `None` for `KEYS[i]` and `#KEYS`.
    pub(super) number: Option<usize>,
}

pub(super) fn uses(tokens: &[Token]) -> Vec<Use> {
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let Some(array) = ["KEYS", "ARGV"].into_iter().find(|array| token.is(array)) else {
            continue;
        };
        let index = tokens
            .get(at + 2)
            .filter(|_| matches_at(tokens, at + 1, &["["]));
        let closed = matches_at(tokens, at + 3, &["]"]);
        let number = index
            .filter(|_| closed)
            .and_then(|index| index.text.parse().ok());
        found.push(Use {
            line: token.line,
            at,
            array,
            number,
        });
    }
    found
}

/// A name at the top of the body and the one use of `KEYS` or `ARGV` that it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) of: Use,
}

/// The bindings at the top: `local a, b = KEYS[1], tonumber(ARGV[1])`, one statement after another.
/// Also says at which token they end.
pub(super) fn bindings(tokens: &[Token]) -> (Vec<Binding>, usize) {
    let mut found = Vec::new();
    let mut at = 0;
    while matches_at(tokens, at, &["local"]) {
        let end = statement_end(tokens, at);
        let statement = &tokens[at..end];
        let Some(equals) = statement.iter().position(|token| token.is("=")) else {
            break;
        };
        let names = statement[1..equals]
            .iter()
            .filter(|token| token.kind == Kind::Word);
        let values = split_at_commas(statement, equals + 1);
        let before = found.len();
        for (name, (start, stop)) in names.zip(values) {
            if let Some(of) = uses(&statement[start..stop]).into_iter().next() {
                let of = Use {
                    at: at + start + of.at,
                    ..of
                };
                found.push(Binding {
                    name: name.text.clone(),
                    of,
                });
            }
        }
        if found.len() == before {
            break; // the first statement of the work itself
        }
        at = end;
    }
    (found, at)
}

/// A statement ends before a keyword that begins one, and where a new line begins with a word that
/// nothing before it asks for.
fn statement_end(tokens: &[Token], start: usize) -> usize {
    let keywords = [
        "local", "return", "if", "for", "while", "repeat", "do", "function", "end",
    ];
    let mut at = start + 1;
    while at < tokens.len() {
        let (before, token) = (&tokens[at - 1], &tokens[at]);
        let open = [
            "=", ",", "+", "-", "*", "/", "and", "or", "not", "<", ">", "~", ".",
        ];
        let goes_on = open.iter().any(|word| before.is(word));
        let connects = ["and", "or"].iter().any(|word| token.is(word));
        let new_line = token.line > before.line && token.kind == Kind::Word && !connects;
        if keywords.iter().any(|word| token.is(word)) || (new_line && !goes_on) {
            return at;
        }
        let bracket = ["(", "[", "{"].iter().any(|bracket| token.is(bracket));
        at = if bracket {
            skip_brackets(tokens, at)
        } else {
            at + 1
        };
    }
    tokens.len()
}

fn split_at_commas(tokens: &[Token], start: usize) -> Vec<(usize, usize)> {
    let mut parts = Vec::new();
    let (mut from, mut at) = (start, start);
    while at < tokens.len() {
        if tokens[at].is(",") {
            parts.push((from, at));
            from = at + 1;
        }
        let bracket = ["(", "[", "{"].iter().any(|bracket| tokens[at].is(bracket));
        at = if bracket {
            skip_brackets(tokens, at)
        } else {
            at + 1
        };
    }
    parts.push((from, tokens.len()));
    parts
}

/// A name in capitals and what it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Constant {
    pub(super) line: usize,
    pub(super) name: String,
    /// The expression, as tokens with spaces between them.
    pub(super) value: String,
}

/// `local TOKEN_START, TOKEN_END = 17, 47`
pub(super) fn constants(tokens: &[Token]) -> Vec<Constant> {
    let mut found = Vec::new();
    for at in (0..tokens.len()).filter(|at| matches_at(tokens, *at, &["local"])) {
        let statement = &tokens[at..statement_end(tokens, at)];
        let Some(equals) = statement.iter().position(|token| token.is("=")) else {
            continue;
        };
        let names = split_at_commas(&statement[..equals], 1);
        let values = split_at_commas(statement, equals + 1);
        for ((name, _), (start, stop)) in names.into_iter().zip(values) {
            let value: Vec<&str> = statement[start..stop]
                .iter()
                .map(|token| token.text.as_str())
                .collect();
            let name = statement.get(name).filter(|name| is_constant(&name.text));
            found.extend(name.map(|name| Constant {
                line: name.line,
                name: name.text.clone(),
                value: value.join(" "),
            }));
        }
    }
    found
}

fn is_constant(name: &str) -> bool {
    let capital = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.len() > 1 && name.chars().all(capital)
}

/// What a file defines for those it is joined with: its functions and its constants.
pub(super) fn definitions(tokens: &[Token]) -> impl Iterator<Item = String> {
    let functions = (0..tokens.len())
        .filter(|at| matches_at(tokens, *at, &["local", "function"]))
        .filter_map(|at| Some(tokens.get(at + 2)?.text.clone()));
    let constants = constants(tokens).into_iter().map(|one| one.name);
    functions.chain(constants)
}

/// A call of the server: `redis.call('GET', …)`, `pcall(redis.call, 'GET', …)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) line: usize,
    /// In capitals; `None` when it is not written out.
    pub(super) name: Option<String>,
}

pub(super) fn commands(tokens: &[Token]) -> Vec<Command> {
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let calls = ["call", "pcall"]
            .iter()
            .any(|call| matches_at(tokens, at, &["redis", ".", call]));
        if calls {
            let opens = matches_at(tokens, at + 3, &["("]) || matches_at(tokens, at + 3, &[","]);
            let name = tokens.get(at + 4).filter(|_| opens).and_then(Token::string);
            found.push(Command {
                line: token.line,
                name: name.map(str::to_uppercase),
            });
        }
    }
    found
}

/// The first words of answers: `{'granted', …}`, `{there and 'left' or 'absent', …}`. Words of an
/// answer are in small letters, which tells them from tables of command arguments.
pub(super) fn tags(tokens: &[Token]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (open, _) in tokens.iter().enumerate().filter(|(_, token)| token.is("{")) {
        let table = &tokens[open + 1..skip_brackets(tokens, open)];
        let (start, stop) = split_at_commas(table, 0)[0];
        for (at, token) in table[start..stop].iter().enumerate() {
            let chosen = at == 0 || table[at - 1].is("and") || table[at - 1].is("or");
            let text = token.string().filter(|text| chosen && is_tag(text));
            found.extend(text.map(|text| (token.line, text.to_owned())));
        }
    }
    found
}

fn is_tag(text: &str) -> bool {
    let mut letters = text.chars();
    letters
        .next()
        .is_some_and(|letter| letter.is_ascii_lowercase())
        && letters.all(|letter| letter.is_ascii_lowercase() || letter == '_')
}
