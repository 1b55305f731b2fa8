//! Data of FETCH in normal form.

use super::values::{date, serialised, sorted_words};
use crate::wire::Arg;

/// Returns the items of a FETCH response by their names in upper case.
pub(super) fn items(list: &[Arg], compares_recent: bool) -> Vec<(String, Vec<u8>)> {
    let (mut items, mut rest) = (Vec::new(), list);
    while !rest.is_empty() {
        let (name, used) = item_name(rest);
        let value = match rest.get(used) {
            Some(value) => normal(&name, value, compares_recent),
            None => b"MISSING".to_vec(),
        };
        items.push((name, value));
        rest = rest.get(used + 1..).unwrap_or_default();
    }
    items
}

/// Returns the name of the first item and the number of values that it takes: a section with field
/// names has several.
fn item_name(args: &[Arg]) -> (String, usize) {
    let first = args[0].bytes().unwrap_or_default();
    let is_open = |text: &[u8]| text.contains(&b'[') && !text.contains(&b']');
    let mut used = 1;
    if is_open(first) {
        let is_end = |arg: &Arg| arg.bytes().is_some_and(|bytes| bytes.contains(&b']'));
        used += args[1..].iter().position(is_end).map_or(args.len() - 1, |at| at + 1);
    }
    let name = serialised(&args[..used]).to_ascii_uppercase();
    let name = String::from_utf8_lossy(&name).replace(" ]", "]").replace('\'', "");
    (name, used)
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
