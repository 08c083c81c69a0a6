//! The public items of one crate, as text.

use std::collections::BTreeMap;

use public_api::Builder;

/// What the derives and the formatting traits write the same way for every type: that a type has the trait is said.
const SAID_BY_THE_TRAIT: [&str; 9] = [
    "::clone(&self)",
    "::eq(&self, ",
    "::fmt(&self, ",
    "::cmp(&self, ",
    "::partial_cmp(&self, ",
    "::hash<",
    "::serialize<",
    "::deserialize<",
    "StructuralPartialEq for ",
];

pub(crate) struct Listing {
    lines: Vec<String>,
}

impl Listing {
    /// Reads rustdoc's JSON.
    pub(crate) fn read(json: &str) -> Result<Self, String> {
        let api = Builder::from_rustdoc_json(json)
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .build()
            .map_err(|error| format!("{json}: {error}; its format is that of Rust 1.95"))?;
        Ok(Listing::of(api.items().map(|item| item.to_string())))
    }

    fn of(items: impl Iterator<Item = String>) -> Self {
        let is_said = |line: &String| SAID_BY_THE_TRAIT.iter().any(|said| line.contains(said));
        Listing {
            lines: items.filter(|line| !is_said(line)).collect(),
        }
    }

    /// Types by the path of their module.
    fn by_module(&self) -> BTreeMap<&str, usize> {
        let modules = self
            .lines
            .iter()
            .filter_map(|line| line.strip_prefix("pub mod "));
        let mut counts: BTreeMap<&str, usize> = modules.map(|module| (module, 0)).collect();
        for path in self.lines.iter().filter_map(|line| type_of(line)) {
            if let Some((module, _)) = path.rsplit_once("::")
                && let Some(count) = counts.get_mut(module)
            {
                *count += 1;
            }
        }
        counts
    }

    /// How many types it has of its own.
    pub(crate) fn types(&self) -> usize {
        self.by_module().values().sum()
    }

    /// How many types are at its root, those of other crates too.
    pub(crate) fn root(&self) -> usize {
        let own = self.by_module().into_values().next().unwrap_or_default();
        let shown = |line: &&String| {
            let path = line.strip_prefix("pub use ").unwrap_or_default();
            let name = path
                .rsplit_once("::")
                .map(|(_, name)| name)
                .unwrap_or_default();
            path.matches("::").count() == 1 && name.starts_with(char::is_uppercase)
        };
        own + self.lines.iter().filter(shown).count()
    }

    pub(crate) fn counts(&self) -> String {
        let by_module = self.by_module();
        let named = by_module.iter().skip(1).filter(|(_, count)| **count > 0);
        let named: Vec<_> = named
            .map(|(module, count)| {
                format!("{} {count}", module.rsplit("::").next().unwrap_or(module))
            })
            .collect();
        let (types, root) = (self.types(), self.root());
        let modules = match named.is_empty() {
            true => String::new(),
            false => format!("; {}", named.join(", ")),
        };
        format!("{types} types, {root} at the root{modules}")
    }

    pub(crate) fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// What differs from the listing in the repository.
    pub(crate) fn differs(&self, known: &str, path: &str) -> Vec<String> {
        let known: Vec<&str> = known.lines().collect();
        let new = self
            .lines
            .iter()
            .filter(|line| !known.contains(&line.as_str()));
        let gone = known
            .iter()
            .filter(|line| !self.lines.iter().any(|now| now == *line));
        let mut differences: Vec<String> =
            gone.map(|line| format!("{path}: gone: {line}")).collect();
        differences.extend(new.map(|line| format!("{path}: new: {line}")));
        if !differences.is_empty() {
            differences.push("if that is meant: cargo xtask api --write".to_owned());
        }
        differences
    }

    /// The types and futures that a list by hand does not name.
    pub(crate) fn misses(&self, by_hand: &str) -> Vec<String> {
        let is_part = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
        let is_named = |word: &str| {
            by_hand.match_indices(word).any(|(at, _)| {
                let bytes = by_hand.as_bytes();
                let before = at.checked_sub(1).and_then(|before| bytes.get(before));
                let after = bytes.get(at + word.len());
                ![before, after]
                    .into_iter()
                    .flatten()
                    .any(|byte| is_part(*byte))
            })
        };
        let modules = self.by_module();
        let values = self
            .lines
            .iter()
            .filter(|line| !line.contains("pub trait "));
        let types = values.filter_map(|line| type_of(line)).filter(|path| {
            let module = path.rsplit_once("::").map(|(module, _)| module);
            module.is_some_and(|module| modules.contains_key(module))
        });
        let futures = self
            .lines
            .iter()
            .filter_map(|line| line.strip_prefix("pub async fn "));
        let futures = futures.filter_map(|path| path.split(['(', '<']).next());
        let named = types
            .chain(futures)
            .map(|path| path.rsplit("::").next().unwrap_or(path));
        let mut missing: Vec<String> = named
            .filter(|name| !is_named(name))
            .map(|name| format!("send_sync.rs does not name {name}"))
            .collect();
        missing.dedup();
        missing
    }
}

/// The path of a type or a trait that the line declares.
fn type_of(line: &str) -> Option<&str> {
    let line = line.strip_prefix("#[non_exhaustive] ").unwrap_or(line);
    let kinds = ["pub struct ", "pub enum ", "pub trait ", "pub type "];
    let path = kinds.iter().find_map(|kind| line.strip_prefix(kind))?;
    if line.contains(">::") && line.split(" =").next()?.contains(">::") {
        return None; // a type that a trait has named
    }
    path.split([' ', '<', '(', '='])
        .next()
        .map(|path| path.trim_end_matches(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(lines: &[&str]) -> Listing {
        Listing::of(lines.iter().map(|line| (*line).to_owned()))
    }

    const SMALL: [&str; 8] = [
        "pub mod small",
        "pub mod small::part",
        "pub use small::Name",
        "pub struct small::Client",
        "pub async fn small::Client::close(self)",
        "#[non_exhaustive] pub enum small::part::Kind",
        "pub type small::part::Kind::Output = u8",
        "pub fn small::part::Kind::fmt(&self, &mut core::fmt::Formatter<'_>) -> core::fmt::Result",
    ];

    #[test]
    fn types_are_counted_where_they_are_and_what_a_trait_says_is_left_out() {
        let small = listing(&SMALL);
        assert_eq!((small.types(), small.root()), (2, 2));
        assert_eq!(small.counts(), "2 types, 2 at the root; part 1");
        assert!(!small.text().contains("fmt("), "{}", small.text());
    }

    #[test]
    fn an_item_that_came_or_went_is_a_difference() {
        let small = listing(&SMALL);
        assert_eq!(small.differs(&small.text(), "f"), Vec::<String>::new());
        let known = small.text().replace("Client", "Other");
        let differences = small.differs(&known, "f");
        assert!(differences.contains(&"f: gone: pub struct small::Other".to_owned()));
        assert!(differences.contains(&"f: new: pub struct small::Client".to_owned()));
    }

    #[test]
    fn a_type_or_a_future_that_the_list_by_hand_lacks_is_named() {
        let small = listing(&SMALL);
        assert_eq!(
            small.misses("Client, Kind, client.close()"),
            Vec::<String>::new()
        );
        let missing = small.misses("Clients, Kind");
        assert_eq!(missing.len(), 2, "{missing:?}");
    }
}
