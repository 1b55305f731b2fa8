//! Bodies of generated messages.

use std::io::Write;

use super::random::Random;
use super::text::{Lines, Texts};

/// The longest body, in bytes: the tail of the distribution is cut off here.
const BODY_LEN_MAX: f64 = 1_000_000.0;
/// Standard deviation of the logarithm of the length: with it the mean is 1.6 times the median.
const LEN_SIGMA: f64 = 0.9695;

/// The structure of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyKind {
    /// ASCII text without MIME headers or with them.
    Plain,
    /// Unencoded UTF-8.
    Utf8,
    QuotedPrintable,
    Base64,
    /// 8-bit text without a declared charset.
    Undeclared,
    /// A patch.
    Patch,
    /// Text and HTML.
    Alternative,
    /// Text and an attachment.
    Mixed,
    /// Text and a detached signature.
    Signed,
    /// A message that contains another.
    Forwarded,
}

/// A body whose content is chosen but not yet written.
#[derive(Debug)]
pub(crate) struct Body {
    kind: BodyKind,
    len: usize,
    boundary: u64,
}

impl Body {
    pub(crate) fn choose(random: &mut Random, len_median: f64) -> Self {
        let kind = match random.below(100) {
            0..=39 => BodyKind::Plain,
            40..=49 => BodyKind::Patch,
            50..=57 => BodyKind::Utf8,
            58..=64 => BodyKind::QuotedPrintable,
            65..=67 => BodyKind::Base64,
            68 => BodyKind::Undeclared,
            69..=84 => BodyKind::Alternative,
            85..=91 => BodyKind::Mixed,
            92..=97 => BodyKind::Signed,
            _ => BodyKind::Forwarded,
        };
        let len = (len_median * (random.normal() * LEN_SIGMA).exp()).min(BODY_LEN_MAX);
        Self { kind, len: len as usize, boundary: random.u64() }
    }

    /// Appends the MIME headers.
    pub(crate) fn write_headers(&self, out: &mut Vec<u8>) {
        let boundary = self.boundary;
        match self.kind {
            BodyKind::Undeclared => {}
            BodyKind::Plain => put(out, format_args!("{MIME}Content-Type: text/plain\n")),
            BodyKind::Patch => put(out, format_args!("{MIME}{EIGHT_BIT}")),
            BodyKind::Utf8 => put(out, format_args!("{MIME}{TEXT_UTF8}{EIGHT_BIT}")),
            BodyKind::QuotedPrintable => put(out, format_args!("{MIME}{TEXT_UTF8}{QUOTED}")),
            BodyKind::Base64 => put(out, format_args!("{MIME}{TEXT_UTF8}{BASE64}")),
            BodyKind::Alternative => put(
                out,
                format_args!(
                    "{MIME}Content-Type: multipart/alternative; boundary=\"{boundary:016x}\"\n"
                ),
            ),
            BodyKind::Mixed | BodyKind::Forwarded => put(
                out,
                format_args!(
                    "{MIME}Content-Type: multipart/mixed;\n boundary=\"=_{boundary:016x}\"\n"
                ),
            ),
            BodyKind::Signed => put(
                out,
                format_args!(
                    "{MIME}Content-Type: multipart/signed; micalg=pgp-sha512;\n\
                     \tprotocol=\"application/pgp-signature\"; boundary={boundary:016x}\n\
                     Content-Disposition: inline\n"
                ),
            ),
        }
    }

    /// Appends the body; its last line is ended.
    pub(crate) fn write(&self, texts: &Texts, reply: bool, random: &mut Random, out: &mut Vec<u8>) {
        let end = out.len() + self.len;
        match self.kind {
            BodyKind::Plain => prose(&texts.plain, reply, random, end, out),
            BodyKind::Utf8 | BodyKind::Undeclared => prose(&texts.utf8, reply, random, end, out),
            BodyKind::QuotedPrintable => fill(&texts.quoted_printable, random, end, out),
            BodyKind::Base64 => fill(&texts.base64, random, end, out),
            BodyKind::Patch => self.patch(texts, random, out),
            BodyKind::Alternative => self.alternative(texts, reply, random, out),
            BodyKind::Mixed => self.mixed(texts, reply, random, out),
            BodyKind::Signed => self.signed(texts, reply, random, out),
            BodyKind::Forwarded => self.forwarded(texts, reply, random, out),
        }
    }

    fn patch(&self, texts: &Texts, random: &mut Random, out: &mut Vec<u8>) {
        let end = out.len() + self.len;
        prose(&texts.plain, false, random, out.len() + self.len / 6, out);
        put(out, format_args!("Signed-off-by: A. Brook <ada@example.org>\n---\n"));
        fill(&texts.diff, random, end, out);
        put(out, format_args!("-- \n2.43.0\n\n"));
    }

