//! Response codes in normal form.

use super::values::{expanded, number_set, sorted_words, uidvalidity};
use crate::wire::{Arg, parse_args};

/// Codes that servers send as they please, or that only some have.
const IGNORED: [&str; 8] = [
    "ALERT",
    "CAPABILITY",
    "CLIENTBUG",
    "CLOSED",
    "INPROGRESS",
    "MAILBOXID",
    "NOMODSEQ",
    "REFERRAL",
];

/// Returns `true` for a code that is not compared.
pub(super) fn is_ignored(name: &str) -> bool {
    IGNORED.contains(&name)
}

/// Returns the name of a response code in upper case and its value.
pub(super) fn code(text: &[u8]) -> (String, Vec<u8>) {
    let space = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
    let (name, value) = text.split_at(space);
    let name = String::from_utf8_lossy(name).to_ascii_uppercase();
    let value = value.strip_prefix(b" ").unwrap_or(value);
    let words: Vec<&[u8]> = value.split(|byte| *byte == b' ').collect();
    let value = match (name.as_str(), words.as_slice()) {
        ("UIDVALIDITY", _) => uidvalidity(value),
        ("HIGHESTMODSEQ", _) => b"M".to_vec(),
        ("MODIFIED", _) => number_set(value),
        ("APPENDUID", [validity, uids]) => [uidvalidity(validity), number_set(uids)].join(&b' '),
        ("COPYUID", [validity, from, to]) => copied(validity, from, to),
        ("PERMANENTFLAGS", _) => {
            let args = parse_args(value).unwrap_or_default();
            sorted_words(args.first().filter(|arg| matches!(arg, Arg::List(_))))
        }
        // Which charsets a server lists is its own affair.
        ("BADCHARSET", _) => Vec::new(),
        _ => value.to_vec(),
    };
    (name, value)
}

/// Returns the pairs of COPYUID, by the UIDs in the source.
fn copied(validity: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let (Some(from_uids), Some(to_uids)) = (expanded(from), expanded(to)) else {
        return [from, to].join(&b' ');
    };
    let mut pairs: Vec<(u32, u32)> = from_uids.into_iter().zip(to_uids).collect();
    pairs.sort_unstable();
    let pairs = pairs.iter().map(|(from, to)| format!("{from}>{to}"));
    let pairs = pairs.collect::<Vec<_>>().join(",");
    [uidvalidity(validity), pairs.into_bytes()].join(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_sorted() {
        let check = |text: &str, name: &str, value: &str| {
            let found = code(text.as_bytes());
            assert_eq!(
                (found.0.as_str(), String::from_utf8(found.1).unwrap().as_str()),
                (name, value)
            );
        };
        check("copyuid 7000000 3,1 8:9", "COPYUID", "V 1>9,3>8");
        check("APPENDUID 1000001 5", "APPENDUID", "1000001 5");
        check("PERMANENTFLAGS (\\Seen b \\*)", "PERMANENTFLAGS", "\\* \\seen b");
        check("UIDNEXT 7", "UIDNEXT", "7");
        check("read-only", "READ-ONLY", "");
        check("MODIFIED 9,7:8", "MODIFIED", "7:9");
    }
}
