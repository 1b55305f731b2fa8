//! Johab (KS X 1001:1998, annex 3): five bits for each letter of a syllable, and the symbols and
//! ideographs of KS X 1001.

/// The letters that begin a syllable, alone, in the order of their numbers.
const INITIALS: [u16; 19] = [
    0x3131, 0x3132, 0x3134, 0x3137, 0x3138, 0x3139, 0x3141, 0x3142, 0x3143, 0x3145, 0x3146, 0x3147,
    0x3148, 0x3149, 0x314A, 0x314B, 0x314C, 0x314D, 0x314E,
];

/// The letters that end a syllable, likewise.
const FINALS: [u16; 27] = [
    0x3131, 0x3132, 0x3133, 0x3134, 0x3135, 0x3136, 0x3137, 0x3139, 0x313A, 0x313B, 0x313C, 0x313D,
    0x313E, 0x313F, 0x3140, 0x3141, 0x3142, 0x3144, 0x3145, 0x3146, 0x3147, 0x3148, 0x314A, 0x314B,
    0x314C, 0x314D, 0x314E,
];

/// Decodes Johab to the end of `out`.
pub(crate) fn decode(bytes: &[u8], out: &mut String) {
    let mut rest = bytes;
    while let Some((&lead, after)) = rest.split_first() {
        rest = after;
        if lead < 0x80 {
            out.push(if lead == b'\\' { '\u{20a9}' } else { char::from(lead) });
            continue;
        }
        let pair = after.first().and_then(|trail| character(lead, *trail));
        if pair.is_some() {
            rest = &after[1..];
        }
        out.push(pair.unwrap_or(char::REPLACEMENT_CHARACTER));
    }
}

fn character(lead: u8, trail: u8) -> Option<char> {
    match lead {
        0x84..=0xD3 => syllable(lead, trail),
        0xD9..=0xDE | 0xE0..=0xF9 => of_ks_x_1001(lead, trail),
        _ => None,
    }
}

/// Decodes a syllable, or a letter that stands alone.
fn syllable(lead: u8, trail: u8) -> Option<char> {
    let bits = u16::from_be_bytes([lead, trail]);
    // 0 means that the letter is absent; letters count from 1.
    let initial = match bits >> 10 & 31 {
        number @ 1..=20 => number - 1,
        _ => return None,
    };
    let medial = match bits >> 5 & 31 {
        2 => 0,
        number @ 3..=7 => number - 2,
        number @ 10..=15 => number - 4,
        number @ 18..=23 => number - 6,
        number @ 26..=29 => number - 8,
        _ => return None,
    };
    let last = match bits & 31 {
        number @ 1..=17 => number - 1,
        number @ 19..=29 => number - 2,
        _ => return None,
    };
    let code = match (initial, medial, last) {
        (1.., 1.., _) => 0xAC00 + ((initial - 1) * 21 + medial - 1) * 28 + last,
        (1.., 0, 0) => INITIALS[usize::from(initial - 1)],
        (0, 1.., 0) => 0x314E + medial,
        (0, 0, 1..) => FINALS[usize::from(last - 1)],
        _ => return None,
    };
    char::from_u32(code.into())
}

/// Decodes a symbol or an ideograph: two rows of KS X 1001 share a lead byte.
fn of_ks_x_1001(lead: u8, trail: u8) -> Option<char> {
    let place = match trail {
        0x31..=0x7E => trail - 0x31,
        0x91..=0xFE => trail - 0x43,
        _ => return None,
    };
    // The letters are encoded as syllables instead.
    if lead == 0xDA && matches!(trail, 0xA1..=0xD3) {
        return None;
    }
    let row = match lead {
        0xE0.. => 2 * (lead - 0xE0) + 0x4A,
        _ => 2 * (lead - 0xD9) + 0x21,
    };
    let (row, cell) = if place < 94 { (row, place) } else { (row + 1, place - 94) };
    crate::ks_x_1001(row | 0x80, (cell + 0x21) | 0x80)
}
