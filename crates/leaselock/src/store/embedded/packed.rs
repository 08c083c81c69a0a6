//! Hashes and sorted sets as stored in a lock file: one allocation each, searched from the front.
//!
//! Every call reads the whole file. With thousands of waiters, a separate value for each would cost more than all else
//! in the call. Here a member costs its bytes, in memory as in the file.

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ops::Range;

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

    /// Takes the item at the front.
    fn next<'a>(rest: &mut Rest<'a>) -> Option<Self::Of<'a>>;
}

/// How many bytes a length has.
pub(super) const LENGTH: usize = 4;

pub(super) fn length_bytes(length: usize) -> [u8; LENGTH] {
    u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes()
}

/// Writes bytes behind their length.
pub(super) fn frame(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&length_bytes(bytes.len()));
    out.extend_from_slice(bytes);
}

/// The bytes that are not read yet.
pub(super) struct Rest<'a>(pub(super) &'a [u8]);

impl<'a> Rest<'a> {
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    pub(super) fn length(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.array()?)).ok()
    }

    /// Takes bytes behind their length.
    pub(super) fn framed(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}

impl<I: PackedItem> Packed<I> {
    /// Takes so many items; `None` if there are fewer.
    pub(super) fn read(count: usize, rest: &mut Rest<'_>) -> Option<Self> {
        let bytes = rest.0;
        for _ in 0..count {
            I::next(rest)?;
        }
        Some(Packed {
            count,
            bytes: bytes[..bytes.len() - rest.0.len()].to_vec(),
            items: PhantomData,
        })
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

    fn places(&self) -> impl Iterator<Item = (Range<usize>, I::Of<'_>)> {
        let mut rest = Rest(&self.bytes);
        std::iter::from_fn(move || {
            let at = self.bytes.len() - rest.0.len();
            let item = I::next(&mut rest)?;
            Some((at..self.bytes.len() - rest.0.len(), item))
        })
    }

    /// Replaces the item in this place, where there is one, by another, or by none.
    fn splice(&mut self, place: Range<usize>, item: &[u8]) {
        self.count = self.count + usize::from(!item.is_empty()) - usize::from(!place.is_empty());
        drop(self.bytes.splice(place, item.iter().copied()));
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

    fn next<'a>(rest: &mut Rest<'a>) -> Option<Field<'a>> {
        Some((rest.framed()?, rest.framed()?))
    }
}

impl PackedItem for PackedMember<'static> {
    type Of<'a> = PackedMember<'a>;

    fn next<'a>(rest: &mut Rest<'a>) -> Option<PackedMember<'a>> {
        let score = f64::from_le_bytes(rest.array()?);
        let name = rest.framed()?;
        Some(PackedMember { score, name })
    }
}

impl Fields {
    /// Returns the place of the field and its value: an empty one where it would be inserted.
    fn place(&self, field: &[u8]) -> Range<usize> {
        let not_before = self.places().find(|(_, (name, _))| *name >= field);
        match not_before {
            Some((place, (name, _))) if name == field => place,
            Some((Range { start, .. }, _)) => start..start,
            None => self.bytes.len()..self.bytes.len(),
        }
    }

    pub(super) fn get(&self, field: &[u8]) -> Option<&[u8]> {
        let (_, value) = self.iter().find(|(name, _)| *name == field)?;
        Some(value)
    }

    /// Inserts a field; true when it is new.
    pub(super) fn insert(&mut self, field: &[u8], value: &[u8]) -> bool {
        let place = self.place(field);
        let is_new = place.is_empty();
        let mut item = Vec::with_capacity(2 * LENGTH + field.len() + value.len());
        frame(&mut item, field);
        frame(&mut item, value);
        self.splice(place, &item);
        is_new
    }

    /// Removes a field; true when it was there.
    pub(super) fn remove(&mut self, field: &[u8]) -> bool {
        let place = self.place(field);
        let was_there = !place.is_empty();
        self.splice(place, &[]);
        was_there
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
        let behind = self.places().find(|(_, member)| !before(member));
        let at = behind.map_or(self.bytes.len(), |(place, _)| place.start);
        let mut item = Vec::with_capacity(size_of_val(&score) + LENGTH + name.len());
        PackedMember { score, name }.write_to(&mut item);
        self.splice(at..at, &item);
        is_new
    }

    /// Removes a member; true when it was there.
    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        let found = self.places().find(|(_, member)| member.name == name);
        let place = found.map(|(place, _)| place);
        let was_there = place.is_some();
        place.into_iter().for_each(|place| self.splice(place, &[]));
        was_there
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

    /// Reads items, and returns the bytes behind them.
    fn read<I: PackedItem>(count: usize, bytes: &[u8]) -> Option<(Packed<I>, &[u8])> {
        let mut rest = Rest(bytes);
        let packed = Packed::read(count, &mut rest)?;
        Some((packed, rest.0))
    }

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
            prop_assert_eq!(read(map.len(), fields.bytes()), Some((expected, &[][..])));
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
            prop_assert_eq!(read(sorted.len(), members.bytes()), Some((members.clone(), &[][..])));
        }
    }

    #[test]
    fn bytes_that_are_cut_short_hold_neither() {
        let fields: Fields = [("a", "1"), ("b", "2")].into_iter().collect();
        let members: Members = [(1.0, "a"), (2.0, "b")].into_iter().collect();
        for cut in 1..fields.bytes().len() {
            assert!(read::<Field<'_>>(2, &fields.bytes()[cut..]).is_none());
        }
        let whole = members.bytes();
        assert!((0..whole.len()).all(|cut| read::<PackedMember<'_>>(2, &whole[..cut]).is_none()));
    }
}
