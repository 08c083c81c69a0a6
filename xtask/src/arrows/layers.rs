//! The order of the library's layers, and of the storeys of its engine, as ARCHITECTURE.md has them.

pub(super) const PAGE: &str = "ARCHITECTURE.md";
/// What the page calls a folder that it need not name: a primitive's.
const PRIMITIVE: &str = "*/kind";
/// What such a folder has one of: the table of a kind of lock, or the requests of what holds nothing.
pub(super) const OF_A_PRIMITIVE: [&str; 2] = ["kind.rs", "calls.rs"];

/// Folders and files of one folder, lowest layer first. Names of one row share a layer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Layers(Vec<Vec<String>>);

impl Layers {
    /// Reads the first column of the table below the heading: `base/`, or `mutex/`, `lib.rs`.
    pub(super) fn below(heading: &str, page: &str) -> Layers {
        let lines = page.lines().skip_while(|line| *line != heading).skip(1);
        let part = lines.take_while(|line| !line.starts_with('#'));
        let rows = part.filter(|line| line.starts_with("| `"));
        let rows = rows.filter_map(|line| line.split('|').nth(1));
        Layers(rows.map(names).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where a file stands: its layer's number and its name there. The path is below the folder of the layers.
    pub(super) fn place<'a>(&self, path: &'a str) -> Option<(usize, &'a str)> {
        let name = path.split('/').next()?;
        let name = name.strip_suffix(".rs").unwrap_or(name);
        Some((self.row(name).or_else(|| self.row(PRIMITIVE))?, name))
    }

    /// True if the page names this folder or file.
    pub(super) fn names(&self, name: &str) -> bool {
        self.row(name).is_some()
    }

    fn row(&self, wanted: &str) -> Option<usize> {
        let has = |row: &Vec<String>| row.iter().any(|one| one == wanted);
        self.0.iter().position(has)
    }

    pub(super) fn label(&self, layer: usize) -> String {
        self.0
            .get(layer)
            .map(|row| row.join(", "))
            .unwrap_or_default()
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

/// What stands in code font, without `/` and `.rs`.
fn names(cell: &str) -> Vec<String> {
    let inside = cell.split('`').skip(1).step_by(2);
    let bare = inside.map(|name| name.trim_end_matches('/').trim_end_matches(".rs"));
    bare.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_the_one_of_the_page() {
        let page = "# A\n\n## Layers\n\n| layer | holds |\n|---|---|\n| `base/` | `x/` |\n\
                    | `mutex/`, `election/` | y |\n| `lib.rs` | z |\n\n## B\n\n| `c/` | d |\n";
        let layers = Layers::below("## Layers", page);
        assert_eq!(layers.place("base/clock.rs"), Some((0, "base")));
        assert_eq!(layers.place("election/mod.rs"), Some((1, "election")));
        assert_eq!(layers.place("lib.rs"), Some((2, "lib")));
        assert_eq!(layers.place("c/d.rs"), None);
        let page = page.replace("`election/`", "`*/kind.rs`");
        let primitive = Layers::below("## Layers", &page);
        assert_eq!(primitive.place("latch/lock.rs"), Some((1, "latch")));
        assert_eq!(
            (layers.count(), layers.label(1)),
            (3, "mutex, election".into())
        );
        assert!(Layers::below("## Layers", "no table").is_empty());
    }
}
