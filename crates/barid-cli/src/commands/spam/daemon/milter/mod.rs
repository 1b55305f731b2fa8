//! The milter protocol, as Postfix and sendmail speak it to filters.

mod packet;
mod session;

use std::io::{self, BufReader, Read, Write};

use super::serve::Busy;
use crate::limits::MILTER_PACKET_LEN_MAX;
use barid_serve::socket::Stream;

use self::session::{MilterSession, Next};
pub(super) use self::session::{Rules, Verdict};

/// A function that classifies a message; `None` if that fails.
pub(super) type Judge<'a> = dyn Fn(&[u8]) -> Option<Verdict> + 'a;

/// Serves a mail server until it ends the connection.
///
/// # Errors
/// Errors of the connection, timeouts included; `InvalidData` for a malformed packet.
pub(super) fn serve(
    stream: Stream,
    rules: Rules,
    busy: &Busy,
    judge: &Judge<'_>,
) -> io::Result<()> {
    let (mut session, mut packet, mut out) = (MilterSession::new(rules), Vec::new(), Vec::new());
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::with_capacity(BUFFER_LEN, stream);
    let mut phase = session.phase();
    busy.talks(true);
    while read_packet(&mut reader, &mut packet)? {
        match session.take(&packet, &mut out) {
            Next::Read => {}
            Next::Close => break,
            Next::Judge => {
                busy.talks(false);
                let verdict = judge(session.message());
                session.judged(verdict.as_ref(), &mut out);
            }
        }
        busy.set(session.is_busy());
        // The time of a phase starts with its first packet, even if commands are repeated in it.
        if session.phase() != phase {
            phase = session.phase();
            busy.talks(false);
        }
        busy.talks(true);
        if !out.is_empty() {
            writer.write_all(&out)?;
            out.clear();
        }
    }
    Ok(())
}

const BUFFER_LEN: usize = 16 * 1024;

/// Reads the next packet, replacing the last one; returns `false` at the end of the connection.
fn read_packet(reader: &mut impl Read, packet: &mut Vec<u8>) -> io::Result<bool> {
    packet.clear();
    let mut len = [0; 4];
    match reader.read_exact(&mut len) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        read => read?,
    }
    let len = u32::from_be_bytes(len) as usize;
    if len == 0 || len > MILTER_PACKET_LEN_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no packet of a mail server"));
    }
    let read = reader.take(len as u64).read_to_end(packet)?;
    if read < len { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(true) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_have_a_bound() {
        let check = |bytes: &[u8], expected: Option<bool>| {
            let (mut packet, mut reader) = (Vec::new(), bytes);
            assert_eq!(read_packet(&mut reader, &mut packet).ok(), expected);
        };
        check(b"", Some(false));
        check(b"\0\0", Some(false));
        check(b"\0\0\0\x02Ka", Some(true));
        check(b"\0\0\0\x03Ka", None);
        check(b"\0\0\0\0Ka", None);
        check(b"\xFF\xFF\xFF\xFFKa", None);
    }
}
