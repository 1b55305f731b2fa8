//! STORE, COPY, MOVE, UID EXPUNGE and UIDBATCHES, and the values that they are made of.

use barid_query::search::NumberSet;
use barid_types::{CivilDay, Flag, InternalDate, Keyword};

use super::cursor::is_astring_char;
use super::{Cursor, ParseError, Parsed};
use crate::command::{Command, FlagList, MessageSet, StoreCommand, StoreHow};
use crate::limits::{LIST_LEN_MAX, SET_RANGES_MAX};

/// Parses `sequence-set [SP "(" "UNCHANGEDSINCE" SP mod-sequence-valzer ")"] SP
/// ["+" / "-"] "FLAGS" [".SILENT"] SP (flag-list / (flag *(SP flag)))` (RFC 9051 §6.4.6,
/// RFC 7162 §7).
pub(super) fn store(cursor: &mut Cursor<'_>, uid: bool) -> Parsed<Command> {
    let set = cursor.message_set(uid)?;
    cursor.space()?;
    let mut unchanged_since = None;
    if cursor.peek() == Some(b'(') {
        cursor.list(false, |cursor| match cursor.word("UNCHANGEDSINCE")?.as_str() {
            "UNCHANGEDSINCE" => {
                cursor.space()?;
                unchanged_since = Some(cursor.modseq()?);
                Ok(())
            }
            name => Err(ParseError::new(format!("Unknown modifier {name}."))),
        })?;
        cursor.space()?;
    }
    let start = cursor.clone();
    let how = match cursor.peek() {
        Some(b'+') => StoreHow::Add,
        Some(b'-') => StoreHow::Remove,
        _ => StoreHow::Replace,
    };
    cursor.skip(usize::from(how != StoreHow::Replace));
    let silent = match cursor.word("FLAGS")?.as_str() {
        "FLAGS" => false,
        "FLAGS.SILENT" => true,
        _ => return Err(start.expected("FLAGS, +FLAGS or -FLAGS")),
    };
    cursor.space()?;
    let FlagList { flags, keywords } = cursor.store_flags()?;
    let store = StoreCommand { set, how, silent, flags, keywords, unchanged_since };
    Ok(Command::Store(store))
}

/// Parses `sequence-set SP mailbox`.
pub(super) fn copy(cursor: &mut Cursor<'_>, uid: bool, moves: bool) -> Parsed<Command> {
    let set = cursor.message_set(uid)?;
    cursor.space()?;
    Ok(Command::Copy { set, mailbox: cursor.mailbox()?, moves })
}

/// Parses `sequence-set` (RFC 4315 §2.1).
pub(super) fn uid_expunge(cursor: &mut Cursor<'_>) -> Parsed<Command> {
    Ok(Command::Expunge(Some(cursor.message_set(true)?)))
}

/// Parses `nz-number [SP nz-number ":" nz-number]` (RFC 10022).
pub(super) fn uid_batches(cursor: &mut Cursor<'_>) -> Parsed<Command> {
    let size = cursor.positive()?;
    cursor.spaces();
    if cursor.is_end() {
        return Ok(Command::UidBatches(size, None));
    }
    let first = cursor.positive()?;
    let last = if cursor.eat(b':') { cursor.positive()? } else { first };
    Ok(Command::UidBatches(size, Some((first.min(last), first.max(last)))))
}

