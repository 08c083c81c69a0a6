//! What one Rust file declares and which paths it names, without its unit tests.

use crate::lex::{Kind, Language, Token, lex, matches_at, skip_brackets};

/// The parts of a file that matter for the structure.
#[derive(Debug, Default)]
pub(super) struct Outline {
    pub(super) children: Vec<Child>,
    /// Names of types, functions, traits, constants and macros at the top level.
    pub(super) items: Vec<Item>,
    pub(super) imports: Vec<Import>,
    /// Paths of two segments and more in code, outside of `use`.
    pub(super) paths: Vec<NamedPath>,
    /// True if the file has an `impl` at the top level.
    pub(super) implements: bool,
    /// Lines of the file without tests: items behind `#[cfg(test)]`, and examples, which are compiled and run as tests.
    pub(super) lines: usize,
}

/// A module declared by `mod name;`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Child {
    pub(super) name: String,
    /// From `#[path = "…"]`, relative to the folder of the declaring file.
    pub(super) file: Option<String>,
    /// True if the module is compiled for tests only.
    pub(super) is_test: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) line: usize,
    /// True for a struct, an enum, a trait or another name of a type.
    pub(super) is_type: bool,
}

/// One leaf of a `use`: `use a::{b as c}` is `a::b` under the name `c`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) path: Vec<String>,
    /// `*` for a glob.
    pub(super) name: String,
    pub(super) line: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedPath {
    pub(super) path: Vec<String>,
    pub(super) line: usize,
}

impl Outline {
    pub(super) fn of(text: &str) -> Outline {
        let (tokens, test_lines, test_children) = without_tests(lex(text, Language::Rust));
        let mut outline = Outline {
            children: test_children,
            lines: text.lines().count() - test_lines - example_lines(text),
            ..Outline::default()
        };
        outline.read(&tokens);
        outline
    }

    /// True if the file defines anything, apart from modules and imports.
    pub(super) fn defines(&self) -> bool {
        self.implements || !self.items.is_empty()
    }

    fn read(&mut self, tokens: &[Token]) {
        let (mut at, mut depth) = (0, 0_usize);
        let mut file = None;
        while let Some(token) = tokens.get(at) {
            if token.is("{") {
                depth += 1;
            } else if token.is("}") {
                depth = depth.saturating_sub(1);
            } else if matches_at(tokens, at, &["#", "[", "path", "="]) {
                file = tokens
                    .get(at + 4)
                    .and_then(Token::string)
                    .map(str::to_owned);
            } else if token.is("use") && !matches_at(tokens, at + 1, &["<"]) {
                at = self.import(tokens, at + 1);
                continue;
            } else if depth == 0
                && let Some(name) = declared(tokens, at)
            {
                self.declare(token, name, tokens, at, &mut file);
            } else if depth == 0 && token.is("impl") {
                self.implements = true;
            }
            if let Some(behind) = self.path(tokens, at) {
                at = behind;
                continue;
            }
            at += 1;
        }
    }

    fn declare(
        &mut self,
        keyword: &Token,
        name: &Token,
        tokens: &[Token],
        at: usize,
        file: &mut Option<String>,
    ) {
        if !keyword.is("mod") {
            let types = ["struct", "enum", "union", "trait", "type"];
            self.items.push(Item {
                name: name.text.clone(),
                line: name.line,
                is_type: types.iter().any(|word| keyword.is(word)),
            });
        } else if tokens.get(at + 2).is_some_and(|token| token.is(";")) {
            self.children.push(Child {
                name: name.text.clone(),
                file: file.take(),
                is_test: false,
            });
        }
    }

    /// Reads one `use` from behind the keyword; returns the index behind its semicolon.
    fn import(&mut self, tokens: &[Token], from: usize) -> usize {
        let end = (from..tokens.len()).find(|at| tokens[*at].is(";"));
        let end = end.unwrap_or(tokens.len());
        let mut at = from;
        self.import_tree(&tokens[..end], &mut at, &[]);
        end + 1
    }

