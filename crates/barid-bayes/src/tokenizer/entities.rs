//! The named characters of HTML 4 that mail uses: letters, marks and spaces.

/// Names and code points, in the order of the names.
#[rustfmt::skip]
static NAMES: [(&str, u16); 133] = [
    ("AElig", 0xC6), ("Aacute", 0xC1), ("Acirc", 0xC2), ("Agrave", 0xC0), ("Aring", 0xC5),
    ("Atilde", 0xC3), ("Auml", 0xC4), ("Ccedil", 0xC7), ("Dagger", 0x2021), ("ETH", 0xD0),
    ("Eacute", 0xC9), ("Ecirc", 0xCA), ("Egrave", 0xC8), ("Euml", 0xCB), ("Iacute", 0xCD),
    ("Icirc", 0xCE), ("Igrave", 0xCC), ("Iuml", 0xCF), ("Ntilde", 0xD1), ("OElig", 0x152),
    ("Oacute", 0xD3), ("Ocirc", 0xD4), ("Ograve", 0xD2), ("Oslash", 0xD8), ("Otilde", 0xD5),
    ("Ouml", 0xD6), ("Scaron", 0x160), ("THORN", 0xDE), ("Uacute", 0xDA), ("Ucirc", 0xDB),
    ("Ugrave", 0xD9), ("Uuml", 0xDC), ("Yacute", 0xDD), ("Yuml", 0x178), ("aacute", 0xE1),
    ("acirc", 0xE2), ("acute", 0xB4), ("aelig", 0xE6), ("agrave", 0xE0), ("amp", 0x26),
    ("aring", 0xE5), ("atilde", 0xE3), ("auml", 0xE4), ("bdquo", 0x201E), ("brvbar", 0xA6),
    ("bull", 0x2022), ("ccedil", 0xE7), ("cedil", 0xB8), ("cent", 0xA2), ("circ", 0x2C6),
    ("copy", 0xA9), ("curren", 0xA4), ("dagger", 0x2020), ("deg", 0xB0), ("divide", 0xF7),
    ("eacute", 0xE9), ("ecirc", 0xEA), ("egrave", 0xE8), ("emsp", 0x2003), ("ensp", 0x2002),
    ("eth", 0xF0), ("euml", 0xEB), ("euro", 0x20AC), ("fnof", 0x192), ("frac12", 0xBD),
    ("frac14", 0xBC), ("frac34", 0xBE), ("gt", 0x3E), ("hellip", 0x2026), ("iacute", 0xED),
    ("icirc", 0xEE), ("iexcl", 0xA1), ("igrave", 0xEC), ("iquest", 0xBF), ("iuml", 0xEF),
    ("laquo", 0xAB), ("ldquo", 0x201C), ("lrm", 0x200E), ("lsaquo", 0x2039), ("lsquo", 0x2018),
    ("lt", 0x3C), ("macr", 0xAF), ("mdash", 0x2014), ("micro", 0xB5), ("middot", 0xB7),
    ("minus", 0x2212), ("nbsp", 0xA0), ("ndash", 0x2013), ("not", 0xAC), ("ntilde", 0xF1),
    ("oacute", 0xF3), ("ocirc", 0xF4), ("oelig", 0x153), ("ograve", 0xF2), ("ordf", 0xAA),
    ("ordm", 0xBA), ("oslash", 0xF8), ("otilde", 0xF5), ("ouml", 0xF6), ("para", 0xB6),
    ("permil", 0x2030), ("plusmn", 0xB1), ("pound", 0xA3), ("quot", 0x22), ("raquo", 0xBB),
    ("rdquo", 0x201D), ("reg", 0xAE), ("rlm", 0x200F), ("rsaquo", 0x203A), ("rsquo", 0x2019),
    ("sbquo", 0x201A), ("scaron", 0x161), ("sect", 0xA7), ("shy", 0xAD), ("sup1", 0xB9),
    ("sup2", 0xB2), ("sup3", 0xB3), ("szlig", 0xDF), ("thinsp", 0x2009), ("thorn", 0xFE),
    ("tilde", 0x2DC), ("times", 0xD7), ("trade", 0x2122), ("uacute", 0xFA), ("ucirc", 0xFB),
    ("ugrave", 0xF9), ("uml", 0xA8), ("uuml", 0xFC), ("yacute", 0xFD), ("yen", 0xA5),
    ("yuml", 0xFF), ("zwj", 0x200D), ("zwnj", 0x200C),
];

/// Longest name.
pub(super) const NAME_LEN_MAX: usize = 8;

/// Returns the character of a named character reference; names are case-sensitive.
pub(super) fn named(name: &[u8]) -> Option<char> {
    let name = std::str::from_utf8(name).ok()?;
    let index = NAMES.binary_search_by(|(known, _)| known.cmp(&name)).ok()?;
    char::from_u32(u32::from(NAMES[index].1))
}

/// Returns the character of a numeric character reference; U+FFFD for 0, surrogates and numbers
/// above 0x10FFFF, as HTML does.
pub(super) fn numbered(number: u32) -> char {
    char::from_u32(number).filter(|_| number != 0).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        assert!(NAMES.is_sorted_by_key(|(name, _)| name));
        assert!(NAMES.iter().all(|(name, _)| name.len() <= NAME_LEN_MAX));
        assert_eq!(named(b"eacute"), Some('é'));
        assert_eq!(named(b"Eacute"), Some('É'));
        assert_eq!(named(b"nbsp"), Some('\u{A0}'));
        assert_eq!(named(b"none"), None);
        assert_eq!(numbered(0x110000), '\u{FFFD}');
    }
}