impl Cursor<'_> {
    /// Reads a number above 0.
    pub(super) fn positive(&mut self) -> Parsed<u32> {
        let start = self.clone();
        match self.number()? {
            0 => Err(start.expected("a number above 0")),
            number => Ok(number),
        }
    }

    /// Reads a set of numbers.
    pub(super) fn set(&mut self) -> Parsed<NumberSet> {
        let start = self.clone();
        let is_char = |byte: u8| byte.is_ascii_digit() || matches!(byte, b',' | b':' | b'*');
        let text = self.take_while(is_char);
        if text.iter().filter(|byte| **byte == b',').count() >= SET_RANGES_MAX {
            return Err(ParseError::new("The set has too many ranges."));
        }
        let set = std::str::from_utf8(text).ok().and_then(|text| NumberSet::parse(text).ok());
        set.ok_or_else(|| start.expected("a message set"))
    }

    /// Reads a set that contains one number.
    pub(in crate::wire) fn single_number(&mut self) -> Parsed<NumberSet> {
        let start = self.clone();
        let set = self.set()?;
        match start.rest()[..self.at() - start.at()].iter().any(|byte| b",:".contains(byte)) {
            true => Err(start.expected("one message number")),
            false => Ok(set),
        }
    }

    /// Reads `sequence-set / "$"`.
    pub(super) fn message_set(&mut self, uid: bool) -> Parsed<MessageSet> {
        if self.eat(b'$') {
            return Ok(MessageSet::Saved(uid));
        }
        let set = self.set()?;
        Ok(if uid { MessageSet::Uids(set) } else { MessageSet::Numbers(set) })
    }

    /// Reads `"(" [flag *(SP flag)] ")"`.
    pub(in crate::wire) fn flag_list(&mut self) -> Parsed<FlagList> {
        let mut flags = FlagList::default();
        self.list(false, |cursor| cursor.flag(&mut flags))?;
        Ok(flags)
    }

    /// Reads flags with or without parentheses.
    fn store_flags(&mut self) -> Parsed<FlagList> {
        if self.peek() == Some(b'(') {
            return self.flag_list();
        }
        let mut flags = FlagList::default();
        for _ in 0..LIST_LEN_MAX {
            self.flag(&mut flags)?;
            self.spaces();
            if self.is_end() {
                return Ok(flags);
            }
        }
        Err(ParseError::new("A list is too long."))
    }

    /// Reads a flag. \Recent is accepted and dropped: clients send back what they fetched.
    fn flag(&mut self, flags: &mut FlagList) -> Parsed<()> {
        let start = self.clone();
        let is_system = self.eat(b'\\');
        let name = self.take_while(|byte| is_astring_char(byte) && byte != b']');
        let name = std::str::from_utf8(name).map_err(|_| start.expected("a flag"))?;
        if !is_system {
            let keyword = Keyword::new(name).ok_or_else(|| start.expected("a flag"))?;
            if !flags.keywords.contains(&keyword) {
                flags.keywords.push(keyword);
            }
            return Ok(());
        }
        let is_named = |flag: &Flag| flag.name()[1..].eq_ignore_ascii_case(name);
        match Flag::ALL.into_iter().find(is_named) {
            Some(Flag::Recent) => {}
            Some(flag) => flags.add(flag),
            None => return Err(start.expected("a known system flag")),
        }
        Ok(())
    }

    /// Reads `DQUOTE date-day-fixed "-" date-month "-" date-year SP time SP zone DQUOTE`.
    pub(in crate::wire) fn date_time(&mut self) -> Parsed<InternalDate> {
        let start = self.clone();
        let text = self.string()?;
        let text = text.as_deref().and_then(|text| std::str::from_utf8(text).ok());
        text.and_then(date_time)
            .ok_or_else(|| start.expected("a date such as \"17-Jul-1996 02:44:25 -0700\""))
    }
}

/// Parses a date and time; `None` if it is not valid.
fn date_time(text: &str) -> Option<InternalDate> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let number = |text: &str, len: std::ops::RangeInclusive<usize>| -> Option<i64> {
        let is_number = len.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        if is_number { text.parse().ok() } else { None }
    };
    let mut words = text.trim_start().split(' ');
    let (date, time, zone) = (words.next()?, words.next()?, words.next()?);
    let mut date = date.split('-');
    let (day, month, year) = (date.next()?, date.next()?, date.next()?);
    let mut time = time.split(':');
    let (hour, minute, second) = (time.next()?, time.next()?, time.next()?);
    if words.next().is_some() || date.next().is_some() || time.next().is_some() {
        return None;
    }
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))? as u32 + 1;
    let day = number(day, 1..=2)? as u32;
    let days = CivilDay { year: number(year, 4..=4)?, month, day }.since_1970()?;
    let hour = number(hour, 2..=2).filter(|hour| *hour < 24)?;
    let minute = number(minute, 2..=2).filter(|minute| *minute < 60)?;
    // A leap second is the second before it.
    let second = number(second, 2..=2).filter(|second| *second <= 60)?.min(59);
    let (sign, zone) = match zone.as_bytes() {
        [b'+', ..] => (1, number(&zone[1..], 4..=4)?),
        [b'-', ..] => (-1, number(&zone[1..], 4..=4)?),
        _ => return None,
    };
    let zone_minutes = sign * (zone / 100 * 60 + zone % 100);
    if zone_minutes.abs() >= 24 * 60 {
        return None;
    }
    let local = days * 86_400 + hour * 3_600 + minute * 60 + second;
    let unix_seconds = local - zone_minutes * 60;
    Some(InternalDate { unix_seconds, zone_minutes: i16::try_from(zone_minutes).ok()? })
}
