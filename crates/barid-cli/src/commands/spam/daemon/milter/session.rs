//! The milter side of a connection, without I/O: packets in, answers out.
//!
//! The message is assembled from the packets as it was sent: fields in their order with their
//! folding, and the body. Every X-Bogosity field that it has is removed, the last one first because
//! the numbers after a removed field shift, and ours is added at the end of the header.

use barid_spam::bayes::Status;

use super::packet::{MilterCommand, VERSION, VERSION_MIN, actions, steps, write};

/// The policy for messages.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Rules {
    /// Bytes of a message that are classified; the rest is ignored.
    pub(in super::super) message_len_max: usize,
    /// Reject spam.
    pub(in super::super) rejects: bool,
    /// Quarantine spam.
    pub(in super::super) quarantines: bool,
}

/// The next step after a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Read the next packet.
    Read,
    /// The message is complete: classify it and call [`MilterSession::judged`].
    Judge,
    /// Close the connection.
    Close,
}

/// The classification of a message.
#[derive(Clone, Debug)]
pub(in super::super) struct Verdict {
    pub(in super::super) status: Status,
    /// The value of the X-Bogosity field.
    pub(in super::super) line: String,
}

/// The name of the field with the verdict.
pub(super) const FIELD: &[u8] = b"X-Bogosity";
/// The SMTP reply for rejected spam.
const REJECTED: &[u8] = b"550 5.7.1 This message looks like spam\0";
/// The SMTP reply for a message with more X-Bogosity fields than are removed.
const TOO_MANY_FIELDS: &[u8] = b"550 5.6.0 Too many X-Bogosity fields\0";
/// The reason of a quarantine.
const QUARANTINED: &[u8] = b"looks like spam\0";

/// Steps that the mail server is asked to leave out: connection and recipients are not used.
const STEPS_LEFT_OUT: u32 =
    steps::NO_CONNECT | steps::NO_HELO | steps::NO_RECIPIENT | steps::NO_DATA | steps::NO_UNKNOWN;
/// Steps for which the mail server is asked not to expect an answer.
const STEPS_UNANSWERED: u32 = steps::NO_REPLY_HEADER
    | steps::NO_REPLY_CONNECT
    | steps::NO_REPLY_HELO
    | steps::NO_REPLY_MAIL
    | steps::NO_REPLY_RECIPIENT
    | steps::NO_REPLY_DATA
    | steps::NO_REPLY_UNKNOWN
    | steps::NO_REPLY_END_OF_HEADER;
/// All steps that are negotiated.
const STEPS: u32 = STEPS_LEFT_OUT | STEPS_UNANSWERED | steps::SKIP | steps::LEADING_SPACE;

/// The state of one connection.
#[derive(Debug)]
pub(super) struct MilterSession {
    rules: Rules,
    /// The negotiated steps; `None` before the negotiation, when no other command is accepted.
    steps: Option<u32>,
    message: Vec<u8>,
    has_fields: bool,
    in_body: bool,
    /// Number of X-Bogosity fields in the message.
    own_fields: u32,
    /// The highest phase since the last classified message.
    phase: u8,
}

impl MilterSession {
    pub(super) fn new(rules: Rules) -> Self {
        let (has_fields, in_body, own_fields) = (false, false, 0);
        let (steps, message) = (None, Vec::new());
        Self { rules, steps, message, has_fields, in_body, own_fields, phase: 0 }
    }

    /// Returns the highest phase since the last classified message. A mail server that only repeats
    /// commands does not advance it.
    pub(super) fn phase(&self) -> u8 {
        self.phase
    }

