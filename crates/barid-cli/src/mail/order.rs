//! The order in which messages are printed.

use barid::{Mailbox, SortKey, SortProgram, Sorted, Window};
use clap::Args;

use crate::exit::WithHint;

/// The options of the order.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OrderArgs {
    /// Sort by KEY; if given more than once, the first takes precedence
    ///
    /// KEY is one of arrival, cc, date, from, size, subject, to (RFC 5256), displayfrom, displayto
    /// (RFC 5957). `reverse:KEY` reverses the order of that key. `barid search` also has
    /// `relevance`, alone: the best match for the texts of the query first, of equal ones the
    /// newest.
    #[arg(short, long, value_name = "KEY", value_parser = parse_key)]
    sort: Vec<Key>,
    /// Show only the last N of that order: the newest, by default; by relevance the best N
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u32>,
    /// Show them in the opposite order: the last comes first
    #[arg(short, long)]
    reverse: bool,
}

/// A key of `--sort`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    /// A sort key, and `true` if its order is reversed.
    Sort(SortKey, bool),
    /// The relevance to the texts of a query.
    Relevance,
}

fn parse_key(text: &str) -> Result<Key, String> {
    let relevance = "relevance";
    if text.eq_ignore_ascii_case(relevance) {
        return Ok(Key::Relevance);
    }
    let reversed = text.split_once(':').filter(|(word, _)| word.eq_ignore_ascii_case("reverse"));
    if reversed.is_some_and(|(_, key)| key.eq_ignore_ascii_case(relevance)) {
        return Err("the best match comes first by `relevance`, and last with --reverse".to_owned());
    }
    let explain = |error| {
        format!(
            "{error}; the keys are {}, each also as reverse:KEY, and for searches relevance",
            SortKey::ALL.map(SortKey::name).join(", ")
        )
    };
    let mut program = SortProgram::parse([text]).map_err(explain)?;
    program.0.pop().map(|(key, reverse)| Key::Sort(key, reverse)).ok_or_else(|| "no key".to_owned())
}

impl OrderArgs {
    /// Returns `true` if the order is not that of the mailbox.
    pub(crate) fn is_given(&self) -> bool {
        !self.sort.is_empty() || self.reverse
    }

    /// Returns `true` if messages are to be sorted by something.
    pub(crate) fn has_keys(&self) -> bool {
        !self.sort.is_empty()
    }

    /// Returns `true` if messages are to be sorted by relevance, the best first.
    ///
    /// # Errors
    ///
    /// Returns an error if they are to be sorted by something else, too.
    pub(crate) fn is_by_relevance(&self) -> anyhow::Result<bool> {
        match &self.sort[..] {
            [Key::Relevance] => Ok(true),
            keys if keys.contains(&Key::Relevance) => Err(WithHint::error(
                "--sort relevance stands alone",
                "of messages that are equally relevant, the newest comes first",
            )),
            _ => Ok(false),
        }
    }

    /// Checks that the order is one of messages that are listed.
    ///
    /// # Errors
    ///
    /// Returns an error for an order by relevance, which needs a search.
    pub(crate) fn check_listing(&self) -> anyhow::Result<()> {
        match self.sort.contains(&Key::Relevance) {
            false => Ok(()),
            true => Err(WithHint::error(
                "only a search sorts by relevance",
                "`barid search --sort relevance --list MAILBOX QUERY` lists what it finds",
            )),
        }
    }

    /// Returns `true` if RFC822.SIZE is needed.
    pub(crate) fn asks_size(&self) -> bool {
        self.sort.iter().any(|key| matches!(key, Key::Sort(SortKey::Size, _)))
    }

    /// Returns the sort program, by arrival without one.
    pub(crate) fn program(&self) -> SortProgram {
        let key = |key: &Key| match key {
            Key::Sort(key, reverse) => Some((*key, *reverse)),
            Key::Relevance => None,
        };
        match self.sort.is_empty() {
            true => SortProgram(vec![(SortKey::Arrival, false)]),
            false => SortProgram(self.sort.iter().filter_map(key).collect()),
        }
    }

