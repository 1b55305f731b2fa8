//! Mailboxes in the layouts that c-client writes, and four mbox variants of the same messages.
//!
//! The bytes are put together here from the descriptions of the formats, not by the code under
//! test. The folder has the names, and the messages the peculiarities, of the mailboxes that
//! c-client itself wrote: `manifest.tsv` lists the flags, and the first message has lost its
//! keywords where c-client had not known them yet.

use std::fmt::Write as _;

use barid_types::FlagSet;

use crate::boxes::{MboxOptions, MboxVariant};
use crate::corpus::{Calendar, Corpus, GeneratedMessage};

/// Number of messages in each full mailbox.
const COUNT: u64 = 120;
/// Messages with a From_ line in their body that only a `Content-Length` tells from a separator.
const WITH_FROM_LINE: [u64; 4] = [17, 48, 71, 99];
/// Keywords by their bit.
const KEYWORDS: [&str; 5] = ["$Forwarded", "Junk", "NonJunk", "$Label1", "todo"];
/// UIDVALIDITY of all mailboxes.
const UIDVALIDITY: u32 = 0x5c2b_0000;
/// Length of the header of an mbx file.
const MBX_HEADER_LEN: usize = 2048;

/// A message with its flags as mbox headers spell them.
struct Sample {
    message: GeneratedMessage,
    status: &'static str,
    xstatus: String,
    keywords: Vec<usize>,
}

/// Returns all files below `uw-imap-formats` by their paths.
pub(super) fn files(seed: u64) -> Vec<(String, Vec<u8>)> {
    let corpus = Corpus::new(seed, COUNT);
    let samples: Vec<Sample> = (0..COUNT).map(|number| Sample::new(&corpus, number)).collect();
    let mut files = vec![
        ("manifest.tsv".to_owned(), manifest(&samples)),
        ("source-flagged.mboxo".to_owned(), mbox(&samples, MboxVariant::Mboxo, 0)),
        ("uw.unix".to_owned(), with_folder_data(&samples, MboxVariant::Mboxo)),
        ("uw.mmdf".to_owned(), with_folder_data(&samples, MboxVariant::Mmdf)),
        ("uw.mbx".to_owned(), mbx(&samples, 1, |_| 0)),
        ("uw-pruned.mbx".to_owned(), mbx(&samples[20..], 250, |number| 2 * number + 3)),
        ("uw-empty.mbx".to_owned(), mbx(&[], 0, |_| 0)),
        ("test.mbx".to_owned(), mbx(&samples[..3], 0, |_| 0)),
        ("malformed.mbx".to_owned(), malformed_mbx()),
    ];
    for variant in MboxVariant::ALL.into_iter().filter(|it| *it != MboxVariant::Mmdf) {
        files.push((format!("sample.{}", variant.name()), mbox(&samples, variant, 0)));
    }
    files.extend(mix("uw.mix", &samples, COUNT + 1, &|number| (number + 2, 0)));
    files.extend(mix("uw-pruned.mix", &samples[20..], 250, &|number| {
        (2 * number + 3, u32::from(number >= 50))
    }));
    files.extend(mix("uw-empty.mix", &[], 0, &|_| (0, 0)));
    files.into_iter().map(|(name, bytes)| (format!("uw-imap-formats/{name}"), bytes)).collect()
}

impl Sample {
    fn new(corpus: &Corpus, number: u64) -> Self {
        let mut message = corpus.message(number);
        message.flags = FlagSet::EMPTY;
        if WITH_FROM_LINE.contains(&number) {
            let line = b"\nFrom b@example.org Tue Mar  5 12:22:10 2024\nwhat somebody quoted\n";
            message.bytes.extend_from_slice(line);
        }
        let letters = ['A', 'D', 'F', 'T'].into_iter().enumerate();
        let xstatus = letters.filter(|(bit, _)| number >> (bit + 1) & 3 == 3);
        Self {
            message,
            status: if number.is_multiple_of(3) { "" } else { "RO" },
            xstatus: xstatus.map(|(_, letter)| letter).collect(),
            keywords: (0..KEYWORDS.len())
                .filter(|bit| number.is_multiple_of(*bit as u64 + 2))
                .collect(),
        }
    }

