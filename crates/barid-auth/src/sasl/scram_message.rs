//! The messages of SCRAM clients (RFC 5802 §7).

use super::Failure;
use crate::limits::{NONCE_LEN_MAX, SCRAM_FIELDS_MAX};
use crate::scheme::encode::from_base64;

/// The client's statement about channel binding.
///
/// ```abnf
/// gs2-cbind-flag = ("p=" cb-name) / "n" / "y"
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BindingFlag<'a> {
    /// `n`: the client does not support it.
    Unsupported,
    /// `y`: the client supports it, and believes that the server does not.
    NotOffered,
    /// `p=`: the client binds by this type.
    Used(&'a [u8]),
}

/// The start of messages of SCRAM and OAUTHBEARER.
///
/// ```abnf
/// gs2-header = gs2-cbind-flag "," [ "a=" saslname ] ","
/// ```
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gs2Header<'a> {
    pub(super) flag: BindingFlag<'a>,
    pub(super) target: Option<Vec<u8>>,
    /// The header as it was sent.
    pub(super) bytes: &'a [u8],
    /// The bytes after the header.
    pub(super) rest: &'a [u8],
}

impl<'a> Gs2Header<'a> {
    pub(super) fn parse(message: &'a [u8]) -> Result<Self, Failure> {
        let malformed = Failure::Malformed("a message without a valid GS2 header");
        let mut parts = message.splitn(3, |byte| *byte == b',');
        let (Some(flag), Some(target), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(malformed);
        };
        let flag = match flag {
            b"n" => BindingFlag::Unsupported,
            b"y" => BindingFlag::NotOffered,
            _ => match flag.strip_prefix(b"p=") {
                Some(name) if !name.is_empty() => BindingFlag::Used(name),
                _ => return Err(malformed),
            },
        };
        let target = match target {
            b"" => None,
            _ => match target.strip_prefix(b"a=").and_then(sasl_name) {
                Some(target) => Some(target),
                None => return Err(malformed),
            },
        };
        let bytes = &message[..message.len() - rest.len()];
        Ok(Self { flag, target, bytes, rest })
    }
}

/// The first message of a client.
///
/// ```abnf
/// client-first-message-bare = [reserved-mext ","] "n=" saslname "," "r=" c-nonce ["," extensions]
/// ```
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClientFirst<'a> {
    pub(super) header: Gs2Header<'a>,
    pub(super) name: Vec<u8>,
    pub(super) nonce: &'a [u8],
}

impl<'a> ClientFirst<'a> {
    pub(super) fn parse(message: &'a [u8]) -> Result<Self, Failure> {
        let header = Gs2Header::parse(message)?;
        let fields = fields(header.rest)?;
        if fields[0].starts_with(b"m=") {
            return Err(Failure::Malformed("a mandatory extension of SCRAM"));
        }
        let malformed = || Failure::Malformed("a first message of SCRAM without name or nonce");
        let name = fields[0].strip_prefix(b"n=").and_then(sasl_name).ok_or_else(malformed)?;
        let nonce = fields.get(1).and_then(|field| field.strip_prefix(b"r="));
        let nonce = nonce.filter(|nonce| is_nonce(nonce)).ok_or_else(malformed)?;
        if !fields[2..].iter().all(|field| is_attribute(field)) {
            return Err(malformed());
        }
        Ok(Self { header, name, nonce })
    }
}

/// The last message of a client with a proof.
///
/// ```abnf
/// client-final-message = "c=" base64 "," "r=" nonce ["," extensions] "," "p=" base64
/// ```
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClientFinal<'a> {
    /// The GS2 header and the data of the channel binding.
    pub(super) binding: Vec<u8>,
    pub(super) nonce: &'a [u8],
    pub(super) proof: Vec<u8>,
    /// The message up to the comma before the proof.
    pub(super) without_proof: &'a [u8],
}

impl<'a> ClientFinal<'a> {
    pub(super) fn parse(message: &'a [u8]) -> Result<Self, Failure> {
        let malformed = || Failure::Malformed("a final message of SCRAM in another form");
        let fields = fields(message)?;
        let [binding, nonce, extensions @ .., proof] = fields.as_slice() else {
            return Err(malformed());
        };
        let value = |field: &'a [u8], key: &[u8]| field.strip_prefix(key).ok_or_else(malformed);
        if !extensions.iter().all(|field| is_attribute(field) && !field.starts_with(b"m=")) {
            return Err(malformed());
        }
        Ok(Self {
            binding: from_base64(value(binding, b"c=")?).ok_or_else(malformed)?,
            nonce: value(nonce, b"r=")?,
            proof: from_base64(value(proof, b"p=")?).ok_or_else(malformed)?,
            without_proof: &message[..message.len() - proof.len() - 1],
        })
    }
}

