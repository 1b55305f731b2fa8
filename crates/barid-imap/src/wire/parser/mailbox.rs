//! CREATE, RENAME, GETMETADATA and SETMETADATA.

use super::cursor::utf8;
use super::{Cursor, ParseError, Parsed};
use crate::command::{Command, MailboxName};

/// Parses `mailbox [SP "(" "USE" SP "(" use-attr *(SP use-attr) ")" ")"]` (RFC 6154 §6).
pub(super) fn create(cursor: &mut Cursor<'_>) -> Parsed<Command> {
    let separator = cursor.dialect().separator;
    let mut mailbox = cursor.mailbox()?;
    let is_folder = mailbox.0.ends_with(separator) && mailbox.0.len() > separator.len_utf8();
    if is_folder {
        mailbox = MailboxName::from(mailbox.0.strip_suffix(separator).unwrap_or_default());
    }
    let mut special_use = Vec::new();
    cursor.spaces();
    if !cursor.is_end() {
        cursor.list(false, |cursor| match cursor.word("USE")?.as_str() {
            "USE" => {
                cursor.space()?;
                special_use.extend(cursor.list(false, use_attribute)?);
                Ok(())
            }
            name => Err(ParseError::new(format!("Unknown parameter {name}."))),
        })?;
    }
    Ok(Command::Create { mailbox, is_folder, special_use })
}

/// Parses `"\" atom`, and gives the names of RFC 6154 their capitals.
fn use_attribute(cursor: &mut Cursor<'_>) -> Parsed<String> {
    const KNOWN: &[&str] = &[
        "\\All",
        "\\Archive",
        "\\Drafts",
        "\\Flagged",
        "\\Important",
        "\\Junk",
        "\\Sent",
        "\\Trash",
    ];
    let start = cursor.clone();
    if !cursor.eat(b'\\') {
        return Err(start.expected("a special use"));
    }
    let name = format!("\\{}", cursor.word("a special use")?);
    let known = KNOWN.iter().find(|known| known.eq_ignore_ascii_case(&name));
    match known {
        Some(known) => Ok((*known).to_owned()),
        None => Err(ParseError::new("Unknown special use.").with_no("USEATTR")),
    }
}

/// Parses `mailbox SP mailbox`.
pub(super) fn rename(cursor: &mut Cursor<'_>) -> Parsed<Command> {
    let from = cursor.mailbox()?;
    cursor.space()?;
    Ok(Command::Rename { from, to: cursor.mailbox()? })
}

/// Parses `[SP options] SP mailbox [SP options] SP entries` (RFC 5464 §5; its examples have the
/// options in the second place, its grammar in the first).
pub(super) fn get_metadata(cursor: &mut Cursor<'_>) -> Parsed<Command> {
    let mut options = MetadataOptions::default();
    if cursor.peek() == Some(b'(') {
        options.read(cursor)?;
        cursor.space()?;
    }
    let mailbox = metadata_mailbox(cursor)?;
    cursor.space()?;
    let mut ahead = cursor.clone();
    let has_options = ahead.eat(b'(') && {
        ahead.spaces();
        ahead.word_is("MAXSIZE") || ahead.word_is("DEPTH")
    };
    if has_options {
        options.read(cursor)?;
        cursor.space()?;
    }
    let entries = cursor.list(true, entry)?;
    if entries.is_empty() {
        return Err(ParseError::new("GETMETADATA needs entries."));
    }
    let MetadataOptions { size_max, depth } = options;
    Ok(Command::GetMetadata { mailbox, entries, size_max, depth })
}

/// The options of GETMETADATA.
struct MetadataOptions {
    size_max: Option<u64>,
    depth: Option<u32>,
}

impl Default for MetadataOptions {
    fn default() -> Self {
        Self { size_max: None, depth: Some(0) }
    }
}

impl MetadataOptions {
    fn read(&mut self, cursor: &mut Cursor<'_>) -> Parsed<()> {
        cursor.list(false, |cursor| {
            let name = cursor.word("an option of GETMETADATA")?;
            cursor.space()?;
            match name.as_str() {
                "MAXSIZE" => self.size_max = Some(cursor.number()?),
                "DEPTH" => {
                    let depth = cursor.word("a depth")?;
                    self.depth = match depth.as_str() {
                        "0" => Some(0),
                        "1" => Some(1),
                        "INFINITY" => None,
                        _ => return Err(ParseError::new("A depth is 0, 1 or infinity.")),
                    };
                }
                _ => return Err(ParseError::new(format!("Unknown option {name}."))),
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// Parses the mailbox, or an empty name for the server.
fn metadata_mailbox(cursor: &mut Cursor<'_>) -> Parsed<MailboxName> {
    cursor.mailbox_or_empty()
}

/// Parses the name of an entry (RFC 5464 §3.1), in lower case: names are compared without case.
pub(super) fn entry(cursor: &mut Cursor<'_>) -> Parsed<String> {
    let start = cursor.clone();
    let name = utf8(cursor.astring()?)?.to_ascii_lowercase();
    let is_char = |c: char| !c.is_control() && c.is_ascii() && !matches!(c, '*' | '%');
    let is_name = name.starts_with('/')
        && !name.ends_with('/')
        && !name.contains("//")
        && name.chars().all(is_char);
    if is_name { Ok(name) } else { Err(start.expected("an entry name")) }
}

/// Parses `mailbox SP "(" entry SP value *(SP entry SP value) ")"` (RFC 5464 §5).
pub(super) fn set_metadata(cursor: &mut Cursor<'_>) -> Parsed<Command> {
    let mailbox = metadata_mailbox(cursor)?;
    cursor.space()?;
    let entries = cursor.list(false, |cursor| {
        let name = entry(cursor)?;
        cursor.space()?;
        let value = match cursor.literal8()? {
            Some(value) => Some(value.to_vec()),
            None => cursor.nstring()?.map(|value| value.into_owned()),
        };
        Ok((name, value))
    })?;
    if entries.is_empty() {
        return Err(ParseError::new("SETMETADATA needs entries."));
    }
    Ok(Command::SetMetadata(mailbox, entries))
}
