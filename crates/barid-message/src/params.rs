//! MIME content fields: types and parameters (RFC 2045 §5.1, RFC 2183, RFC 2231).
//!
//! ```text
//! content   = type "/" subtype *(";" parameter)
//! parameter = attribute ["*" section] ["*"] "=" (token / quoted-string)
//! ```

use std::borrow::Cow;

use barid_types::Parameter;

use crate::lexer::Lexer;
use crate::limits::{CONTENT_FIELD_LEN_MAX, PARAMETERS_MAX};
use crate::words::hex;
use crate::{decode_charset, decode_plain, decode_words};

/// Reads a raw `Content-Type` body: type, subtype and parameters; `None` if it has no type.
pub(crate) fn content_type(raw: &[u8]) -> Option<(Vec<u8>, Vec<u8>, Vec<Parameter>)> {
    let mut lexer = Lexer::new(&raw[..raw.len().min(CONTENT_FIELD_LEN_MAX)]);
    lexer.skip_cfws().ok()?;
    let media_type = token(&mut lexer)?;
    if !lexer.eat(b'/') {
        return None;
    }
    lexer.skip_cfws().ok()?;
    let subtype = token(&mut lexer)?;
    Some((media_type, subtype, parameters(&mut lexer)))
}

/// Reads a raw `Content-Disposition` body: its kind and parameters.
pub(crate) fn disposition(raw: &[u8]) -> Option<(Vec<u8>, Vec<Parameter>)> {
    let mut lexer = Lexer::new(&raw[..raw.len().min(CONTENT_FIELD_LEN_MAX)]);
    lexer.skip_cfws().ok()?;
    let kind = token(&mut lexer)?;
    Some((kind, parameters(&mut lexer)))
}

/// Returns the first token of a raw field body.
pub(crate) fn first_token(raw: &[u8]) -> Option<Vec<u8>> {
    let mut lexer = Lexer::new(&raw[..raw.len().min(CONTENT_FIELD_LEN_MAX)]);
    lexer.skip_cfws().ok()?;
    token(&mut lexer)
}

/// Returns the tags of a raw `Content-Language` body.
pub(crate) fn languages(raw: &[u8]) -> Vec<Vec<u8>> {
    let mut lexer = Lexer::new(&raw[..raw.len().min(CONTENT_FIELD_LEN_MAX)]);
    let mut tags = Vec::new();
    while lexer.skip_cfws().is_ok() && tags.len() < PARAMETERS_MAX {
        match token(&mut lexer) {
            Some(tag) => tags.push(tag),
            None => break,
        }
        if !lexer.eat(b',') {
            break;
        }
    }
    tags
}

/// Returns the readable value of a parameter, decoded by RFC 2231 or, against the rules but often
/// used, RFC 2047. Names are compared without regard to ASCII case.
pub fn parameter<'a>(parameters: &'a [Parameter], name: &str) -> Option<Cow<'a, str>> {
    let named = |parameter: &&Parameter, mark: &str| {
        let wanted = name.bytes().chain(mark.bytes());
        parameter.name.len() == name.len() + mark.len()
            && parameter.name.iter().zip(wanted).all(|(a, b)| a.eq_ignore_ascii_case(&b))
    };
    if let Some(extended) = parameters.iter().find(|parameter| named(parameter, "*")) {
        return Some(Cow::Owned(decode_extended(&extended.value)));
    }
    let plain = parameters.iter().find(|parameter| named(parameter, ""))?;
    Some(decode_words(&plain.value))
}

