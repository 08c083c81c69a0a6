//! The counts of one client, by kind of lock and class.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::chain::Chain;
use super::kind_totals::KindTotals;
use super::nouns::NounTotals;

/// How many classes are told apart. Each has a series for every bucket, and a class that is made of a name would have one
/// for each name.
const CLASSES_MAX: usize = 64;
/// The class of all further ones.
const OTHER: &str = "other";
/// A longer class is cut off.
const CLASS_CHARS_MAX: usize = 100;

/// A client has far fewer kinds of locks; the bound only ends the search.
const KINDS_MAX: usize = 100;

pub(crate) struct Totals {
    /// What has no class.
    plain: ClassTotals,
    other: ClassTotals,
    classes: Chain<ClassTotals>,
    has_warned: AtomicBool,
    pub(crate) nouns: NounTotals,
}

struct ClassTotals {
    class: Arc<str>,
    kinds: Chain<Arc<KindTotals>>,
}

impl ClassTotals {
    fn new(class: &str) -> Self {
        ClassTotals {
            class: Arc::from(class),
            kinds: Chain::default(),
        }
    }

    fn of(&self, kind: &'static str) -> Option<&Arc<KindTotals>> {
        let make = || Arc::new(KindTotals::new(kind, &self.class));
        self.kinds.find(KINDS_MAX, |one| one.kind == kind, make)
    }
}

impl Default for Totals {
    fn default() -> Self {
        Totals {
            plain: ClassTotals::new(""),
            other: ClassTotals::new(OTHER),
            classes: Chain::default(),
            has_warned: AtomicBool::new(false),
            nouns: NounTotals::default(),
        }
    }
}

impl Totals {
    /// Returns what is counted for this kind and class. `None` is for a client with more kinds than there are.
    pub(crate) fn of(&self, kind: &'static str, class: &str) -> Option<&Arc<KindTotals>> {
        self.class(class).of(kind)
    }

    fn class(&self, class: &str) -> &ClassTotals {
        if class.is_empty() {
            return &self.plain;
        }
        let end = class.char_indices().nth(CLASS_CHARS_MAX);
        let class = end.map_or(class, |(end, _)| &class[..end]);
        if class == OTHER {
            return &self.other;
        }
        let is = |one: &ClassTotals| *one.class == *class;
        let found = self
            .classes
            .find(CLASSES_MAX, is, || ClassTotals::new(class));
        found.unwrap_or_else(|| self.beyond())
    }

    fn beyond(&self) -> &ClassTotals {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(target: "leaselock", "too many classes; further ones count as `other`");
        }
        &self.other
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<KindTotals>> {
        let classes = [&self.plain, &self.other].into_iter();
        let classes = classes.chain(self.classes.iter());
        classes.flat_map(|class| class.kinds.iter())
    }
}
