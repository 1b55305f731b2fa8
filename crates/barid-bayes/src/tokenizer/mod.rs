//! Turns a message into tokens.
//!
//! `lines` decodes physical lines when the scanner needs them, `scan` and the files beside it apply
//! the rules, and this file adds prefixes, checks lengths and joins tokens.

mod charset;
mod classes;
mod decode;
mod encoded_word;
mod entities;
mod facts;
mod header;
mod html;
mod joined;
mod lines;
mod mime;
mod modern;
mod neighbours;
mod scan;
mod shape;
mod simple;
mod text;
mod verp;
mod work;

pub use facts::Facts;

use charset::Charset;
use joined::Joined;
use mime::{PartType, Parts};
use neighbours::Neighbours;
use scan::{Scan, ScanState, Tag, TokenKind};
use text::Text;

use crate::limits::BUFFER_KEPT_LEN;
use crate::options::{AddressPrefix, Options};

/// Turns messages into tokens, one after the other. Buffers are kept from message to message.
///
/// No memory is allocated per token. For any input, time is linear in the length of the message,
/// and memory is bounded by a few MiB and the longest line.
#[derive(Debug)]
pub struct Tokenizer {
    options: Options,
    charset_default: Charset,
    text: Text,
    parts: Parts,
    line: Vec<u8>,
    word: Vec<u8>,
    token: Vec<u8>,
    neighbours: Neighbours,
    full: Vec<u8>,
    subnet: Vec<u8>,
    joined: Joined,
    facts: Facts,
}

impl Tokenizer {
    /// Returns a tokenizer with these options. An unknown `charset_default` counts as ISO-8859-1.
    pub fn new(options: Options) -> Self {
        let charset_default = Charset::named(options.charset_default.as_bytes());
        let joined = Joined::new(&options);
        Self {
            options,
            charset_default: charset_default.unwrap_or(Charset::Latin1),
            text: Text::default(),
            parts: Parts::default(),
            line: Vec::new(),
            word: Vec::new(),
            token: Vec::new(),
            full: Vec::new(),
            neighbours: Neighbours::default(),
            subnet: Vec::new(),
            joined,
            facts: Facts::default(),
        }
    }

    /// Returns the options that messages are read with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Passes the tokens of a message to `each` in the order of the message, as often as they
    /// occur: with [`Profile::Bogofilter`](crate::Profile::Bogofilter) those that `bogolexer -p`
    /// prints.
    ///
    /// `message` is one whole message, with a From_ line if it has one, with LF or CRLF.
    pub fn tokens(&mut self, message: &[u8], each: &mut dyn FnMut(&[u8])) {
        self.text.reset();
        self.parts.reset();
        self.joined.reset();
        self.facts.reset();
        self.subnet.clear();
        self.neighbours.reset();
        self.line.shrink_to(BUFFER_KEPT_LEN);
        self.word.shrink_to(BUFFER_KEPT_LEN);
        let mut scan = Scan {
            options: &self.options,
            message,
            at: 0,
            text: &mut self.text,
            parts: &mut self.parts,
            line: &mut self.line,
            word: &mut self.word,
            joined: &mut self.joined,
            facts: &mut self.facts,
            charset: self.charset_default,
            charset_default: self.charset_default,
            state: ScanState::Header,
            tag: None,
            in_header: true,
            at_line_start: true,
            is_ended: false,
            is_interrupted: false,
            rescans_left: Scan::rescans(message.len()),
            no_verp: 0..0,
            no_bracket: 0..0,
        };
        scan.begin_header();
        let mut delivery = Delivery {
            is_address: false,
            subnet: &mut self.subnet,
            token: &mut self.token,
            neighbours: &mut self.neighbours,
            full: &mut self.full,
            each,
        };
        if scan.is_paired() && scan.options.header_prefixes {
            delivery.header_forms(message);
        }
        while delivery.step(&mut scan) {}
    }

    /// Returns the identifiers and other facts found in the last message.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }
}

/// The last step: makes tokens of the scanner's matches and passes them to `each`.
struct Delivery<'a> {
    /// `true` if the token is an IP address or one of its networks, which have a prefix of their
    /// own in headers.
    is_address: bool,
    /// The address whose networks are the next tokens, with `block_on_subnets`.
    subnet: &'a mut Vec<u8>,
    token: &'a mut Vec<u8>,
    /// The words before the token, for pairs.
    neighbours: &'a mut Neighbours,
    /// The token with its prefix.
    full: &'a mut Vec<u8>,
    each: &'a mut dyn FnMut(&[u8]),
}

