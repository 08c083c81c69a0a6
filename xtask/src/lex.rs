//! Words, strings and symbols of Lua and Rust, without comments and spaces.
//!
//! The checkers read tokens rather than text, so that a comment or a string never counts as
//! code. It is a lexer for well-formed sources: the compilers complain about the others.

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    Number,
    /// A string; its text is what stands between the quotes, escapes as written.
    Text,
    /// One character of punctuation.
    Symbol,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) line: usize,
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

impl Token {
    /// Whether this is the given word or symbol.
    pub(crate) fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Word | Kind::Symbol) && self.text == text
    }

    /// The text of a string.
    pub(crate) fn string(&self) -> Option<&str> {
        (self.kind == Kind::Text).then_some(self.text.as_str())
    }
}

/// Whether the tokens from `at` on are these words and symbols.
pub(crate) fn matches_at(tokens: &[Token], at: usize, pattern: &[&str]) -> bool {
    let Some(tokens) = tokens.get(at..at + pattern.len()) else {
        return false;
    };
    tokens
        .iter()
        .zip(pattern)
        .all(|(token, text)| token.is(text))
}

/// The index behind the bracket that closes the one at `open`.
pub(crate) fn skip_brackets(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        if ["(", "[", "{"].iter().any(|bracket| token.is(bracket)) {
            depth += 1;
        } else if [")", "]", "}"].iter().any(|bracket| token.is(bracket)) {
            depth -= 1;
            if depth == 0 {
                return index + 1;
            }
        }
    }
    tokens.len()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Lua,
    Rust,
}

/// Splits a source into tokens.
pub(crate) fn lex(source: &str, language: Language) -> Vec<Token> {
    let mut lexer = Lexer {
        rest: source,
        line: 1,
        language,
        tokens: Vec::new(),
    };
    while let Some(first) = lexer.rest.chars().next() {
        lexer.step(first);
    }
    lexer.tokens
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    language: Language,
    tokens: Vec<Token>,
}

impl Lexer<'_> {
    fn step(&mut self, first: char) {
        if first.is_whitespace() {
            self.take(first.len_utf8());
        } else if self.comment() || self.string(first) {
        } else if first.is_ascii_digit() {
            self.push(Kind::Number, self.word_len());
        } else if first.is_alphabetic() || first == '_' {
            self.push(Kind::Word, self.word_len());
        } else {
            self.push(Kind::Symbol, first.len_utf8());
        }
    }

    fn word_len(&self) -> usize {
        let end = |letter: char| !(letter.is_alphanumeric() || letter == '_');
        self.rest.find(end).unwrap_or(self.rest.len())
    }

    fn push(&mut self, kind: Kind, length: usize) {
        let line = self.line;
        let text = self.take(length);
        self.tokens.push(Token { line, kind, text });
    }

    fn take(&mut self, length: usize) -> String {
        let (taken, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken.to_owned()
    }

    fn comment(&mut self) -> bool {
        let (line, open, close) = match self.language {
            Language::Lua => ("--", "--[[", "]]"),
            Language::Rust => ("//", "/*", "*/"),
        };
        let length = if self.rest.starts_with(open) {
            self.rest
                .find(close)
                .map_or(self.rest.len(), |at| at + close.len())
        } else if self.rest.starts_with(line) {
            self.rest.find('\n').unwrap_or(self.rest.len())
        } else {
            return false;
        };
        self.take(length);
        true
    }

    fn string(&mut self, first: char) -> bool {
        let rust = self.language == Language::Rust;
        let (open, close) = match first {
            '"' => return self.quoted('"'),
            '\'' if rust => return self.character(),
            '\'' => return self.quoted('\''),
            '[' if !rust && self.rest.starts_with("[[") => (2, "]]".to_owned()),
            'r' if rust => {
                let hashes = self.rest[1..].len() - self.rest[1..].trim_start_matches('#').len();
                if !self.rest[1 + hashes..].starts_with('"') {
                    return false;
                }
                (hashes + 2, format!("\"{}", "#".repeat(hashes)))
            }
            _ => return false,
        };
        self.take(open);
        self.push(
            Kind::Text,
            self.rest.find(&close).unwrap_or(self.rest.len()),
        );
        self.take(close.len());
        true
    }

    fn quoted(&mut self, quote: char) -> bool {
        self.take(1);
        let mut escaped = false;
        let end = self.rest.find(|letter: char| {
            let ends = letter == quote && !escaped;
            escaped = letter == '\\' && !escaped;
            ends
        });
        self.push(Kind::Text, end.unwrap_or(self.rest.len()));
        self.take(1);
        true
    }

    /// A Rust character, which is skipped, or the quote of a lifetime, which is too.
    fn character(&mut self) -> bool {
        let mut letters = self.rest.char_indices().skip(1);
        let length = match (letters.next(), letters.next()) {
            (Some((_, '\\')), Some((at, letter))) => {
                let behind = at + letter.len_utf8();
                self.rest[behind..]
                    .find('\'')
                    .map_or(1, |end| behind + end + 1)
            }
            (Some(_), Some((at, '\''))) => at + 1,
            _ => 1,
        };
        self.take(length);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str, language: Language) -> Vec<String> {
        lex(source, language)
            .into_iter()
            .map(|token| token.text)
            .collect()
    }

    #[test]
    fn lua_comments_vanish_and_strings_are_one_token() {
        let source = "-- no KEYS[1]\nlocal a = 'it\\'s' --[[ x\ny ]] .. [[ \"raw\" ]] b[1]";
        let expected = [
            "local",
            "a",
            "=",
            "it\\'s",
            ".",
            ".",
            " \"raw\" ",
            "b",
            "[",
            "1",
            "]",
        ];
        assert_eq!(texts(source, Language::Lua), expected);
        assert_eq!(lex(source, Language::Lua).last().unwrap().line, 3);
    }

    #[test]
    fn rust_lifetimes_characters_and_raw_strings_are_told_apart() {
        let source = "&'a str; '\"' '\\'' '{' r#\"say \"x\"\"# // \"no\"\n/* \" */ \"b\\\"\" r";
        let expected = ["&", "a", "str", ";", "say \"x\"", "b\\\"", "r"];
        assert_eq!(texts(source, Language::Rust), expected);
    }

    #[test]
    fn brackets_are_skipped_with_what_they_hold() {
        let tokens = lex("f({1, [2]}) x", Language::Lua);
        let behind = skip_brackets(&tokens, 1);
        assert!(tokens[behind].is("x"));
    }
}
