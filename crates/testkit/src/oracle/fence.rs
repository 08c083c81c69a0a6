//! The value of a fence, and which changes of it are right.

/// `first:last` of the latest grant, with an `s` behind it when readers have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Fence {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) shared: bool,
}

impl Fence {
    pub(super) fn parse(text: &str) -> Option<Fence> {
        let (first, last) = text.split_once(':')?;
        let shared = last.ends_with('s');
        let last = last.trim_end_matches('s');
        Some(Fence {
            first: first.parse().ok()?,
            last: last.parse().ok()?,
            shared,
        })
    }
}

/// What one request wrote, in order.
#[derive(Debug, Default)]
pub(super) struct Fences {
    /// The value before the request and those that stayed; one that was taken back is not among them.
    steps: Vec<Fence>,
}

impl Fences {
    pub(super) fn add(&mut self, before: Fence, after: Fence) {
        if self.steps.is_empty() {
            self.steps.push(before);
        }
        match self.steps.iter().position(|step| *step == after) {
            Some(at) => self.steps.truncate(at + 1),
            None => self.steps.push(after),
        }
    }

    /// The values that are new grants'. `used` is the highest number of the holder that releases, when the request
    /// names it: what it left of its reserved numbers may be granted. The error is a step that does not grow.
    pub(super) fn minted(&self, used: Option<u64>) -> Result<Vec<Fence>, (Fence, Fence)> {
        let mut minted = Vec::new();
        for pair in self.steps.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            let left = used.filter(|used| (before.first..=before.last).contains(used));
            // An unfenced reader that joins nobody takes the mark off: who joins it mints.
            let unmarked = Fence {
                shared: false,
                ..before
            };
            if after.first > left.unwrap_or(before.last) {
                minted.push(after);
            } else if before.shared && after == unmarked {
                continue;
            } else if after.first != before.first || after.last >= before.last {
                return Err((before, after));
            }
        }
        Ok(minted)
    }
}
