//! Random search programs about the messages of a mailbox, in IMAP's words.

use barid::message::{HeaderScan, decode_words, parse_date};
use barid::query::Day;
use fastrand::Rng;

/// Values that programs can search for.
#[derive(Default)]
pub(crate) struct Matter {
    addresses: Vec<String>,
    subjects: Vec<String>,
    ids: Vec<String>,
    words: Vec<String>,
    sent: Vec<Day>,
    arrived: Vec<Day>,
    sizes: Vec<u64>,
    messages: u32,
}

/// A program and the keys that it is made of.
pub(crate) struct Program {
    pub(crate) text: Vec<u8>,
    pub(crate) keys: Vec<Vec<u8>>,
}

/// Words of any message that few programs would find in these.
const ODD_WORDS: [&str; 8] =
    ["xyzzy", "caf\u{e9}", "\u{fc}", "Ä", "\u{4e2d}", "e-mail", "=", "the"];

impl Matter {
    /// Collects values from a message.
    pub(crate) fn learn(&mut self, message: &[u8], arrived: i64, random: &mut Rng) {
        let header = HeaderScan::new(message);
        let fields = header.fields;
        let text = |raw: Option<&[u8]>| decode_words(raw.unwrap_or_default()).into_owned();
        self.messages += 1;
        self.addresses.push(text([fields.from, fields.to, fields.cc][random.usize(..3)]));
        self.subjects.push(text(fields.subject));
        self.ids.push(text([fields.message_id, fields.references][random.usize(..2)]));
        let body = String::from_utf8_lossy(&message[header.body_offset..]).into_owned();
        let words: Vec<&str> = body.split_whitespace().take(2000).collect();
        if let Some(at) = words.len().checked_sub(1).map(|last| random.usize(..=last)) {
            self.words.push(words[at].to_owned());
        }
        self.sent
            .extend(fields.date.and_then(parse_date).map(|date| Day(date.unix_seconds / 86_400)));
        self.arrived.push(Day(arrived / 86_400));
        self.sizes.push(message.len() as u64);
    }

    /// Returns a program of up to four keys.
    pub(crate) fn program(&self, random: &mut Rng) -> Program {
        let mut keys = Vec::new();
        let mut text = Vec::new();
        let mut wanted = 1 + random.usize(..2);
        while wanted > 0 {
            if !text.is_empty() {
                text.push(b' ');
            }
            match random.u8(..8) {
                0 if keys.len() + wanted < 4 => {
                    text.extend_from_slice(b"OR");
                    wanted += 1;
                }
                1 if !text.ends_with(b"NOT ") => text.extend_from_slice(b"NOT"),
                _ => {
                    let key = self.key(random);
                    text.extend_from_slice(&key);
                    keys.push(key);
                    wanted -= 1;
                }
            }
        }
        Program { text, keys }
    }

    fn key(&self, random: &mut Rng) -> Vec<u8> {
        let of = |name: &str, value: String| [name.as_bytes(), b" ", value.as_bytes()].concat();
        let number = |random: &mut Rng| random.u32(1..=self.messages);
        match random.u8(..24) {
            0..=3 => self.flag(random),
            4 => {
                let (first, last) = (number(random), number(random));
                let name = ["", "UID "][random.usize(..2)];
                format!("{name}{first}:{last},{}", number(random)).into_bytes()
            }
            5 => format!("UID {}:*", number(random)).into_bytes(),
            6..=8 => {
                let name = ["SENTBEFORE", "SENTON", "SENTSINCE"][random.usize(..3)];
                of(name, date(pick(&self.sent, random).unwrap_or(Day(0))))
            }
            9 | 10 => {
                let name = ["BEFORE", "ON", "SINCE"][random.usize(..3)];
                of(name, date(pick(&self.arrived, random).unwrap_or(Day(0))))
            }
            11 | 12 => {
                let size = pick(&self.sizes, random).unwrap_or(0) + random.u64(..200);
                of(["LARGER", "SMALLER"][random.usize(..2)], size.to_string())
            }
            13..=15 => {
                let name = ["FROM", "TO", "CC", "BCC"][random.usize(..4)];
                [name.as_bytes(), b" ", &quoted(&self.piece(&self.addresses, random))].concat()
            }
            16 | 17 => [b"SUBJECT ", &*quoted(&self.piece(&self.subjects, random))].concat(),
            18 | 19 => self.header(random),
            20..=22 => [b"TEXT ", &*quoted(&self.text(random))].concat(),
            _ => [b"BODY ", &*quoted(&self.text(random))].concat(),
        }
    }

    fn flag(&self, random: &mut Rng) -> Vec<u8> {
        const FLAGS: [&str; 16] = [
            "ALL",
            "SEEN",
            "UNSEEN",
            "ANSWERED",
            "UNANSWERED",
            "FLAGGED",
            "UNFLAGGED",
            "DELETED",
            "UNDELETED",
            "DRAFT",
            "UNDRAFT",
            "KEYWORD $Junk",
            "KEYWORD TODO",
            "UNKEYWORD todo",
            "KEYWORD none",
            "MODSEQ 1",
        ];
        FLAGS[random.usize(..FLAGS.len())].as_bytes().to_vec()
    }

    fn header(&self, random: &mut Rng) -> Vec<u8> {
        let (name, value) = match random.u8(..6) {
            0 => ("Message-ID", self.piece(&self.ids, random)),
            1 => ("References", self.piece(&self.ids, random)),
            2 => ("From", self.piece(&self.addresses, random)),
            3 => ("Subject", self.piece(&self.subjects, random)),
            4 => ("Content-Type", "utf-8".to_owned()),
            _ => (["X-Mailer", "List-Id", "Received"][random.usize(..3)], String::new()),
        };
        [b"HEADER ", name.as_bytes(), b" ", &*quoted(&value)].concat()
    }

    fn text(&self, random: &mut Rng) -> String {
        match random.u8(..8) {
            0 => ODD_WORDS[random.usize(..ODD_WORDS.len())].to_owned(),
            1 => self.piece(&self.subjects, random),
            2 => self.piece(&self.addresses, random),
            _ => self.piece(&self.words, random),
        }
    }

    /// Returns a stretch of a text, perhaps in another case.
    fn piece(&self, texts: &[String], random: &mut Rng) -> String {
        let Some(text) = pick(texts, random) else { return String::new() };
        let chars: Vec<char> = text.chars().filter(|c| !c.is_control()).collect();
        if chars.is_empty() {
            return String::new();
        }
        let start = random.usize(..chars.len());
        let len = 1 + random.usize(..12);
        let piece: String = chars[start..].iter().take(len).collect();
        match random.u8(..3) {
            0 => piece.to_lowercase(),
            1 => piece.to_uppercase(),
            _ => piece,
        }
    }
}

fn pick<T: Clone>(values: &[T], random: &mut Rng) -> Option<T> {
    let at = values.len().checked_sub(1).map(|last| random.usize(..=last))?;
    Some(values[at].clone())
}

fn date(day: Day) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (year, month, day) = day.date();
    format!("{day}-{}-{:04}", MONTHS[month as usize - 1], year.clamp(1970, 2037))
}

/// Returns a quoted string, or a literal if it is not ASCII.
fn quoted(text: &str) -> Vec<u8> {
    if text.is_ascii() {
        return format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")).into_bytes();
    }
    [format!("{{{}+}}\r\n", text.len()).as_bytes(), text.as_bytes()].concat()
}
