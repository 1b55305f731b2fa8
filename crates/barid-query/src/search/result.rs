//! The response to a search (RFC 4731, RFC 9051 §7.3.4).

use std::io::Write as _;

/// The results that a client requests (RFC 4731 §3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReturnOptions {
    /// `true` for the lowest number.
    pub min: bool,
    /// `true` for the highest number.
    pub max: bool,
    /// `true` for all numbers.
    pub all: bool,
    /// `true` for the number of matches.
    pub count: bool,
    /// `true` to save the result for `$` (RFC 5182).
    pub save: bool,
}

/// The numbers of the messages found: sequence numbers or UIDs, ascending.
#[derive(Clone, Copy, Debug)]
pub struct SearchResult<'a> {
    /// The numbers.
    pub numbers: &'a [u32],
    /// `true` if they are UIDs.
    pub uid: bool,
}

impl SearchResult<'_> {
    /// Appends the ESEARCH response without its line end; `tag` is the tag of the command, if it
    /// has one. MIN, MAX and ALL are left out if nothing was found (RFC 4731 §3.1).
    pub fn write_esearch(&self, tag: Option<&str>, options: ReturnOptions, out: &mut Vec<u8>) {
        out.extend_from_slice(b"* ESEARCH");
        if let Some(tag) = tag {
            out.extend_from_slice(b" (TAG \"");
            out.extend_from_slice(tag.as_bytes());
            out.extend_from_slice(b"\")");
        }
        self.write_returned(options, out);
    }

    /// Appends what the options ask for, each after a space, as an ESEARCH response has it.
    pub fn write_returned(&self, options: ReturnOptions, out: &mut Vec<u8>) {
        if self.uid {
            out.extend_from_slice(b" UID");
        }
        for (wanted, name, number) in [
            (options.min, " MIN ", self.numbers.first()),
            (options.max, " MAX ", self.numbers.last()),
        ] {
            if let Some(number) = number.filter(|_| wanted) {
                out.extend_from_slice(name.as_bytes());
                put(out, *number);
            }
        }
        if options.count {
            out.extend_from_slice(b" COUNT ");
            put(out, self.numbers.len() as u32);
        }
        if options.all && !self.numbers.is_empty() {
            out.extend_from_slice(b" ALL ");
            self.write_set(out);
        }
    }

    /// Appends the numbers as a `sequence-set`; nothing if there are none.
    pub fn write_set(&self, out: &mut Vec<u8>) {
        let runs = self.numbers.chunk_by(|before, number| before.checked_add(1) == Some(*number));
        for (at, run) in runs.enumerate() {
            if at > 0 {
                out.push(b',');
            }
            put(out, run[0]);
            if let [_, .., last] = run {
                out.push(b':');
                put(out, *last);
            }
        }
    }
}

fn put(out: &mut Vec<u8>, number: u32) {
    write!(out, "{number}").expect("because writing to memory does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: ReturnOptions, uid: bool, numbers: &[u32], expected: &str) {
        let mut out = Vec::new();
        SearchResult { numbers, uid }.write_esearch(Some("a"), options, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn esearch() {
        let all = ReturnOptions { min: true, max: true, all: true, count: true, save: false };
        let numbers = [2, 3, 4, 9, 11, 12];
        check(
            all,
            true,
            &numbers,
            "* ESEARCH (TAG \"a\") UID MIN 2 MAX 12 COUNT 6 ALL 2:4,9,11:12",
        );
        check(all, false, &[], "* ESEARCH (TAG \"a\") COUNT 0");
        let min = ReturnOptions { min: true, ..ReturnOptions::default() };
        check(min, false, &numbers, "* ESEARCH (TAG \"a\") MIN 2");
        check(min, true, &[], "* ESEARCH (TAG \"a\") UID");
        let set = ReturnOptions { all: true, ..ReturnOptions::default() };
        check(
            set,
            false,
            &[u32::MAX - 1, u32::MAX],
            "* ESEARCH (TAG \"a\") ALL 4294967294:4294967295",
        );
    }
}
