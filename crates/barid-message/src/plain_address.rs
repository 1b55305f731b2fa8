//! Addresses of the most common forms.

use crate::lexer::is_atext;

/// The first address of a list where it is of a usual form: `a@b`, `Name <a@b>` or `"Name" <a@b>`
/// without comments, quoting or folds.
pub(crate) struct Plain<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) mailbox: &'a [u8],
    pub(crate) host: &'a [u8],
    pub(crate) addr_spec: &'a [u8],
    /// Bytes up to the end of the list or the comma after the address.
    pub(crate) len: usize,
}

impl<'a> Plain<'a> {
    /// Parses the first address. O(length of the address).
    pub(crate) fn parse(raw: &'a [u8]) -> Option<Self> {
        let text = trim_start(raw);
        let (name, addr_spec) = match phrase(text) {
            Some((name, [b'<', addr_spec @ ..])) => (name, addr_spec),
            _ => (&text[..0], text),
        };
        let has_name = addr_spec.len() < text.len();
        let mailbox = atoms(addr_spec);
        let [b'@', behind @ ..] = &addr_spec[mailbox.len()..] else { return None };
        let host = atoms(behind);
        let after = match (has_name, &behind[host.len()..]) {
            (true, [b'>', after @ ..]) => after,
            (false, after) => after,
            _ => return None,
        };
        let after = trim_start(after);
        let is_plain = matches!(after.first(), None | Some(b','));
        (is_plain && !mailbox.is_empty() && is_dot_atom(host)).then(|| Self {
            name,
            mailbox,
            host,
            addr_spec: &addr_spec[..mailbox.len() + 1 + host.len()],
            len: raw.len() - after.len(),
        })
    }
}

/// Reads a phrase that needs no unquoting. Returns it and the rest.
fn phrase(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if let [b'"', rest @ ..] = text {
        let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | b'\n'))?;
        return (rest[end] == b'"').then(|| (&rest[..end], trim_start(&rest[end + 1..])));
    }
    let end = text.iter().position(|byte| !(is_atext(*byte) || matches!(byte, b' ' | b'.')))?;
    let (name, rest) = text.split_at(end);
    let name = name.trim_ascii_end();
    let is_packed = !name.starts_with(b".") && !name.windows(2).any(|pair| pair == b"  ");
    is_packed.then_some((name, rest))
}

fn trim_start(text: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    &text[text.iter().position(|byte| !blank(byte)).unwrap_or(text.len())..]
}

/// Reads atoms with dots anywhere, possibly none.
fn atoms(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| !(is_atext(*byte) || *byte == b'.'));
    &text[..end.unwrap_or(text.len())]
}

/// Returns `true` if `atoms` is at least one atom, with one dot between each two.
fn is_dot_atom(atoms: &[u8]) -> bool {
    let is_doubled = atoms.windows(2).any(|pair| pair == b"..");
    !atoms.is_empty() && !atoms.starts_with(b".") && !atoms.ends_with(b".") && !is_doubled
}