    /// Returns the names of the keywords, separated by spaces.
    fn keyword_names(&self) -> String {
        self.keywords.iter().map(|bit| KEYWORDS[*bit]).collect::<Vec<_>>().join(" ")
    }

    /// Returns the bits of mbx and mix: of the keywords, and of the flags.
    fn bits(&self, is_first: bool) -> (u32, u32) {
        let keywords = self.keywords.iter().map(|bit| 1 << bit).sum();
        let seen = u32::from(self.status.contains('R'));
        let others = [('D', 0x2), ('F', 0x4), ('A', 0x8), ('T', 0x20)];
        let others = others.iter().filter(|(letter, _)| self.xstatus.contains(*letter));
        let flags = others.map(|(_, bit)| bit).sum::<u32>() + seen;
        (if is_first { 0 } else { keywords }, flags)
    }

    /// Returns the text with CRLF line ends.
    fn crlf(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.message.bytes.len() + 256);
        for line in self.message.bytes.split_inclusive(|byte| *byte == b'\n') {
            text.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
            text.extend_from_slice(b"\r\n");
        }
        text
    }
}

/// Returns a line for each message: number, Status, X-Status, keywords, Message-ID, length.
fn manifest(samples: &[Sample]) -> Vec<u8> {
    let mut text = "n\tstatus\txstatus\tkeywords\tmessage-id\tbytes_in_mbox\n".to_owned();
    for (number, sample) in samples.iter().enumerate() {
        let content = String::from_utf8_lossy(&sample.message.bytes);
        let mut header = content.lines().take_while(|line| !line.is_empty());
        let id = header.find_map(|line| line.strip_prefix("Message-ID: "));
        let (status, xstatus, keywords) = (sample.status, &sample.xstatus, sample.keyword_names());
        let (id, len) = (id.unwrap_or_default(), sample.message.bytes.len());
        let number = number + 1;
        put(&mut text, format_args!("{number}\t{status}\t{xstatus}\t{keywords}\t{id}\t{len}\n"));
    }
    text.into_bytes()
}

/// Returns an mbox; the first `without_keywords` messages have lost their keywords.
fn mbox(samples: &[Sample], variant: MboxVariant, without_keywords: usize) -> Vec<u8> {
    let options = MboxOptions { status: false, ..MboxOptions::new(variant) };
    let mut bytes = Vec::new();
    for (number, sample) in samples.iter().enumerate() {
        let keywords =
            if number < without_keywords { String::new() } else { sample.keyword_names() };
        let (status, xstatus) = (sample.status, &sample.xstatus);
        let mut message = sample.message.clone();
        let fields = format!("Status: {status}\nX-Status: {xstatus}\nX-Keywords: {keywords}\n");
        message.bytes.splice(..0, fields.into_bytes());
        options.render(&message, &mut bytes);
    }
    bytes
}

/// Returns an mbox that starts with c-client's message of folder data.
fn with_folder_data(samples: &[Sample], variant: MboxVariant) -> Vec<u8> {
    let keywords = KEYWORDS.join(" ");
    let text = format!(
        "Date: 1 Jan 2019 00:00:00 +0000\n\
         From: Mail System Internal Data <MAILER-DAEMON@example.org>\n\
         Subject: DON'T DELETE THIS MESSAGE -- FOLDER INTERNAL DATA\n\
         Message-ID: <{UIDVALIDITY}@example.org>\n\
         X-IMAP: {UIDVALIDITY} 0000000001 {keywords}\n\
         Status: RO\n\n\
         This text is part of the internal format of your mail folder, and is not\n\
         a real message.\n"
    );
    let data = GeneratedMessage {
        bytes: text.into_bytes(),
        date: Corpus::FIRST_DATE,
        ..Default::default()
    };
    let mut bytes = Vec::new();
    MboxOptions { status: false, ..MboxOptions::new(variant) }.render(&data, &mut bytes);
    bytes.extend(mbox(samples, variant, 1));
    bytes
}

