//! Links between the processes of a server: sockets that carry messages, each with at most one
//! descriptor.
//!
//! A message is one packet, so that no process waits in the middle of one, and the length of what
//! is parsed is bounded by the buffer.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits::{LINK_BACKLOG_MAX, LINK_MESSAGE_LEN_MAX};

/// One end of a link.
#[derive(Debug)]
pub(crate) struct Link(OwnedFd);

/// A message with the descriptor that came with it; `None` also if this process had no free one.
pub(crate) type WithDescriptor<M> = (M, Option<OwnedFd>);

/// The result of looking for a message without waiting.
#[derive(Debug)]
pub(crate) enum Polled<M> {
    /// A message.
    Message(WithDescriptor<M>),
    /// There is none yet.
    Nothing,
    /// The other process has ended.
    End,
}

impl Link {
    /// Creates a link: this end, and the one to be given to another process.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (here, there) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        Ok((Self(here), there))
    }

    /// Takes the link that the supervisor gave to this process as standard input, which becomes
    /// empty.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn from_stdin() -> io::Result<Self> {
        let link = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        let (nothing, _) = rustix::pipe::pipe()?;
        rustix::stdio::dup2_stdin(&nothing)?;
        Ok(Self(link))
    }

    /// Sends a message; waits while the other process has not read earlier ones.
    ///
    /// # Errors
    /// A message that is too long; errors of the system, such as the end of the other process.
    pub(crate) fn send<M: Serialize>(&self, message: &M, fd: Option<BorrowedFd>) -> io::Result<()> {
        self.send_bytes(&encoded(message)?, fd, SendFlags::empty())
    }

    /// Does the same as [`Link::send`], and fails with `WouldBlock` instead of waiting.
    ///
    /// # Errors
    /// As [`Link::send`], and `WouldBlock`.
    pub(crate) fn try_send<M: Serialize>(&self, message: &M) -> io::Result<()> {
        self.send_bytes(&encoded(message)?, None, SendFlags::DONTWAIT)
    }

    fn send_bytes(&self, bytes: &[u8], fd: Option<BorrowedFd>, flags: SendFlags) -> io::Result<()> {
        let fds: Vec<BorrowedFd> = fd.into_iter().collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let flags = flags | SendFlags::NOSIGNAL;
        loop {
            match sendmsg(&self.0, &[IoSlice::new(bytes)], &mut ancillary, flags) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for a message; `None` once the other process has ended.
    ///
    /// # Errors
    /// A message that is not one; errors of the system.
    pub(crate) fn receive<M: DeserializeOwned>(&self) -> io::Result<Option<WithDescriptor<M>>> {
        match self.receive_with(RecvFlags::empty())? {
            Polled::Message(received) => Ok(Some(received)),
            Polled::Nothing | Polled::End => Ok(None),
        }
    }

    /// Returns a message that is there, without waiting.
    ///
    /// # Errors
    /// As [`Link::receive`].
    pub(crate) fn poll<M: DeserializeOwned>(&self) -> io::Result<Polled<M>> {
        self.receive_with(RecvFlags::DONTWAIT)
    }

    fn receive_with<M: DeserializeOwned>(&self, flags: RecvFlags) -> io::Result<Polled<M>> {
        let mut bytes = vec![0; LINK_MESSAGE_LEN_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        let received = loop {
            let mut slices = [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.0, &mut slices, &mut ancillary, flags) {
                Ok(received) => break received,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Polled::Nothing),
                Err(Errno::CONNRESET) => return Ok(Polled::End),
                Err(error) => return Err(error.into()),
            }
        };
        let mut fd = None;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                fd = fds.last().or(fd);
            }
        }
        if received.bytes == 0 {
            return Ok(Polled::End);
        }
        // With CTRUNC this process has no free descriptor: the message comes without the one that
        // was sent, which the system has closed.
        if received.flags.contains(ReturnFlags::TRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message that is too long"));
        }
        let message = serde_json::from_slice(&bytes[..received.bytes])?;
        Ok(Polled::Message((message, fd)))
    }
}

