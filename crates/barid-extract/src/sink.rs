//! The bounded receiver of text.

use crate::limits::TEXT_LEN_MAX;

/// The reason why a reader ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The sink is full: the text so far is the result.
    Full,
    /// The document cannot be read.
    Failed(crate::Failure),
}

impl From<crate::Failure> for End {
    fn from(failure: crate::Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Collects the text of a document, at most [`TEXT_LEN_MAX`] bytes.
///
/// Line ends and tabs that separate elements never follow each other, so that empty tables take no
/// room.
#[derive(Debug, Default)]
pub(crate) struct TextSink {
    text: String,
    is_cut: bool,
}

impl TextSink {
    /// Appends a text as it is.
    ///
    /// # Errors
    /// [`End::Full`]; the text up to the limit was appended, whole characters only.
    pub(crate) fn push(&mut self, text: &str) -> Result<(), End> {
        let room = TEXT_LEN_MAX - self.text.len();
        if text.len() <= room {
            self.text.push_str(text);
            return Ok(());
        }
        self.text.push_str(&text[..text.floor_char_boundary(room)]);
        self.is_cut = true;
        Err(End::Full)
    }

    /// Ends a line, unless it is empty. Tabs at its end are removed.
    pub(crate) fn end_line(&mut self) -> Result<(), End> {
        while self.text.ends_with(['\t', ' ']) {
            self.text.pop();
        }
        if self.text.is_empty() || self.text.ends_with('\n') { Ok(()) } else { self.push("\n") }
    }

    /// Ends a cell of a table, unless it is empty.
    pub(crate) fn end_cell(&mut self) -> Result<(), End> {
        // A paragraph in the cell has ended its line.
        if self.text.ends_with('\n') {
            self.text.pop();
        }
        if self.text.is_empty() || self.text.ends_with(['\n', '\t']) {
            return Ok(());
        }
        self.push("\t")
    }

    /// Appends one space, unless there is white space already.
    pub(crate) fn space(&mut self) -> Result<(), End> {
        if self.text.is_empty() || self.text.ends_with([' ', '\n', '\t']) {
            return Ok(());
        }
        self.push(" ")
    }

    /// Returns the text, and `true` if some of it was left out.
    pub(crate) fn finish(self) -> (String, bool) {
        (self.text, self.is_cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_do_not_pile_up() {
        let mut sink = TextSink::default();
        sink.end_line().unwrap();
        sink.end_cell().unwrap();
        sink.push("a").unwrap();
        sink.end_cell().unwrap();
        sink.end_cell().unwrap();
        sink.push("b").unwrap();
        sink.end_line().unwrap();
        sink.end_cell().unwrap();
        sink.end_line().unwrap();
        sink.end_line().unwrap();
        sink.push("c").unwrap();
        sink.space().unwrap();
        sink.space().unwrap();
        sink.push("d").unwrap();
        assert_eq!(sink.finish(), ("a\tb\nc d".to_owned(), false));
    }

    #[test]
    fn a_full_sink_has_whole_characters() {
        let mut sink = TextSink::default();
        sink.push(&"a".repeat(TEXT_LEN_MAX - 1)).unwrap();
        assert_eq!(sink.push("é"), Err(End::Full));
        let (text, is_cut) = sink.finish();
        assert_eq!((text.len(), is_cut), (TEXT_LEN_MAX - 1, true));
    }
}
