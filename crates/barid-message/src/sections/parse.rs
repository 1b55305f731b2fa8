//! The text form of sections.

use std::fmt;

use super::{Section, SectionText};
use crate::limits::{DEPTH_MAX, SECTION_FIELDS_MAX};

/// The error of [`Section::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SectionError {
    /// It is not a section of RFC 9051.
    #[error(
        "a section is part numbers separated by dots, HEADER, HEADER.FIELDS (NAMES), \
         HEADER.FIELDS.NOT (NAMES), TEXT, or MIME after a part"
    )]
    Unknown,
    /// Its part is nested deeper than the limit.
    #[error("the part is nested too deep")]
    TooDeep,
    /// Its list of header fields is empty, too long, or contains an invalid name.
    #[error("names of header fields are missing or malformed")]
    BadFieldNames,
}

impl Section {
    /// Parses the text between the brackets.
    ///
    /// # Errors
    /// Returns a [`SectionError`] if the text is not a valid section.
    pub fn parse(text: &str) -> Result<Self, SectionError> {
        let mut section = Self::default();
        let mut rest = text;
        while rest.starts_with(|first: char| first.is_ascii_digit()) {
            let (number, after) = rest.split_once('.').unwrap_or((rest, ""));
            let number = number.parse().ok().filter(|number| *number > 0);
            section.part.push(number.ok_or(SectionError::Unknown)?);
            if section.part.len() > DEPTH_MAX {
                return Err(SectionError::TooDeep);
            }
            if after.is_empty() && rest.ends_with('.') {
                return Err(SectionError::Unknown);
            }
            rest = after;
        }
        section.text = parse_text(rest)?;
        match section.text {
            SectionText::Mime if section.part.is_empty() => Err(SectionError::Unknown),
            _ => Ok(section),
        }
    }
}

fn parse_text(text: &str) -> Result<SectionText, SectionError> {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    if let Some(open) = text.find('(') {
        let names = text[open + 1..].strip_suffix(')').ok_or(SectionError::BadFieldNames)?;
        let not = match text[..open].trim_ascii().to_ascii_uppercase().as_str() {
            "HEADER.FIELDS" => false,
            "HEADER.FIELDS.NOT" => true,
            _ => return Err(SectionError::Unknown),
        };
        return Ok(SectionText::HeaderFields { not, names: parse_names(names)? });
    }
    match text {
        "" => Ok(SectionText::Whole),
        _ if is("HEADER") => Ok(SectionText::Header),
        _ if is("TEXT") => Ok(SectionText::Text),
        _ if is("MIME") => Ok(SectionText::Mime),
        _ if is("HEADER.FIELDS") || is("HEADER.FIELDS.NOT") => Err(SectionError::BadFieldNames),
        _ => Err(SectionError::Unknown),
    }
}

/// Parses field names, bare or in quotes.
fn parse_names(text: &str) -> Result<Vec<Vec<u8>>, SectionError> {
    let names = text.split_ascii_whitespace().map(|word| {
        let bare = word.strip_prefix('"').and_then(|word| word.strip_suffix('"')).unwrap_or(word);
        let is_name = |byte: u8| byte.is_ascii_graphic() && !b":()\"\\{".contains(&byte);
        let is_sound = !bare.is_empty() && bare.bytes().all(is_name);
        is_sound.then(|| bare.as_bytes().to_vec()).ok_or(SectionError::BadFieldNames)
    });
    let names: Vec<Vec<u8>> = names.collect::<Result<_, _>>()?;
    match names.len() {
        1..=SECTION_FIELDS_MAX => Ok(names),
        _ => Err(SectionError::BadFieldNames),
    }
}

/// Writes the text between the brackets, in capitals.
impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, number) in self.part.iter().enumerate() {
            write!(f, "{}{number}", if at == 0 { "" } else { "." })?;
        }
        let dot = if self.part.is_empty() || self.text == SectionText::Whole { "" } else { "." };
        match &self.text {
            SectionText::Whole => Ok(()),
            SectionText::Header => write!(f, "{dot}HEADER"),
            SectionText::Text => write!(f, "{dot}TEXT"),
            SectionText::Mime => write!(f, "{dot}MIME"),
            SectionText::HeaderFields { not, names } => {
                let names: Vec<String> = names
                    .iter()
                    .map(|name| String::from_utf8_lossy(name).to_ascii_uppercase())
                    .collect();
                let not = if *not { ".NOT" } else { "" };
                write!(f, "{dot}HEADER.FIELDS{not} ({})", names.join(" "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_section_is_refused() {
        for bad in [
            "0",
            "1.",
            ".1",
            "1..2",
            "MIME",
            "x",
            "1.x",
            "HEADER.FIELDS",
            "HEADER.FIELDS ()",
            "HEADER.FIELDS (a",
            "HEADER.FIELDS (a:)",
            "TEXT (a)",
            "4294967296",
        ] {
            assert!(Section::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(Section::parse(&"1.".repeat(200)[..399]), Err(SectionError::TooDeep));
        let section = Section::parse("1.2.header.fields.not (\"to\" cc)").unwrap();
        assert_eq!(section.to_string(), "1.2.HEADER.FIELDS.NOT (TO CC)");
    }
}