/// Splits a message at its commas; there is at least one field.
fn fields(message: &[u8]) -> Result<Vec<&[u8]>, Failure> {
    let fields: Vec<_> = message.split(|byte| *byte == b',').take(SCRAM_FIELDS_MAX + 1).collect();
    let is_bounded = fields.len() <= SCRAM_FIELDS_MAX;
    if is_bounded && !message.contains(&0) {
        Ok(fields)
    } else {
        Err(Failure::Malformed("a message of SCRAM with too many fields or a NUL character"))
    }
}

/// Decodes a name in which `=2C` stands for a comma and `=3D` for `=`.
fn sasl_name(text: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        match rest {
            [b'=', b'2', b'C', after @ ..] => {
                name.push(b',');
                rest = after;
            }
            [b'=', b'3', b'D', after @ ..] => {
                name.push(b'=');
                rest = after;
            }
            [b'=' | 0 | 1, ..] => return None,
            _ => {
                name.push(*byte);
                rest = after;
            }
        }
    }
    (!name.is_empty()).then_some(name)
}

/// Returns `true` if the text is printable ASCII without a comma.
fn is_nonce(text: &[u8]) -> bool {
    let is_len = (1..=NONCE_LEN_MAX).contains(&text.len());
    is_len && text.iter().all(|byte| byte.is_ascii_graphic() && *byte != b',')
}

/// Returns `true` if a field is a letter, `=` and a value.
fn is_attribute(field: &[u8]) -> bool {
    matches!(field, [letter, b'=', _, ..] if letter.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_messages_are_parsed() {
        let first = ClientFirst::parse(b"p=tls-exporter,a=bo=2Cb,n=a=3Dn,r=abc,x=y").unwrap();
        assert_eq!(first.header.flag, BindingFlag::Used(b"tls-exporter"));
        assert_eq!(first.header.target.as_deref(), Some(&b"bo,b"[..]));
        assert_eq!(first.header.bytes, b"p=tls-exporter,a=bo=2Cb,");
        assert_eq!(first.header.rest, b"n=a=3Dn,r=abc,x=y");
        assert_eq!((first.name.as_slice(), first.nonce), (&b"a=n"[..], &b"abc"[..]));
        assert!(ClientFirst::parse(b"n,,n=ann,r=x").is_ok());
        assert!(ClientFirst::parse(b"y,,n=ann,r=x").is_ok());
    }

    #[test]
    fn bad_first_messages_are_refused() {
        let many = format!("n,,n=a,r=b{}", ",x=y".repeat(20));
        let long = format!("n,,n=a,r={}", "r".repeat(300));
        for bad in [
            &b""[..],
            b"n",
            b"n,",
            b"n,,",
            b"x,,n=a,r=b",
            b"p=,,n=a,r=b",
            b"n,b,n=a,r=b",
            b"n,a=,n=a,r=b",
            b"n,,m=x,n=a,r=b",
            b"n,,r=b,n=a",
            b"n,,n=,r=b",
            b"n,,n=a=,r=b",
            b"n,,n=a=2c,r=b",
            b"n,,n=a",
            b"n,,n=a,r=",
            b"n,,n=a,r=\x7f",
            b"n,,n=a,r=a b",
            b"n,,n=a,r=b,",
            b"n,,n=a,r=b,xy",
            b"n,,n=a\0,r=b",
            many.as_bytes(),
            long.as_bytes(),
        ] {
            let result = ClientFirst::parse(bad);
            assert!(matches!(result, Err(Failure::Malformed(_))), "{:?}", bad.escape_ascii());
        }
    }

    #[test]
    fn final_messages_are_parsed() {
        let last = ClientFinal::parse(b"c=biws,r=abc,x=y,p=AAAA").unwrap();
        assert_eq!(last.binding, b"n,,");
        assert_eq!((last.nonce, last.proof.as_slice()), (&b"abc"[..], &[0, 0, 0][..]));
        assert_eq!(last.without_proof, b"c=biws,r=abc,x=y");
        for bad in [
            &b""[..],
            b"c=biws",
            b"c=biws,r=abc",
            b"c=biws,p=AAAA",
            b"c=biws,p=AAAA,r=abc",
            b"c=b*ws,r=abc,p=AAAA",
            b"c=biws,r=abc,p=A",
            b"c=biws,r=abc,m=x,p=AAAA",
            b"c=biws,r=abc,p=AAAA,x=y",
        ] {
            let result = ClientFinal::parse(bad);
            assert!(matches!(result, Err(Failure::Malformed(_))), "{:?}", bad.escape_ascii());
        }
    }
}