impl From<OwnedFd> for Link {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl From<Link> for OwnedFd {
    fn from(link: Link) -> Self {
        link.0
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn encoded<M: Serialize>(message: &M) -> io::Result<Vec<u8>> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > LINK_MESSAGE_LEN_MAX {
        let text = format!("a message of {} bytes between processes", bytes.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(bytes)
}

/// A link whose messages wait here while the other process does not take them.
#[derive(Debug)]
pub(crate) struct QueuedLink {
    link: Link,
    queue: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
}

impl QueuedLink {
    pub(crate) fn new(link: Link) -> Self {
        Self { link, queue: VecDeque::new() }
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// Sends a message now or later.
    ///
    /// # Errors
    /// A message that is too long; too many that wait; the end of the other process.
    pub(crate) fn send<M: Serialize>(
        &mut self,
        message: &M,
        fd: Option<OwnedFd>,
    ) -> io::Result<()> {
        let bytes = encoded(message)?;
        if self.queue.len() >= LINK_BACKLOG_MAX {
            return Err(io::Error::other("it does not read its messages"));
        }
        self.queue.push_back((bytes, fd));
        self.flush().map(drop)
    }

    pub(crate) fn has_backlog(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Sends what waits; returns `true` if nothing waits any more.
    ///
    /// # Errors
    /// The end of the other process.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while let Some((bytes, fd)) = self.queue.front() {
            let fd = fd.as_ref().map(AsFd::as_fd);
            match self.link.send_bytes(bytes, fd, SendFlags::DONTWAIT) {
                Ok(()) => drop(self.queue.pop_front()),
                // Descriptors under way count, until the other process takes them.
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock
                        || error.raw_os_error() == Some(Errno::TOOMANYREFS.raw_os_error()) =>
                {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Bytes in a message, as base64.
pub(crate) mod bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        STANDARD.encode(bytes).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD.decode(text).map_err(serde::de::Error::custom)
    }
}

/// Bytes in a message that may be missing, as base64.
pub(crate) mod some_bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        bytes: &Option<Vec<u8>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        bytes.as_ref().map(|bytes| STANDARD.encode(bytes)).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        let bytes = text.map(|text| STANDARD.decode(text)).transpose();
        bytes.map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_descriptors_arrive_whole() {
        let (here, there) = Link::pair().unwrap();
        let there = Link(there);
        assert!(matches!(there.poll::<u32>().unwrap(), Polled::Nothing));
        let (end, other_end) = rustix::pipe::pipe().unwrap();
        here.send(&"first", None).unwrap();
        here.send(&"second", Some(other_end.as_fd())).unwrap();
        drop(other_end);
        assert!(
            matches!(there.receive::<String>().unwrap(), Some((text, None)) if text == "first")
        );
        let (text, fd) = there.receive::<String>().unwrap().unwrap();
        assert_eq!(text, "second");
        rustix::io::write(fd.unwrap(), b"x").unwrap();
        let mut byte = [0];
        assert_eq!(rustix::io::read(end, &mut byte).unwrap(), 1);
        here.send(&1_u32, None).unwrap();
        assert!(there.receive::<String>().is_err());
        drop(here);
        assert!(there.receive::<String>().unwrap().is_none());
        assert_eq!(there.send(&"x", None).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn messages_wait_for_one_who_does_not_read() {
        let (here, there) = Link::pair().unwrap();
        let (mut here, there) = (QueuedLink::new(here), Link(there));
        let text = "x".repeat(30_000);
        let mut sent = 0;
        while here.flush().unwrap() {
            here.send(&text, None).unwrap();
            sent += 1;
        }
        for _ in 0..sent {
            assert_eq!(there.receive::<String>().unwrap().unwrap().0, text);
            here.flush().unwrap();
        }
        assert!(matches!(there.poll::<String>().unwrap(), Polled::Nothing));
        assert!(here.send(&"x".repeat(LINK_MESSAGE_LEN_MAX), None).is_err());
    }
}