    fn import_tree(&mut self, tokens: &[Token], at: &mut usize, prefix: &[String]) {
        let mut path = prefix.to_vec();
        let Some(line) = tokens.get(*at).map(|token| token.line) else {
            return;
        };
        let mut name = None;
        while let Some(token) = tokens.get(*at) {
            if token.is("{") {
                let behind = skip_brackets(tokens, *at);
                *at += 1;
                while *at < behind - 1 {
                    self.import_tree(tokens, at, &path);
                }
                *at = behind;
                skip_comma(tokens, at);
                return;
            }
            if token.is(",") || token.is("}") {
                break;
            }
            if token.is("as") {
                name = tokens.get(*at + 1).map(|token| token.text.clone());
                *at += 2;
                continue;
            }
            if token.kind == Kind::Word || token.is("*") {
                path.push(token.text.clone());
            }
            *at += 1;
        }
        skip_comma(tokens, at);
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        if let Some(last) = path.last() {
            let name = name.unwrap_or_else(|| last.clone());
            self.imports.push(Import { path, name, line });
        }
    }

    /// Reads `a::b::c` that begins at `at`; returns the index behind it.
    fn path(&mut self, tokens: &[Token], at: usize) -> Option<usize> {
        let first = tokens.get(at)?;
        let follows = at > 1 && matches_at(tokens, at - 2, &[":", ":"]);
        let restricts = at > 0 && tokens[at - 1].is("in");
        if first.kind != Kind::Word || follows || restricts {
            return None;
        }
        let (mut path, mut next) = (vec![first.text.clone()], at + 1);
        while matches_at(tokens, next, &[":", ":"]) {
            match tokens.get(next + 2) {
                Some(token) if token.kind == Kind::Word => path.push(token.text.clone()),
                _ => break,
            }
            next += 3;
        }
        if path.len() < 2 {
            return None;
        }
        let line = first.line;
        self.paths.push(NamedPath { path, line });
        Some(next)
    }
}

fn skip_comma(tokens: &[Token], at: &mut usize) {
    if tokens.get(*at).is_some_and(|token| token.is(",")) {
        *at += 1;
    }
}

/// The name of the item whose keyword stands at `at`.
fn declared(tokens: &[Token], at: usize) -> Option<&Token> {
    const KEYWORDS: [&str; 9] = [
        "mod", "struct", "enum", "union", "trait", "type", "fn", "const", "static",
    ];
    if matches_at(tokens, at, &["macro_rules", "!"]) {
        return tokens.get(at + 2);
    }
    let keyword = KEYWORDS.iter().any(|keyword| tokens[at].is(keyword));
    let name = tokens.get(at + 1)?;
    let not_names = ["fn", "unsafe", "extern", "mut", "async"];
    let named = name.kind == Kind::Word && !not_names.iter().any(|word| name.is(word));
    (keyword && named).then_some(name)
}

/// The tokens outside of items behind `#[cfg(test)]` and the like, how many lines those items
/// have, and the modules that are among them.
fn without_tests(tokens: Vec<Token>) -> (Vec<Token>, usize, Vec<Child>) {
    let (mut kept, mut lines, mut children) = (Vec::new(), 0, Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        let Some(behind) = test_attribute(&tokens, at) else {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        };
        let end = item_end(&tokens, behind);
        let item = &tokens[at..end];
        if let Some(module) = test_module(item) {
            children.push(module);
        }
        let last = item.last().map_or(0, |token| token.line);
        lines += (last + 1).saturating_sub(tokens[at].line);
        at = end;
    }
    (kept, lines, children)
}

/// How many lines the examples in the documentation of items have, with their heading and fences.
fn example_lines(text: &str) -> usize {
    let (mut lines, mut is_inside, mut follows_blank) = (0, false, false);
    for line in text.lines().map(str::trim_start) {
        let said = ["///", "//!"]
            .iter()
            .find_map(|mark| line.strip_prefix(mark));
        let said = said.map(str::trim_start);
        let is_fence = said.is_some_and(|said| said.starts_with("```"));
        lines += match said {
            Some("# Examples") => 1 + usize::from(follows_blank),
            said => usize::from(is_inside && said.is_some() || is_fence),
        };
        is_inside = said.is_some() && is_inside != is_fence;
        follows_blank = said == Some("");
    }
    lines
}

