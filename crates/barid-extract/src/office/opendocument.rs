//! OpenDocument (odt, ods, odp): text is in paragraphs and headings, in tables and slides too.

use crate::archive::Archive;
use crate::sink::{End, TextSink};
use crate::xml::{Token, read_xml};

/// The member that every OpenDocument has.
pub(super) const CONTENT: &str = "content.xml";

/// Deleted text that is kept for undoing, and descriptions of numbers and scripts.
const SKIPPED: [&str; 4] = ["tracked-changes", "automatic-styles", "scripts", "font-face-decls"];

/// Reads the text, then the lines at the top and the bottom of pages.
pub(super) fn read(archive: &Archive<'_>, sink: &mut TextSink) -> Result<(), End> {
    for name in [CONTENT, "styles.xml"] {
        read_member(archive, name, sink)?;
    }
    Ok(())
}

fn read_member(archive: &Archive<'_>, name: &str, sink: &mut TextSink) -> Result<(), End> {
    let Some(member) = archive.open(name)? else { return Ok(()) };
    // White space outside of paragraphs means nothing, and several blanks in one are one.
    let mut paragraphs = 0_usize;
    read_xml(member, &SKIPPED, &mut |token| match token {
        Token::Start("p" | "h", _) => {
            paragraphs += 1;
            Ok(())
        }
        Token::End("p" | "h") => {
            paragraphs = paragraphs.saturating_sub(1);
            sink.end_line()
        }
        // A number of repetitions is not followed: it may be any.
        Token::Start("s", _) => sink.space(),
        Token::Start("tab", _) => sink.push("\t"),
        Token::Start("line-break", _) => sink.end_line(),
        Token::End("table-cell") => sink.end_cell(),
        Token::End("table-row") => sink.end_line(),
        Token::Text(text) if paragraphs > 0 => {
            let is_blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
            if text.starts_with(is_blank) {
                sink.space()?;
            }
            for (number, word) in text.split(is_blank).filter(|word| !word.is_empty()).enumerate() {
                if number > 0 {
                    sink.space()?;
                }
                sink.push(word)?;
            }
            let has_word = !text.trim_matches(is_blank).is_empty();
            if has_word && text.ends_with(is_blank) { sink.space() } else { Ok(()) }
        }
        _ => Ok(()),
    })?;
    sink.end_line()
}