    /// Processes a packet, and appends the answer to `out`.
    pub(super) fn take(&mut self, packet: &[u8], out: &mut Vec<u8>) -> Next {
        let Ok(command) = MilterCommand::parse(packet) else { return Next::Close };
        self.phase = self.phase.max(command.phase().unwrap_or(0));
        if let MilterCommand::Negotiate { version, actions, steps } = command {
            return self.negotiate((version, actions, steps), out);
        }
        let Some(agreed) = self.steps else { return Next::Close };
        let unanswered = match command {
            MilterCommand::Negotiate { .. } | MilterCommand::Quit => return Next::Close,
            MilterCommand::Macros => return Next::Read,
            MilterCommand::Abort | MilterCommand::QuitNew => {
                self.forget();
                return Next::Read;
            }
            MilterCommand::Connect => steps::NO_REPLY_CONNECT,
            MilterCommand::Helo => steps::NO_REPLY_HELO,
            MilterCommand::Mail(sender) => {
                self.forget();
                self.begin(sender);
                steps::NO_REPLY_MAIL
            }
            MilterCommand::Recipient => steps::NO_REPLY_RECIPIENT,
            MilterCommand::Data => steps::NO_REPLY_DATA,
            MilterCommand::Unknown => steps::NO_REPLY_UNKNOWN,
            MilterCommand::Header(name, value) => {
                self.field(name, value, agreed & steps::LEADING_SPACE != 0);
                steps::NO_REPLY_HEADER
            }
            MilterCommand::EndOfHeader => {
                self.end_header();
                steps::NO_REPLY_END_OF_HEADER
            }
            MilterCommand::Body(text) => {
                self.body(text);
                let is_enough = self.message.len() >= self.rules.message_len_max;
                let skips = is_enough && agreed & steps::SKIP != 0;
                write(out, if skips { b's' } else { b'c' }, &[]);
                return Next::Read;
            }
            MilterCommand::EndOfMessage(text) => {
                self.body(text);
                return Next::Judge;
            }
        };
        if agreed & unanswered == 0 {
            write(out, b'c', &[]);
        }
        Next::Read
    }

    /// Returns `true` in the middle of a message.
    pub(super) fn is_busy(&self) -> bool {
        !self.message.is_empty()
    }

    /// Returns the message received so far.
    pub(super) fn message(&self) -> &[u8] {
        &self.message
    }

    /// Answers the end of a message with the actions for its verdict. Without a verdict the message
    /// passes without our field.
    pub(super) fn judged(&mut self, verdict: Option<&Verdict>, out: &mut Vec<u8>) {
        let own_fields = self.own_fields;
        self.forget();
        self.phase = 0;
        let is_spam = verdict.is_some_and(|verdict| verdict.status == Status::Spam);
        if is_spam && self.rules.rejects {
            write(out, b'y', &[REJECTED]);
            return;
        }
        if own_fields > OWN_FIELDS_MAX {
            // No forged field may be left.
            write(out, b'y', &[TOO_MANY_FIELDS]);
            return;
        }
        for number in (1..=own_fields).rev() {
            // An empty value removes the field.
            write(out, b'm', &[&number.to_be_bytes(), FIELD, b"\0", b"\0"]);
        }
        if let Some(verdict) = verdict {
            let has_space = self.steps.is_some_and(|steps| steps & steps::LEADING_SPACE != 0);
            let space: &[u8] = if has_space { b" " } else { b"" };
            write(out, b'h', &[FIELD, b"\0", space, verdict.line.as_bytes(), b"\0"]);
        }
        if is_spam && self.rules.quarantines {
            write(out, b'q', &[QUARANTINED]);
        }
        write(out, b'c', &[]);
    }

    fn negotiate(&mut self, offered: (u32, u32, u32), out: &mut Vec<u8>) -> Next {
        let (version, can, steps) = offered;
        let quarantine = if self.rules.quarantines { actions::QUARANTINE } else { 0 };
        let needed = actions::ADD_HEADERS | actions::CHANGE_HEADERS | quarantine;
        if self.steps.is_some() || version < VERSION_MIN || can & needed != needed {
            return Next::Close;
        }
        let steps = steps & STEPS;
        self.steps = Some(steps);
        let numbers = [version.min(VERSION), needed, steps].map(u32::to_be_bytes);
        write(out, b'O', &[&numbers[0], &numbers[1], &numbers[2]]);
        Next::Read
    }

    fn forget(&mut self) {
        self.message.clear();
        self.message.shrink_to(MESSAGE_LEN_KEPT);
        (self.has_fields, self.in_body, self.own_fields) = (false, false, 0);
    }

    /// Adds Return-Path, with which delivered mail begins, and so does mail used for training.
    fn begin(&mut self, sender: &[u8]) {
        self.add(b"Return-Path: ");
        self.add(sender);
        self.add(b"\n");
    }

    fn field(&mut self, name: &[u8], value: &[u8], has_space: bool) {
        self.has_fields = true;
        if name.eq_ignore_ascii_case(FIELD) {
            self.own_fields = (self.own_fields + 1).min(OWN_FIELDS_MAX + 1);
            return;
        }
        self.add(name);
        self.add(if has_space { b":" } else { b": " });
        self.add(value);
        self.add(b"\n");
    }

