//! Responses, and the answers to commands.

use super::arg::code_len;

/// One response of a server, without its final CRLF. Literals have their wire form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// `* ...`, without `* `.
    Untagged(Vec<u8>),
    /// `+ ...`, without `+ `.
    Continuation(Vec<u8>),
    /// The end of a command.
    Tagged {
        /// The tag.
        tag: String,
        /// The rest of the line: `OK [READ-ONLY] done`.
        rest: Vec<u8>,
    },
}

impl Response {
    /// Takes a line apart.
    pub(super) fn of(line: &[u8]) -> Self {
        if let Some(rest) = line.strip_prefix(b"* ") {
            return Self::Untagged(rest.to_vec());
        }
        if line == b"+" || line.starts_with(b"+ ") {
            return Self::Continuation(line.get(2..).unwrap_or_default().to_vec());
        }
        let (tag, rest) = match line.iter().position(|byte| *byte == b' ') {
            Some(space) => (&line[..space], &line[space + 1..]),
            None => (line, &b""[..]),
        };
        Self::Tagged { tag: String::from_utf8_lossy(tag).into_owned(), rest: rest.to_vec() }
    }
}

/// The answer to a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The untagged responses, without `* `.
    pub untagged: Vec<Vec<u8>>,
    /// The tagged response without its tag.
    pub status: Vec<u8>,
}

impl Reply {
    /// Returns the tagged response as text.
    pub fn status_text(&self) -> String {
        String::from_utf8_lossy(&self.status).into_owned()
    }

    /// Returns the first word of the tagged response in upper case: `OK`, `NO`, `BAD`.
    pub fn condition(&self) -> String {
        let word = self.status.split(|byte| *byte == b' ').next().unwrap_or_default();
        String::from_utf8_lossy(word).to_ascii_uppercase()
    }

    /// Returns `true` for OK.
    pub fn is_ok(&self) -> bool {
        self.condition() == "OK"
    }

    /// Returns the response code of the tagged response, without its brackets.
    pub fn code(&self) -> Option<String> {
        code_of(&self.status)
    }

    /// Returns the value of a response code of this name, in the untagged responses or in the
    /// tagged one; empty for a code without a value.
    pub fn value_of(&self, name: &str) -> Option<String> {
        let all = self.untagged.iter().chain([&self.status]);
        all.filter_map(|line| code_of(line)).find_map(|code| {
            let (word, value) = code.split_once(' ').unwrap_or((&code, ""));
            word.eq_ignore_ascii_case(name).then(|| value.to_owned())
        })
    }

    /// Returns the rest of the first untagged response with this name, as text.
    pub fn find(&self, name: &str) -> Option<String> {
        self.all(name).next()
    }

    /// Returns the rests of the untagged responses with this name, as text.
    pub fn all<'r>(&'r self, name: &'r str) -> impl Iterator<Item = String> + 'r {
        self.untagged.iter().filter_map(move |line| {
            let text = String::from_utf8_lossy(line);
            let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
            word.eq_ignore_ascii_case(name).then(|| rest.trim_start().to_owned())
        })
    }

    /// Returns the number of the last untagged response such as `17 EXISTS`.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.untagged.iter().rev().find_map(|line| {
            let text = String::from_utf8_lossy(line);
            let (number, rest) = text.split_once(' ')?;
            rest.eq_ignore_ascii_case(name).then(|| number.parse().ok()).flatten()
        })
    }
}

/// Returns the response code of a status response, without its brackets.
fn code_of(line: &[u8]) -> Option<String> {
    let space = line.iter().position(|byte| *byte == b' ')?;
    let text = &line[space + 1..];
    let len = code_len(text);
    (len > 1).then(|| String::from_utf8_lossy(&text[1..len - 1]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart() {
        assert_eq!(Response::of(b"* 1 EXISTS"), Response::Untagged(b"1 EXISTS".to_vec()));
        assert_eq!(Response::of(b"+ idling"), Response::Continuation(b"idling".to_vec()));
        assert_eq!(Response::of(b"+"), Response::Continuation(Vec::new()));
        let tagged = Response::Tagged { tag: "a".into(), rest: b"OK done".to_vec() };
        assert_eq!(Response::of(b"a OK done"), tagged);
    }

    #[test]
    fn replies_are_searched() {
        let lines = ["3 EXISTS", "OK [UIDVALIDITY 17] ok", "SEARCH 3 1", "4 exists"];
        let untagged = lines.map(|line| line.as_bytes().to_vec()).to_vec();
        let reply = Reply { untagged, status: b"no [TRYCREATE] x".to_vec() };
        assert_eq!((reply.condition().as_str(), reply.is_ok()), ("NO", false));
        assert_eq!(reply.code().as_deref(), Some("TRYCREATE"));
        assert_eq!(reply.value_of("uidvalidity").as_deref(), Some("17"));
        assert_eq!(reply.value_of("trycreate").as_deref(), Some(""));
        assert_eq!(reply.find("SEARCH").as_deref(), Some("3 1"));
        assert_eq!((reply.number("EXISTS"), reply.find("SORT")), (Some(4), None));
    }
}
