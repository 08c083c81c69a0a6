//! The content of one lock file: a few keys, each a string, a hash, a sorted set or a stream, and their encoding.

use super::entry::{Content, Entry};
use super::glob;
use super::holds::{self, Life, Sessionless};
use super::packed::{Fields, LENGTH, Members, Rest, frame, length_bytes};

/// The keys of one slot tag, in memory while a script works on them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Image {
    pub(super) entries: Vec<Entry>,
    /// True if a script wrote something that must be committed.
    pub(super) changed: bool,
}

impl Image {
    pub(super) fn find(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub(super) fn find_mut(&mut self, key: &str) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.key == key)
    }

    pub(super) fn remove(&mut self, key: &str) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.key != key);
        self.changed |= self.entries.len() != before;
        self.entries.len() != before
    }

    /// Drops expired keys. Time stands still while a script runs, so nothing expires during it.
    pub(super) fn settle(&mut self, now_us: u64) {
        self.entries.retain(|entry| !entry.is_over(now_us));
    }

    /// Returns how many entries a file has for this image, or one more for each set of holds.
    pub(super) fn stored_entries(&self) -> usize {
        let is_mixed = |entry: &&Entry| !entry.sessionless.is_empty();
        self.entries.len() + self.entries.iter().filter(is_mixed).count()
    }

    /// Lists the keys that match the pattern, or of these the locks of ours.
    pub(super) fn listed(&self, pattern: &str, only_locks: bool) -> Vec<String> {
        let shown = |entry: &&Entry| {
            (entry.is_lock() || !only_locks)
                && glob::matches(pattern.as_bytes(), entry.key.as_bytes())
        };
        let locks = self.entries.iter().filter(shown);
        locks.map(|entry| entry.key.clone()).collect()
    }
}

const NO_END: u64 = u64::MAX;
const BOUND: u8 = 0x80;

/// Encodes an image.
///
/// Expiry times are stored on the machine's own clock (`anchor_us` is the distance), which no loss of the anchor can
/// move.
///
/// A set with holds of both kinds becomes two entries of the same key, first the bound ones and right behind them the
/// sessionless.
pub(super) fn encode(image: &Image, anchor_us: u64) -> Vec<u8> {
    let each = image.entries.iter();
    let each = each.map(|entry| 32 + entry.key.len() + entry.content.parts().2.len());
    let mut out = Vec::with_capacity(LENGTH + each.sum::<usize>());
    out.extend_from_slice(&length_bytes(0));
    let mut entries = 0;
    let mut put = |out: &mut Vec<u8>, entry: &Entry, content: &Content, bound: bool| {
        entries += 1;
        put_entry(out, entry, content, bound, anchor_us);
    };
    for entry in &image.entries {
        match &entry.content {
            Content::Sorted(members) if entry.bound && !entry.sessionless.is_empty() => {
                let parts = holds::split(members, &entry.sessionless);
                for (part, bound) in parts.into_iter().zip([true, false]) {
                    if !part.is_empty() {
                        put(&mut out, entry, &Content::Sorted(part), bound);
                    }
                }
            }
            content => put(&mut out, entry, content, entry.bound),
        }
    }
    out[..LENGTH].copy_from_slice(&length_bytes(entries));
    out
}

fn put_entry(out: &mut Vec<u8>, entry: &Entry, content: &Content, bound: bool, anchor_us: u64) {
    let (kind, length, bytes) = content.parts();
    out.push(kind | if bound { BOUND } else { 0 });
    let ends = entry
        .ends_us
        .map_or(NO_END, |ends_us| ends_us.saturating_sub(anchor_us));
    out.extend_from_slice(&ends.to_le_bytes());
    frame(out, entry.key.as_bytes());
    out.extend_from_slice(&length_bytes(length));
    out.extend_from_slice(bytes);
}

/// The most keys in one file, which names with a common slot tag share.
///
/// More keys take too long, because each may have a session to check.
pub(super) const MOST_KEYS: usize = 10_000;

