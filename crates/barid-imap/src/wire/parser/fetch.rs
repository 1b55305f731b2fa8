//! FETCH (RFC 9051 §6.4.5, RFC 7162 §7, RFC 9394).
//!
//! ```text
//! fetch    = "FETCH" SP sequence-set SP ("ALL" / "FULL" / "FAST" / fetch-att /
//!            "(" fetch-att *(SP fetch-att) ")") [SP "(" modifier *(SP modifier) ")"]
//! modifier = "CHANGEDSINCE" SP mod-sequence-valzer / "VANISHED" / "PARTIAL" SP partial-range
//! ```

use super::{Cursor, ParseError, Parsed};
use crate::command::{Command, FetchCommand};
use crate::fetch::FetchItems;

/// Parses the arguments of FETCH.
pub(super) fn fetch(cursor: &mut Cursor<'_>, uid: bool) -> Parsed<Command> {
    let set = cursor.message_set(uid)?;
    cursor.space()?;
    let items = items(cursor)?;
    let mut fetch =
        FetchCommand { set, items, changed_since: None, vanished: false, partial: None };
    cursor.spaces();
    if !cursor.is_end() {
        cursor.list(false, |cursor| modifier(cursor, &mut fetch))?;
    }
    if fetch.vanished && (!uid || fetch.changed_since.is_none()) {
        return Err(ParseError::new("VANISHED needs UID FETCH with CHANGEDSINCE."));
    }
    Ok(Command::Fetch(fetch))
}

/// Reads one item, or several in parentheses.
pub(super) fn items(cursor: &mut Cursor<'_>) -> Parsed<FetchItems> {
    let mut items = FetchItems::default();
    cursor.list(true, |cursor| {
        let word = item(cursor)?;
        items.add(&word).map_err(|error| ParseError::new(error.to_string()))
    })?;
    match items.items().is_empty() {
        true => Err(ParseError::new("FETCH needs items.")),
        false => Ok(items),
    }
}

fn modifier(cursor: &mut Cursor<'_>, fetch: &mut FetchCommand) -> Parsed<()> {
    match cursor.word("a modifier of FETCH")?.as_str() {
        "CHANGEDSINCE" => {
            cursor.space()?;
            fetch.changed_since = Some(cursor.modseq()?);
        }
        "VANISHED" => fetch.vanished = true,
        "PARTIAL" => {
            cursor.space()?;
            fetch.partial = Some(cursor.partial_range()?);
        }
        name => return Err(ParseError::new(format!("Unknown modifier {name}."))),
    }
    Ok(())
}

/// Reads an item as text for [`FetchItems::add`]: names of header fields bare, and a space only
/// inside brackets or before a modifier of PREVIEW.
fn item(cursor: &mut Cursor<'_>) -> Parsed<String> {
    let is_char = |byte: u8| byte.is_ascii_graphic() && !b"()[]{}\"\\%*".contains(&byte);
    let name = cursor.take_while(is_char);
    let mut item = String::from_utf8_lossy(name).into_owned();
    if item.is_empty() {
        return Err(cursor.expected("an item of FETCH"));
    }
    if item.eq_ignore_ascii_case("PREVIEW") {
        let mut ahead = cursor.clone();
        ahead.spaces();
        if ahead.eat(b'(') && ahead.word_is("LAZY") {
            ahead.close()?;
            *cursor = ahead;
            item.push_str(" (LAZY)");
        }
        return Ok(item);
    }
    if !cursor.eat(b'[') {
        return Ok(item);
    }
    item.push('[');
    cursor.spaces();
    item.push_str(&String::from_utf8_lossy(cursor.take_while(is_char)));
    cursor.spaces();
    if cursor.peek() == Some(b'(') {
        let names = cursor.list(false, field_name)?;
        item.push_str(" (");
        item.push_str(&names.join(" "));
        item.push(')');
    }
    cursor.spaces();
    if !cursor.eat(b']') {
        return Err(cursor.expected("]"));
    }
    item.push(']');
    item.push_str(&String::from_utf8_lossy(cursor.take_while(is_char)));
    Ok(item)
}

/// Reads the name of a header field.
fn field_name(cursor: &mut Cursor<'_>) -> Parsed<String> {
    let start = cursor.clone();
    let name = match cursor.string()? {
        Some(name) => name.into_owned(),
        None => cursor
            .take_while(|byte| byte.is_ascii_graphic() && !b"()\"\\{".contains(&byte))
            .to_vec(),
    };
    let is_char = |byte: &u8| byte.is_ascii_graphic() && !b":()\"\\{".contains(byte);
    let is_name = !name.is_empty() && name.iter().all(is_char);
    let name = String::from_utf8(name).ok().filter(|_| is_name);
    name.ok_or_else(|| start.expected("the name of a header field"))
}

impl Cursor<'_> {
    /// Reads `nz-number ":" nz-number`, or both negative (RFC 9394 §4), the number that is nearer
    /// to its end of the results first.
    pub(super) fn partial_range(&mut self) -> Parsed<(i64, i64)> {
        let start = self.clone();
        let mut number = || {
            let sign = if self.eat(b'-') { -1 } else { 1 };
            Ok(sign * i64::from(self.positive()?))
        };
        let first: i64 = number()?;
        if !self.eat(b':') {
            return Err(self.expected(":"));
        }
        let mut number = || {
            let sign = if self.eat(b'-') { -1 } else { 1 };
            Ok::<_, ParseError>(sign * i64::from(self.positive()?))
        };
        let last = number()?;
        if (first < 0) != (last < 0) {
            return Err(start.expected("a range with ends of one sign"));
        }
        Ok(if first.abs() <= last.abs() { (first, last) } else { (last, first) })
    }
}