    /// Returns the rows of the whole mailbox, by arrival unless another order is asked for; with
    /// `first`, only as many from its beginning.
    pub(crate) fn all(&self, mailbox: &mut Mailbox, first: Option<u32>) -> barid::Result<Sorted> {
        let window = match (self.limit, first) {
            (Some(last), _) => Window::Last(last),
            (None, Some(first)) => Window::First(first),
            (None, None) => Window::All,
        };
        let mut sorted = mailbox.sorted(&self.program(), window)?;
        if self.reverse {
            sorted.rows.reverse();
        }
        Ok(sorted)
    }

    /// Orders ascending rows as [`OrderArgs::all`] does.
    pub(crate) fn among(
        &self,
        mailbox: &Mailbox,
        rows: &[u32],
        first: Option<u32>,
    ) -> barid::Result<Sorted> {
        let mut sorted = mailbox.sorted_among(&self.program(), rows)?;
        if let Some(first) = first {
            sorted.rows.truncate(first as usize);
        }
        self.finish(&mut sorted.rows);
        Ok(sorted)
    }

    /// Leaves the beginning of an order by relevance, and turns it round if that is asked for.
    pub(crate) fn finish_best<T>(&self, messages: &mut Vec<T>) {
        messages.truncate(self.limit.map_or(usize::MAX, |limit| limit as usize));
        if self.reverse {
            messages.reverse();
        }
    }

    /// Leaves the wanted end of an order, and turns it round if that is asked for.
    pub(crate) fn finish<T>(&self, messages: &mut Vec<T>) {
        if let Some(limit) = self.limit {
            let rest = messages.len().saturating_sub(limit as usize);
            messages.drain(..rest);
        }
        if self.reverse {
            messages.reverse();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(limit: Option<u32>, reverse: bool, expected: &[u32]) {
        let order = OrderArgs { limit, reverse, ..OrderArgs::default() };
        let mut rows = vec![1, 2, 3, 4];
        order.finish(&mut rows);
        assert_eq!(rows, expected);
    }

    #[test]
    fn the_newest_are_left_and_may_come_first() {
        check(None, false, &[1, 2, 3, 4]);
        check(Some(2), false, &[3, 4]);
        check(Some(2), true, &[4, 3]);
        check(Some(9), true, &[4, 3, 2, 1]);
        check(Some(0), false, &[]);
    }

    #[test]
    fn the_best_are_left_and_may_come_last() {
        let check = |limit, reverse, expected: &[u32]| {
            let order = OrderArgs { limit, reverse, ..OrderArgs::default() };
            let mut rows = vec![1, 2, 3, 4];
            order.finish_best(&mut rows);
            assert_eq!(rows, expected);
        };
        check(None, false, &[1, 2, 3, 4]);
        check(Some(2), false, &[1, 2]);
        check(Some(2), true, &[2, 1]);
        check(Some(0), false, &[]);
    }

    #[test]
    fn relevance_is_a_key_of_its_own() {
        let order = |keys: &[&str]| {
            let sort = keys.iter().map(|key| parse_key(key).unwrap()).collect();
            OrderArgs { sort, ..OrderArgs::default() }
        };
        let is_by_relevance = |keys: &[&str]| order(keys).is_by_relevance();
        assert!(!is_by_relevance(&[]).unwrap() && !order(&[]).has_keys());
        assert!(is_by_relevance(&["Relevance"]).unwrap());
        let from = order(&["reverse:from"]);
        assert!(!from.is_by_relevance().unwrap() && from.has_keys());
        assert_eq!(from.program(), SortProgram(vec![(SortKey::From, true)]));
        assert!(is_by_relevance(&["relevance", "date"]).is_err());
        assert!(is_by_relevance(&["date", "relevance"]).is_err());
        assert!(parse_key("reverse:relevance").unwrap_err().contains("--reverse"));
        assert!(parse_key("age").unwrap_err().contains("relevance"));
    }
}
