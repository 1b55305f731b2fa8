//! UIDs, ranges of UIDs, and `*` on the command line.

use std::str::FromStr;

use barid::{Mailbox, Uid};

/// `UID`, `FIRST:LAST`, or `*` for the last message in place of either (RFC 9051 §9, `seq-range`).
///
/// Unlike in IMAP, a range that begins after the last message (`4711:*` if 4710 is the last) is
/// empty: a range meant for new mail must not select the last existing message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UidRange {
    /// `None` stands for `*`.
    first: Option<Uid>,
    last: Option<Uid>,
}

impl FromStr for UidRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once(':').unwrap_or((text, text));
        Ok(Self { first: parse_end(first)?, last: parse_end(last)? })
    }
}

fn parse_end(text: &str) -> Result<Option<Uid>, String> {
    if text == "*" {
        return Ok(None);
    }
    let uid = text.parse().ok().and_then(Uid::new).map(Some);
    uid.ok_or_else(|| "a UID is a number from 1 to 4294967295, or * for the last".to_owned())
}

/// Ranges separated by commas, or `all`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UidRanges(Vec<UidRange>);

impl FromStr for UidRanges {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("all") {
            return Ok(Self(vec![UidRange { first: Uid::new(1), last: None }]));
        }
        let ranges = text.split(',').map(str::parse).collect::<Result<_, String>>();
        ranges.map(Self).map_err(|error| format!("{error}; `all` for every message"))
    }
}

/// The messages that ranges select.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SelectedUids {
    /// Existing UIDs; ascending and unique, unless the order of the command line was asked for.
    pub(crate) uids: Vec<Uid>,
    /// UIDs that were named individually and do not exist, in the order given.
    pub(crate) missing: Vec<Uid>,
}

impl UidRanges {
    /// Returns `true` if UIDs are named, not just all messages.
    pub(crate) fn names_uids(&self) -> bool {
        let all = UidRange { first: Uid::new(1), last: None };
        self.0.iter().any(|range| *range != all)
    }

    /// Returns the ranges of several lists.
    pub(crate) fn joined(lists: Vec<Self>) -> Self {
        Self(lists.into_iter().flat_map(|list| list.0).collect())
    }

    /// Finds the messages in the order of the ranges, each as often as it is named.
    pub(crate) fn select_in_order(&self, mailbox: &Mailbox) -> barid::Result<SelectedUids> {
        let mut selected = SelectedUids::default();
        for range in &self.0 {
            let found = range.select(mailbox)?;
            selected.missing.extend(found.missing);
            for row in found.rows {
                selected.uids.push(mailbox.uid_of(row)?);
            }
        }
        Ok(selected)
    }

    /// Finds the messages.
    pub(crate) fn select(&self, mailbox: &Mailbox) -> barid::Result<SelectedUids> {
        let mut selected = SelectedUids::default();
        let mut rows = Vec::with_capacity(self.0.len());
        for range in &self.0 {
            let found = range.select(mailbox)?;
            selected.missing.extend(found.missing);
            rows.push(found.rows);
        }
        rows.sort_unstable_by_key(|rows| rows.start);
        let mut next = 0;
        for range in rows {
            for row in range.start.max(next)..range.end {
                selected.uids.push(mailbox.uid_of(row)?);
            }
            next = next.max(range.end);
        }
        Ok(selected)
    }
}

/// The messages that a range selects in a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selected {
    /// The rows, ascending.
    pub(crate) rows: std::ops::Range<u32>,
    /// The UID that was named individually and does not exist.
    pub(crate) missing: Option<Uid>,
}

impl UidRange {
    /// Finds the rows of the messages in the range, with two binary searches.
    pub(crate) fn select(self, mailbox: &Mailbox) -> barid::Result<Selected> {
        self.select_with(mailbox.len(), &|row| mailbox.uid_of(row))
    }

    fn select_with(
        self,
        len: u32,
        uid_of: &dyn Fn(u32) -> barid::Result<Uid>,
    ) -> barid::Result<Selected> {
        let Some(last_row) = len.checked_sub(1) else {
            return Ok(Selected { rows: 0..0, missing: self.single() });
        };
        let newest = uid_of(last_row)?;
        if let (Some(uid), None) | (None, Some(uid)) = (self.first, self.last)
            && uid > newest
        {
            return Ok(Selected { rows: len..len, missing: None });
        }
        let ends = (self.first.unwrap_or(newest), self.last.unwrap_or(newest));
        let (low, high) = (ends.0.min(ends.1), ends.0.max(ends.1));
        let start = partition(len, &|row| Ok(uid_of(row)? < low))?;
        let end = partition(len, &|row| Ok(uid_of(row)? <= high))?;
        let missing = if start == end { self.single() } else { None };
        Ok(Selected { rows: start..end, missing })
    }

    fn single(self) -> Option<Uid> {
        self.first.filter(|first| self.last == Some(*first))
    }
}

/// Returns the first of `len` ascending rows for which `before` returns `false`.
fn partition(len: u32, before: &dyn Fn(u32) -> barid::Result<bool>) -> barid::Result<u32> {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(range: &str, rows: std::ops::Range<u32>, missing: Option<u32>) {
        let uids = [2, 3, 5, 9];
        let range: UidRange = range.parse().unwrap();
        let selected = range.select_with(4, &|row| Ok(Uid::new(uids[row as usize]).unwrap()));
        assert_eq!(selected.unwrap(), Selected { rows, missing: missing.and_then(Uid::new) });
    }

    #[test]
    fn ranges_select_rows() {
        check("3", 1..2, None);
        check("4", 2..2, Some(4));
        check("1:4", 0..2, None);
        check("5:3", 1..3, None);
        check("*", 3..4, None);
        check("5:*", 2..4, None);
        check("9:*", 3..4, None);
        check("*:10", 4..4, None);
        check("10:*", 4..4, None);
        check("6:8", 3..3, None);
        check("1:4294967295", 0..4, None);
    }

    #[test]
    fn an_empty_mailbox_has_none() {
        for (range, missing) in [("*", None), ("1:*", None), ("7", Uid::new(7))] {
            let range: UidRange = range.parse().unwrap();
            let selected = range.select_with(0, &|_| unreachable!("because there is no row"));
            assert_eq!(selected.unwrap(), Selected { rows: 0..0, missing });
        }
    }

    #[test]
    fn ranges_are_joined_by_commas() {
        let ranges: UidRanges = "3,5:*".parse().unwrap();
        let parsed = |text: &str| text.parse::<UidRange>().unwrap();
        assert_eq!(ranges.0, [parsed("3"), parsed("5:*")]);
        assert_eq!("ALL".parse::<UidRanges>().unwrap().0, [parsed("1:*")]);
        for text in ["", ",", "1,", "1,x", "every"] {
            let error = text.parse::<UidRanges>().unwrap_err();
            assert!(error.contains("1 to 4294967295") && error.contains("all"), "{error}");
        }
    }

    #[test]
    fn what_is_no_uid_is_refused() {
        for text in ["", "0", "-1", "x", "1:", ":", "1:0", "4294967296", "1,2"] {
            assert!(text.parse::<UidRange>().is_err(), "{text:?}");
        }
    }
}
