//! Deltas of packs (gitformat-pack(5), "Deltified representation").

/// Reads a size at the beginning of a delta; returns it and the rest.
fn size(delta: &[u8]) -> Option<(u64, &[u8])> {
    let (mut size, mut rest) = (0_u64, delta);
    for shift in (0..63).step_by(7) {
        let (byte, after) = rest.split_first()?;
        rest = after;
        size |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((size, rest));
        }
    }
    None
}

/// Returns the sizes of base and result, with which a delta begins.
pub(super) fn sizes(delta: &[u8]) -> Option<(u64, u64)> {
    let (base, rest) = size(delta)?;
    let (result, _) = size(rest)?;
    Some((base, result))
}

/// Applies a delta to its base. Returns `None` if it is damaged, or does not belong to the base.
/// The caller has checked the size of the result ([`sizes`]).
pub(super) fn apply(base: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let (base_len, rest) = size(delta)?;
    let (result_len, mut rest) = size(rest)?;
    if base_len != base.len() as u64 {
        return None;
    }
    let result_len = usize::try_from(result_len).ok()?;
    let mut result = Vec::with_capacity(result_len);
    while let Some((op, after)) = rest.split_first() {
        rest = after;
        let piece = if op & 0x80 != 0 {
            let mut number = |first: u32, count: u32| -> Option<usize> {
                let mut value = 0_usize;
                for at in 0..count {
                    if op >> (first + at) & 1 != 0 {
                        let (byte, after) = rest.split_first()?;
                        rest = after;
                        value |= usize::from(*byte) << (8 * at);
                    }
                }
                Some(value)
            };
            let (offset, len) = (number(0, 4)?, number(4, 3)?);
            let len = if len == 0 { 0x1_0000 } else { len };
            base.get(offset..offset.checked_add(len)?)?
        } else {
            let len = usize::from(*op);
            // 0 is reserved.
            let (piece, after) = rest.split_at_checked(len).filter(|_| len > 0)?;
            rest = after;
            piece
        };
        if piece.len() > result_len - result.len() {
            return None;
        }
        result.extend_from_slice(piece);
    }
    (result.len() == result_len).then_some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(delta: &[u8], expected: Option<&[u8]>) {
        assert_eq!(apply(b"0123456789", delta).as_deref(), expected, "{delta:?}");
    }

    #[test]
    fn pieces_are_copied_and_inserted() {
        check(b"\x0a\x05\x91\x02\x03\x02ab", Some(b"234ab"));
        check(b"\x0a\x00", Some(b""));
        assert_eq!(sizes(b"\x8a\x01\x05rest"), Some((138, 5)));
    }

    #[test]
    fn a_damaged_delta_is_refused() {
        check(b"", None);
        check(b"\x0b\x05\x91\x02\x05", None);
        check(b"\x0a\x05\x91\x08\x05", None);
        check(b"\x0a\x02\x91\x02\x05", None);
        check(b"\x0a\x06\x91\x02\x05", None);
        check(b"\x0a\x05\x05abc", None);
        check(b"\x0a\x05\x00", None);
        check(b"\x0a\x05\x91\x02", None);
        check(&[0xff; 12], None);
    }
}
