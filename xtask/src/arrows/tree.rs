//! The modules of a crate, and which file a path leads to.

use std::collections::{BTreeMap, BTreeSet};

use super::outline::Outline;
use crate::files::File;

/// What of a path is below a folder.
pub(super) fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    path.strip_prefix(folder)?.strip_prefix('/')
}

/// Each non-test file of a crate as a module.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) modules: Vec<Module>,
    by_path: BTreeMap<Vec<String>, usize>,
}

#[derive(Debug)]
pub(super) struct Module {
    /// From the repository's root.
    pub(super) file: String,
    /// From the crate's root; empty for the root itself.
    pub(super) path: Vec<String>,
    pub(super) outline: Outline,
}

/// One file names another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arrow {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) line: usize,
}

impl Tree {
    /// The modules below the root file `source/root`, read from the declarations in `files`.
    pub(super) fn of(files: &[File], source: &str, root: &str) -> Tree {
        let texts: BTreeMap<&str, &str> = files
            .iter()
            .map(|file| (file.path.as_str(), file.text.as_str()))
            .collect();
        let mut tree = Tree {
            modules: Vec::new(),
            by_path: BTreeMap::new(),
        };
        tree.add(&texts, format!("{source}/{root}"), source, Vec::new());
        tree
    }

    /// `folder` is where the children of this file lie.
    fn add(&mut self, texts: &BTreeMap<&str, &str>, file: String, folder: &str, path: Vec<String>) {
        let Some(text) = texts.get(file.as_str()) else {
            return;
        };
        let outline = Outline::of(text);
        let own_folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut children = Vec::new();
        for child in outline.children.iter().filter(|child| !child.is_test) {
            let plain = format!("{folder}/{}.rs", child.name);
            let nested = format!("{folder}/{}/mod.rs", child.name);
            let named = child
                .file
                .as_ref()
                .map(|name| format!("{own_folder}/{name}"));
            // One name may be declared twice, for builds with a feature and without it.
            let all = [named, Some(plain), Some(nested)].into_iter().flatten();
            if let Some(file) = all
                .into_iter()
                .find(|path| texts.contains_key(path.as_str()))
            {
                let mut path = path.clone();
                path.push(child.name.clone());
                children.push((file, format!("{folder}/{}", child.name), path));
            }
        }
        self.by_path.insert(path.clone(), self.modules.len());
        self.modules.push(Module {
            file,
            path,
            outline,
        });
        for (file, folder, path) in children {
            self.add(texts, file, &folder, path);
        }
    }

    /// All arrows between different files, in order, one for each pair and line.
    pub(super) fn arrows(&self) -> Vec<Arrow> {
        let mut arrows = BTreeSet::new();
        for (from, module) in self.modules.iter().enumerate() {
            let imports = module.outline.imports.iter();
            let imports = imports.filter(|import| !self.is_module(from, &import.path));
            let imports = imports.map(|import| (&import.path, import.line));
            let paths = module.outline.paths.iter().map(|one| (&one.path, one.line));
            for (path, line) in imports.chain(paths) {
                if let Some(to) = self.target(from, path)
                    && to != from
                {
                    arrows.insert(Arrow { from, to, line });
                }
            }
        }
        arrows.into_iter().collect()
    }

    /// An import of a module leads nowhere by itself: what is named through it does.
    fn is_module(&self, from: usize, path: &[String]) -> bool {
        self.walk(from, path, 0)
            .is_some_and(|found| matches!(found, Found::Module(_)))
    }

    /// The file that defines what `path` names in the file `from`.
    fn target(&self, from: usize, path: &[String]) -> Option<usize> {
        match self.walk(from, path, 0)? {
            Found::Module(at) | Found::Item(at) => Some(at),
        }
    }

    fn walk(&self, from: usize, path: &[String], depth: usize) -> Option<Found> {
        // A cycle of re-exports would not compile; a name that hides itself might seem to be one.
        if depth > 8 {
            return None;
        }
        let (mut at, mut rest) = self.begin(from, path, depth)?;
        while let Some((name, behind)) = rest.split_first() {
            let module = &self.modules[at];
            let mut child = module.path.clone();
            child.push(name.clone());
            if name == "super" {
                at = self.parent(at)?;
            } else if let Some(inner) = self.by_path.get(&child) {
                at = *inner;
            } else if module.outline.items.iter().any(|item| item.name == *name) {
                return Some(Found::Item(at));
            } else {
                return match self.imported(at, name, depth) {
                    Some(Found::Module(inner)) => {
                        (at, rest) = (inner, behind);
                        continue;
                    }
                    Some(item) => Some(item),
                    // What a macro of this file defines, or a glob of an enum.
                    None => Some(Found::Item(at)),
                };
            }
            rest = behind;
        }
        Some(Found::Module(at))
    }

    /// Where a path starts, and what of it is left; nothing for a path into another crate.
    fn begin<'a>(
        &self,
        from: usize,
        path: &'a [String],
        depth: usize,
    ) -> Option<(usize, &'a [String])> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => return Some((self.root(), rest)),
            "self" => return Some((from, rest)),
            "super" => return Some((self.parent(from)?, rest)),
            _ => {}
        }
        let mut child = self.modules[from].path.clone();
        child.push(first.clone());
        if let Some(at) = self.by_path.get(&child) {
            return Some((*at, rest));
        }
        let own = self.modules[from].outline.imports.iter();
        let mut own = own.filter(|import| import.name == *first && import.path != path);
        match own.find_map(|import| self.walk(from, &import.path, depth + 1))? {
            Found::Module(at) => Some((at, rest)),
            // Counted where it is imported.
            Found::Item(_) => None,
        }
    }

    /// What a name means that the module `at` only imports.
    fn imported(&self, at: usize, name: &str, depth: usize) -> Option<Found> {
        let imports = &self.modules[at].outline.imports;
        let named = imports.iter().filter(|import| import.name == name);
        let globs = imports.iter().filter(|import| import.name == "*");
        let named = named.map(|import| import.path.clone());
        let globs = globs.map(|import| {
            let mut path = import.path.clone();
            path.pop();
            path.push(name.to_owned());
            path
        });
        let mut all = named.chain(globs);
        all.find_map(|path| self.walk(at, &path, depth + 1))
    }

    fn root(&self) -> usize {
        self.by_path.get(&Vec::new()).copied().unwrap_or_default()
    }

    fn parent(&self, at: usize) -> Option<usize> {
        let (_, parent) = self.modules[at].path.split_last()?;
        self.by_path.get(parent).copied()
    }
}

#[derive(Debug, Clone, Copy)]
enum Found {
    Module(usize),
    Item(usize),
}
