//! The session.

use crate::command::{LmtpCommand, parse};
use crate::data::{ChunkDecoder, DataDecoder};
use crate::limits::{ERRORS_MAX, LINE_LEN_MAX, RECIPIENTS_MAX};
use crate::reply::LmtpReply;

/// The sender of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The address; empty for bounces.
    pub sender: String,
    /// The size that the client announced, in bytes.
    pub size: Option<u64>,
    /// `true` if addresses and header fields may be UTF-8.
    pub is_utf8: bool,
}

/// The users and mailboxes of a server.
pub trait LmtpBackend {
    /// Accepts or refuses a recipient.
    fn recipient(&mut self, address: &str) -> LmtpReply;

    /// Begins the message, for all recipients that were accepted since the last
    /// [`LmtpBackend::reset`].
    ///
    /// # Errors
    /// The reply for every recipient; the message is read, but not passed on.
    fn begin(&mut self, envelope: &Envelope) -> Result<(), LmtpReply>;

    /// Takes bytes of the message, whose lines end with LF.
    ///
    /// # Errors
    /// The reply for every recipient; the rest of the message is not passed on.
    fn data(&mut self, bytes: &[u8]) -> Result<(), LmtpReply>;

    /// Delivers the message; returns a reply for each recipient that was accepted, in their order.
    /// A reply of success means that the message is durable.
    fn end(&mut self) -> Vec<LmtpReply>;

    /// Forgets recipients and message.
    fn reset(&mut self);
}

/// Settings of sessions.
#[derive(Clone, Debug)]
pub struct LmtpSettings {
    /// The name with which the server greets.
    pub hostname: String,
    /// Size of the largest message in bytes.
    pub size_max: u64,
}

/// State of a session after input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// More input is expected.
    Open,
    /// The connection is to be closed once the replies are sent.
    Closed,
}

/// The part of the protocol that the next bytes belong to.
#[derive(Debug)]
enum Phase {
    Command,
    /// A line that is too long, whose rest is skipped.
    LongLine,
    Data(DataDecoder),
    Chunk {
        left: u64,
        is_last: bool,
    },
    Closed,
}

/// A message that is being received.
#[derive(Debug, Default)]
struct Incoming {
    /// The reply for all recipients, once the message cannot be delivered.
    failed: Option<LmtpReply>,
    /// Bytes of the message so far.
    len: u64,
}

/// The session of a client.
#[derive(Debug)]
pub struct LmtpSession {
    settings: LmtpSettings,
    phase: Phase,
    line: Vec<u8>,
    is_greeted: bool,
    envelope: Option<Envelope>,
    recipients: usize,
    incoming: Option<Incoming>,
    chunks: ChunkDecoder,
    piece: Vec<u8>,
    errors: u32,
}

impl LmtpSession {
    /// Creates a session, and appends the greeting to `out`.
    #[must_use]
    pub fn new(settings: LmtpSettings, out: &mut Vec<u8>) -> Self {
        let greeting = format!("220 {} LMTP barid is ready\r\n", settings.hostname);
        out.extend_from_slice(greeting.as_bytes());
        Self {
            settings,
            phase: Phase::Command,
            line: Vec::new(),
            is_greeted: false,
            envelope: None,
            recipients: 0,
            incoming: None,
            chunks: ChunkDecoder::default(),
            piece: Vec::new(),
            errors: 0,
        }
    }

