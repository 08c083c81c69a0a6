//! The messages that wrapper, job and guardian exchange over a socket pair.
//!
//! Each is one packet of sixteen bytes, so that none is ever read by half. All parties are the
//! same program, forked, so the byte order is the machine's.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::{io::IoSlice, mem::MaybeUninit};

use rustix::io::{Errno, Result, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, send, sendmsg,
};

const LENGTH: usize = 16;

/// How the guardian finds and treats the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JobKind {
    /// It leads a process group of its own, which can be signalled as one.
    pub(crate) own_group: bool,
    /// It inherited the descriptor that keeps the lock, as under `flock(1)`.
    pub(crate) holds_lock: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    /// Wrapper: the lease now ends at this moment.
    Deadline(u64),
    /// Wrapper: the lease is lost already, do not wait for the deadline.
    Lost,
    /// Wrapper: comes with a descriptor that must stay open until the job is dead.
    Keep,
    /// Job, just before it becomes the user's command: watch me.
    Job(u32, JobKind),
    /// Wrapper: comes with the pidfd of a process that it did not start: watch that.
    Process,
    /// Wrapper: the job has ended and is not yet reaped.
    Done,
    /// Guardian to job or wrapper: it is watched, go.
    Watching,
    /// The same: there is no lease left to start under; or there is no way to watch you, for the reason with
    /// this number, which is never 0.
    Refused(u32),
    /// Guardian: it has signalled the job to end.
    Fired,
    /// Guardian, answer to `Done`: whether it has signalled the job to end.
    Over { fired: bool },
}

impl Message {
    fn encode(self) -> [u8; LENGTH] {
        let (tag, value) = match self {
            Message::Deadline(at) => (1, at),
            Message::Lost => (2, 0),
            Message::Keep => (3, 0),
            Message::Job(pid, kind) => {
                let flags = u64::from(kind.own_group) | u64::from(kind.holds_lock) << 1;
                (4, u64::from(pid) | flags << 32)
            }
            Message::Done => (5, 0),
            Message::Watching => (6, 0),
            Message::Refused(why) => (7, u64::from(why)),
            Message::Fired => (8, 0),
            Message::Over { fired } => (9, u64::from(fired)),
            Message::Process => (10, 0),
        };
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&u64::to_ne_bytes(tag));
        bytes[8..].copy_from_slice(&u64::to_ne_bytes(value));
        bytes
    }

    fn decode(bytes: [u8; LENGTH]) -> Option<Message> {
        let (words, _) = bytes.as_chunks::<8>();
        let value = u64::from_ne_bytes(words[1]);
        let flag = |bit: u32| value >> bit & 1 == 1;
        Some(match u64::from_ne_bytes(words[0]) {
            1 => Message::Deadline(value),
            2 => Message::Lost,
            3 => Message::Keep,
            4 => {
                let pid = u32::try_from(value & u64::from(u32::MAX)).ok()?;
                Message::Job(
                    pid,
                    JobKind {
                        own_group: flag(32),
                        holds_lock: flag(33),
                    },
                )
            }
            5 => Message::Done,
            6 => Message::Watching,
            7 => Message::Refused(u32::try_from(value).ok()?),
            8 => Message::Fired,
            9 => Message::Over { fired: flag(0) },
            10 => Message::Process,
            _ => return None,
        })
    }

    /// Sends without waiting. `AGAIN` means that the guardian has not run for hundreds of
    /// messages; then it knows an older deadline, which is the safe side.
    pub(super) fn send(self, socket: impl AsFd) -> Result<()> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        retry_on_intr(|| send(&socket, &self.encode(), flags)).map(drop)
    }

    /// Sends with a descriptor, which the receiver gets a copy of.
    pub(super) fn send_with(self, socket: impl AsFd, fd: BorrowedFd<'_>) -> Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds = [fd];
        let pushed = ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        debug_assert!(pushed, "the buffer is made for one descriptor");
        let bytes = self.encode();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&socket, &[IoSlice::new(&bytes)], &mut ancillary, flags).map(drop)
    }
}

/// What one read of the socket gave.
#[derive(Debug)]
pub(super) enum Received {
    Message(Message, Option<OwnedFd>),
    Nothing,
    /// All writers are gone.
    Closed,
}

/// Reads one message without waiting. Allocates nothing, because the job calls it between fork
/// and exec.
pub(super) fn receive(socket: impl AsFd) -> Result<Received> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; LENGTH];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        let buffers = &mut [std::io::IoSliceMut::new(&mut bytes)];
        match recvmsg(&socket, buffers, &mut ancillary, flags) {
            Ok(received) => break received.bytes,
            // CONNRESET comes once when the other side left messages of ours unread. Its own last
            // messages can still be read.
            Err(Errno::INTR | Errno::CONNRESET) => {}
            Err(Errno::AGAIN) => return Ok(Received::Nothing),
            Err(error) => return Err(error),
        }
    };
    if received == 0 {
        return Ok(Received::Closed);
    }
    let fd = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    let message = Message::decode(bytes).ok_or(Errno::BADMSG)?;
    Ok(Received::Message(message, fd))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    }

    #[test]
    fn every_message_arrives_as_it_was_sent() {
        let (here, there) = pair();
        for own_group in [false, true] {
            for holds_lock in [false, true] {
                let kind = JobKind {
                    own_group,
                    holds_lock,
                };
                let sent = [
                    Message::Deadline(u64::MAX),
                    Message::Lost,
                    Message::Job(u32::MAX, kind),
                    Message::Done,
                    Message::Watching,
                    Message::Refused(0),
                    Message::Refused(24),
                    Message::Fired,
                    Message::Over { fired: own_group },
                    Message::Process,
                ];
                sent.iter().for_each(|message| message.send(&here).unwrap());
                for message in sent {
                    let Received::Message(heard, None) = receive(&there).unwrap() else {
                        panic!()
                    };
                    assert_eq!(heard, message);
                }
            }
        }
        assert!(matches!(receive(&there).unwrap(), Received::Nothing));
    }

    #[test]
    fn a_descriptor_comes_along() {
        let (here, there) = pair();
        let (kept, other_end) = pair();
        Message::Keep.send_with(&here, kept.as_fd()).unwrap();
        drop(kept);
        let Received::Message(Message::Keep, Some(fd)) = receive(&there).unwrap() else {
            panic!()
        };
        assert!(matches!(receive(&other_end).unwrap(), Received::Nothing));
        drop(fd);
        assert!(matches!(receive(&other_end).unwrap(), Received::Closed));
    }

    #[test]
    fn a_dead_partner_is_noticed_even_with_messages_unread() {
        let (here, there) = pair();
        Message::Deadline(1).send(&here).unwrap();
        drop(there);
        assert!(matches!(receive(&here).unwrap(), Received::Closed));
        assert!(Message::Deadline(2).send(&here).is_err());
    }

    #[test]
    fn the_last_word_of_a_partner_that_left_is_heard() {
        let (here, there) = pair();
        Message::Deadline(1).send(&here).unwrap();
        Message::Over { fired: true }.send(&there).unwrap();
        drop(there);
        let heard = receive(&here).unwrap();
        assert!(
            matches!(
                heard,
                Received::Message(Message::Over { fired: true }, None)
            ),
            "{heard:?}"
        );
        assert!(matches!(receive(&here).unwrap(), Received::Closed));
    }

    #[test]
    fn a_guardian_that_does_not_listen_never_blocks_the_wrapper() {
        let (here, _there) = pair();
        let refused = (0..10_000).find_map(|at| Message::Deadline(at).send(&here).err());
        assert_eq!(refused, Some(Errno::AGAIN));
    }
}
