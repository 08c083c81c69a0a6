//! The structure of the crates: who names whom, in which order, and how long files are.
//!
//! The library is made of layers, and an arrow (one file names another one) points down only. Without a rule that a
//! program checks, one import after the other turns layers into a circle, and a circle can only be read as a whole.

mod budgets;
mod cycles;
mod layers;
mod names;
mod outline;
mod rooms;
mod tree;

use std::collections::BTreeMap;

use self::budgets::Budget;
pub(crate) use self::budgets::HEADING as BUDGETS;
use self::layers::{Layers, PAGE};
use self::tree::{Arrow, Tree, below};
use crate::complaint::Complaint;
use crate::files::File;

/// Longer files are lists that grew. Unit tests do not count.
const LINES_MAX: usize = 400;
const LIBRARY: &str = "crates/leaselock/src";
/// Folders whose order the page has, and the heading of the table.
const ORDERED: [(&str, &str); 2] = [
    (LIBRARY, "## Layers"),
    ("crates/leaselock/src/engine", "### Storeys of the engine"),
];

/// Where sources lie, and their root file.
const CRATES: [(&str, &str); 7] = [
    (LIBRARY, "lib.rs"),
    ("crates/leaselock-fence/src", "lib.rs"),
    ("crates/leaselock-tower/src", "lib.rs"),
    ("crates/leaselock-cron/src", "lib.rs"),
    ("crates/leaselock-cli/src", "main.rs"),
    ("crates/testkit/src", "lib.rs"),
    ("xtask/src", "main.rs"),
];

/// All rules on all crates.
pub(crate) fn check(all: &[File], found: &mut Vec<Complaint>) {
    for (folder, root) in CRATES {
        let tree = Tree::of(all, folder, root);
        found.extend(broken(&tree, &orders(all, folder)));
        if folder == LIBRARY {
            found.extend(names::repeated(&tree));
            found.extend(budgets::broken(&tree, folder, &Budget::all(page(all))));
        }
    }
}

/// Lines without unit tests, by layer and in all, and those of each mechanism beside its budget.
pub(crate) fn count(all: &[File]) -> String {
    let tree = Tree::of(all, LIBRARY, "lib.rs");
    let orders = orders(all, LIBRARY);
    let layers = &orders[0].layers;
    let mut sums = BTreeMap::new();
    for module in &tree.modules {
        let place = below(&module.file, LIBRARY).and_then(|path| layers.place(path));
        let layer = place.map_or(layers.count(), |(layer, _)| layer);
        let (files, lines) = sums.entry(layer).or_insert((0, 0));
        *files += 1;
        *lines += module.outline.lines;
    }
    let total: usize = sums.values().map(|(_, lines)| lines).sum();
    let line = |(layer, (files, lines)): (&usize, &(usize, usize))| {
        let label = if *layer == layers.count() {
            "in no layer".into()
        } else {
            layers.label(*layer)
        };
        format!("{lines:>7} lines {files:>4} files  {label}")
    };
    let mut lines: Vec<String> = sums.iter().map(line).collect();
    lines.push(format!(
        "{total:>7} lines {:>4} files  in all, without tests",
        tree.modules.len()
    ));
    lines.extend(budgets::table(&tree, LIBRARY, &Budget::all(page(all))));
    lines.join("\n")
}

/// A folder and the order of what lies in it.
struct Order {
    folder: &'static str,
    layers: Layers,
}

/// The orders of this crate's folders.
fn orders(all: &[File], of: &str) -> Vec<Order> {
    let page = page(all);
    let ordered = ORDERED.iter().filter(|(folder, _)| folder.starts_with(of));
    ordered
        .map(|(folder, heading)| Order {
            folder,
            layers: Layers::below(heading, page),
        })
        .collect()
}

fn page(all: &[File]) -> &str {
    let page = all.iter().find(|file| file.path == PAGE);
    page.map_or("", |file| file.text.as_str())
}

/// All that the rules find in one crate.
fn broken(tree: &Tree, orders: &[Order]) -> Vec<Complaint> {
    let arrows = tree.arrows();
    let rules = [
        long_files(tree),
        faces(tree),
        in_circles(tree, &arrows),
        rooms::in_circles(tree, &arrows),
    ];
    let ordered = |order| [arrows_up(tree, &arrows, order), unplaced(tree, order)];
    let rules = rules.into_iter().chain(orders.iter().flat_map(ordered));
    rules.flatten().collect()
}