/// Decodes `charset "'" [language] "'" *(%XX / char)` (RFC 2231 §4).
fn decode_extended(value: &[u8]) -> String {
    let mut pieces = value.splitn(3, |byte| *byte == b'\'');
    let (charset, text) = match (pieces.next(), pieces.next(), pieces.next()) {
        (Some(charset), Some(_), Some(text)) => (charset, text),
        _ => (&b""[..], value),
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let pair = text.get(at + 1).zip(text.get(at + 2));
        match pair.and_then(|(high, low)| Some(hex(*high)? << 4 | hex(*low)?)) {
            Some(decoded) if byte == b'%' => {
                bytes.push(decoded);
                at += 3;
            }
            _ => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    decode_charset(charset, &bytes).unwrap_or_else(|| decode_plain(&bytes)).into_owned()
}

/// Reads `token [CFWS]`
fn token(lexer: &mut Lexer<'_>) -> Option<Vec<u8>> {
    let token = lexer.take_while(is_token).to_vec();
    lexer.skip_cfws().ok();
    (!token.is_empty()).then_some(token)
}

/// Returns `true` for bytes of RFC 2045's token, the dot, and 8-bit bytes, which occur.
fn is_token(byte: u8) -> bool {
    byte > 32 && byte != 127 && !b"()<>@,;:\\\"/[]?=".contains(&byte)
}

/// One parameter as written.
struct ParamSection {
    name: Vec<u8>,
    number: Option<u32>,
    extended: bool,
    value: Vec<u8>,
}

/// Reads `*(";" parameter)`; anything else is skipped.
fn parameters(lexer: &mut Lexer<'_>) -> Vec<Parameter> {
    let mut sections = Vec::new();
    while !lexer.at_end() && sections.len() < PARAMETERS_MAX {
        if lexer.skip_cfws().is_err() {
            break;
        }
        if lexer.eat(b';') {
            continue;
        }
        let before = lexer.position();
        if let Some(section) = section(lexer) {
            sections.push(section);
        }
        if lexer.unterminated() {
            break;
        }
        if lexer.position() == before {
            lexer.seek(before + 1);
        }
    }
    join(sections)
}

fn section(lexer: &mut Lexer<'_>) -> Option<ParamSection> {
    let attribute = token(lexer)?;
    if !lexer.eat(b'=') {
        return None;
    }
    lexer.skip_cfws().ok()?;
    let mut value = Vec::new();
    if lexer.peek() == Some(b'"') {
        let start = lexer.position();
        if lexer.quoted_string(&mut value).is_err() && value.is_empty() {
            // The closing quote is missing: the value reaches to the next semicolon.
            lexer.seek(start + 1);
            value = lexer.take_while(|byte| byte != b';').trim_ascii().to_vec();
        }
    } else {
        // Values with `/`, `=` and even spaces are written without quotes.
        value = lexer.take_while(|byte| !matches!(byte, b';' | b'\r' | b'\n' | b'(')).to_vec();
        value.truncate(value.trim_ascii_end().len());
        lexer.skip_cfws().ok();
    }
    let extended = attribute.ends_with(b"*");
    let stem = attribute.strip_suffix(b"*").unwrap_or(&attribute);
    let star = memchr::memrchr(b'*', stem);
    let number = star.and_then(|star| std::str::from_utf8(&stem[star + 1..]).ok()?.parse().ok());
    let name = match (number, star) {
        (Some(_), Some(star)) => stem[..star].to_vec(),
        _ => stem.to_vec(),
    };
    Some(ParamSection { name, number, extended, value })
}

/// Joins the sections of one name in the order of their numbers (RFC 2231 §3).
///
/// A value with an extended section keeps its percent signs and gets a `*` after its name.
fn join(sections: Vec<ParamSection>) -> Vec<Parameter> {
    let mut parameters: Vec<Parameter> = Vec::new();
    let mut numbered: Vec<ParamSection> = Vec::new();
    for section in sections {
        if section.number.is_some() {
            numbered.push(section);
            continue;
        }
        let mut name = section.name;
        if section.extended {
            name.push(b'*');
        }
        parameters.push(Parameter { name, value: section.value });
    }
    let key = |section: &ParamSection| (section.name.to_ascii_lowercase(), section.number);
    numbered.sort_by_cached_key(key);
    for group in numbered.chunk_by(|a, b| a.name.eq_ignore_ascii_case(&b.name)) {
        let extended = group.iter().any(|section| section.extended);
        let mut name = group[0].name.clone();
        let mut value = Vec::new();
        for section in group {
            if extended && !section.extended {
                push_percent_encoded(&section.value, &mut value);
            } else {
                value.extend_from_slice(&section.value);
            }
        }
        if extended {
            name.push(b'*');
        }
        parameters.push(Parameter { name, value });
    }
    parameters
}

fn push_percent_encoded(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"-._".contains(&byte) {
            out.push(byte);
        } else {
            let digit = |value: u8| b"0123456789ABCDEF"[usize::from(value)];
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: &str, name: &str, expected: Option<&str>) {
        let (_, _, parameters) = content_type(raw.as_bytes()).unwrap();
        assert_eq!(parameter(&parameters, name).as_deref(), expected, "{raw:?}");
    }

    #[test]
    fn examples_of_rfc_2231() {
        check(
            "message/external-body; access-type=URL;\n URL*0=\"ftp://\";\n URL*1=\"cs.utk.edu/pub\"",
            "url",
            Some("ftp://cs.utk.edu/pub"),
        );
        check(
            "application/x-stuff;\n title*=us-ascii'en-us'This%20is%20%2A%2A%2Afun%2A%2A%2A",
            "title",
            Some("This is ***fun***"),
        );
        check(
            "application/x-stuff;\n title*0*=us-ascii'en'This%20is%20even%20more%20;\n \
             title*1*=%2A%2A%2Afun%2A%2A%2A%20;\n title*2=\"isn't it!\"",
            "title",
            Some("This is even more ***fun*** isn't it!"),
        );
    }

    #[test]
    fn forms_that_occur() {
        check("text/plain; charset=utf-8", "CHARSET", Some("utf-8"));
        check("text/plain; charset = \"a\\\"b\" ; x=y", "charset", Some("a\"b"));
        check("text/plain; charset=\"a;x=y", "charset", Some("a"));
        check("text/plain; name=a b.txt; x=1", "name", Some("a b.txt"));
        check("text/plain; name==?utf-8?q?=C3=A9?=", "name", Some("\u{e9}"));
        check("text/plain; name*1=b; name*0=a", "name", Some("ab"));
        check("text/plain;;; (c) junk; name=a(c)", "name", Some("a"));
        check("text/plain; name=", "name", Some(""));
        check("text/plain", "name", None);
        check("multipart/mixed; boundary=a=_b/c?d", "boundary", Some("a=_b/c?d"));
    }

    #[test]
    fn what_is_no_type() {
        for raw in ["", "text", "text/", "/plain", "(", "text plain", "\"text/plain\""] {
            assert_eq!(content_type(raw.as_bytes()), None, "{raw:?}");
        }
    }

    #[test]
    fn hostile_fields_take_bounded_time() {
        for unit in [";", "a=b;", "a=\"", "a*0=b;", "(", "a=(", "x*99999999999=1;", "a*0*=%;"] {
            let raw = format!("text/plain;{}", unit.repeat(300_000));
            assert!(content_type(raw.as_bytes()).is_some());
        }
    }
}
