//! Hashes and sorted sets as stored in a lock file: one allocation each, searched from the front.
//!
//! Every call reads the whole file. With thousands of waiters, a separate value for each would cost more than all else
//! in the call. Here a member costs its bytes, in memory as in the file.

use std::cmp::Ordering;
use std::marker::PhantomData;

/// Fields of a hash with their values, in the order of the fields.
pub(super) type Fields = Packed<Field<'static>>;

/// Members of a sorted set, in the order of score and then name.
pub(super) type Members = Packed<PackedMember<'static>>;

/// A field of a hash and its value.
pub(super) type Field<'a> = (&'a [u8], &'a [u8]);

/// A member of a sorted set.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct PackedMember<'a> {
    pub(super) score: f64,
    pub(super) name: &'a [u8],
}

/// The number of items, and their bytes in sequence.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Packed<I> {
    count: usize,
    bytes: Vec<u8>,
    items: PhantomData<I>,
}

/// What can be packed.
pub(super) trait PackedItem {
    type Of<'a>;

    /// Reads the item at the front, and returns the rest.
    fn next(bytes: &[u8]) -> Option<(Self::Of<'_>, &[u8])>;
}

const LENGTH: usize = 4;
const SCORE: usize = 8;

fn framed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH>()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
}

fn frame(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

impl<I: PackedItem> Packed<I> {
    /// Reads so many items and returns the bytes behind them; `None` if `bytes` has fewer.
    pub(super) fn read(count: usize, bytes: &[u8]) -> Option<(Self, &[u8])> {
        let mut rest = bytes;
        for _ in 0..count {
            (_, rest) = I::next(rest)?;
        }
        let packed = Packed {
            count,
            bytes: bytes[..bytes.len() - rest.len()].to_vec(),
            items: PhantomData,
        };
        Some((packed, rest))
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = I::Of<'_>> {
        self.places().map(|(_, item)| item)
    }

    fn places(&self) -> impl Iterator<Item = (usize, I::Of<'_>)> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let at = self.bytes.len() - rest.len();
            let (item, behind) = I::next(rest)?;
            rest = behind;
            Some((at, item))
        })
    }

    /// Replaces the `removed` bytes at `at` by an item.
    fn splice(&mut self, at: usize, removed: usize, item: &[u8]) {
        drop(self.bytes.splice(at..at + removed, item.iter().copied()));
        self.count = self.count + usize::from(!item.is_empty()) - usize::from(removed > 0);
    }
}

impl PackedMember<'_> {
    /// Returns the order in a set; damage alone writes a score that is no number.
    fn order(&self, other: &PackedMember<'_>) -> Ordering {
        let by_score = self.score.partial_cmp(&other.score);
        by_score
            .unwrap_or_else(|| self.score.total_cmp(&other.score))
            .then_with(|| self.name.cmp(other.name))
    }

    fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.score.to_le_bytes());
        frame(out, self.name);
    }
}

impl PackedItem for Field<'static> {
    type Of<'a> = Field<'a>;

    fn next(bytes: &[u8]) -> Option<(Field<'_>, &[u8])> {
        let (field, rest) = framed(bytes)?;
        let (value, rest) = framed(rest)?;
        Some(((field, value), rest))
    }
}

impl PackedItem for PackedMember<'static> {
    type Of<'a> = PackedMember<'a>;

    fn next(bytes: &[u8]) -> Option<(PackedMember<'_>, &[u8])> {
        let (score, rest) = bytes.split_first_chunk::<SCORE>()?;
        let (name, rest) = framed(rest)?;
        let score = f64::from_le_bytes(*score);
        Some((PackedMember { score, name }, rest))
    }
}

impl Fields {
    /// Returns the offset of the field and its length with the value: zero where it would be inserted.
    fn place(&self, field: &[u8]) -> (usize, usize) {
        let not_before = self.places().find(|(_, (name, _))| *name >= field);
        match not_before {
            Some((at, (name, value))) if name == field => {
                (at, 2 * LENGTH + name.len() + value.len())
            }
            Some((at, _)) => (at, 0),
            None => (self.bytes.len(), 0),
        }
    }

    pub(super) fn get(&self, field: &[u8]) -> Option<&[u8]> {
        let (_, value) = self.iter().find(|(name, _)| *name == field)?;
        Some(value)
    }

    /// Inserts a field; true when it is new.
    pub(super) fn insert(&mut self, field: &[u8], value: &[u8]) -> bool {
        let (at, removed) = self.place(field);
        let mut item = Vec::with_capacity(2 * LENGTH + field.len() + value.len());
        frame(&mut item, field);
        frame(&mut item, value);
        self.splice(at, removed, &item);
        removed == 0
    }

    /// Removes a field; true when it was there.
    pub(super) fn remove(&mut self, field: &[u8]) -> bool {
        let (at, removed) = self.place(field);
        self.splice(at, removed, &[]);
        removed > 0
    }
}

impl Members {
    /// Returns the rank, from 0 on.
    pub(super) fn rank(&self, name: &[u8]) -> Option<usize> {
        self.iter().position(|member| member.name == name)
    }

