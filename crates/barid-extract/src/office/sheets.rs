//! Workbooks of Office Open XML (xlsx): a line for each row, a tab between cells.
//!
//! Numbers are as stored, dates too: they are numbers of days that only the format of a cell makes
//! a date. Formulas are left out; their last results are cells like others.

use std::ops::Range;

use crate::Failure;
use crate::archive::Archive;
use crate::limits::{SHARED_STRINGS_LEN_MAX, SHARED_STRINGS_MAX};
use crate::sink::{End, TextSink};
use crate::xml::{Token, attribute, read_xml};

/// The member that only a workbook has.
pub(super) const WORKBOOK: &str = "xl/workbook.xml";

/// Readings of words in East Asian scripts, and properties.
const SKIPPED: [&str; 3] = ["rPh", "rPr", "f"];

/// Reads the names of the sheets, the sheets in the order of their numbers, and the comments.
pub(super) fn read(archive: &Archive<'_>, sink: &mut TextSink) -> Result<(), End> {
    if let Some(member) = archive.open(WORKBOOK)? {
        read_xml(member, &[], &mut |token| match token {
            Token::Start("sheet", start) => {
                sink.push(&attribute(start, "name").unwrap_or_default())?;
                sink.end_line()
            }
            _ => Ok(()),
        })?;
    }
    let strings = SharedStrings::read(archive)?;
    for number in archive.numbers("xl/worksheets/sheet", ".xml") {
        read_sheet(archive, &format!("xl/worksheets/sheet{number}.xml"), &strings, sink)?;
    }
    for number in archive.numbers("xl/comments", ".xml") {
        read_comments(archive, &format!("xl/comments{number}.xml"), sink)?;
    }
    Ok(())
}

/// The strings that cells share, one after the other.
#[derive(Debug, Default)]
struct SharedStrings {
    text: String,
    ranges: Vec<Range<usize>>,
}

impl SharedStrings {
    fn read(archive: &Archive<'_>) -> Result<Self, End> {
        let mut strings = Self::default();
        let Some(member) = archive.open("xl/sharedStrings.xml")? else { return Ok(strings) };
        let (mut is_text, mut from) = (false, 0);
        read_xml(member, &SKIPPED, &mut |token| {
            match token {
                Token::Start("si", _) => from = strings.text.len(),
                Token::Start("t", _) => is_text = true,
                Token::End("t") => is_text = false,
                Token::Text(text) if is_text => {
                    if strings.text.len() + text.len() > SHARED_STRINGS_LEN_MAX {
                        return Err(Failure::StringsTooLong.into());
                    }
                    strings.text.push_str(text);
                }
                Token::End("si") => {
                    if strings.ranges.len() == SHARED_STRINGS_MAX {
                        return Err(Failure::StringsTooLong.into());
                    }
                    strings.ranges.push(from..strings.text.len());
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(strings)
    }

    /// Returns a string by its number in decimal; empty if there is none.
    fn get(&self, number: &str) -> &str {
        let number: Option<usize> = number.trim().parse().ok();
        let range = number.and_then(|number| self.ranges.get(number));
        range.map_or("", |range| &self.text[range.clone()])
    }
}

fn read_sheet(
    archive: &Archive<'_>,
    name: &str,
    strings: &SharedStrings,
    sink: &mut TextSink,
) -> Result<(), End> {
    let Some(member) = archive.open(name)? else { return Ok(()) };
    let (mut is_shared, mut is_value, mut number) = (false, false, String::new());
    read_xml(member, &SKIPPED, &mut |token| match token {
        Token::Start("c", start) => {
            is_shared = attribute(start, "t").is_some_and(|kind| kind == "s");
            Ok(())
        }
        Token::Start("v" | "t", _) => {
            is_value = true;
            number.clear();
            Ok(())
        }
        Token::Text(text) if is_value && is_shared => {
            number.push_str(text);
            Ok(())
        }
        Token::Text(text) if is_value => sink.push(text),
        Token::End("v" | "t") => {
            is_value = false;
            if is_shared { sink.push(strings.get(&number)) } else { Ok(()) }
        }
        Token::End("c") => {
            is_shared = false;
            sink.end_cell()
        }
        Token::End("row") => sink.end_line(),
        _ => Ok(()),
    })?;
    sink.end_line()
}

fn read_comments(archive: &Archive<'_>, name: &str, sink: &mut TextSink) -> Result<(), End> {
    let Some(member) = archive.open(name)? else { return Ok(()) };
    let mut is_text = false;
    read_xml(member, &SKIPPED, &mut |token| match token {
        Token::Start("t", _) => {
            is_text = true;
            Ok(())
        }
        Token::End("t") => {
            is_text = false;
            Ok(())
        }
        Token::End("comment") => sink.end_line(),
        Token::Text(text) if is_text => sink.push(text),
        _ => Ok(()),
    })
}
