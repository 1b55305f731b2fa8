//! The session of LMTP.

use barid_lmtp::limits::{RECIPIENTS_MAX, REPLY_TEXT_LEN_MAX};
use barid_lmtp::{Envelope, LmtpBackend, LmtpReply, LmtpSession, LmtpSettings};

/// Words of the protocol.
pub(crate) const LMTP_WORDS: &[&str] = &[
    "LHLO x\r\n",
    "MAIL FROM:<",
    "RCPT TO:<",
    "> SIZE=",
    ">\r\n",
    "DATA\r\n",
    "BDAT 5\r\n",
    " LAST\r\n",
    "RSET\r\n",
    "\r\n.\r\n",
    "\n.\n",
    "\r.\r",
    "..",
    "SMTPUTF8",
];

/// Size of the largest message.
const SIZE_MAX: u64 = 300;

/// Notes every call. Refuses recipients with a `!`, and messages with a `?`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Calls {
    calls: Vec<String>,
    recipients: usize,
    message: Vec<u8>,
    is_begun: bool,
}

impl LmtpBackend for Calls {
    fn recipient(&mut self, address: &str) -> LmtpReply {
        assert!(!self.is_begun, "a recipient within a message");
        self.calls.push(address.to_owned());
        if address.contains('!') {
            return LmtpReply::new(550, "5.1.1", address);
        }
        self.recipients += 1;
        assert!(self.recipients <= RECIPIENTS_MAX);
        LmtpReply::new(250, "2.1.5", address)
    }

    fn begin(&mut self, envelope: &Envelope) -> Result<(), LmtpReply> {
        assert!(!self.is_begun && self.recipients > 0);
        self.is_begun = true;
        self.calls.push(format!("{envelope:?}"));
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> Result<(), LmtpReply> {
        assert!(self.is_begun);
        self.message.extend_from_slice(bytes);
        assert!(self.message.len() as u64 <= SIZE_MAX);
        match bytes.contains(&b'?') {
            true => Err(LmtpReply::new(452, "4.3.1", "full")),
            false => Ok(()),
        }
    }

    fn end(&mut self) -> Vec<LmtpReply> {
        assert!(self.is_begun);
        self.calls.push(String::from_utf8_lossy(&self.message).into_owned());
        vec![LmtpReply::new(250, "2.0.0", "ok"); self.recipients]
    }

    fn reset(&mut self) {
        self.is_begun = false;
        self.recipients = 0;
        self.message.clear();
    }
}

/// Answers the bytes of a client, whole and in pieces, whose length is the first byte.
pub(crate) fn session(bytes: &[u8]) {
    let Some((first, input)) = bytes.split_first() else { return };
    let whole = run(input, input.len().max(1));
    let pieces = run(input, usize::from(*first) + 1);
    assert_eq!(whole, pieces, "pieces change the session");
    for line in whole.0.split_inclusive(|byte| *byte == b'\n') {
        assert!(line.ends_with(b"\r\n") && line.len() < REPLY_TEXT_LEN_MAX + 50);
        let text = &line[..line.len() - 2];
        assert!(text.iter().all(|byte| matches!(byte, b' '..=b'~')));
        assert!(text.len() > 4 && text[..3].iter().all(u8::is_ascii_digit));
    }
}

fn run(input: &[u8], piece_len: usize) -> (Vec<u8>, Vec<String>) {
    let (mut backend, mut out) = (Calls::default(), Vec::new());
    let settings = LmtpSettings { hostname: "h".to_owned(), size_max: SIZE_MAX };
    let mut session = LmtpSession::new(settings, &mut out);
    for piece in input.chunks(piece_len) {
        session.receive(piece, &mut backend, &mut out);
    }
    (out, backend.calls)
}

/// Sessions of clients.
pub(crate) fn session_seeds() -> Vec<Vec<u8>> {
    let sessions = [
        "\u{1}LHLO x\r\nMAIL FROM:<a@b> SIZE=20 BODY=8BITMIME\r\nRCPT TO:<c@d>\r\nRCPT TO:<!@d>\r\n\
         DATA\r\nSubject: s\r\n\r\n..dot\r\n.\r\nQUIT\r\n",
        "\u{7}LHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<\"a b\"@d>\r\nBDAT 5\r\nA: 1\rBDAT 3 LAST\r\n\n\r\n\
         NOOP\r\n",
        "\u{40}LHLO x\r\nMAIL FROM:<\u{fc}@b> SMTPUTF8\r\nRCPT TO:<@r:\u{fc}@d>\r\nRSET\r\nDATA\r\n\
         VRFY x\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\nfull?\r\n.\r\n",
    ];
    sessions.iter().map(|session| session.as_bytes().to_vec()).collect()
}