    pub(super) fn score(&self, name: &[u8]) -> Option<f64> {
        let found = self.iter().find(|member| member.name == name)?;
        Some(found.score)
    }

    /// Puts members, of which none is there twice, in their order.
    pub(super) fn of(mut members: Vec<PackedMember<'_>>) -> Self {
        members.sort_unstable_by(PackedMember::order);
        let mut packed = Members {
            count: members.len(),
            ..Members::default()
        };
        for member in &members {
            member.write_to(&mut packed.bytes);
        }
        packed
    }

    /// Inserts a member; true when it is new.
    pub(super) fn insert(&mut self, score: f64, name: &[u8]) -> bool {
        let is_new = !self.remove(name);
        let before = |member: &PackedMember<'_>| (member.score, member.name) < (score, name);
        let mut items = self.places();
        let behind = items.find(|(_, member)| !before(member));
        let at = behind.map_or(self.bytes.len(), |(at, _)| at);
        drop(items);
        let mut item = Vec::with_capacity(SCORE + LENGTH + name.len());
        PackedMember { score, name }.write_to(&mut item);
        self.splice(at, 0, &item);
        is_new
    }

    /// Removes a member; true when it was there.
    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        let mut items = self.places();
        let found = items.find(|(_, member)| member.name == name);
        let at = found.map(|(at, _)| at);
        drop(items);
        if let Some(at) = at {
            self.splice(at, SCORE + LENGTH + name.len(), &[]);
        }
        at.is_some()
    }
}

#[cfg(test)]
impl<F: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(F, V)> for Fields {
    fn from_iter<I: IntoIterator<Item = (F, V)>>(all: I) -> Self {
        let mut fields = Fields::default();
        for (field, value) in all {
            fields.insert(field.as_ref(), value.as_ref());
        }
        fields
    }
}

#[cfg(test)]
impl<N: AsRef<[u8]>> FromIterator<(f64, N)> for Members {
    fn from_iter<I: IntoIterator<Item = (f64, N)>>(all: I) -> Self {
        let mut members = Members::default();
        for (score, name) in all {
            members.insert(score, name.as_ref());
        }
        members
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fields_are_those_of_a_map(ops in prop::collection::vec(("[a-d]{0,2}", "[x-z]{0,3}", any::<bool>()), 0..40)) {
            let (mut fields, mut map) = (Fields::default(), BTreeMap::new());
            for (field, value, puts) in &ops {
                let (field, value) = (field.as_bytes(), value.as_bytes());
                if *puts {
                    prop_assert_eq!(fields.insert(field, value), map.insert(field, value).is_none());
                } else {
                    prop_assert_eq!(fields.remove(field), map.remove(field).is_some());
                }
                prop_assert_eq!(fields.get(field), map.get(field).copied());
            }
            let expected: Fields = map.iter().collect();
            prop_assert_eq!(fields.len(), map.len());
            prop_assert_eq!(Fields::read(map.len(), fields.bytes()), Some((expected, &[][..])));
            prop_assert_eq!(fields.iter().collect::<Vec<_>>(), map.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn members_lie_in_the_order_of_score_and_name(ops in prop::collection::vec((-2..3_i8, "[a-d]{0,2}", any::<bool>()), 0..40)) {
            let (mut members, mut sorted) = (Members::default(), Vec::new());
            for (score, name, puts) in &ops {
                let (score, name) = (f64::from(*score), name.as_bytes());
                let known = sorted.iter().position(|(_, other)| *other == name);
                known.map(|at| sorted.remove(at));
                if *puts {
                    sorted.push((score, name));
                    prop_assert_eq!(members.insert(score, name), known.is_none());
                } else {
                    prop_assert_eq!(members.remove(name), known.is_some());
                }
            }
            sorted.sort_by(|one, other| one.partial_cmp(other).unwrap());
            prop_assert_eq!(members.len(), sorted.len());
            prop_assert_eq!(members.iter().map(|member| (member.score, member.name)).collect::<Vec<_>>(), sorted.clone());
            for (rank, (score, name)) in sorted.iter().enumerate() {
                prop_assert_eq!(members.rank(name), Some(rank));
                prop_assert_eq!(members.score(name), Some(*score));
            }
            let backwards = sorted.iter().rev().map(|(score, name)| PackedMember { score: *score, name });
            prop_assert_eq!(&Members::of(backwards.collect()), &members);
            prop_assert_eq!(Members::read(sorted.len(), members.bytes()), Some((members.clone(), &[][..])));
        }
    }

    #[test]
    fn bytes_that_are_cut_short_hold_neither() {
        let fields: Fields = [("a", "1"), ("b", "2")].into_iter().collect();
        let members: Members = [(1.0, "a"), (2.0, "b")].into_iter().collect();
        for cut in 1..fields.bytes().len() {
            assert_eq!(Fields::read(2, &fields.bytes()[cut..]), None);
        }
        let whole = members.bytes();
        assert!((0..whole.len()).all(|cut| Members::read(2, &whole[..cut]).is_none()));
    }
}
