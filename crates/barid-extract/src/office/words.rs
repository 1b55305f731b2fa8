//! Text and slides of Office Open XML (docx, pptx): both consist of paragraphs of runs of text, and
//! their elements have the same local names.

use crate::archive::Archive;
use crate::sink::{End, TextSink};
use crate::xml::{Token, read_xml};

/// The member that only a text document has.
pub(super) const DOCUMENT: &str = "word/document.xml";
/// The member that only a presentation has.
pub(super) const PRESENTATION: &str = "ppt/presentation.xml";

/// Elements without text of their own: positions of tabs, and copies of a drawing for old programs.
const SKIPPED: [&str; 2] = ["tabs", "Fallback"];

/// Reads the text, then notes, comments, and the lines at the top and the bottom of pages.
pub(super) fn read_document(archive: &Archive<'_>, sink: &mut TextSink) -> Result<(), End> {
    for name in [DOCUMENT, "word/footnotes.xml", "word/endnotes.xml", "word/comments.xml"] {
        read_member(archive, name, sink)?;
    }
    for before in ["word/header", "word/footer"] {
        read_numbered(archive, before, sink)?;
    }
    Ok(())
}

/// Reads the slides in the order of their numbers, then the notes of the speaker.
pub(super) fn read_presentation(archive: &Archive<'_>, sink: &mut TextSink) -> Result<(), End> {
    for before in ["ppt/slides/slide", "ppt/notesSlides/notesSlide", "ppt/comments/comment"] {
        read_numbered(archive, before, sink)?;
    }
    Ok(())
}

fn read_numbered(archive: &Archive<'_>, before: &str, sink: &mut TextSink) -> Result<(), End> {
    for number in archive.numbers(before, ".xml") {
        read_member(archive, &format!("{before}{number}.xml"), sink)?;
    }
    Ok(())
}

/// Reads a member, if it exists.
fn read_member(archive: &Archive<'_>, name: &str, sink: &mut TextSink) -> Result<(), End> {
    let Some(member) = archive.open(name)? else { return Ok(()) };
    let mut is_text = false;
    read_xml(member, &SKIPPED, &mut |token| match token {
        // Comments of a presentation have their text in an element of this name.
        Token::Start("t" | "text", _) => {
            is_text = true;
            Ok(())
        }
        Token::Start("tab", _) => sink.push("\t"),
        Token::Start("br" | "cr", _) => sink.end_line(),
        Token::Start("noBreakHyphen", _) => sink.push("-"),
        Token::End("t" | "text") => {
            is_text = false;
            Ok(())
        }
        Token::End("p" | "tr" | "cm") => sink.end_line(),
        Token::End("tc") => sink.end_cell(),
        Token::Text(text) if is_text => sink.push(text),
        _ => Ok(()),
    })?;
    sink.end_line()
}