/// Decodes an image; `None` for bytes that `encode` does not write.
pub(super) fn decode(bytes: &[u8], anchor_us: u64) -> Option<Image> {
    let mut rest = Rest(bytes);
    let mut image = Image::default();
    let keys = rest.length().filter(|keys| *keys <= MOST_KEYS)?;
    for _ in 0..keys {
        let [kind] = rest.array()?;
        let ends = u64::from_le_bytes(rest.array()?);
        let key = String::from_utf8(rest.framed()?.to_vec()).ok()?;
        let content = match kind & !BOUND {
            0 => Content::Text(rest.framed()?.to_vec()),
            1 => Content::Hash(Fields::read(rest.length()?, &mut rest)?),
            2 => Content::Sorted(Members::read(rest.length()?, &mut rest)?),
            3 if rest.length()? == 2 => Content::Stream([rest.array()?, rest.array()?]),
            _ => return None,
        };
        let entry = Entry {
            key,
            ends_us: (ends != NO_END).then(|| ends.saturating_add(anchor_us)),
            bound: kind & BOUND != 0,
            sessionless: Sessionless::new(),
            life: Life::Ttl,
            content,
        };
        match image.entries.last_mut() {
            Some(before) if before.is_continued_by(&entry) => before.continue_with(&entry)?,
            _ => image.entries.push(entry),
        }
    }
    rest.0.is_empty().then_some(image)
}

