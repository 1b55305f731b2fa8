//! Names of the C library for charsets that `encoding_rs` has by other names.

use encoding_rs::{
    BIG5, EUC_JP, EUC_KR, Encoding, GB18030, GBK, ISO_2022_JP, ISO_8859_2, ISO_8859_3, ISO_8859_4,
    ISO_8859_5, ISO_8859_6, ISO_8859_7, ISO_8859_8, ISO_8859_10, ISO_8859_13, ISO_8859_14,
    ISO_8859_15, ISO_8859_16, KOI8_R, KOI8_U, SHIFT_JIS, UTF_16BE, UTF_16LE, WINDOWS_874,
    WINDOWS_1250, WINDOWS_1251, WINDOWS_1252, WINDOWS_1253, WINDOWS_1254, WINDOWS_1255,
    WINDOWS_1256, WINDOWS_1257, X_MAC_CYRILLIC,
};

/// Longest name that can match, in bytes.
const NAME_LEN_MAX: usize = 40;

/// Returns a name in upper case; `None` if no charset has such a name.
pub(crate) fn upper(name: &[u8]) -> Option<String> {
    let is_name = name.len() <= NAME_LEN_MAX && name.is_ascii();
    is_name.then(|| String::from_utf8_lossy(name.trim_ascii()).to_ascii_uppercase())
}

/// Returns the encoding that the C library, or else mail, means by a name that the WHATWG does not
/// know; in any case.
pub fn encoding_named(name: &[u8]) -> Option<&'static Encoding> {
    let name = upper(name)?;
    let found = NAMES.iter().find(|(names, _)| names.contains(&&*name));
    found.map(|(_, encoding)| *encoding)
}

/// Names in upper case, and their encodings.
static NAMES: [(&[&str], &Encoding); 34] = [
    (
        &["CP932", "CSWINDOWS31J", "IBM943", "MS-KANJI", "SHIFTJIS", "SJIS-OPEN", "SJIS-WIN"],
        SHIFT_JIS,
    ),
    (&["EUCJP", "UJIS", "EUC-JP-MS", "EUCJP-MS", "EUCJP-OPEN", "EUCJP-WIN"], EUC_JP),
    (&["ISO2022JP"], ISO_2022_JP),
    (&["CP949", "MSCP949", "UHC", "EUCKR", "WINDOWS-949-2000", "OSF100203B5"], EUC_KR),
    (&["CP950", "BIG-5", "BIG-FIVE", "BIGFIVE", "BIG5HKSCS", "MS950", "WINDOWS-950"], BIG5),
    (&["CP936", "MS936", "WINDOWS-936", "EUC-CN", "EUCCN", "CN-GB", "GB", "GB13000"], GBK),
    (&["CP54936", "GB-18030"], GB18030),
    (&["874", "CP874", "IBM874", "TIS620", "TIS620-0", "TIS620.2529-1", "ISO-IR-166"], WINDOWS_874),
    (&["MS-EE", "CP-1250"], WINDOWS_1250),
    (&["MS-CYRL", "CP-1251", "WIN-1251", "WINDOWS1251"], WINDOWS_1251),
    (
        &[
            "MS-ANSI",
            "CP-1252",
            "WINDOWS1252",
            "CP367",
            "IBM367",
            "US",
            "ISO646-US",
            "CSASCII",
            "ISO-IR-6",
            "ISO_646.IRV:1991",
            "ANSI_X3.4-1986",
            "ANSI_X3.4",
            "8859_1",
        ],
        WINDOWS_1252,
    ),
    (&["MS-GREEK"], WINDOWS_1253),
    (&["MS-TURK", "8859_9", "CP920", "IBM920", "TS-5881", "ECMA-128"], WINDOWS_1254),
    (&["MS-HEBR"], WINDOWS_1255),
    (&["MS-ARAB"], WINDOWS_1256),
    (&["WINBALTRIM"], WINDOWS_1257),
    (&["8859_2", "CP912", "IBM912"], ISO_8859_2),
    (&["8859_3"], ISO_8859_3),
    (&["8859_4"], ISO_8859_4),
    (&["8859_5", "CP915", "IBM915"], ISO_8859_5),
    (&["8859_6", "CP1089", "IBM1089"], ISO_8859_6),
    (&["8859_7", "CP813", "IBM813"], ISO_8859_7),
    (&["8859_8", "CP916", "IBM916"], ISO_8859_8),
    (&["ISO_8859-10", "ISO_8859-10:1992"], ISO_8859_10),
    (&["L7", "LATIN7", "ISO-IR-179", "BALTIC"], ISO_8859_13),
    (&["L8", "LATIN8", "ISO_8859-14", "ISO_8859-14:1998", "ISO-IR-199", "ISO-CELTIC"], ISO_8859_14),
    (&["LATIN9", "LATIN-9", "ISO_8859-15:1998", "ISO-IR-203"], ISO_8859_15),
    (
        &[
            "L10",
            "LATIN10",
            "ISO_8859-16",
            "ISO_8859-16:2001",
            "ISO8859-16",
            "ISO885916",
            "ISO-IR-226",
        ],
        ISO_8859_16,
    ),
    (&["KOI8R"], KOI8_R),
    (&["KOI8U"], KOI8_U),
    (&["UTF16LE", "UCS-2LE", "UNICODELITTLE"], UTF_16LE),
    (&["UTF16BE", "UCS-2BE", "UNICODEBIG"], UTF_16BE),
    (&["UTF16", "UCS2"], UTF_16LE),
    (&["MAC-CYRILLIC", "MACCYRILLIC", "MS-MAC-CYRILLIC", "CP10007"], X_MAC_CYRILLIC),
];
