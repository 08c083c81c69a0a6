//! Links to a heading: a browser that does not find the heading shows the top of the page, and the reader searches.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::documents;
use crate::complaint::Complaint;
use crate::files::File;

/// Compares the anchors of all links with the headings of the pages that they lead to.
pub(super) fn check(all: &[File], found: &mut Vec<Complaint>) {
    let pages = all.iter().filter(|file| file.path.ends_with(".md"));
    let headings: BTreeMap<&str, BTreeSet<String>> = pages
        .clone()
        .map(|page| (&*page.path, headings(&page.text)))
        .collect();
    for page in pages {
        for (line, target) in documents::links_of(&page.text) {
            let Some((file, anchor)) = target.split_once('#') else {
                continue;
            };
            let path = match file {
                "" => Some(Path::new(&page.path).to_owned()),
                _ => documents::resolve(
                    &Path::new(&page.path)
                        .parent()
                        .unwrap_or(Path::new(""))
                        .join(file),
                ),
            };
            let known = path.and_then(|path| headings.get(path.to_str()?));
            if known.is_some_and(|known| !known.contains(anchor)) {
                let wrong = format!("the link to {target:?} names no heading");
                found.push(Complaint::new(
                    &page.path,
                    line,
                    wrong,
                    "the heading in small letters, with dashes for spaces",
                ));
            }
        }
    }
}

/// The anchors that GitHub gives to the headings of a page.
fn headings(text: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if !fenced && line.starts_with('#') {
            found.insert(anchor(line.trim_start_matches('#').trim()));
        }
    }
    found
}

/// Small letters, digits, dashes and underscores stay; a space becomes a dash; all else goes.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c })
        .collect::<String>()
        .to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_that_github_makes() {
        assert_eq!(anchor("What `-v` tells"), "what--v-tells");
        assert_eq!(
            anchor("Behind another library's lock"),
            "behind-another-librarys-lock"
        );
        assert_eq!(
            anchor("Killed with AOF `everysec`"),
            "killed-with-aof-everysec"
        );
    }

    #[test]
    fn a_link_to_a_heading_that_is_not_there_is_refused() {
        let page = |path: &str, text: &str| File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let all = [
            page(
                "docs/a.md",
                "# One\n\n[x](#one) [y](b.md#two) [z](b.md#three)\n",
            ),
            page(
                "docs/b.md",
                "## Two\n```sh\n# three\n```\n[w](https://x/#y) [v](#gone)\n",
            ),
        ];
        let mut found = Vec::new();
        check(&all, &mut found);
        let found: Vec<String> = found
            .iter()
            .map(|one| format!("{}:{}", one.file, one.line))
            .collect();
        assert_eq!(found, ["docs/a.md:3", "docs/b.md:5"]);
    }
}