/// Returns the header of an mbx file.
fn mbx_header(last_uid: u32) -> Vec<u8> {
    let mut text = format!("*mbx*\r\n{UIDVALIDITY:08x}{last_uid:08x}\r\n");
    for slot in 0..30 {
        put(&mut text, format_args!("{}\r\n", KEYWORDS.get(slot).unwrap_or(&"")));
    }
    let mut bytes = text.into_bytes();
    bytes.resize(MBX_HEADER_LEN, 0);
    bytes
}

/// Returns an mbx file; `uid` gives the UID of a message by its number, 0 if it has none yet.
fn mbx(samples: &[Sample], last_uid: u32, uid: impl Fn(u32) -> u32) -> Vec<u8> {
    let mut bytes = mbx_header(last_uid);
    for (number, sample) in (0..).zip(samples) {
        let text = sample.crlf();
        let date = Calendar::mbx(sample.message.date);
        let (keywords, flags) = sample.bits(number == 0);
        let (len, uid) = (text.len(), uid(number));
        let line = format!("{date},{len};{keywords:08x}{flags:04x}-{uid:08x}\r\n");
        bytes.extend_from_slice(line.as_bytes());
        bytes.extend_from_slice(&text);
    }
    bytes
}

/// Returns an mbx file whose first message has too few digits of flags.
fn malformed_mbx() -> Vec<u8> {
    let mut bytes = mbx_header(0);
    let text = "Subject: cut\r\n\r\ntext\r\n";
    let line = format!("24-Oct-2014 14:41:03 -0500,{};000000000-00000000\r\n", text.len());
    bytes.extend_from_slice(line.as_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// Returns the files of a mix mailbox; `place` gives UID and data file of a message by its number.
fn mix(
    name: &str,
    samples: &[Sample],
    last_uid: u64,
    place: &dyn Fn(u32) -> (u32, u32),
) -> Vec<(String, Vec<u8>)> {
    let sequence = UIDVALIDITY + 4;
    let mut meta = format!(
        "S{:08x}\r\nV{UIDVALIDITY:08x}\r\nL{last_uid:08x}\r\nN{UIDVALIDITY:08x}\r\n",
        sequence + 1
    );
    let (mut index, mut status) = (String::new(), String::new());
    let mut data = vec![Vec::new()];
    if !samples.is_empty() {
        put(&mut meta, format_args!("K{}\r\n", KEYWORDS.join(" ")));
        index = format!("S{sequence:08x}\r\n");
        status.clone_from(&index);
    }
    for (number, sample) in (0..).zip(samples) {
        let (uid, file) = place(number);
        let text = sample.crlf();
        let (date, len) = (Calendar::mix(sample.message.date), text.len());
        let head = format!(":msg:{uid:08x}:{date}:{len:08x}:\r\n");
        let header_len =
            text.windows(4).position(|end| end == b"\r\n\r\n").map_or(len, |at| at + 4);
        data.resize(data.len().max(file as usize + 1), Vec::new());
        let file_bytes = &mut data[file as usize];
        let (offset, head_len) = (file_bytes.len(), head.len());
        let file_name = UIDVALIDITY + file;
        put(
            &mut index,
            format_args!(
                ":{uid:08x}:{date}:{len:08x}:{file_name:08x}:{offset:08x}:{head_len:08x}:{header_len:08x}:\r\n"
            ),
        );
        let (keywords, flags) = sample.bits(number == 0);
        put(&mut status, format_args!(":{uid:08x}:{keywords:08x}:{flags:04x}:{sequence:08x}:\r\n"));
        file_bytes.extend_from_slice(head.as_bytes());
        file_bytes.extend_from_slice(&text);
    }
    let texts = [("mixmeta", meta), ("mixindex", index), ("mixstatus", status)];
    let texts = texts.map(|(part, text)| (format!("{name}/.{part}"), text.into_bytes()));
    let data = (UIDVALIDITY..).zip(data);
    let data = data.map(|(file, bytes)| (format!("{name}/.mix{file:08x}"), bytes));
    texts.into_iter().chain(data).collect()
}

fn put(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("because a string takes everything");
}