    fn end_header(&mut self) {
        if !self.in_body {
            (self.has_fields, self.in_body) = (true, true);
            self.add(b"\n");
        }
    }

    fn body(&mut self, text: &[u8]) {
        self.end_header();
        self.add(text);
    }

    /// Appends text up to the length limit of the message.
    fn add(&mut self, text: &[u8]) {
        let room = self.rules.message_len_max.saturating_sub(self.message.len());
        self.message.extend_from_slice(&text[..text.len().min(room)]);
    }
}

/// Capacity of the message buffer that is kept for the next message, in bytes.
const MESSAGE_LEN_KEPT: usize = 256 * 1024;
/// The most X-Bogosity fields that are removed from a message.
const OWN_FIELDS_MAX: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(letter: u8, data: &[u8]) -> Vec<u8> {
        [&[letter][..], data].concat()
    }

    fn negotiated(rules: Rules, steps: u32) -> MilterSession {
        let mut session = MilterSession::new(rules);
        let numbers = [6, 0x1FF, steps].map(u32::to_be_bytes).concat();
        let mut out = Vec::new();
        assert_eq!(session.take(&packet(b'O', &numbers), &mut out), Next::Read);
        let agreed = if rules.quarantines { 0x31_u32 } else { 0x11 };
        let expected = [6, agreed, steps & STEPS].map(u32::to_be_bytes).concat();
        assert_eq!(out, [b"\0\0\0\x0DO", &expected[..]].concat());
        session
    }

    fn rules() -> Rules {
        Rules { message_len_max: 1000, ..Rules::default() }
    }

    fn spam() -> Verdict {
        Verdict { status: Status::Spam, line: "Spam".to_owned() }
    }

    /// Processes packets, the last of which ends the message; returns the answers before its end
    /// and at its end.
    fn exchange(session: &mut MilterSession, packets: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>) {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let (last, packets) = packets.split_last().unwrap();
        for packet in packets {
            assert_eq!(session.take(packet, &mut before), Next::Read);
        }
        assert_eq!(session.take(last, &mut before), Next::Judge);
        session.judged(Some(&spam()), &mut after);
        (before, after)
    }

    fn message() -> Vec<Vec<u8>> {
        vec![
            packet(b'D', b"Cj\0host\0"),
            packet(b'C', b"host\x004\0\x19127.0.0.1\0"),
            packet(b'H', b"host\0"),
            packet(b'M', b"<a@b>\0"),
            packet(b'R', b"<c@d>\0"),
            packet(b'L', b"Subject\0one\0"),
            packet(b'L', b"x-bogosity\0Ham\0"),
            packet(b'L', b"X-Bogosity\0Ham\0"),
            packet(b'N', b""),
            packet(b'B', b"text\r\n"),
            packet(b'E', b""),
        ]
    }

    #[test]
    fn a_message_gets_our_field_in_place_of_others() {
        let mut session = negotiated(rules(), 0);
        let (before, after) = exchange(&mut session, &message());
        // Every command except the macros gets an answer.
        assert_eq!(before, b"\0\0\0\x01c".repeat(9));
        let expected = b"\0\0\0\x11m\0\0\0\x02X-Bogosity\0\0\0\0\0\x11m\0\0\0\x01X-Bogosity\0\0\
                         \0\0\0\x11hX-Bogosity\0Spam\0\0\0\0\x01c";
        assert_eq!(after.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    #[test]
    fn what_needs_no_answer_gets_none() {
        let mut session = negotiated(rules(), !0);
        let (before, after) = exchange(&mut session, &message());
        assert_eq!(before, b"\0\0\0\x01c", "the body is answered");
        assert!(after.windows(18).any(|part| part == b"hX-Bogosity\0 Spam\0"));
    }

    #[test]
    fn the_message_is_put_together() {
        for (steps, subject) in [(0, "one"), (steps::LEADING_SPACE, " one")] {
            let mut session = negotiated(rules(), steps);
            let mut packets = message();
            packets[5] = packet(b'L', format!("Subject\0{subject}\n\ttwo\0").as_bytes());
            packets.pop();
            for packet in packets {
                session.take(&packet, &mut Vec::new());
            }
            let text = String::from_utf8_lossy(session.message()).into_owned();
            assert_eq!(text, "Return-Path: <a@b>\nSubject: one\n\ttwo\n\ntext\r\n");
        }
    }

    #[test]
    fn spam_is_rejected_or_held() {
        let mut session = negotiated(Rules { rejects: true, ..rules() }, 0);
        let (_, after) = exchange(&mut session, &message());
        assert!(after.starts_with(b"\0\0\0\x28y550 5.7.1 "), "{}", after.escape_ascii());
        let mut session = negotiated(Rules { quarantines: true, ..rules() }, 0);
        let (_, after) = exchange(&mut session, &message());
        assert!(after.ends_with(b"qlooks like spam\0\0\0\0\x01c"), "{}", after.escape_ascii());
        // A message without a verdict passes.
        session.take(&message()[6], &mut Vec::new());
        let mut out = Vec::new();
        session.judged(None, &mut out);
        assert_eq!(out, b"\0\0\0\x11m\0\0\0\x01X-Bogosity\0\0\0\0\0\x01c");
    }

    #[test]
    fn a_message_that_is_too_large_is_looked_at_in_part() {
        let mut session = negotiated(rules(), steps::SKIP);
        let mut out = Vec::new();
        session.take(&packet(b'M', b"<>\0"), &mut out);
        out.clear();
        session.take(&packet(b'B', &[b'x'; 700]), &mut out);
        session.take(&packet(b'B', &[b'x'; 700]), &mut out);
        assert_eq!(out, b"\0\0\0\x01c\0\0\0\x01s");
        assert_eq!(session.message().len(), 1000);
        session.take(&packet(b'A', b""), &mut out);
        assert!(!session.is_busy());
    }

    #[test]
    fn only_what_is_new_is_progress() {
        let mut session = negotiated(rules(), 0);
        let mut phases = Vec::new();
        let again = [packet(b'D', b"Cj\0host\0"), packet(b'A', b""), packet(b'M', b"<>\0")];
        for packet in message().iter().chain(&again) {
            if session.take(packet, &mut Vec::new()) == Next::Judge {
                session.judged(None, &mut Vec::new());
            }
            phases.push(session.phase());
        }
        assert_eq!(phases, [1, 2, 3, 4, 5, 7, 7, 7, 7, 7, 0, 0, 0, 4]);
        session.take(&packet(b'A', b""), &mut Vec::new());
        session.take(&packet(b'C', b"host\0"), &mut Vec::new());
        assert_eq!(session.phase(), 4);
    }

    #[test]
    fn what_is_no_mail_server_is_sent_away() {
        let check = |packets: &[&[u8]]| {
            let (mut session, mut out) = (MilterSession::new(rules()), Vec::new());
            let (last, packets) = packets.split_last().unwrap();
            for packet in packets {
                assert_eq!(session.take(packet, &mut out), Next::Read);
            }
            assert_eq!(session.take(last, &mut out), Next::Close);
        };
        let hello: &[u8] = b"O\0\0\0\x06\0\0\x01\xFF\0\x1F\xFF\xFF";
        check(&[b"GET / HTTP/1.0"]);
        check(&[b"M<a@b>\0"]);
        check(&[b"O\0\0\0\x01\0\0\x01\xFF\0\0\0\0"]);
        check(&[b"O\0\0\0\x06\0\0\0\x01\0\0\0\0"]);
        check(&[hello, hello]);
        check(&[hello, b"Mno end"]);
        check(&[hello, b"Q"]);
        check(&[hello, b"K", b"H\0", b"Q"]);
    }

    #[test]
    fn any_bytes_are_survived() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..2000 {
            let mut session = negotiated(rules(), random.u32(..));
            for _ in 0..random.usize(1..30) {
                let mut data: Vec<u8> = (0..random.usize(0..40)).map(|_| random.u8(..)).collect();
                if random.bool() {
                    data.push(0);
                }
                let letters = b"ODCHMRTLNBEAKUzz";
                let letter = letters[random.usize(..letters.len())];
                let mut out = Vec::new();
                match session.take(&packet(letter, &data), &mut out) {
                    Next::Close => break,
                    Next::Judge => session.judged(None, &mut out),
                    Next::Read => {}
                }
                assert!(session.message().len() <= 1000);
            }
        }
    }
}
