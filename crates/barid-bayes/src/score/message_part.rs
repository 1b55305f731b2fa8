//! The part of a message that a token comes from, by the token's prefix.

/// A part of a message. Tokens of one part depend on each other more than on those of other parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MessagePart {
    /// Words of texts, addresses in them, and two facts of headers: `zone:` and `mid:`. With the
    /// other headers, these would find less spam at the same false positives.
    #[default]
    Text,
    /// Pairs of neighbours in texts.
    Pair,
    /// Words and pairs of headers.
    Header,
    /// The form of a message: the order of its header fields, and the pattern of addresses.
    Form,
}

/// Prefixes of the tokens of headers.
const HEADERS: [&[u8]; 8] =
    [b"rcvd:", b"head:", b"subj:", b"from:", b"to:", b"rtrn:", b"mime:", b"ip:"];

/// Prefixes of header facts that weigh as words of texts. A sender may write any byte in them.
const FACTS: [&[u8]; 2] = [b"zone:", b"mid:"];

impl MessagePart {
    /// The number of parts.
    pub const COUNT: usize = 4;

    /// Returns the part of a token of the profile `modern`.
    pub fn of(token: &[u8]) -> Self {
        let is_in = |prefixes: &[&[u8]]| prefixes.iter().any(|prefix| token.starts_with(prefix));
        if token.starts_with(b"form:") {
            Self::Form
        } else if is_in(&HEADERS) {
            Self::Header
        } else if token.contains(&b'*') && !is_in(&FACTS) {
            Self::Pair
        } else {
            Self::Text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_tokens() {
        let check = |token: &str, expected| assert_eq!(MessagePart::of(token.as_bytes()), expected);
        check("", MessagePart::Text);
        check("buy", MessagePart::Text);
        check("url:example.com", MessagePart::Text);
        check("zone:+0800", MessagePart::Text);
        check("mid:a*b.example", MessagePart::Text);
        check("buy*now", MessagePart::Pair);
        check("subj:buy", MessagePart::Header);
        check("subj:buy*now", MessagePart::Header);
        check("form:order-from>to", MessagePart::Form);
    }
}
