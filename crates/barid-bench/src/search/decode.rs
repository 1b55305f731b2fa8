//! The texts of a message, by code that shares nothing with barid.
//!
//! Only messages that leave no doubt are judged: one part of plain text in a common charset, a
//! header of ASCII without a malformed line or encoded word. Of these every program must see the
//! same text. All others return `None`, and whether a program finds them is left open.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use unicode_normalization::UnicodeNormalization as _;

use crate::systems::answer::OWN_FIELDS;

/// The texts of a message in which queries look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Texts {
    /// The header fields, each with its name on one line, decoded.
    pub(crate) header: Vec<String>,
    /// The subject, each run of white space as one blank.
    pub(crate) subject: String,
    /// The body without its transfer encoding.
    pub(crate) body: String,
}

impl Texts {
    /// Reads a message; `None` if it leaves doubts.
    pub(crate) fn of(message: &[u8]) -> Option<Self> {
        let message = without_crlf(message);
        let (header, body) = split(&message)?;
        let fields = fields(header)?;
        let mut texts = Self::default();
        let (mut subject, mut content_type, mut encoding) = (None, None, None);
        for (name, value) in &fields {
            let earlier = match name.to_ascii_lowercase().as_str() {
                "subject" => subject.replace(value),
                "content-type" => content_type.replace(value),
                "content-transfer-encoding" => encoding.replace(value),
                own if OWN_FIELDS.contains(&own) => return None,
                _ => None,
            };
            // A field that is there twice may be read either way.
            if earlier.is_some() {
                return None;
            }
            texts.header.push(format!("{name}:{}", decoded_words(value)?));
        }
        let blanks = |value: &String| value.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        texts.subject = decoded_words(&subject.map(blanks).unwrap_or_default())?;
        let charset = charset(content_type.map_or("", String::as_str))?;
        let encoding = encoding.map_or(String::new(), |value| value.trim().to_ascii_lowercase());
        let bytes = match encoding.as_str() {
            "" | "7bit" | "8bit" | "binary" => body.to_vec(),
            "quoted-printable" => unquoted(body, false)?,
            "base64" => without_crlf(&base64(body)?),
            _ => return None,
        };
        texts.body = text(&bytes, charset)?;
        Some(texts)
    }
}

/// Texts in the form in which they are compared (RFC 5051): capitals, decomposed.
pub(crate) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_uppercase();
    }
    let capital = |c: char| {
        let mut capitals = c.to_uppercase();
        match (capitals.next(), capitals.next()) {
            (Some(capital), None) => capital,
            _ => c,
        }
    };
    text.chars().map(capital).nfkd().collect()
}

/// A charset in which no program errs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charset {
    Ascii,
    Utf8,
    Latin1,
}

impl Charset {
    fn of(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "us-ascii" => Some(Self::Ascii),
            "utf-8" => Some(Self::Utf8),
            "iso-8859-1" => Some(Self::Latin1),
            _ => None,
        }
    }
}

/// Returns bytes as text; `None` if they are not of the charset.
fn text(bytes: &[u8], charset: Charset) -> Option<String> {
    let is_odd = |byte: &u8| matches!(byte, 0 | b'\r');
    if bytes.iter().any(is_odd) {
        return None;
    }
    match charset {
        Charset::Ascii => {
            bytes.is_ascii().then(|| bytes.iter().map(|byte| *byte as char).collect())
        }
        Charset::Utf8 => String::from_utf8(bytes.to_vec()).ok(),
        // The codes between are letters in Windows' charset, as which many programs read it.
        Charset::Latin1 if bytes.iter().any(|byte| (0x80..0xa0).contains(byte)) => None,
        Charset::Latin1 => Some(bytes.iter().map(|byte| *byte as char).collect()),
    }
}

fn without_crlf(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for (at, byte) in bytes.iter().enumerate() {
        if *byte != b'\r' || bytes.get(at + 1) != Some(&b'\n') {
            out.push(*byte);
        }
    }
    out
}

/// Returns header and body.
fn split(message: &[u8]) -> Option<(&str, &[u8])> {
    let end = memchr::memmem::find(message, b"\n\n")?;
    let header = message[..end].is_ascii().then(|| std::str::from_utf8(&message[..end]).ok())??;
    (!header.contains(['\0', '\r'])).then_some((header, &message[end + 2..]))
}

/// Returns names and values of the fields, each on one line.
fn fields(header: &str) -> Option<Vec<(String, String)>> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in header.split('\n') {
        if let Some(rest) = line.strip_prefix([' ', '\t']) {
            let (_, value) = fields.last_mut()?;
            value.push(' ');
            value.push_str(rest);
            continue;
        }
        let (name, value) = line.split_once(':')?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        fields.push((is_name.then(|| name.to_owned())?, value.to_owned()));
    }
    Some(fields)
}