impl Delivery<'_> {
    /// Delivers the simple words that come next, and the token after them with the joined tokens
    /// that end with it. Returns `false` at the end of the message.
    fn step(&mut self, scan: &mut Scan<'_>) -> bool {
        if !self.next_network(scan) {
            if !scan.is_ready() {
                return false;
            }
            self.simple_words(scan);
            let Some((found, len, taken)) = scan.next() else { return true };
            if scan.is_modern() && matches!(found, TokenKind::Word | TokenKind::Host) {
                self.modern_word(scan, found, len);
                scan.take(taken);
                return true;
            }
            if scan.is_modern() && found == TokenKind::Line {
                self.line(&scan.text.rest()[..taken], len);
            }
            let is_kept = self.take(scan, found, len);
            scan.take(taken);
            if !is_kept {
                return true;
            }
        }
        self.deliver(scan);
        true
    }

    /// Delivers the token, and the joined tokens that end with it.
    fn deliver(&mut self, scan: &mut Scan<'_>) {
        scan.joined.push(self.token);
        let prefix = self.prefix(scan);
        if scan.is_paired() {
            let word = std::mem::take(self.token);
            self.paired_word(prefix, scan.tag, &word);
            *self.token = word;
            return;
        }
        let counted = if scan.is_modern() { 0 } else { prefix.len() };
        if prefix.is_empty() {
            (self.each)(self.token);
        } else if self.token.len() + counted <= scan.options.token_len_bound() {
            self.full.clear();
            self.full.extend_from_slice(prefix);
            self.full.extend_from_slice(self.token);
            (self.each)(self.full);
        }
        if scan.is_modern() && scan.options.multi_token_bound() < 2 {
            let word = std::mem::take(self.token);
            self.more(scan.tag, &word);
            *self.token = word;
        }
        loop {
            self.token.clear();
            self.token.extend_from_slice(prefix);
            if !scan.joined.next(self.token) {
                return;
            }
            (self.each)(self.token);
        }
    }

    /// Makes the next network of an address the token. Returns `false` if there is none.
    fn next_network(&mut self, scan: &Scan<'_>) -> bool {
        if !scan.options.block_on_subnets || !self.is_address {
            return false;
        }
        match memchr::memrchr(b'.', self.subnet) {
            Some(end) => {
                self.subnet.truncate(end);
                self.token.clear();
                self.token.extend_from_slice(self.subnet);
                true
            }
            None => {
                self.is_address = false;
                false
            }
        }
    }

    fn prefix(&self, scan: &Scan<'_>) -> &'static [u8] {
        match scan.tag {
            None => b"",
            Some(_) if self.is_address => match scan.options.address_prefix {
                AddressPrefix::Ip => b"ip:",
                AddressPrefix::Url => b"url:",
            },
            Some(tag) => tag.prefix(),
        }
    }

    /// Writes the token that was found, from the front of the text. Returns `true` if it is to be
    /// delivered.
    fn take(&mut self, scan: &mut Scan<'_>, found: TokenKind, len: usize) -> bool {
        let options = scan.options;
        let len_max = options.token_len_bound();
        let text = &scan.text.rest()[..len];
        self.token.clear();
        match found {
            TokenKind::QueueId => {
                scan.facts.set_queue_id(text, len_max);
                return false;
            }
            TokenKind::Line if !options.header_prefixes => return false,
            TokenKind::Host => return false,
            TokenKind::Word | TokenKind::Line if len < options.token_len_min => return false,
            TokenKind::Word | TokenKind::Line | TokenKind::Money => {
                if len > len_max || !is_text(scan) {
                    return false;
                }
                self.token.extend_from_slice(text);
            }
            TokenKind::Verp => {
                // The id is removed first: the length is that of the shortened token.
                self.token.extend_from_slice(text);
                verp::without_id(self.token);
            }
            TokenKind::Address => {
                if scan.is_modern() && scan.is_host() {
                    self.hosts(scan, len);
                }
                self.address(text, options);
            }
            TokenKind::AddressLiteral => {
                let address = &text[1..len - 1];
                if scan.tag == Some(Tag::Received) && scan.parts.parent_type().is_none() {
                    scan.facts.set_address(address);
                }
                self.address(address, options);
                if options.block_on_subnets {
                    return true;
                }
            }
        }
        if options.replace_non_ascii {
            for byte in self.token.iter_mut().filter(|byte| !byte.is_ascii()) {
                *byte = b'?';
            }
        }
        self.token.len() <= len_max
    }

    /// Writes an IP address as the token. With `block_on_subnets`, leading zeros are dropped and
    /// the networks of the address follow.
    fn address(&mut self, text: &[u8], options: &Options) {
        if !options.block_on_subnets {
            return self.token.extend_from_slice(text);
        }
        for field in text.split(|byte| *byte == b'.') {
            if !self.token.is_empty() {
                self.token.push(b'.');
            }
            let zeros = field.iter().take_while(|byte| **byte == b'0').count();
            let digits = &field[zeros.min(field.len().saturating_sub(1))..];
            self.token.extend_from_slice(digits);
        }
        self.is_address = true;
        self.subnet.clear();
        self.subnet.extend_from_slice(self.token);
    }
}

/// Returns `true` if words are tokens here: anywhere in headers with prefixes, else only in text,
/// HTML and multiparts.
fn is_text(scan: &Scan<'_>) -> bool {
    scan.tag.is_some()
        || matches!(
            scan.parts.part().part_type,
            PartType::Text | PartType::Html | PartType::Multipart
        )
}
