//! Copies of a message that differ from it as messages do of which many are alike: in their ids and
//! in what only programs read.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Fields of ids and of tokens that no two messages have in common, in small letters.
const OPAQUE: [&str; 8] = [
    "message-id",
    "in-reply-to",
    "references",
    "received",
    "x-received",
    "return-path",
    "x-google-smtp-source",
    "x-gm-message-state",
];

/// Beginnings of names of such fields.
const OPAQUE_PREFIXES: [&str; 4] = ["dkim-", "arc-", "x-ms-", "x-google-dkim-"];

/// Shortest run of letters and digits that is taken for a token, in bytes.
const TOKEN_LEN_MIN: usize = 8;

/// Returns copy number `copy` of a message; copy 0 is the message itself. Ids become others, the
/// same in each copy of the same number, so that threads stay.
pub(crate) fn renewed(message: &[u8], copy: u64) -> Vec<u8> {
    if copy == 0 {
        return message.to_vec();
    }
    let mut out = Vec::with_capacity(message.len() + 64);
    let (mut is_header, mut is_opaque, mut is_id) = (true, false, false);
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        is_header &= !matches!(line, b"\n" | b"\r\n");
        if is_header && !line.starts_with(b" ") && !line.starts_with(b"\t") {
            let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
            let name = String::from_utf8_lossy(name).trim().to_ascii_lowercase();
            is_id = OPAQUE[..3].contains(&name.as_str());
            let begins = |prefix: &&str| name.starts_with(prefix);
            is_opaque = OPAQUE.contains(&name.as_str()) || OPAQUE_PREFIXES.iter().any(begins);
        }
        match is_header && is_opaque {
            true => push_renewed(line, copy, is_id, &mut out),
            false => out.extend_from_slice(line),
        }
    }
    out
}

/// Appends a line with other tokens; in a field of ids each id gets a prefix too, as one may have
/// no token.
fn push_renewed(line: &[u8], copy: u64, is_id: bool, out: &mut Vec<u8>) {
    let is_of_run = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    for run in line.chunk_by(|one, two| is_of_run(*one) == is_of_run(*two)) {
        let is_token = run.len() >= TOKEN_LEN_MIN && run.iter().any(u8::is_ascii_digit);
        if is_token && is_of_run(run[0]) {
            push_token(run, copy, out);
            continue;
        }
        for byte in run {
            out.push(*byte);
            if *byte == b'<' && is_id {
                out.extend_from_slice(format!("c{copy}.").as_bytes());
            }
        }
    }
}

/// Appends another token of the same length and kinds of characters.
fn push_token(token: &[u8], copy: u64, out: &mut Vec<u8>) {
    let mut hash = xxh3_64_with_seed(token, copy);
    for byte in token {
        hash = hash.rotate_left(9).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let random = (hash >> 40) as u8;
        out.push(match byte {
            b'0'..=b'9' => b'0' + random % 10,
            b'a'..=b'f' => b'a' + random % 6,
            b'g'..=b'z' => b'g' + random % 20,
            b'A'..=b'Z' => b'A' + random % 26,
            other => *other,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_differ_in_ids_and_tokens_alone() {
        let message = "Message-ID: <abc@x>\nReferences: <20240101aa@y>\n\t<abc@x>\n\
            Received: by h with id 4Zx9Qk12ab\nSubject: 20240101aa\nDKIM-Signature: b=Ab3d+fgh/ij\n\n\
            Received: 20240101aa\n";
        assert_eq!(renewed(message.as_bytes(), 0), message.as_bytes());
        let one = String::from_utf8(renewed(message.as_bytes(), 1)).unwrap();
        assert_ne!(one.as_bytes(), renewed(message.as_bytes(), 2));
        assert_eq!(one.matches("<c1.abc@x>").count(), 2, "{one}");
        assert!(
            one.contains("Subject: 20240101aa\n") && one.ends_with("\n\nReceived: 20240101aa\n")
        );
        assert_eq!(one.matches("20240101aa").count(), 2, "{one}");
        assert!(!one.contains("4Zx9Qk12ab") && !one.contains("Ab3d+fgh/ij"), "{one}");
        assert_eq!(one.len(), message.len() + 3 * "c1.".len());
    }
}
