//! FETCH responses.

use super::arg::{Arg, parse_args};

/// A FETCH response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The sequence number.
    pub seq: u32,
    /// The items by their names in upper case, with section and offset: `BODY[HEADER]<0>`.
    pub items: Vec<(String, Arg)>,
}

impl Fetched {
    /// Takes a response apart; `None` for another one.
    pub fn of(line: &[u8]) -> Option<Self> {
        let args = parse_args(line).ok()?;
        let seq = std::str::from_utf8(args.first()?.bytes()?).ok()?.parse().ok()?;
        let items = args.get(2).filter(|_| args[1].is_atom("FETCH"))?.list()?;
        Some(Self { seq, items: fetch_items(items) })
    }

    /// Returns an item.
    pub fn get(&self, name: &str) -> Option<&Arg> {
        self.items.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Returns an item that is a number, in parentheses or not.
    pub fn number(&self, name: &str) -> Option<u64> {
        let value = match self.get(name)? {
            Arg::List(args) => args.first()?.bytes()?,
            value => value.bytes()?,
        };
        std::str::from_utf8(value).ok()?.parse().ok()
    }

    /// Returns the flags, in lower case and sorted, without \Recent.
    pub fn flags(&self) -> Option<Vec<String>> {
        let flags = self.get("FLAGS")?.list()?.iter().filter_map(Arg::bytes);
        let flags = flags.map(|flag| String::from_utf8_lossy(flag).to_ascii_lowercase());
        let mut flags: Vec<String> = flags.filter(|flag| flag != "\\recent").collect();
        flags.sort();
        Some(flags)
    }
}

/// Returns the items of a list of FETCH data by their names in upper case; an item without a value
/// is an empty list.
pub fn fetch_items(list: &[Arg]) -> Vec<(String, Arg)> {
    let (mut items, mut rest) = (Vec::new(), list);
    while !rest.is_empty() {
        let (name, used) = item_name(rest);
        let value = rest.get(used).cloned().unwrap_or(Arg::List(Vec::new()));
        items.push((name, value));
        rest = rest.get(used + 1..).unwrap_or_default();
    }
    items
}

/// Returns the name of the first item and the number of values that it takes: a section with field
/// names has several.
fn item_name(args: &[Arg]) -> (String, usize) {
    let first = args[0].bytes().unwrap_or_default();
    if !first.contains(&b'[') || first.contains(&b']') {
        return (String::from_utf8_lossy(first).to_ascii_uppercase(), 1);
    }
    let is_end = |arg: &Arg| arg.bytes().is_some_and(|bytes| bytes.contains(&b']'));
    let used = args[1..].iter().position(is_end).map_or(args.len(), |at| at + 2);
    let mut name = String::from_utf8_lossy(first).into_owned();
    for arg in &args[1..used] {
        match arg {
            Arg::List(fields) => {
                let fields = fields.iter().filter_map(Arg::bytes).map(String::from_utf8_lossy);
                name.push_str(&format!(" ({})", fields.collect::<Vec<_>>().join(" ")));
            }
            arg => name.push_str(&String::from_utf8_lossy(arg.bytes().unwrap_or_default())),
        }
    }
    (name.to_ascii_uppercase(), used)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found() {
        let line =
            b"3 FETCH (UID 7 BODY[HEADER.FIELDS (Subject \"To\")]<2> {3}\r\na\r\n body[1]<0> \
                     \"x\" FLAGS (b \\Recent \\Seen) MODSEQ (9))";
        let fetched = Fetched::of(line).unwrap();
        let names: Vec<_> = fetched.items.iter().map(|(name, _)| name.as_str()).collect();
        let expected =
            ["UID", "BODY[HEADER.FIELDS (SUBJECT TO)]<2>", "BODY[1]<0>", "FLAGS", "MODSEQ"];
        assert_eq!(names, expected);
        assert_eq!(
            (fetched.seq, fetched.number("UID"), fetched.number("MODSEQ")),
            (3, Some(7), Some(9))
        );
        assert_eq!(fetched.flags().unwrap(), ["\\seen", "b"]);
        assert_eq!(Fetched::of(b"3 EXISTS"), None);
    }
}