    fn alternative(&self, texts: &Texts, reply: bool, random: &mut Random, out: &mut Vec<u8>) {
        let (start, boundary) = (out.len(), self.boundary);
        put(out, format_args!("--{boundary:016x}\n{TEXT_UTF8}{EIGHT_BIT}\n"));
        prose(&texts.utf8, reply, random, start + self.len * 2 / 5, out);
        put(out, format_args!("\n--{boundary:016x}\nContent-Type: text/html; charset=utf-8\n"));
        put(out, format_args!("{QUOTED}\n<html><body><div class=3D\"message\">\n"));
        while out.len() < start + self.len.saturating_sub(80) {
            out.extend_from_slice(b"<p>");
            out.extend_from_slice(texts.quoted_printable.run(random, 3));
            out.extend_from_slice(b"</p>\n");
        }
        put(out, format_args!("</div></body></html>\n\n--{boundary:016x}--\n"));
    }

    fn mixed(&self, texts: &Texts, reply: bool, random: &mut Random, out: &mut Vec<u8>) {
        let (start, boundary) = (out.len(), self.boundary);
        put(out, format_args!("This is a message in MIME format.\n\n--=_{boundary:016x}\n"));
        put(out, format_args!("Content-Type: text/plain; charset=us-ascii\n\n"));
        prose(&texts.plain, reply, random, start + self.len / 3, out);
        put(
            out,
            format_args!(
                "--=_{boundary:016x}\nContent-Type: application/octet-stream\n{BASE64}\
                 Content-Disposition: attachment;\n\tfilename*=UTF-8''r%C3%A9sum%C3%A9-{}.bin\n\n",
                boundary % 100
            ),
        );
        fill(&texts.base64, random, start + self.len, out);
        put(out, format_args!("\n--=_{boundary:016x}--\n"));
    }

    fn signed(&self, texts: &Texts, reply: bool, random: &mut Random, out: &mut Vec<u8>) {
        let (start, boundary) = (out.len(), self.boundary);
        put(out, format_args!("--{boundary:016x}\nContent-Type: text/plain; charset=us-ascii\n\n"));
        prose(&texts.plain, reply, random, start + self.len.saturating_sub(900), out);
        put(
            out,
            format_args!(
                "\n--{boundary:016x}\nContent-Type: application/pgp-signature; \
                 name=\"signature.asc\"\n\n-----BEGIN PGP SIGNATURE-----\n\n"
            ),
        );
        out.extend_from_slice(texts.base64.run(random, 9));
        put(out, format_args!("-----END PGP SIGNATURE-----\n\n--{boundary:016x}--\n"));
    }

    fn forwarded(&self, texts: &Texts, reply: bool, random: &mut Random, out: &mut Vec<u8>) {
        let (start, boundary) = (out.len(), self.boundary);
        put(out, format_args!("--=_{boundary:016x}\n\n"));
        prose(&texts.plain, reply, random, start + self.len / 4, out);
        put(out, format_args!("\n--=_{boundary:016x}\nContent-Type: message/rfc822\n\n"));
        put(
            out,
            format_args!(
                "From: Ada Brook <ada@example.org>\nTo: users@lists.example.org\n\
                 Subject: {}\nDate: Tue, 1 Jan 2019 08:00:00 +0000\n\
                 Message-ID: <inner.{boundary:x}@example.org>\n\n",
                random.pick(&super::names::WORDS)
            ),
        );
        prose(&texts.plain, false, random, start + self.len, out);
        put(out, format_args!("\n--=_{boundary:016x}--\n"));
    }
}

const MIME: &str = "MIME-Version: 1.0\n";
const TEXT_UTF8: &str = "Content-Type: text/plain; charset=\"utf-8\"\n";
const EIGHT_BIT: &str = "Content-Transfer-Encoding: 8bit\n";
const QUOTED: &str = "Content-Transfer-Encoding: quoted-printable\n";
const BASE64: &str = "Content-Transfer-Encoding: base64\n";

/// Appends formatted text.
pub(crate) fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("because writing to memory does not fail");
}

/// Appends lines until `end`.
fn fill(lines: &Lines, random: &mut Random, end: usize, out: &mut Vec<u8>) {
    while out.len() < end {
        let count = (end - out.len()) / 77 + 1;
        out.extend_from_slice(lines.run(random, count));
    }
}

/// Appends paragraphs, some of them quoted, until `end`, and sometimes a signature; at least a
/// line. One body in fifty has a line that starts with `From `, which mbox variants treat
/// differently.
fn prose(lines: &Lines, reply: bool, random: &mut Random, end: usize, out: &mut Vec<u8>) {
    if reply {
        put(out, format_args!("On a day like this, somebody wrote:\n"));
    }
    if random.per_mille(20) {
        let line = random.pick(&["From now on, ", ">From what I see, ", "From: not a header "]);
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(lines.run(random, 1));
    }
    loop {
        let count = 1 + random.below(6) as usize;
        if reply && random.per_mille(400) {
            let prefix: &[u8] = if random.per_mille(300) { b"> > " } else { b"> " };
            for line in lines.run(random, count).split_inclusive(|byte| *byte == b'\n') {
                out.extend_from_slice(prefix);
                out.extend_from_slice(line);
            }
        } else {
            out.extend_from_slice(lines.run(random, count));
        }
        if out.len() + 40 >= end {
            break;
        }
        out.push(b'\n');
    }
    if random.per_mille(300) {
        put(out, format_args!("\n-- \n{}\n", random.pick(&super::names::WORDS)));
    }
}