/// Returns the charset of a part of plain text.
fn charset(content_type: &str) -> Option<Charset> {
    let mut parts = content_type.split(';').map(str::trim);
    let kind = parts.next()?.to_ascii_lowercase();
    if !matches!(kind.as_str(), "" | "text/plain") || content_type.contains(['(', '\\']) {
        return None;
    }
    let value = |part: &str| {
        let (name, value) = part.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("charset")
            .then(|| value.trim().trim_matches('"').to_owned())
    };
    let mut charsets = parts.filter_map(value);
    match (charsets.next(), charsets.next()) {
        (None, _) => Some(Charset::Ascii),
        (Some(name), None) => Charset::of(&name),
        _ => None,
    }
}

/// Decodes quoted-printable text, or a word in the encoding Q; `None` if it is malformed.
fn unquoted(bytes: &[u8], is_word: bool) -> Option<Vec<u8>> {
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    let digit = |at: usize| Some(char::from(*bytes.get(at)?).to_digit(16)? as u8);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'=' if !is_word && bytes.get(at) == Some(&b'\n') => at += 1,
            b'=' => {
                out.push(digit(at)? << 4 | digit(at + 1)?);
                at += 2;
            }
            b'_' if is_word => out.push(b' '),
            b' ' | b'\t' if is_word || matches!(bytes.get(at), None | Some(b'\n')) => return None,
            byte if byte.is_ascii() => out.push(*byte),
            _ => return None,
        }
    }
    Some(without_crlf(&out))
}

fn base64(bytes: &[u8]) -> Option<Vec<u8>> {
    let bytes: Vec<u8> = bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    STANDARD.decode(bytes).ok()
}

/// Decodes the encoded words of a value (RFC 2047); `None` if one is malformed.
fn decoded_words(value: &str) -> Option<String> {
    let (mut out, mut rest, mut is_after_word) = (String::new(), value, false);
    while let Some(start) = rest.find("=?") {
        let between = &rest[..start];
        // Blanks between two encoded words do not count.
        if !(is_after_word && between.chars().all(char::is_whitespace)) {
            out.push_str(between);
        }
        let is_apart = out.is_empty() && between.is_empty() || between.ends_with([' ', '(']);
        let mut parts = rest[start + 2..].splitn(3, '?');
        let (name, encoding, tail) = (parts.next()?, parts.next()?, parts.next()?);
        let (word, after) = tail.split_once("?=")?;
        let is_ended = after.is_empty() || after.starts_with([' ', ')']);
        if !is_apart || !is_ended || word.contains(['?', ' ']) {
            return None;
        }
        let bytes = match encoding {
            "q" | "Q" => unquoted(word.as_bytes(), true)?,
            "b" | "B" => base64(word.as_bytes())?,
            _ => return None,
        };
        let word = text(&bytes, Charset::of(name)?)?;
        out.push_str((!word.contains(char::is_control)).then_some(&*word)?);
        (rest, is_after_word) = (after, true);
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_messages_are_read() {
        let message = b"From: Ann <a@b>\r\nSubject: =?utf-8?q?caf=C3=A9?=\r\n\
            \t=?ISO-8859-1?B?IPw=?= and\r\n  more\r\nContent-Type: text/plain; charset=\"UTF-8\"\r\n\
            Content-Transfer-Encoding: quoted-printable\r\n\r\nr=C3=BCn=\r\n!\r\na\r\n";
        let texts = Texts::of(message).unwrap();
        assert_eq!(texts.subject, "caf\u{e9} \u{fc} and more");
        assert_eq!(texts.header[0], "From: Ann <a@b>");
        assert_eq!(texts.header[1], "Subject: caf\u{e9} \u{fc} and  more");
        assert_eq!(texts.body, "r\u{fc}n!\na\n");
        let base64 = b"Content-Transfer-Encoding: base64\n\naGVs\nbG8NCg==\n";
        assert_eq!(Texts::of(base64).unwrap().body, "hello\n");
    }

    #[test]
    fn doubtful_messages_are_not_judged() {
        for message in [
            "A: b\n",
            "A: b\nno field\n\nx",
            " A: b\n\nx",
            "A: \u{fc}\n\nx",
            "A: b\n\nr\u{fc}n",
            "Status: RO\n\nx",
            "Subject: a\nSubject: b\n\nx",
            "Subject: =?utf-8?q?a\n\nx",
            "Subject: =?utf-8?q?a?=b\n\nx",
            "Subject: =?koi8-r?q?a?=\n\nx",
            "Subject: =?utf-8?q?=C3?= =?utf-8?q?=A9?=\n\nx",
            "Content-Type: multipart/mixed; boundary=x\n\nx",
            "Content-Type: text/html\n\nx",
            "Content-Type: text/plain; charset=koi8-r\n\nx",
            "Content-Transfer-Encoding: x-uuencode\n\nx",
            "Content-Transfer-Encoding: quoted-printable\n\na=x",
            "Content-Transfer-Encoding: base64\n\naGV*",
        ] {
            assert_eq!(Texts::of(message.as_bytes()), None, "{message}");
        }
    }

    #[test]
    fn folding_makes_alike_what_is_alike() {
        assert_eq!(fold("Stra\u{df}e x"), "STRA\u{df}E X");
        assert_eq!(fold("caf\u{e9}"), fold("CAFE\u{301}"));
        assert_eq!(fold("\u{2122}"), "TM");
    }
}
