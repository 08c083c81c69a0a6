//! What can be wrong with one way of a connection.

use std::time::Duration;

/// A direction of bytes, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Requests.
    ToServer,
    /// Answers and pushed messages.
    ToClient,
    /// All bytes.
    Both,
}

impl Way {
    pub(super) fn indices(self) -> &'static [usize] {
        match self {
            Way::ToServer => &[0],
            Way::ToClient => &[1],
            Way::Both => &[0, 1],
        }
    }
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// In order: the peers read an end of file.
    Close,
    /// By RST, as from a crashed machine or a firewall: the peers get an error.
    Reset,
}

/// What happens to the bytes of one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Each byte arrives this much later.
    Delay(Duration),
    /// Bytes vanish; the connection seems well, and its end is still passed on. What comes behind
    /// the hole vanishes too, even after the fault, because TCP delivers nothing out of order: an
    /// answer that did arrive would be taken for that of an earlier request.
    Swallow,
    /// Cuts the connection through which byte number `bytes` passes, counted from now over all
    /// connections; 0 cuts before the next byte does. It happens once and then heals itself.
    CutAfter {
        /// How many bytes still pass.
        bytes: usize,
        /// How the connection ends.
        how: Cut,
    },
    /// The peer is gone without a word: nothing passes any more, not even the end of the
    /// connection. Connections that meet this fault stay dead when it heals; new ones then work.
    HalfOpen,
    /// Every byte is a packet of its own.
    Slice,
    /// Bytes wait until [`super::Proxy::heal`] or another fault, then arrive all at once, even
    /// when their sender has given up: how late requests come about.
    Hold,
    /// Each whole request is delivered again on a connection of its own, right behind the first.
    /// Only for [`Way::ToServer`], and only for servers without a password.
    Duplicate,
}

/// Which connections faults are for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Aim {
    /// All.
    #[default]
    All,
    /// Those that have subscribed to something.
    Listeners,
    /// Those that have not.
    Requests,
}

impl Aim {
    pub(super) fn hits(self, listener: bool) -> bool {
        match self {
            Aim::All => true,
            Aim::Listeners => listener,
            Aim::Requests => !listener,
        }
    }
}

/// At most one fault for each way.
#[derive(Debug, Default)]
pub(super) struct Faults {
    ways: [Option<Fault>; 2],
    pub(super) aim: Aim,
}

impl Faults {
    pub(super) fn set(&mut self, way: Way, fault: Fault) {
        let possible = fault != Fault::Duplicate || way == Way::ToServer;
        assert!(possible, "only requests can be delivered twice");
        way.indices()
            .iter()
            .for_each(|way| self.ways[*way] = Some(fault));
    }

    /// What is wrong with one way of a connection.
    pub(super) fn of(&self, way: usize, listener: bool) -> Option<Fault> {
        self.ways[way].filter(|_| self.aim.hits(listener))
    }

    /// Counts a chunk that is about to pass against [`Fault::CutAfter`]. If the cut falls within
    /// the chunk, says how much of it still passes, and the fault is over.
    pub(super) fn count_down(
        &mut self,
        way: usize,
        listener: bool,
        length: usize,
    ) -> Option<(usize, Cut)> {
        let Some(Fault::CutAfter { bytes, how }) = self.of(way, listener) else {
            return None;
        };
        if length < bytes {
            self.ways[way] = Some(Fault::CutAfter {
                bytes: bytes - length,
                how,
            });
            return None;
        }
        self.ways[way] = None;
        Some((bytes, how))
    }
}
