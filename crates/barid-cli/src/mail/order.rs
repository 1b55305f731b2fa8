//! The order in which messages are printed.

use barid::{Mailbox, SortKey, SortProgram, Sorted, Window};
use clap::Args;

/// The options of the order.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OrderArgs {
    /// Sort by KEY; if given more than once, the first takes precedence
    ///
    /// KEY is one of arrival, cc, date, from, size, subject, to (RFC 5256), displayfrom, displayto
    /// (RFC 5957). `reverse:KEY` reverses the order of that key.
    #[arg(short, long, value_name = "KEY", value_parser = parse_key)]
    sort: Vec<(SortKey, bool)>,
    /// Show only the last N of that order: the newest, by default
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u32>,
    /// Show them in the opposite order: the last comes first
    #[arg(short, long)]
    reverse: bool,
}

/// The sort keys, as in the help of `--sort`.
pub(crate) const SORT_KEYS: [&str; 9] =
    ["arrival", "cc", "date", "from", "size", "subject", "to", "displayfrom", "displayto"];

fn parse_key(text: &str) -> Result<(SortKey, bool), String> {
    let explain =
        |error| format!("{error}; the keys are {}, each also as reverse:KEY", SORT_KEYS.join(", "));
    let mut program = SortProgram::parse([text]).map_err(explain)?;
    program.0.pop().ok_or_else(|| "no key".to_owned())
}

impl OrderArgs {
    /// Returns `true` if the order is not that of the mailbox.
    pub(crate) fn is_given(&self) -> bool {
        !self.sort.is_empty() || self.reverse
    }

    /// Returns the sort program; `None` for the order of the mailbox.
    pub(crate) fn program(&self) -> Option<SortProgram> {
        (!self.sort.is_empty()).then(|| SortProgram(self.sort.clone()))
    }

    /// Returns the rows of the whole mailbox, by arrival unless another order is asked for; with
    /// `first`, only as many from its beginning.
    pub(crate) fn all(&self, mailbox: &mut Mailbox, first: Option<u32>) -> barid::Result<Sorted> {
        let window = match (self.limit, first) {
            (Some(last), _) => Window::Last(last),
            (None, Some(first)) => Window::First(first),
            (None, None) => Window::All,
        };
        let mut sorted = mailbox.sorted(&self.program().unwrap_or_else(by_arrival), window)?;
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
        let program = self.program().unwrap_or_else(by_arrival);
        let mut sorted = mailbox.sorted_among(&program, rows)?;
        if let Some(first) = first {
            sorted.rows.truncate(first as usize);
        }
        self.finish(&mut sorted.rows);
        Ok(sorted)
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

fn by_arrival() -> SortProgram {
    SortProgram(vec![(SortKey::Arrival, false)])
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
}