    /// Takes bytes of the client; appends the replies to `out`. Memory is bounded by the bytes of
    /// one call.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        backend: &mut dyn LmtpBackend,
        out: &mut Vec<u8>,
    ) -> SessionState {
        let mut rest = bytes;
        while !rest.is_empty() {
            let used = match self.phase {
                Phase::Closed => break,
                Phase::Command => self.take_line(rest, backend, out),
                Phase::LongLine => {
                    let end = memchr::memchr(b'\n', rest);
                    if end.is_some() {
                        self.phase = Phase::Command;
                        let reply = LmtpReply::new(500, "5.5.2", "the line is too long");
                        self.refuse(&reply, out);
                    }
                    end.map_or(rest.len(), |end| end + 1)
                }
                Phase::Data(_) => self.take_data(rest, backend, out),
                Phase::Chunk { .. } => self.take_chunk(rest, backend, out),
            };
            rest = &rest[used..];
        }
        match self.phase {
            Phase::Closed => SessionState::Closed,
            _ => SessionState::Open,
        }
    }

    /// Returns `true` while a message is being received.
    #[must_use]
    pub fn is_receiving(&self) -> bool {
        self.incoming.is_some()
    }

    fn take_line(
        &mut self,
        rest: &[u8],
        backend: &mut dyn LmtpBackend,
        out: &mut Vec<u8>,
    ) -> usize {
        let end = memchr::memchr(b'\n', rest);
        let used = end.map_or(rest.len(), |end| end + 1);
        if self.line.len() + used > LINE_LEN_MAX {
            self.line.clear();
            self.phase = Phase::LongLine;
            // The end of the line is looked for once more.
            return 0;
        }
        self.line.extend_from_slice(&rest[..used]);
        if end.is_some() {
            let line = std::mem::take(&mut self.line);
            let line = line.strip_suffix(b"\n").unwrap_or(&line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            match parse(line) {
                Ok(command) => self.command(command, backend, out),
                Err(reply) => self.refuse(&reply, out),
            }
        }
        used
    }

    /// Sends a reply to a command in error.
    fn refuse(&mut self, reply: &LmtpReply, out: &mut Vec<u8>) {
        self.errors += 1;
        if self.errors < ERRORS_MAX {
            return reply.write(out);
        }
        LmtpReply::new(421, "4.7.0", "too many errors").write(out);
        self.phase = Phase::Closed;
    }

    fn command(&mut self, command: LmtpCommand, backend: &mut dyn LmtpBackend, out: &mut Vec<u8>) {
        let is_in_chunks = self.incoming.is_some();
        let ok = |text: &str| LmtpReply::new(250, "2.0.0", text);
        match command {
            LmtpCommand::Hello => {
                self.reset(backend);
                self.is_greeted = true;
                self.write_capabilities(out);
            }
            LmtpCommand::Mail { sender, size, is_utf8 } => {
                let envelope = Envelope { sender, size, is_utf8 };
                self.mail(envelope, out);
            }
            LmtpCommand::Recipient(address) => self.rcpt(&address, backend, out),
            LmtpCommand::Data if is_in_chunks => {
                self.refuse(&LmtpReply::new(503, "5.5.1", "the message began with BDAT"), out);
            }
            LmtpCommand::Data if self.recipients == 0 => {
                self.refuse(&LmtpReply::new(503, "5.5.1", "there are no recipients"), out);
            }
            LmtpCommand::Data => {
                self.begin(backend);
                self.phase = Phase::Data(DataDecoder::default());
                out.extend_from_slice(b"354 End the message with a dot on a line of its own\r\n");
            }
            LmtpCommand::Chunk { len, is_last } => self.chunk(len, is_last, backend, out),
            LmtpCommand::Reset => {
                self.reset(backend);
                ok("forgotten").write(out);
            }
            LmtpCommand::Nothing => ok("here").write(out),
            LmtpCommand::Verify => {
                LmtpReply::new(252, "2.5.2", "send a message, and see").write(out);
            }
            LmtpCommand::Quit => {
                self.reset(backend);
                LmtpReply::new(221, "2.0.0", "bye").write(out);
                self.phase = Phase::Closed;
            }
        }
    }

    fn write_capabilities(&self, out: &mut Vec<u8>) {
        let LmtpSettings { hostname, size_max } = &self.settings;
        let lines = [
            hostname.clone(),
            "PIPELINING".to_owned(),
            "8BITMIME".to_owned(),
            "SMTPUTF8".to_owned(),
            "ENHANCEDSTATUSCODES".to_owned(),
            "CHUNKING".to_owned(),
        ];
        lines.iter().for_each(|line| out.extend_from_slice(format!("250-{line}\r\n").as_bytes()));
        out.extend_from_slice(format!("250 SIZE {size_max}\r\n").as_bytes());
    }

    fn mail(&mut self, envelope: Envelope, out: &mut Vec<u8>) {
        if !self.is_greeted {
            return self.refuse(&LmtpReply::new(503, "5.5.1", "say LHLO first"), out);
        }
        if self.envelope.is_some() {
            return self.refuse(&LmtpReply::new(503, "5.5.1", "there is a sender already"), out);
        }
        if envelope.size.is_some_and(|size| size > self.settings.size_max) {
            return self.refuse(&self.too_large(), out);
        }
        self.envelope = Some(envelope);
        LmtpReply::new(250, "2.1.0", "sender accepted").write(out);
    }

    fn rcpt(&mut self, address: &str, backend: &mut dyn LmtpBackend, out: &mut Vec<u8>) {
        let is_utf8 = match &self.envelope {
            Some(envelope) if self.incoming.is_none() => envelope.is_utf8,
            _ => return self.refuse(&LmtpReply::new(503, "5.5.1", "say MAIL FROM first"), out),
        };
        if !is_utf8 && !address.is_ascii() {
            let reply = LmtpReply::new(553, "5.6.7", "such an address needs SMTPUTF8");
            return self.refuse(&reply, out);
        }
        if self.recipients >= RECIPIENTS_MAX {
            return self.refuse(&LmtpReply::new(452, "4.5.3", "too many recipients"), out);
        }
        let reply = backend.recipient(address);
        self.recipients += usize::from(reply.is_ok());
        reply.write(out);
    }

    fn chunk(&mut self, len: u64, is_last: bool, backend: &mut dyn LmtpBackend, out: &mut Vec<u8>) {
        // RFC 3030 §2: the bytes of a chunk that is refused are read nevertheless.
        if self.incoming.is_none() {
            match self.recipients {
                0 => {
                    let reply = LmtpReply::new(503, "5.5.1", "there are no recipients");
                    self.incoming = Some(Incoming { failed: Some(reply), ..Incoming::default() });
                }
                _ => self.begin(backend),
            }
        }
        self.phase = Phase::Chunk { left: len, is_last };
        if len == 0 {
            self.end_chunk(backend, out);
        }
    }

    fn begin(&mut self, backend: &mut dyn LmtpBackend) {
        let envelope = self.envelope.clone().unwrap_or_default();
        let failed = backend.begin(&envelope).err();
        self.chunks = ChunkDecoder::default();
        self.incoming = Some(Incoming { failed, len: 0 });
    }

    fn take_data(
        &mut self,
        rest: &[u8],
        backend: &mut dyn LmtpBackend,
        out: &mut Vec<u8>,
    ) -> usize {
        let Phase::Data(decoder) = &mut self.phase else { return rest.len() };
        let mut piece = std::mem::take(&mut self.piece);
        piece.clear();
        let end = decoder.push(rest, &mut piece);
        self.pass_on(&piece, backend);
        self.piece = piece;
        if end.is_some() {
            self.phase = Phase::Command;
            self.end_message(backend, out);
        }
        end.unwrap_or(rest.len())
    }

    fn take_chunk(
        &mut self,
        rest: &[u8],
        backend: &mut dyn LmtpBackend,
        out: &mut Vec<u8>,
    ) -> usize {
        let Phase::Chunk { left, .. } = &mut self.phase else { return rest.len() };
        let used = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
        *left -= used as u64;
        let is_whole = *left == 0;
        let mut piece = std::mem::take(&mut self.piece);
        piece.clear();
        self.chunks.push(&rest[..used], &mut piece);
        self.pass_on(&piece, backend);
        self.piece = piece;
        if is_whole {
            self.end_chunk(backend, out);
        }
        used
    }

    fn end_chunk(&mut self, backend: &mut dyn LmtpBackend, out: &mut Vec<u8>) {
        let Phase::Chunk { is_last, .. } = self.phase else { return };
        self.phase = Phase::Command;
        if self.recipients == 0 {
            self.incoming = None;
            self.refuse(&LmtpReply::new(503, "5.5.1", "there are no recipients"), out);
        } else if is_last {
            let mut piece = Vec::new();
            self.chunks.finish(&mut piece);
            self.pass_on(&piece, backend);
            self.end_message(backend, out);
        } else {
            match self.incoming.as_ref().and_then(|incoming| incoming.failed.clone()) {
                Some(reply) => reply.write(out),
                None => LmtpReply::new(250, "2.0.0", "chunk received").write(out),
            }
        }
    }

    /// Passes bytes of the message on, unless it cannot be delivered any more.
    fn pass_on(&mut self, piece: &[u8], backend: &mut dyn LmtpBackend) {
        let too_large = self.too_large();
        let Some(incoming) = &mut self.incoming else { return };
        incoming.len = incoming.len.saturating_add(piece.len() as u64);
        if incoming.len > self.settings.size_max {
            // Whatever failed before, it is never worth another try.
            incoming.failed = Some(too_large);
        } else if incoming.failed.is_none() && !piece.is_empty() {
            incoming.failed = backend.data(piece).err();
        }
    }

    fn end_message(&mut self, backend: &mut dyn LmtpBackend, out: &mut Vec<u8>) {
        let failed = self.incoming.take().and_then(|incoming| incoming.failed);
        let replies = match failed {
            Some(reply) => vec![reply; self.recipients],
            None => backend.end(),
        };
        let missing = LmtpReply::new(451, "4.3.0", "not delivered");
        let all = replies.iter().chain(std::iter::repeat(&missing)).take(self.recipients);
        all.for_each(|reply| reply.write(out));
        self.reset(backend);
    }

    fn too_large(&self) -> LmtpReply {
        let text = format!("a message has at most {} bytes", self.settings.size_max);
        LmtpReply::new(552, "5.3.4", text)
    }

    fn reset(&mut self, backend: &mut dyn LmtpBackend) {
        self.envelope = None;
        self.recipients = 0;
        self.incoming = None;
        backend.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps messages; knows every recipient but `no@x`, and fails for `full@x`.
    #[derive(Default)]
    struct Memory {
        recipients: Vec<String>,
        message: Vec<u8>,
        delivered: Vec<(String, String)>,
        sender: String,
    }

    impl LmtpBackend for Memory {
        fn recipient(&mut self, address: &str) -> LmtpReply {
            if address == "no@x" {
                return LmtpReply::new(550, "5.1.1", "no such user");
            }
            self.recipients.push(address.to_owned());
            LmtpReply::new(250, "2.1.5", "ok")
        }

        fn begin(&mut self, envelope: &Envelope) -> Result<(), LmtpReply> {
            self.sender = envelope.sender.clone();
            Ok(())
        }

        fn data(&mut self, bytes: &[u8]) -> Result<(), LmtpReply> {
            self.message.extend_from_slice(bytes);
            match bytes.windows(4).any(|word| word == b"FAIL") {
                true => Err(LmtpReply::new(452, "4.3.1", "full")),
                false => Ok(()),
            }
        }

        fn end(&mut self) -> Vec<LmtpReply> {
            let text = String::from_utf8_lossy(&self.message).into_owned();
            let mut replies = Vec::new();
            for address in &self.recipients {
                if address == "full@x" {
                    replies.push(LmtpReply::new(552, "5.2.2", "full\r\n250 2.0.0 smuggled"));
                    continue;
                }
                self.delivered.push((address.clone(), text.clone()));
                replies.push(LmtpReply::new(250, "2.0.0", "delivered"));
            }
            replies
        }

        fn reset(&mut self) {
            self.recipients.clear();
            self.message.clear();
        }
    }

    fn run(input: &[u8], chunk: usize) -> (Memory, String, SessionState) {
        let (mut backend, mut out) = (Memory::default(), Vec::new());
        let settings = LmtpSettings { hostname: "h".to_owned(), size_max: 10_000 };
        let mut session = LmtpSession::new(settings, &mut out);
        let mut state = SessionState::Open;
        for piece in input.chunks(chunk) {
            state = session.receive(piece, &mut backend, &mut out);
        }
        let out = String::from_utf8(out).unwrap();
        assert!(out.lines().all(|line| line.len() < 500), "{out}");
        (backend, out, state)
    }

    /// Checks the codes of the replies after those to LHLO, and the messages.
    fn check(input: &str, codes: &[&str], delivered: &[(&str, &str)]) {
        let input = format!("LHLO me\r\n{input}");
        for chunk in [1, 2, 7, input.len()] {
            let (backend, out, _) = run(input.as_bytes(), chunk);
            let found: Vec<&str> = out
                .lines()
                .filter(|line| !line.starts_with("250-") && !line.starts_with("250 SIZE"))
                .skip(1)
                .map(|line| &line[..if line.starts_with("354") { 3 } else { 9 }])
                .collect();
            assert_eq!(found, codes, "{input}\n{out}");
            let messages: Vec<(&str, &str)> =
                backend.delivered.iter().map(|(to, text)| (to.as_str(), text.as_str())).collect();
            assert_eq!(messages, delivered, "{input}");
        }
    }

    #[test]
    fn each_recipient_gets_a_reply() {
        check(
            "MAIL FROM:<a@x>\r\nRCPT TO:<b@x>\r\nRCPT TO:<no@x>\r\nRCPT TO:<full@x>\r\n\
             RCPT TO:<c@x>\r\nDATA\r\nSubject: s\r\n\r\n..dot\r\n.\r\nQUIT\r\n",
            &[
                "250 2.1.0",
                "250 2.1.5",
                "550 5.1.1",
                "250 2.1.5",
                "250 2.1.5",
                "354",
                "250 2.0.0",
                "552 5.2.2",
                "250 2.0.0",
                "221 2.0.0",
            ],
            &[("b@x", "Subject: s\n\n.dot\n"), ("c@x", "Subject: s\n\n.dot\n")],
        );
    }

    #[test]
    fn chunks_are_a_message() {
        check(
            "MAIL FROM:<>\r\nRCPT TO:<b@x>\r\nBDAT 5\r\nA: 1\r\
             BDAT 0\r\nBDAT 7 LAST\r\n\n\r\n.\r\n!NOOP\r\n",
            &["250 2.1.0", "250 2.1.5", "250 2.0.0", "250 2.0.0", "250 2.0.0", "250 2.0.0"],
            &[("b@x", "A: 1\n\n.\n!")],
        );
        check(
            "BDAT 6 LAST\r\nQUIT\r\nMAIL FROM:<>\r\nRCPT TO:<b@x>\r\nBDAT 1\r\nxDATA\r\n",
            &["503 5.5.1", "250 2.1.0", "250 2.1.5", "250 2.0.0", "503 5.5.1"],
            &[],
        );
    }

    #[test]
    fn commands_out_of_order_are_refused() {
        check("RCPT TO:<b@x>\r\nDATA\r\n", &["503 5.5.1", "503 5.5.1"], &[]);
        check("MAIL FROM:<a@x>\r\nMAIL FROM:<a@x>\r\n", &["250 2.1.0", "503 5.5.1"], &[]);
        check("MAIL FROM:<a@x>\r\nDATA\r\n", &["250 2.1.0", "503 5.5.1"], &[]);
        check("MAIL FROM:<a@x> SIZE=10001\r\n", &["552 5.3.4"], &[]);
        check(
            "MAIL FROM:<a@x>\r\nRCPT TO:<b@x>\r\nRSET\r\nDATA\r\n",
            &["250 2.1.0", "250 2.1.5", "250 2.0.0", "503 5.5.1"],
            &[],
        );
        let (_, out, _) = run(b"MAIL FROM:<a@x>\r\n", 100);
        assert!(out.ends_with("503 5.5.1 say LHLO first\r\n"), "{out}");
    }

    #[test]
    fn a_failure_or_a_large_message_is_told_to_all() {
        let start = "MAIL FROM:<a@x>\r\nRCPT TO:<b@x>\r\nRCPT TO:<c@x>\r\nDATA\r\n";
        let codes = |code| ["250 2.1.0", "250 2.1.5", "250 2.1.5", "354", code, code];
        check(&format!("{start}{}\r\n.\r\n", "x".repeat(10_001)), &codes("552 5.3.4"), &[]);
        let input = format!("LHLO me\r\n{start}FAIL\r\nmore\r\n.\r\n");
        let (backend, out, _) = run(input.as_bytes(), input.len());
        assert_eq!(out.matches("452 4.3.1").count(), 2, "{out}");
        assert!(backend.delivered.is_empty());
    }

    #[test]
    fn long_lines_and_many_errors_end() {
        let long = format!("NOOP {}\r\nNOOP\r\n", "x".repeat(100_000));
        check(&long, &["500 5.5.2", "250 2.0.0"], &[]);
        let (_, out, state) = run(&b"BAD\r\n".repeat(200), 11);
        assert_eq!(state, SessionState::Closed);
        assert!(out.ends_with("421 4.7.0 too many errors\r\n"));
        assert_eq!(out.lines().count(), 101);
    }

    #[test]
    fn a_message_cannot_smuggle_another() {
        for end in ["\n.\n", "\n.\r\n", "\r.\r", "\r\n.\n", "\r\n.\r", "\n.\r", "\r.\r\n"] {
            let smuggled = format!(
                "MAIL FROM:<a@x>\r\nRCPT TO:<b@x>\r\nDATA\r\none{end}MAIL FROM:<evil@x>\r\n\
                 RCPT TO:<c@x>\r\nDATA\r\ntwo\r\n.\r\n"
            );
            let (backend, out, _) = run(format!("LHLO me\r\n{smuggled}").as_bytes(), 1000);
            assert_eq!(backend.delivered.len(), 1, "{end:?} {out}");
            assert_eq!(backend.sender, "a@x");
        }
    }

    #[test]
    fn replies_are_one_line_whatever_their_text() {
        let (_, out, _) =
            run(b"LHLO me\r\nMAIL FROM:<a@x>\r\nRCPT TO:<full@x>\r\nDATA\r\n\r\n.\r\n", 1000);
        assert!(out.ends_with("552 5.2.2 full??250 2.0.0 smuggled\r\n"), "{out}");
    }
}
