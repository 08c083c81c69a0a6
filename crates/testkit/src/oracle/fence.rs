//! The fencing tokens of a lock: its counter is a stream that is always empty, whose latest id is the latest number.

/// What is known of the counter. `MONITOR` shows that a number is minted, and not which, unless a script chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Fence {
    pub(super) exists: bool,
    /// The largest number that a request before, also one to a server before, has shown.
    pub(super) known: u64,
}

/// The number of an id, `ms-seq`; `None` for one that is no number of a grant.
pub(crate) fn number(id: &str) -> Option<u64> {
    let (ms, seq) = id.split_once('-')?;
    let (ms, seq) = (ms.parse::<u64>().ok()?, seq.parse::<u64>().ok()?);
    (seq < 1_000).then(|| ms * 1_000 + seq)
}

/// What one request did to the counter.
#[derive(Debug, Default)]
pub(super) struct Fences {
    /// The request has minted.
    pub(super) any: bool,
    /// Mints before this moment that no hold has used.
    pub(super) unused: u32,
    /// Ids that the script chose: the end of a range, or a number that it knew.
    pub(super) chosen: Vec<u64>,
    /// The largest number that the request has shown.
    pub(super) largest: u64,
    /// The number of readers that was written.
    pub(super) marked: Option<u64>,
    /// A reader was granted beside no other hold.
    pub(super) phase_begins: bool,
    /// Members of permits with their numbers.
    pub(super) permits: Vec<(String, u64)>,
}

impl Fences {
    /// A new hold uses a mint that stands before it; false when there is none.
    pub(super) fn take(&mut self) -> bool {
        let is_there = self.unused > 0;
        self.unused -= u32::from(is_there);
        is_there
    }
}
