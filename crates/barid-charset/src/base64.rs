//! The digits of base64 (RFC 4648 §4), for decoders of broken mail.
//!
//! Whole and sound texts are encoded and decoded by the crate `base64`. It rejects a text at the
//! first byte that is wrong, but mail readers go on: each in its own way, and barid in the way of
//! the reader with which it compares. So these decoders are written by hand, and share this table.

/// Returns a table with the value of every digit, and `other` for all bytes that are not digits.
pub const fn base64_values(other: u8) -> [u8; 256] {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut table = [other; 256];
    let mut value = 0;
    while value < digits.len() {
        table[digits[value] as usize] = value as u8;
        value += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use base64::alphabet::STANDARD;

    use super::*;

    #[test]
    fn the_digits_are_those_of_the_crate() {
        let values = base64_values(0xFF);
        for (value, digit) in STANDARD.as_str().bytes().enumerate() {
            assert_eq!(usize::from(values[usize::from(digit)]), value);
        }
        assert_eq!(values.iter().filter(|value| **value != 0xFF).count(), 64);
    }
}
