//! The value of a token in bogofilter's record format.

use crate::TokenEntry;

/// The byte order of numbers: that of the machine that created the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

impl Order {
    /// The byte order of this machine.
    pub(crate) const HERE: Self =
        if cfg!(target_endian = "big") { Self::Big } else { Self::Little };

    /// Returns the opposite byte order.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Little => Self::Big,
            Self::Big => Self::Little,
        }
    }

    /// Appends a value; without the date if that is 0.
    pub(crate) fn put(self, bytes: &mut Vec<u8>, entry: TokenEntry) {
        let numbers = [entry.spam, entry.ham, entry.date];
        let len = if entry.date == 0 { 2 } else { 3 };
        for number in &numbers[..len] {
            bytes.extend_from_slice(&match self {
                Self::Little => number.to_le_bytes(),
                Self::Big => number.to_be_bytes(),
            });
        }
    }

    /// Reads a value; missing numbers are 0.
    pub(crate) fn take(self, bytes: &[u8]) -> TokenEntry {
        let number = |nth: usize| {
            let number = bytes.get(nth * 4..).and_then(|rest| rest.first_chunk());
            number.map_or(0, |number| match self {
                Self::Little => u32::from_le_bytes(*number),
                Self::Big => u32::from_be_bytes(*number),
            })
        };
        TokenEntry { spam: number(0), ham: number(1), date: number(2) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let check = |order: Order, entry: TokenEntry, expected: &[u8]| {
            let mut bytes = Vec::new();
            order.put(&mut bytes, entry);
            assert_eq!(bytes, expected);
            assert_eq!(order.take(&bytes), entry);
        };
        let entry = |spam, ham, date| TokenEntry { spam, ham, date };
        check(Order::Little, entry(1, 2, 3), &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
        check(Order::Big, entry(1, 2, 3), &[0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]);
        check(Order::Little, entry(1, 2, 0), &[1, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(Order::Little.take(&[5, 0, 0, 0]), entry(5, 0, 0));
        assert_eq!(Order::Little.take(&[5, 0]), entry(0, 0, 0));
    }
}
