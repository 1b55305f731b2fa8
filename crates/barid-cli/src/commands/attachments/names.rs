//! Names of files for attachments. The sender chose the name; it may contain anything.

use crate::limits::FILE_NAME_LEN_MAX;
use crate::mail::save_folder::divided;
use crate::output::escape::steers;

/// Characters that separate folders or mean something on other systems or to shells.
const FORBIDDEN: [char; 14] =
    ['/', '\\', ':', '*', '?', '"', '<', '>', '|', '\'', '`', '$', '\u{2215}', '\u{2044}'];

/// Names of devices on Windows, which may own the folder that files are saved to.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// Endings of attachments without a name.
const ENDINGS: [(&str, &str); 12] = [
    ("application/pdf", "pdf"),
    ("application/zip", "zip"),
    ("application/pgp-signature", "asc"),
    ("application/pkcs7-signature", "p7s"),
    ("audio/mpeg", "mp3"),
    ("image/gif", "gif"),
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("message/rfc822", "eml"),
    ("text/calendar", "ics"),
    ("text/html", "html"),
    ("text/plain", "txt"),
];

/// Returns a name for a file that stays in its folder, is not hidden, no device and no option of a
/// program. It has the ending of `name`, and is made of `fallback` and the type if nothing else is
/// left.
pub(super) fn safe_name(name: Option<&str>, fallback: &str, media_type: &str) -> String {
    let name = name.unwrap_or_default();
    // Some senders write whole paths.
    let name = name.rsplit(['/', '\\']).find(|last| !last.trim().is_empty()).unwrap_or_default();
    let clean = |c: char| match c {
        c if c.is_control() || steers(c) => None,
        c if FORBIDDEN.contains(&c) => Some('_'),
        c if c.is_whitespace() => Some(' '),
        c => Some(c),
    };
    let name: String = name.chars().filter_map(clean).collect();
    let name = name.trim_matches([' ', '.']);
    if name.is_empty() {
        let ending = ENDINGS.iter().find(|(known, _)| *known == media_type);
        return format!("{fallback}.{}", ending.map_or("bin", |(_, ending)| ending));
    }
    let is_special = name.starts_with(['-', '~', '#']) || is_device(name);
    shortened(&if is_special { format!("_{name}") } else { name.to_owned() })
}

/// Returns `true` for the name of a device on Windows, with any ending.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim().to_ascii_lowercase();
    let numbered = ["com", "lpt"].iter().find_map(|port| stem.strip_prefix(port));
    let is_digit = |rest: &str| rest.chars().count() == 1 && rest.chars().all(char::is_numeric);
    DEVICES.contains(&&*stem) || numbered.is_some_and(|rest| is_digit(rest) || is_raised(rest))
}

/// Returns `true` for the digits that Windows also takes for those of ports.
fn is_raised(rest: &str) -> bool {
    matches!(rest, "\u{b9}" | "\u{b2}" | "\u{b3}")
}

/// Cuts a name that is too long for file systems, in front of its ending.
fn shortened(name: &str) -> String {
    if name.len() <= FILE_NAME_LEN_MAX {
        return name.to_owned();
    }
    let (stem, ending) = divided(name);
    let stem = &stem[..stem.floor_char_boundary(FILE_NAME_LEN_MAX - ending.len())];
    format!("{}{ending}", stem.trim_end_matches([' ', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: &str) {
        assert_eq!(safe_name(Some(name), "4711-2", "image/png"), expected, "{name:?}");
    }

    #[test]
    fn names_stay_in_their_folder() {
        check("report.pdf", "report.pdf");
        check("../../etc/passwd", "passwd");
        check("C:\\Users\\ann\\r.doc", "r.doc");
        check("/etc/cron.d/", "cron.d");
        check("..", "4711-2.png");
        check("/", "4711-2.png");
        check("a\u{2215}b:c", "a_b_c");
    }

    #[test]
    fn names_hide_nothing_and_mean_nothing_else() {
        check(".bashrc", "bashrc");
        check("...", "4711-2.png");
        check("-rf", "_-rf");
        check("~", "_~");
        check("NUL", "_NUL");
        check("nul.txt", "_nul.txt");
        check("com1.tar.gz", "_com1.tar.gz");
        check("LPT\u{b2}", "_LPT\u{b2}");
        check("command.txt", "command.txt");
        check("a\0\n\x1b[31m\u{202e}gnp.exe", "a[31mgnp.exe");
        check(" $(rm `x`) 'y' .txt. ", "_(rm _x_) _y_ .txt");
        check("Gr\u{fc}\u{df}e \u{65e5}\u{672c}.txt", "Gr\u{fc}\u{df}e \u{65e5}\u{672c}.txt");
    }

    #[test]
    fn a_missing_name_is_made_from_the_type() {
        assert_eq!(safe_name(None, "1-2", "message/rfc822"), "1-2.eml");
        assert_eq!(safe_name(Some("\u{202e}"), "1-2", "x/y"), "1-2.bin");
    }

    #[test]
    fn long_names_keep_their_ending() {
        let long = safe_name(Some(&format!("{}.tar.pdf", "\u{20ac}".repeat(300))), "x", "");
        assert!(long.len() <= FILE_NAME_LEN_MAX && long.ends_with("\u{20ac}.pdf"), "{long}");
        let long = safe_name(Some(&format!("a.{}", "b".repeat(300))), "x", "");
        assert_eq!(long.len(), FILE_NAME_LEN_MAX);
    }
}