fn long_files(tree: &Tree) -> Vec<Complaint> {
    let long = tree
        .modules
        .iter()
        .filter(|module| module.outline.lines > LINES_MAX);
    long.map(|module| {
        let wrong = format!("has {} lines without its tests", module.outline.lines);
        let right = format!("at most {LINES_MAX}: split it by what it is about");
        Complaint::new(&module.file, 0, wrong, right)
    })
    .collect()
}

/// A `mod.rs` is a table of contents. What it defines is named by its children, and so they form a circle.
fn faces(tree: &Tree) -> Vec<Complaint> {
    let faces = tree
        .modules
        .iter()
        .filter(|module| module.file.ends_with("/mod.rs"));
    let defining = faces.filter(|module| module.outline.defines());
    defining
        .map(|module| {
            let items = &module.outline.items;
            let line = items.first().map_or(0, |item| item.line);
            let names: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
            let wrong = format!("a mod.rs that defines {}", names.join(", "));
            let right = "`mod`, `pub use` and docs only: move the rest to a file of its own";
            Complaint::new(&module.file, line, wrong, right)
        })
        .collect()
}

fn arrows_up(tree: &Tree, arrows: &[Arrow], order: &Order) -> Vec<Complaint> {
    let place = |at: usize| {
        let path = below(&tree.modules[at].file, order.folder)?;
        order.layers.place(path)
    };
    let mut found = Vec::new();
    for arrow in arrows {
        let (Some(from), Some(to)) = (place(arrow.from), place(arrow.to)) else {
            continue;
        };
        if to.0 < from.0 || to == from {
            continue;
        }
        let where_to = if to.0 > from.0 { "above" } else { "beside" };
        let wrong = format!("`{}` names `{}`, which is {where_to} it", from.1, to.1);
        let right = format!(
            "hand {} in from above, or move it down",
            tree.modules[arrow.to].file
        );
        found.push(Complaint::new(
            &tree.modules[arrow.from].file,
            arrow.line,
            wrong,
            right,
        ));
    }
    found
}

fn unplaced(tree: &Tree, order: &Order) -> Vec<Complaint> {
    let (folder, layers) = (order.folder, &order.layers);
    if layers.is_empty() {
        return Vec::new();
    }
    let files = tree.modules.iter().map(|module| module.file.as_str());
    let homeless = files.filter(|file| {
        let Some(path) = below(file, folder).filter(|path| *path != "mod.rs") else {
            return false;
        };
        let Some((_, name)) = layers.place(path) else {
            return true;
        };
        let own = layers::OF_A_PRIMITIVE.map(|file| format!("{folder}/{name}/{file}"));
        !layers.names(name) && !tree.modules.iter().any(|module| own.contains(&module.file))
    });
    homeless
        .map(|file| {
            Complaint::new(
                file,
                0,
                "is in no layer",
                format!("the table in {PAGE} names it"),
            )
        })
        .collect()
}

/// The shortest loop of each circle.
fn in_circles(tree: &Tree, arrows: &[Arrow]) -> Vec<Complaint> {
    let mut edges = vec![Vec::new(); tree.modules.len()];
    for arrow in arrows {
        edges[arrow.from].push(arrow.to);
    }
    let circles = cycles::circles(&edges);
    let complaint = |circle: &Vec<usize>| {
        let way = cycles::shortest_loop(&edges, circle);
        let files: Vec<&str> = way
            .iter()
            .map(|at| tree.modules[*at].file.as_str())
            .collect();
        let arrow = arrows
            .iter()
            .find(|arrow| way.starts_with(&[arrow.from, arrow.to]));
        let wrong = format!(
            "one of {} files in a circle: {}",
            circle.len(),
            files.join(" -> ")
        );
        let line = arrow.map_or(0, |arrow| arrow.line);
        Complaint::new(
            files[0],
            line,
            wrong,
            "move what both need to a file below them",
        )
    };
    circles.iter().map(complaint).collect()
}

#[cfg(test)]
mod tests;
