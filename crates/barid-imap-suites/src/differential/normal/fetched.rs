//! Data of FETCH in normal form.

use super::values::{date, serialised, sorted_words};
use crate::wire::{Arg, fetch_items};

/// Returns the items of a FETCH response by their names in upper case.
pub(super) fn items(list: &[Arg], compares_recent: bool) -> Vec<(String, Vec<u8>)> {
    let items = fetch_items(list).into_iter();
    items
        .map(|(name, value)| {
            let value = normal(&name, &value, compares_recent);
            (name, value)
        })
        .collect()
}

fn normal(name: &str, value: &Arg, compares_recent: bool) -> Vec<u8> {
    match (name, value) {
        ("FLAGS", list) => {
            let words = sorted_words(Some(list));
            let kept = words.split(|byte| *byte == b' ');
            let kept = kept.filter(|word| compares_recent || *word != b"\\recent");
            kept.collect::<Vec<_>>().join(&b' ')
        }
        ("MODSEQ", _) => b"M".to_vec(),
        ("INTERNALDATE", value) => date(value.bytes().unwrap_or_default()),
        // Types and names of parameters have no case; values that have one are rare.
        ("BODY" | "BODYSTRUCTURE", value) => {
            serialised(std::slice::from_ref(value)).to_ascii_lowercase()
        }
        (_, Arg::String(text)) => text.clone(),
        (_, value) => serialised(std::slice::from_ref(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::parse_args;

    #[test]
    fn names_and_values_are_found() {
        let line = "(UID 7 BODY[HEADER.FIELDS (Subject \"To\")] {3}\r\na\r\n BODY[1]<0> \"x\" \
                    FLAGS (b \\Recent) BODY (\"TEXT\" NIL) MODSEQ (9))";
        let args = parse_args(line.as_bytes()).unwrap();
        let items = items(args[0].list().unwrap(), false);
        let items: Vec<_> = items
            .iter()
            .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value)))
            .collect();
        let expected = [
            "UID=7",
            "BODY[HEADER.FIELDS (SUBJECT TO)]=a\r\n",
            "BODY[1]<0>=x",
            "FLAGS=b",
            "BODY=('text nil)",
            "MODSEQ=M",
        ];
        assert_eq!(items, expected);
    }
}