#[cfg(test)]
pub(super) fn sample() -> Image {
    let entry = |key: &str, ends_us, bound, content| Entry {
        key: key.to_owned(),
        ends_us,
        bound,
        sessionless: Sessionless::new(),
        life: Life::Ttl,
        content,
    };
    let members = [(-1.5, "b"), (0.0, "a")].into_iter().collect();
    let fields = [(b"field".to_vec(), b"value".to_vec()), (vec![0xff], vec![])];
    let fields = fields.into_iter().collect();
    Image {
        entries: vec![
            entry(
                "job",
                Some(5_000_000),
                true,
                Content::Text(b"token".to_vec()),
            ),
            entry("{job}:ll:queue", None, false, Content::Sorted(members)),
            entry(
                "{job}:ll:waiters",
                Some(9_000_000),
                false,
                Content::Hash(fields),
            ),
            entry(
                "{job}:ll:fence",
                Some(9_000_000),
                false,
                Content::Stream([[7; 8], [8; 8]]),
            ),
        ],
        changed: false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    fn content() -> impl Strategy<Value = Content> {
        let word = || prop::collection::vec(any::<u8>(), 0..9);
        let words = prop::collection::btree_map(word(), word(), 1..4);
        let scores = prop::collection::btree_map(word(), any::<i16>(), 1..4);
        let scored = |(name, score)| (f64::from(score), name);
        prop_oneof![
            word().prop_map(Content::Text),
            words.prop_map(|all| Content::Hash(all.into_iter().collect())),
            scores.prop_map(move |all| Content::Sorted(all.into_iter().map(scored).collect())),
            any::<[[u8; 8]; 2]>().prop_map(Content::Stream),
        ]
    }

    proptest! {
        #[test]
        fn any_content_comes_back_from_its_bytes_and_from_no_part_of_them(all in prop::collection::vec((content(), any::<bool>()), 1..6), cut in any::<Index>()) {
            let mut image = sample();
            let entry = image.entries.remove(0);
            let named = |(at, (content, bound))| Entry { key: format!("key {at}"), bound, content, ..entry.clone() };
            image.entries = all.into_iter().enumerate().map(named).collect();
            let bytes = encode(&image, 1000);
            prop_assert_eq!(decode(&bytes, 1000), Some(image));
            prop_assert_eq!(decode(&bytes[..cut.index(bytes.len())], 1000), None);
        }
    }

    #[test]
    fn an_image_comes_back_from_its_bytes() {
        let image = sample();
        assert_eq!(decode(&encode(&image, 1000), 1000), Some(image));
        assert_eq!(
            decode(&encode(&Image::default(), 0), 0),
            Some(Image::default())
        );
    }

    #[test]
    fn bytes_cut_short_or_with_more_behind_are_not_an_image() {
        let bytes = encode(&sample(), 0);
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length], 0), None, "{length}");
        }
        assert_eq!(decode(&[&bytes[..], &[0]].concat(), 0), None);
    }

    #[test]
    fn a_stream_of_more_or_less_than_two_numbers_or_an_unknown_type_is_not_an_image() {
        let mut image = sample();
        image.entries.drain(..3);
        let bytes = encode(&image, 0);
        let (head, id) = bytes.split_at(bytes.len() - 16);
        let head = &head[..head.len() - LENGTH];
        for numbers in [0, 1, 3] {
            let other = [head, &length_bytes(numbers), id].concat();
            assert_eq!(decode(&other, 0), None, "{numbers}");
        }
        let unknown = [&bytes[..LENGTH], &[4], &bytes[LENGTH + 1..]].concat();
        assert_eq!(decode(&unknown, 0), None);
    }

    #[test]
    fn more_keys_than_a_file_may_have_are_not_an_image() {
        let mut image = sample();
        image.entries = vec![image.entries[0].clone(); MOST_KEYS];
        assert!(decode(&encode(&image, 0), 0).is_some());
        image.entries.push(image.entries[0].clone());
        assert_eq!(decode(&encode(&image, 0), 0), None);
    }

    /// An image with a set of holds, of which the first has a session.
    fn with_holds() -> Image {
        let mut image = sample();
        let mut holds = image.entries[1].clone();
        holds.key = "config".to_owned();
        holds.content = Content::Sorted(Members::default());
        for (name, has_session) in [("a", true), ("b", false), ("c", false)] {
            let token = format!("{:022}.client_{name}", 0);
            holds.add_member(5.0, token.as_bytes(), Some(has_session));
        }
        image.entries.push(holds);
        image
    }

    #[test]
    fn a_set_keeps_which_of_its_holds_have_a_session() {
        let image = with_holds();
        assert_eq!(image.entries[4].sessionless.len(), 2);
        let read = decode(&encode(&image, 1000), 1000).unwrap();
        assert_eq!(read, image);
        let mut none_left = image;
        for name in none_left.entries[4].sessionless.clone() {
            none_left.entries[4].remove_member(&name);
        }
        assert_eq!(decode(&encode(&none_left, 0), 0), Some(none_left.clone()));
        let mut all_left = with_holds();
        all_left.entries[4].remove_member(format!("{:022}.client_a", 0).as_bytes());
        let read = decode(&encode(&all_left, 0), 0).unwrap();
        assert!(!read.entries[4].bound && read.entries[4].content == all_left.entries[4].content);
    }

    #[test]
    fn a_set_of_holds_of_both_kinds_is_two_entries_of_one_key() {
        let image = with_holds();
        let mut stored = with_holds();
        let holds = stored.entries.pop().unwrap();
        let parts = holds::split(holds.content.members().unwrap(), &holds.sessionless);
        for (part, bound) in parts.into_iter().zip([true, false]) {
            stored.entries.push(Entry {
                content: Content::Sorted(part),
                sessionless: Sessionless::new(),
                bound,
                ..holds.clone()
            });
        }
        assert_eq!(encode(&stored, 7), encode(&image, 7));
        assert_eq!(image.stored_entries(), stored.entries.len());
    }

    #[test]
    fn a_hold_that_is_there_with_and_without_a_session_is_damage() {
        let mut image = with_holds();
        let mut twice = image.entries[4].clone();
        (twice.bound, twice.sessionless) = (false, Sessionless::new());
        image.entries[4].sessionless.clear();
        image.entries.push(twice);
        assert_eq!(decode(&encode(&image, 0), 0), None);
    }

    #[test]
    fn tokens_and_sets_of_them_are_locks_and_queues_are_not() {
        let mut image = with_holds();
        image.entries[0].put_text(format!("{:022}~client_a", 0).as_bytes());
        assert_eq!(image.listed("*", true), ["job", "config"]);
        assert_eq!(image.listed("con*", true), ["config"]);
        assert_eq!(image.listed("con*", false), ["config"]);
    }

    #[test]
    fn an_end_is_the_last_moment_of_life() {
        let mut image = sample();
        image.settle(5_000_000);
        assert!(image.find("job").is_some());
        image.settle(5_000_001);
        assert!(image.find("job").is_none() && image.find("{job}:ll:queue").is_some());
    }
}