/// The index behind an attribute that keeps its item out of every build but the tests'.
fn test_attribute(tokens: &[Token], at: usize) -> Option<usize> {
    if !matches_at(tokens, at, &["#", "[", "cfg", "("]) {
        return None;
    }
    let behind = skip_brackets(tokens, at + 1);
    let inside = &tokens[at + 4..behind];
    let tests = ["test", "doctest"];
    let alone = tests.iter().any(|word| inside[0].is(word));
    let all = inside[0].is("all") && inside.iter().any(|token| token.is("test"));
    let negated = inside.iter().any(|token| token.is("not"));
    ((alone || all) && !negated).then_some(behind)
}

/// The index behind the item that begins at `at`, attributes first.
fn item_end(tokens: &[Token], mut at: usize) -> usize {
    while matches_at(tokens, at, &["#", "["]) {
        at = skip_brackets(tokens, at + 1);
    }
    while let Some(token) = tokens.get(at) {
        if token.is(";") || token.is(",") {
            return at + 1;
        }
        if token.is("{") {
            return skip_brackets(tokens, at);
        }
        at = match token.is("(") || token.is("[") {
            true => skip_brackets(tokens, at),
            false => at + 1,
        };
    }
    tokens.len()
}

fn test_module(item: &[Token]) -> Option<Child> {
    let at = (0..item.len()).find(|at| item[*at].is("mod"))?;
    let name = item.get(at + 1)?.text.clone();
    item.get(at + 2).filter(|token| token.is(";"))?;
    let path = (0..at).find(|at| matches_at(item, *at, &["path", "="]));
    let file = path.and_then(|at| item[at + 2].string()).map(str::to_owned);
    Some(Child {
        name,
        file,
        is_test: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(source: &str) -> Vec<String> {
        let outline = Outline::of(source);
        let all = outline.imports.iter();
        all.map(|one| format!("{}={}", one.name, one.path.join("::")))
            .collect()
    }

    #[test]
    fn a_use_is_taken_apart_into_its_leaves() {
        assert_eq!(
            imports("use crate::a::{self, b::{C, D as E}, f::*};\npub(crate) use super::g;"),
            [
                "a=crate::a",
                "C=crate::a::b::C",
                "E=crate::a::b::D",
                "*=crate::a::f::*",
                "g=super::g"
            ]
        );
    }

    #[test]
    fn what_only_tests_compile_is_left_out_and_not_counted() {
        let source = "use a::b;\n#[cfg(all(test, feature = \"x\"))]\nmod tests {\n    use c::d;\n}\n\
                      #[cfg(not(test))]\nuse e::f;\n#[cfg(test)]\n#[path = \"x_tests.rs\"]\nmod y;\n";
        let outline = Outline::of(source);
        assert_eq!(imports(source), ["b=a::b", "f=e::f"]);
        assert_eq!(outline.lines, 3);
        let [child] = &outline.children[..] else {
            panic!("{:?}", outline.children)
        };
        assert_eq!(child.file.as_deref(), Some("x_tests.rs"));
        assert!(child.is_test);
    }

    #[test]
    fn an_example_is_a_test_and_what_is_said_about_it_is_not() {
        let source = "//! Of a file:\n//!\n//! # Examples\n//! ```\n//! a();\n//! ```\n\n    /// Of an item.\n    /// ```text\n    /// b\n\
                      fn c() {}\n/// Does.\nfn d() {}\n// ```\nfn e() {}\n";
        assert_eq!(source.lines().count(), 15);
        assert_eq!(Outline::of(source).lines, 15 - 7);
    }

    #[test]
    fn items_and_paths_are_found_and_comments_and_strings_are_not() {
        let source = "//! a::b\nmod x;\nconst fn f() { super::g::h(\"c::d\") }\n\
                      pub(in crate::z) struct S;\nimpl S { fn inner() {} }\nmacro_rules! m {}";
        let outline = Outline::of(source);
        let names: Vec<&str> = outline
            .items
            .iter()
            .map(|item| item.name.as_str())
            .collect();
        assert_eq!(names, ["f", "S", "m"]);
        assert_eq!(outline.children[0].name, "x");
        let paths: Vec<String> = outline
            .paths
            .iter()
            .map(|one| one.path.join("::"))
            .collect();
        assert_eq!(paths, ["super::g::h"]);
        assert!(outline.defines());
        assert!(!Outline::of("//! Docs.\nmod a;\npub use a::B;").defines());
    }
}
