//! Values that are added and never removed, and are found without a lock.

use std::sync::OnceLock;

/// Tasks that add at the same time agree on one order: each goes on behind what another has put into its place.
pub(super) struct Chain<T>(OnceLock<Box<(T, Chain<T>)>>);

impl<T> Default for Chain<T> {
    fn default() -> Self {
        Chain(OnceLock::new())
    }
}

impl<T> Chain<T> {
    /// Returns the value that fits, and adds it when there is none. `None`: there are `most` others already.
    pub(super) fn find(
        &self,
        most: usize,
        fits: impl Fn(&T) -> bool,
        make: impl Fn() -> T,
    ) -> Option<&T> {
        let mut place = self;
        for _ in 0..most {
            let (value, next) = &**place.0.get_or_init(|| Box::new((make(), Chain::default())));
            if fits(value) {
                return Some(value);
            }
            place = next;
        }
        None
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let all = std::iter::successors(self.0.get(), |entry| entry.1.0.get());
        all.map(|entry| &entry.0)
    }
}
